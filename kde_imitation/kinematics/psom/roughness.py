"""The roughness of a PSOM: the integral of all its squared second derivatives (3.12).

R(w) = wᵀ M w, and M is a sum of Kronecker products of small matrices. It is applied, or cut out
block by block, and never built whole unless every element of it is wanted.

Klanke's matrices A, B and C belong to Lagrange polynomials. Here they are formed on
orthonormal Legendre polynomials instead: then A is the identity, the flat part (constant and
linear maps, which have no roughness) is a handful of coefficients, and

    M = (Σ_μ C_μ)² + Σ_μ (B_μ − C_μ²),

so applying M costs three small products per axis. Node values and coefficients are the same
polynomial, seen in two bases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy  # which loads a part of itself when it is first used
from numpy.polynomial import legendre

from kde_imitation.checks import Floats


def along(matrix: Floats, tensor: Floats, axis: int) -> Floats:
    """Multiply a tensor by a matrix along one of its axes."""
    product: Floats = np.moveaxis(np.tensordot(matrix, tensor, (1, axis)), 0, axis)
    return product


class Axis:
    """One axis: orthonormal Legendre polynomials on its interval, and their small matrices."""

    def __init__(self, nodes: Floats, lower: float, upper: float) -> None:
        n = len(nodes)
        self.nodes = nodes
        self.centre, self.half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self._norm = np.sqrt((2 * np.arange(n) + 1) / (2 * self.half))
        points, weights = legendre.leggauss(n)
        unit = np.diag(self._norm)

        def integral(order: int) -> Floats:
            """∫ φ_i^(k) φ_j^(k) dx, exact by Gauss quadrature."""
            if order >= n:
                return np.zeros((n, n))
            derivative = legendre.legval(points, legendre.legder(unit, order)).T / self.half**order
            product: Floats = (derivative * (weights * self.half)[:, None]).T @ derivative
            return product

        self.C = integral(1)
        self.B = integral(2)
        self.to_nodes = self.values(nodes)
        self.to_coefficients: Floats = np.linalg.inv(self.to_nodes)

    def values(self, x: Floats) -> Floats:
        """Evaluate all polynomials at x (s,): shape (s, n)."""
        vandermonde: Floats = legendre.legvander(
            (x - self.centre) / self.half, len(self.nodes) - 1
        )
        return vandermonde * self._norm


class Roughness:
    """The quadratic form R(w) = wᵀ M w of a grid.

    Parameters
    ----------
    axes : sequence of (n_μ,) arrays
    bounds : (q, 2) array
        The box over which the second derivatives are integrated.
    """

    def __init__(self, axes: Sequence[Floats], bounds: Floats) -> None:
        self.axes = [Axis(nodes, *box) for nodes, box in zip(axes, bounds)]
        self.shape = tuple(len(nodes) for nodes in axes)
        self.size = int(np.prod(self.shape))

    def coefficients(self, values: Floats) -> Floats:
        """Turn node values (n_1, …, n_q, d) into Legendre coefficients of the same shape."""
        for i, axis in enumerate(self.axes):
            values = along(axis.to_coefficients, values, i)
        return values

    def node_values(self, coefficients: Floats) -> Floats:
        """Turn Legendre coefficients (n_1, …, n_q, d) into node values of the same shape."""
        for i, axis in enumerate(self.axes):
            coefficients = along(axis.to_nodes, coefficients, i)
        return coefficients

    def apply_to_coefficients(self, c: Floats) -> Floats:
        """Return M c in the Legendre basis, shape (n_1, …, n_q, d)."""
        slope, result = np.zeros_like(c), np.zeros_like(c)
        for i, axis in enumerate(self.axes):
            slope += along(axis.C, c, i)
        for i, axis in enumerate(self.axes):
            result += along(axis.B - axis.C @ axis.C, c, i) + along(axis.C, slope, i)
        return result

    def apply(self, values: Floats) -> Floats:
        """Return M w for node values w (n_1, …, n_q, d)."""
        result = self.apply_to_coefficients(self.coefficients(values))
        for i, axis in enumerate(self.axes):
            result = along(axis.to_coefficients.T, result, i)
        return result

    def value(self, values: Floats) -> Floats:
        """Return R of each output, shape (d,), for node values (n_1, …, n_q, d)."""
        c = self.coefficients(values)
        total: Floats = (c * self.apply_to_coefficients(c)).reshape(-1, c.shape[-1]).sum(axis=0)
        return total

    def _in_nodes(self) -> list[tuple[Floats, Floats, Floats]]:
        """Return A, B and C of each axis for Lagrange polynomials, as the thesis has them."""
        changes = [(axis, axis.to_coefficients) for axis in self.axes]
        return [(T.T @ T, T.T @ axis.B @ T, T.T @ axis.C @ T) for axis, T in changes]

    def block(self, nodes: npt.NDArray[np.intp], rows_at_once: int = 256) -> Floats:
        """Return M between chosen nodes, (k, k), for flat node numbers (k,)."""
        index = np.unravel_index(nodes, self.shape)
        small = self._in_nodes()
        result = np.empty((len(nodes), len(nodes)))
        for start in range(0, len(nodes), rows_at_once):
            rows = slice(start, min(start + rows_at_once, len(nodes)))
            parts = [
                [m[at[rows, None], at] for m in matrices] for matrices, at in zip(small, index)
            ]
            result[rows] = _combine(parts)
        return result

    def diagonal(self, nodes: npt.NDArray[np.intp]) -> Floats:
        """Return the diagonal of M at chosen nodes, (k,)."""
        index = np.unravel_index(nodes, self.shape)
        small = self._in_nodes()
        return _combine([[m[at, at] for m in matrices] for matrices, at in zip(small, index)])

    def flat(self) -> npt.NDArray[np.bool_]:
        """Tell which coefficients (N,) belong to constant and linear maps: no roughness."""
        degree = sum(np.ix_(*[np.arange(n) for n in self.shape]))
        return np.asarray(degree <= 1).ravel()

    def coefficient_matrix(self) -> scipy.sparse.csr_matrix:
        """Return M (N, N) in the Legendre basis, where few of its elements are not zero."""

        def spread(i: int, matrix: Floats) -> scipy.sparse.csr_matrix:
            before = scipy.sparse.eye(int(np.prod(self.shape[:i])))
            after = scipy.sparse.eye(int(np.prod(self.shape[i + 1 :])))
            return scipy.sparse.kron(scipy.sparse.kron(before, matrix), after, format='csr')

        slope = sum(spread(i, axis.C) for i, axis in enumerate(self.axes))
        own = sum(spread(i, axis.B - axis.C @ axis.C) for i, axis in enumerate(self.axes))
        return slope @ slope + own

    def rows(self, x: Floats) -> Floats:
        """Return the Legendre products at points x (s, q): the matrix (s, N) of the samples."""
        result = np.ones((len(x), 1))
        for i, axis in enumerate(self.axes):
            values = axis.values(x[:, i])
            result = (result[:, :, None] * values[:, None, :]).reshape(len(x), -1)
        return result


def _combine(parts: Sequence[Sequence[Floats]]) -> Floats:
    """Sum the products of (3.19) and (3.21) from the elements of A, B and C of each axis.

    One pass over the axes: `none` carries the products of A so far, `one` those with one C,
    `done` those with a B or two Cs.
    """
    none, one, done = np.ones(1), np.zeros(1), np.zeros(1)
    for a, b, c in parts:
        done = a * done + 2.0 * c * one + b * none
        one = a * one + c * none
        none = a * none
    return done
