"""Kernels on vectors and histograms."""

from __future__ import annotations

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Kernel


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Return ‖x_i − y_j‖², shape (n, m)."""
    squares = (X**2).sum(axis=1)[:, None] - 2.0 * X @ Y.T + (Y**2).sum(axis=1)
    return np.asarray(np.maximum(squares, 0.0))


class Linear(Kernel):
    """k(x, y) = x·y."""

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


class Gaussian(Kernel):
    """k(x, y) = exp(−γ ‖x − y‖²).

    Parameters
    ----------
    gamma : float > 0
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def _checked(self) -> float:
        if not (np.isfinite(self.gamma) and self.gamma > 0):
            raise BadInput(f'gamma must be positive, not {self.gamma}.')
        return float(self.gamma)

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        values: Floats = np.exp(-self._checked() * squared_distances(X, Y))
        return values

    def _diagonal(self, X: Floats) -> Floats:
        return np.ones(len(X))

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        values = self._gram(x[None], points)[0]
        return np.asarray(2.0 * self.gamma * values[:, None] * (points - x))


class TotalVariation(Kernel):
    """k(p, q) = Σ_i min(p_i, q_i): the overlap of two histograms with entries ≥ 0."""

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        if X.size and min(X.min(), Y.min()) < 0:
            raise BadInput('TotalVariation compares histograms: no entry may be negative.')
        result = np.empty((len(X), len(Y)))
        for i, row in enumerate(X):
            result[i] = np.minimum(row, Y).sum(axis=1)
        return result

    def _diagonal(self, X: Floats) -> Floats:
        return np.asarray(X.sum(axis=1))
