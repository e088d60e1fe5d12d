"""Kernels on vectors and histograms."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import Term
from kde_imitation.kernels.base import Kernel

__all__ = ['Gaussian', 'Linear', 'Polynomial', 'TotalVariation', 'squared_distances']


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Return ‖x_i − y_j‖², shape (n, m), from dot products.

    Fast for many pairs; a distance far below the norms of the points loses its digits.
    """
    squares = (X**2).sum(axis=1)[:, None] - 2.0 * X @ Y.T + (Y**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))


def _number(name: str, value: Any, smallest: float, strict: bool) -> float:
    """Return a kernel parameter as a float, or say what it must be."""
    good = not isinstance(value, bool) and isinstance(value, Real) and np.isfinite(float(value))
    if not good or value < smallest or (strict and value == smallest):
        wanted = 'above' if strict else 'at least'
        raise BadInput(f'{name} is {value!r}; it must be a number {wanted} {smallest:g}.')
    return float(value)


class Linear(Kernel):
    """k(x, y) = x·y, the similarity of plain vectors.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    def _terms(self, columns: int) -> list[Term]:
        return [Term('polynomial', 1.0, np.arange(columns), degree=1)]

    def features(self, X: npt.ArrayLike) -> Floats:
        """Return φ(x), whose dot product is the kernel: the vectors (n, d) themselves."""
        return self._rows('X', X)

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        product: Floats = X @ Y.T
        return product

    def _diagonal(self, X: Floats) -> Floats:
        return np.asarray((X**2).sum(axis=1))

    def _expand(self, points: Floats, coefficients: Floats, X: Floats) -> Floats:
        product: Floats = X @ (points.T @ coefficients)
        return product

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        return points.copy()


class Polynomial(Kernel):
    """k(x, y) = (x·y + offset)^degree: products of up to `degree` entries are the features.

    Parameters
    ----------
    degree : int ≥ 1
    offset : float ≥ 0
        How much products of fewer entries count. A negative one would make no positive kernel.

    Examples
    --------
    >>> Polynomial(degree=2, offset=1.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[144.]])
    """

    def __init__(self, degree: int = 3, offset: float = 1.0) -> None:
        self.degree = degree
        self.offset = offset

    def _checked(self) -> tuple[int, float]:
        degree = _number('degree', self.degree, 1, False)
        if degree != int(degree):
            raise BadInput(f'degree is {self.degree!r}; it must be a whole number.')
        return int(degree), _number('offset', self.offset, 0, False)

    def _terms(self, columns: int) -> list[Term]:
        degree, offset = self._checked()
        return [Term('polynomial', 1.0, np.arange(columns), degree=degree, offset=offset)]

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        degree, offset = self._checked()
        return self._power(X @ Y.T + offset, degree)

    def _diagonal(self, X: Floats) -> Floats:
        degree, offset = self._checked()
        return self._power((X**2).sum(axis=1) + offset, degree)

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        degree, offset = self._checked()
        slopes = degree * self._power(points @ x + offset, degree - 1)
        return np.asarray(slopes[:, None] * points)

    @staticmethod
    def _power(base: Floats, degree: int) -> Floats:
        """Multiply, which for a few factors is much faster than `numpy.power`."""
        if degree > 8:
            return np.asarray(base**degree)
        result = np.ones_like(base)
        for _ in range(degree):
            result *= base
        return result


class Gaussian(Kernel):
    """k(x, y) = exp(−γ ‖x − y‖²), one for equal vectors and near zero for distant ones.

    Parameters
    ----------
    gamma : float > 0
        1 / (2 σ²) for a width of σ.

    Examples
    --------
    >>> Gaussian(gamma=0.5)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def _checked(self) -> float:
        return _number('gamma', self.gamma, 0, True)

    def _terms(self, columns: int) -> list[Term]:
        return [Term('gaussian', 1.0, np.arange(columns), gamma=self._checked())]

    def _diagonal(self, X: Floats) -> Floats:
        self._checked()
        return np.ones(len(X))

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        values = self._gram(x[None], points)[0]
        return np.asarray(2.0 * self.gamma * values[:, None] * (points - x))


class TotalVariation(Kernel):
    """k(p, q) = Σ_i min(p_i, q_i): the overlap of two histograms with entries ≥ 0.

    (Bakır 2006, section 6.1.3.) The kernel's own squared distance, k(p, p) + k(q, q) − 2 k(p, q),
    is Σ |p_i − q_i|: twice the total variation between two distributions.

    It has a kink wherever an entry of one histogram passes the other's, so that no gradient is
    offered: descent on it stops at kinks that are no minimum.

    Examples
    --------
    >>> TotalVariation()([[0.5, 0.5, 0.0]], [[0.25, 0.25, 0.5]])
    array([[0.5]])
    """

    def _terms(self, columns: int) -> list[Term]:
        return [Term('overlap', 1.0, np.arange(columns))]

    def _diagonal(self, X: Floats) -> Floats:
        return np.asarray(X.sum(axis=1))

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        raise BadInput(
            'TotalVariation has no gradient: it has a kink wherever two histograms have the same '
            'entry. Use a Gaussian kernel, or a method that needs no gradient.'
        )

    def _check(self, name: str, X: Floats) -> None:
        if X.size and X.min() < 0:
            row, column = (int(i) for i in np.argwhere(X < 0)[0])
            raise BadInput(
                f'{name} holds {X[row, column]} at index ({row}, {column}), but TotalVariation '
                'compares histograms: no entry may be negative.'
            )
