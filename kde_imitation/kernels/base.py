"""What every kernel can do, and the functions that kernels span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import Term
from kde_imitation.kernels.backend import core
from kde_imitation.kernels.parameters import Parametric

__all__ = ['Expansion', 'Kernel', 'Term']

Evaluate = Callable[[Any], Floats | None]

STORAGES = ('float64', 'float32')
# Numbers of a Gram matrix that are held at a time where an expansion needs one.
GRAM_BLOCK = 1 << 20
# From so many columns on, a matrix product with blocks of the Gram matrix is the faster way.
MANY_COLUMNS = 48


class Kernel(Parametric):
    """A similarity k(x, x') that is a dot product in some feature space.

    A subclass either gives `_terms`, a sum of basic kernels for the compiled loops, or `_gram`
    itself; and `_diagonal`, `_gradient` and `_check` where it has more to say than this class.
    Constructor arguments are stored unchanged, so that scikit-learn can clone and search them.
    """

    def _terms(self, columns: int) -> list[Term] | None:
        """Return the kernel on inputs of so many columns as a sum of terms; None if it is none."""
        return None

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        terms = self._terms(X.shape[1])
        if terms is None:
            raise NotImplementedError(f'{type(self).__name__} must define _terms or _gram.')
        values: Floats = core.gram(terms, X, Y)
        return values

    def _diagonal(self, X: Floats) -> Floats:
        return np.array([self._gram(row, row)[0, 0] for row in X[:, None]])

    def _expand(self, points: Floats, coefficients: Floats, X: Floats) -> Floats:
        terms = self._terms(X.shape[1])
        if terms is not None and coefficients.shape[1] < MANY_COLUMNS:
            nought = np.zeros(coefficients.shape[1])
            values: Floats = core.Evaluator(terms, points, coefficients, nought)(X)
            return values
        result = np.empty((len(X), coefficients.shape[1]))
        rows = max(1, GRAM_BLOCK // max(len(points), 1))
        for start in range(0, len(X), rows):
            part = slice(start, start + rows)
            result[part] = self._gram(X[part], points) @ coefficients
        return result

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        raise BadInput(f'{type(self).__name__} has no gradient; use a kernel that is smooth.')

    def _evaluator(
        self, points: Floats, coefficients: Floats, offset: Floats, storage: str
    ) -> Evaluate:
        """Return x ↦ Σ_i α_i k(x_i, x) + b ready for many calls, for checked arguments.

        It may answer None to an X that must be prepared first, or is no input.
        """
        terms = self._terms(points.shape[1])
        if terms is not None:
            compiled: Evaluate = core.Evaluator(terms, points, coefficients, offset, storage)
            return compiled

        def evaluate(X: npt.ArrayLike) -> Floats:
            values: Floats = self.expand(points, coefficients, X) + offset
            return values

        return evaluate

    def _check(self, name: str, X: Floats) -> None:
        """Raise `BadInput` for finite numbers X (n, d) that are no inputs of this kernel."""

    def _rows(self, name: str, X: npt.ArrayLike, columns: int | None = None) -> Floats:
        rows = as_floats(name, X, (None, columns))
        self._check(name, rows)
        return rows

    def __call__(self, X: npt.ArrayLike, Y: npt.ArrayLike | None = None) -> Floats:
        """Return the Gram matrix k(x_i, y_j), shape (n, m), for X (n, d) and Y (m, d)."""
        left = self._rows('X', X)
        right = left if Y is None or Y is X else self._rows('Y', Y, left.shape[1])
        return self._gram(left, right)

    def diagonal(self, X: npt.ArrayLike) -> Floats:
        """Return k(x_i, x_i), shape (n,)."""
        return self._diagonal(self._rows('X', X))

    def expand(
        self, points: npt.ArrayLike, coefficients: npt.ArrayLike, X: npt.ArrayLike
    ) -> Floats:
        """Evaluate Σ_i α_i k(x_i, ·) at X (m, d) for points (n, d) and α (n, r): shape (m, r).

        For many calls with the same points an `Expansion` is faster.
        """
        centres = self._rows('points', points)
        weights = as_floats('coefficients', coefficients, (len(centres), None))
        return self._expand(centres, weights, self._rows('X', X, centres.shape[1]))

    def gradient(self, x: npt.ArrayLike, points: npt.ArrayLike) -> Floats:
        """Return ∂k(x, p_i)/∂x for one x (d,) and points (n, d): shape (n, d)."""
        centres = self._rows('points', points)
        place = as_floats('x', x, (centres.shape[1],))
        self._check('x', place[None])
        return self._gradient(place, centres)


class Expansion:
    """A vector-valued function f(x) = Σ_i α_i k(x_i, x) + b, its columns evaluated together.

    The first call makes the function ready for many more, with the kernel as it is then: change
    neither its parameters nor the arrays afterwards, but make a new expansion.

    Parameters
    ----------
    kernel : Kernel
    points : (n, d) array
    coefficients : (n, r) array
    offset : (r,) array
    storage : 'float64' or 'float32'
        With 'float32' the compiled loops keep the points, or what they table, in single
        precision, which takes half the memory and costs about seven digits; sums are in double
        precision all the same.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: npt.ArrayLike,
        coefficients: npt.ArrayLike,
        offset: npt.ArrayLike,
        storage: str = 'float64',
    ) -> None:
        if storage not in STORAGES:
            raise BadInput(f'storage is {storage!r}; choose from {", ".join(STORAGES)}.')
        self.kernel = kernel
        self.points = as_floats('points', points, (None, None))
        self.coefficients = as_floats('coefficients', coefficients, (len(self.points), None))
        self.offset = as_floats('offset', offset, (self.coefficients.shape[1],))
        self.storage = storage
        self._evaluate: Evaluate | None = None

    def __call__(self, X: npt.ArrayLike) -> Floats:
        """Evaluate at X (m, d): shape (m, r)."""
        evaluate = self._evaluate or self._make_ready()
        values = evaluate(X)
        if values is None:
            # X is not laid out as the loops read it, or is no input of the kernel.
            values = evaluate(self.kernel._rows('X', X, self.points.shape[1]))
            assert values is not None
        return values

    def _make_ready(self) -> Evaluate:
        self.kernel._check('points', self.points)
        self._evaluate = self.kernel._evaluator(
            self.points, self.coefficients, self.offset, self.storage
        )
        return self._evaluate

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled function, which is made again when it is called."""
        return {**self.__dict__, '_evaluate': None}

    def __len__(self) -> int:
        """Return the number of expansion points."""
        return len(self.points)

    def jacobian(self, x: npt.ArrayLike) -> Floats:
        """Return the derivatives of f at one x (d,) by its entries: shape (r, d)."""
        slopes: Floats = self.coefficients.T @ self.kernel.gradient(x, self.points)
        return slopes

    def fold(self, matrix: npt.ArrayLike, offset: npt.ArrayLike = 0.0) -> Expansion:
        """Return x ↦ f(x) @ matrix + offset as one expansion: matrix (r, s)."""
        turn = as_floats('matrix', matrix, (self.coefficients.shape[1], None))
        moved = self.offset @ turn + np.asarray(offset, dtype=np.float64)
        return Expansion(
            self.kernel, self.points, self.coefficients @ turn, moved, storage=self.storage
        )

    def gram(self) -> Floats:
        """Return the Gram matrix of the expansion points, shape (n, n)."""
        return self.kernel(self.points)

    def arrays(self) -> dict[str, Any]:
        """Return the plain arrays that determine the function, for saving."""
        return {
            'points': self.points,
            'coefficients': self.coefficients,
            'offset': self.offset,
        }
