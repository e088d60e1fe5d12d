"""What every kernel can do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput


class Kernel(BaseEstimator):  # type: ignore[misc]
    """A similarity k(x, x') that is a dot product in some feature space.

    Subclasses give `_gram` and `_diagonal`, and where they can `_expand` and `_gradient`.
    Constructor arguments are stored unchanged, so that scikit-learn can clone and search them.
    """

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        raise NotImplementedError

    def _diagonal(self, X: Floats) -> Floats:
        raise NotImplementedError

    def _expand(self, points: Floats, coefficients: Floats, X: Floats) -> Floats:
        product: Floats = self._gram(X, points) @ coefficients
        return product

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        raise BadInput(f'{type(self).__name__} has no gradient; use a kernel that is smooth.')

    def _rows(self, name: str, X: npt.ArrayLike, columns: int | None = None) -> Floats:
        return as_floats(name, X, (None, columns))

    def __call__(self, X: npt.ArrayLike, Y: npt.ArrayLike | None = None) -> Floats:
        """Return the Gram matrix k(x_i, y_j), shape (n, m), for X (n, d) and Y (m, d)."""
        left = self._rows('X', X)
        right = left if Y is None else self._rows('Y', Y, left.shape[1])
        return self._gram(left, right)

    def diagonal(self, X: npt.ArrayLike) -> Floats:
        """Return k(x_i, x_i), shape (n,)."""
        return self._diagonal(self._rows('X', X))

    def expand(
        self, points: npt.ArrayLike, coefficients: npt.ArrayLike, X: npt.ArrayLike
    ) -> Floats:
        """Evaluate Σ_i α_i k(x_i, ·) at X (m, d) for points (n, d) and α (n, r): shape (m, r)."""
        centres = self._rows('points', points)
        weights = as_floats('coefficients', coefficients, (len(centres), None))
        return self._expand(centres, weights, self._rows('X', X, centres.shape[1]))

    def gradient(self, x: npt.ArrayLike, points: npt.ArrayLike) -> Floats:
        """Return ∂k(x, p_i)/∂x for one x (d,) and points (n, d): shape (n, d)."""
        centres = self._rows('points', points)
        return self._gradient(as_floats('x', x, (centres.shape[1],)), centres)


class Expansion:
    """A vector-valued function f(x) = Σ_i α_i k(x_i, x) + b, its columns evaluated together.

    Parameters
    ----------
    kernel : Kernel
    points : (n, d) array
    coefficients : (n, r) array
    offset : (r,) array
    """

    def __init__(
        self,
        kernel: Kernel,
        points: npt.ArrayLike,
        coefficients: npt.ArrayLike,
        offset: npt.ArrayLike,
    ) -> None:
        self.kernel = kernel
        self.points = as_floats('points', points, (None, None))
        self.coefficients = as_floats('coefficients', coefficients, (len(self.points), None))
        self.offset = as_floats('offset', offset, (self.coefficients.shape[1],))

    def __call__(self, X: npt.ArrayLike) -> Floats:
        """Evaluate at X (m, d): shape (m, r)."""
        result: Floats = self.kernel.expand(self.points, self.coefficients, X) + self.offset
        return result

    def __len__(self) -> int:
        """Return the number of expansion points."""
        return len(self.points)

    def fold(self, matrix: npt.ArrayLike, offset: npt.ArrayLike = 0.0) -> Expansion:
        """Return x ↦ f(x) @ matrix + offset as one expansion: matrix (r, s)."""
        turn = as_floats('matrix', matrix, (self.coefficients.shape[1], None))
        moved = self.offset @ turn + np.asarray(offset, dtype=np.float64)
        return Expansion(self.kernel, self.points, self.coefficients @ turn, moved)

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
