"""Other linear regressions between many inputs and outputs, in the form y ≈ V S Wᵀ x.

They are what MRS is compared with (Bakır 2006, section 2.3). All have `V_`, `S_` and `W_`, so that
one can stand in for another, and on coordinates of `KernelPCA` all are regressions in feature
space.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import svd
from sklearn.cross_decomposition import PLSRegression

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.mrs import RankRegression, check_rank
from kde_imitation.learning.mrs_problem import Problem, singular_form
from kde_imitation.learning.stiefel import Point


class _Peer(RankRegression):
    """Centre, solve, keep."""

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> _Peer:
        """Fit to X (n, p) and y (n, o) or (n,)."""
        rows, targets = self._read(X, y)
        self.x_mean_, self.intercept_ = rows.mean(axis=0), targets.mean(axis=0)
        V, S, W = self._solve(rows - self.x_mean_, targets - self.intercept_)
        self._keep(V, S, W)
        return self

    def _solve(self, X: Floats, Y: Floats) -> Point:
        raise NotImplementedError


def _components(rank: object, X: Floats) -> int:
    """Check a number of input features."""
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise BadInput(f'rank is {rank!r}; it must be a whole number from 1.')
    if rank > X.shape[1]:
        raise BadInput(
            f'rank is {rank}, but there are {X.shape[1]} inputs to make features from; choose at '
            'most that many.'
        )
    return int(rank)


class PrincipalComponentRegression(_Peer):
    """Least squares on the leading principal components of the inputs (section 2.3.2).

    Parameters
    ----------
    rank : int
        The number of components.
    """

    def __init__(self, rank: int = 1) -> None:
        self.rank = rank

    def _solve(self, X: Floats, Y: Floats) -> Point:
        r = _components(self.rank, X)
        U, s, Pt = svd(X, full_matrices=False)
        r = min(r, int((s > s[0] * max(X.shape) * np.finfo(float).eps).sum()))
        return singular_form(Y.T @ U[:, :r], 1.0 / s[:r], Pt[:r].T)

    def __sklearn_tags__(self) -> object:
        """Say that the outputs may depend on what is not a leading component."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _more_tags(self) -> dict[str, bool]:
        """Say the same to scikit-learn before 1.6."""
        return {'poor_score': True}


class PLS(_Peer):
    """Partial least squares (section 2.3.3): the one of scikit-learn, not scaled.

    Parameters
    ----------
    rank : int
        The number of features.

    Attributes
    ----------
    pls_ : sklearn.cross_decomposition.PLSRegression
        Fitted to the centred data.
    """

    def __init__(self, rank: int = 1) -> None:
        self.rank = rank

    def _solve(self, X: Floats, Y: Floats) -> Point:
        r = min(_components(self.rank, X), len(X), *X.shape)
        inner = PLSRegression(r, scale=False).fit(X, Y)
        self.pls_ = inner
        return singular_form(inner.y_loadings_, np.ones(r), inner.x_rotations_)


class ReducedRankRegression(_Peer):
    """Least squares (or ridge) of all inputs, its predictions projected (section 2.3.4).

    Parameters
    ----------
    rank : int
    ridge : float ≥ 0
        The projection is the best one for the penalised loss.
    """

    def __init__(self, rank: int = 1, ridge: float = 0.0) -> None:
        self.rank = rank
        self.ridge = ridge

    def _solve(self, X: Floats, Y: Floats) -> Point:
        rank = check_rank(self.rank, X.shape[1], Y.shape[1])
        problem = Problem(X, Y, rank, _penalty(self.ridge))
        V, S, W = problem.closed_form()
        return V, S, problem.basis @ W


class RidgeRegression(_Peer):
    """Ridge regression of every output, without a rank constraint.

    On all coordinates of a `KernelPCA` this is kernel ridge regression with a centred kernel.

    Parameters
    ----------
    ridge : float ≥ 0
    """

    def __init__(self, ridge: float = 1.0) -> None:
        self.ridge = ridge

    def _solve(self, X: Floats, Y: Floats) -> Point:
        problem = Problem(X, Y, min(X.shape[1], Y.shape[1]), _penalty(self.ridge))
        V, S, W = problem.closed_form()
        return V, S, problem.basis @ W


def _penalty(ridge: float) -> float:
    if not (np.isfinite(ridge) and ridge >= 0):
        raise BadInput(f'ridge is {ridge}; it must be zero or positive.')
    return float(ridge)
