"""Multivariate regression with Stiefel constraints, MRS (Bakır 2006, section 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.mrs_problem import Anchor, Problem
from kde_imitation.learning.sklearn_versions import validate_data
from kde_imitation.learning.stiefel import Descent, Point, descend

ALPHAS = (0.25, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0)
# Ten steps that together lower the absolute loss by less than this share are not worth more.
FLAT = 1e-6
STARTS = ('closed', 'pls', 'random')


def generator(random_state: object) -> np.random.Generator:
    """Return a generator that follows scikit-learn's meaning of random_state."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31))


class RankRegression(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What all regressions of the form y ≈ V S Wᵀ(x − mean) + intercept have in common.

    Attributes
    ----------
    V_ : (o, r) array, S_ : (r,) array, W_ : (p, r) array
        Output features, scales (descending, ≥ 0) and input features.
    x_mean_ : (p,) array
        Subtracted from inputs.
    intercept_ : (o,) array
        Added to outputs.
    """

    x_mean_: Floats
    intercept_: Floats
    _output_shape: tuple[int, ...]

    def _read(
        self, X: npt.ArrayLike, y: npt.ArrayLike, reset: bool = True, least: int = 2
    ) -> tuple[Floats, Floats]:
        rows, targets = validate_data(
            self,
            X,
            y,
            reset=reset,
            multi_output=True,
            y_numeric=True,
            dtype=np.float64,
            ensure_min_samples=least,
        )
        targets = np.asarray(targets, dtype=np.float64)
        if not reset and targets.shape[1:] != self._output_shape:
            raise BadInput(
                f'y has outputs of shape {targets.shape[1:]}, but the first block had '
                f'{self._output_shape}.'
            )
        self._output_shape = targets.shape[1:]
        return rows, targets.reshape(len(targets), -1)

    def _keep(self, V: Floats, S: Floats, W: Floats) -> None:
        """Store the factors with S descending and ≥ 0."""
        flipped = V * np.where(S < 0, -1.0, 1.0)
        order = np.argsort(-np.abs(S), kind='stable')
        self.V_, self.S_, self.W_ = flipped[:, order], np.abs(S)[order], W[:, order]
        self.rank_ = len(S)

    @property
    def coef_(self) -> Floats:
        """V S Wᵀ, the whole map, (o, p); of shape (p,) if y had one dimension."""
        check_is_fitted(self, 'V_')
        return np.asarray(((self.V_ * self.S_) @ self.W_.T).reshape(*self._output_shape, -1))

    def features(self, X: npt.ArrayLike) -> Floats:
        """Return the r input features S Wᵀ(x − mean) of X (m, p)."""
        check_is_fitted(self, 'V_')
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray((rows @ self.W_ - self.x_mean_ @ self.W_) * self.S_)

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Predict outputs, (m, o), for X (m, p)."""
        values = self.features(X) @ self.V_.T + self.intercept_
        return np.asarray(values.reshape(-1, *self._output_shape))


def check_rank(rank: object, inputs: int, outputs: int) -> int:
    """Check a wanted rank against the sizes that bound it."""
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise BadInput(f"rank is {rank!r}; it must be a whole number from 1, or 'cv'.")
    if rank > min(inputs, outputs):
        raise BadInput(
            f'rank is {rank}, but a map from {inputs} inputs to {outputs} outputs has at most '
            f'rank {min(inputs, outputs)}; choose that or less.'
        )
    return int(rank)


class MRS(RankRegression):
    """The best linear map of a given rank, features and map found together.

    Minimises ‖Y − X W S Vᵀ‖² + λ‖S‖² over V (o, r) and W (p, r) with orthonormal columns and S
    diagonal (Bakır 2006, equation 38); samples are rows here and columns there. With the absolute
    loss of Bakır et al. (2004, section 4.3) a few wild samples do no harm. `partial_fit` learns
    from one block after another (S-MRS, A2.3).

    The squared loss has a closed form, also with a ridge, so that the default start is the answer
    already and no step is taken. The descent along geodesics serves the absolute loss, and any
    start that is asked for.

    Parameters
    ----------
    rank : int or 'cv'
        'cv' chooses by cross-validation among all ranks (at most ten for the absolute loss).
    ridge : float ≥ 0
        λ.
    loss : 'l2' or 'l1'
    fit_intercept : bool
        Centre inputs and outputs. Without it the map goes through the origin.
    starts : 'auto' or sequence of 'closed', 'pls', 'random'
        Where to start; the least loss wins. 'auto' is the closed form for the squared loss, and
        all three for the absolute one.
    n_random : int
        How many random starts 'random' means.
    max_steps : int
        Steps of the descent, for each α if the loss is absolute.
    tolerance : float
        See `stiefel.descend`.
    alphas : sequence of float
        The growing α of the smooth absolute loss, in units of the typical residual of the start.
    gamma, gamma_growth : float ≥ 0
        Weight of ‖F − F_prev‖² in `partial_fit`: γ (1 + growth · k) for the k-th block after the
        first. A fixed weight (growth 0) forgets slowly, a growing one settles.
    cv : int
        Folds of rank='cv'.
    random_state : int, Generator or None

    Attributes
    ----------
    V_, S_, W_, x_mean_, intercept_, rank_
        The map, see `RankRegression`.
    loss_ : float
        The loss reached, with penalties.
    start_ : str
        The start that won.
    starts_ : dict of str to float
        The loss reached from each start.
    steps_ : int
        Steps taken from the winning start.
    converged_ : bool
    cv_errors_ : dict of int to float
        With rank='cv', the mean error of each rank.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 5))
    >>> Y = np.outer(X[:, 0] - X[:, 1], [1.0, 2.0, 3.0])
    >>> model = MRS(rank=1).fit(X, Y)
    >>> bool(np.allclose(model.predict(X), Y)), model.start_
    (True, 'closed')
    """

    def __init__(
        self,
        rank: int | str = 'cv',
        ridge: float = 0.0,
        loss: str = 'l2',
        fit_intercept: bool = True,
        starts: str | Sequence[str] = 'auto',
        n_random: int = 2,
        max_steps: int = 500,
        tolerance: float = 1e-6,
        alphas: Sequence[float] = ALPHAS,
        gamma: float = 1.0,
        gamma_growth: float = 0.0,
        cv: int = 5,
        random_state: object = None,
    ) -> None:
        self.rank = rank
        self.ridge = ridge
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.starts = starts
        self.n_random = n_random
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.alphas = alphas
        self.gamma = gamma
        self.gamma_growth = gamma_growth
        self.cv = cv
        self.random_state = random_state

    _y_mean: Floats

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> MRS:
        """Fit to X (n, p) and y (n, o) or (n,)."""
        names = self._check_parameters()
        rows, targets = self._read(X, y)
        rank = self._choose_rank(rows, targets)
        self._count, self._blocks = 0, 0
        self._count_in(rows, targets)
        self._solve(rows, targets, rank, names, None)
        return self

    def partial_fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> MRS:
        """Learn from one more block, staying near to what was learned before (A2.3).

        The means that centre the data are those of all blocks so far.
        """
        if not hasattr(self, 'V_'):
            return self.fit(X, y)
        names = self._check_parameters()
        rows, targets = self._read(X, y, reset=False, least=1)
        weight = self.gamma * (1.0 + self.gamma_growth * self._blocks)
        self._blocks += 1
        self._count_in(rows, targets)
        anchor = Anchor(self.V_, self.S_, self.W_, weight)
        self._solve(rows, targets, self.rank_, names, anchor)
        return self

    def _check_parameters(self) -> tuple[str, ...]:
        if self.loss not in ('l1', 'l2'):
            raise BadInput(f"loss is {self.loss!r}; it must be 'l2' or 'l1'.")
        for name in ('ridge', 'gamma', 'gamma_growth'):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise BadInput(f'{name} is {value}; it must be zero or positive.')
        alphas = np.asarray(self.alphas, dtype=float)
        if alphas.ndim != 1 or not len(alphas) or (np.diff(alphas) <= 0).any() or alphas[0] <= 0:
            raise BadInput(f'alphas are {self.alphas}; they must be positive and grow.')
        if isinstance(self.starts, str):
            automatic = STARTS if self.loss == 'l1' else STARTS[:1]
            names: tuple[str, ...] = automatic if self.starts == 'auto' else (self.starts,)
        else:
            names = tuple(self.starts)
        if not names or set(names) - set(STARTS):
            raise BadInput(f"starts are {self.starts!r}; choose 'auto' or from {STARTS}.")
        return names

    def _choose_rank(self, X: Floats, Y: Floats) -> int:
        if self.rank != 'cv':
            return check_rank(self.rank, X.shape[1], Y.shape[1])
        most = min(X.shape[1], Y.shape[1])
        folds = min(self.cv, len(X))
        splits = list(KFold(folds, shuffle=True, random_state=0).split(X))
        self.cv_errors_: dict[int, float] = {}
        if most == 1:
            return 1
        if self.loss == 'l2':
            errors = np.mean([self._path_errors(X, Y, *split) for split in splits], axis=0)
            self.cv_errors_ = {r + 1: float(e) for r, e in enumerate(errors)}
        else:
            for r in np.unique(np.linspace(1, most, min(most, 10)).round().astype(int)):
                trial = MRS(**{**self.get_params(), 'rank': int(r), 'starts': 'closed'})
                self.cv_errors_[int(r)] = float(
                    np.mean(
                        [
                            np.abs(trial.fit(X[a], Y[a]).predict(X[b]) - Y[b]).mean()
                            for a, b in splits
                        ]
                    )
                )
        return min(self.cv_errors_, key=lambda r: self.cv_errors_[r])

    def _path_errors(
        self, X: Floats, Y: Floats, train: npt.NDArray[np.intp], test: npt.NDArray[np.intp]
    ) -> Floats:
        """Return the squared error of every rank on one fold, from one decomposition."""
        x_mean, y_mean = self._means(X[train], Y[train])
        most = min(X.shape[1], Y.shape[1])
        problem = Problem(X[train] - x_mean, Y[train] - y_mean, 1, self.ridge)
        features, V = problem.path((X[test] - x_mean) @ problem.basis)
        rest = Y[test] - y_mean
        found = (V.T @ rest.T) * features.T
        # ‖rest − Σ f_j v_j‖² grows by ‖f_j‖² − 2 f_jᵀ(rest v_j) with each column.
        gains = (features**2).sum(axis=0) - 2.0 * found.sum(axis=1)
        errors = (rest**2).sum() + np.cumsum(gains)
        padded = np.full(most, errors[-1])
        padded[: len(errors)] = errors[:most]
        return padded / rest.size

    def _means(self, X: Floats, Y: Floats) -> tuple[Floats, Floats]:
        if not self.fit_intercept:
            return np.zeros(X.shape[1]), np.zeros(Y.shape[1])
        return X.mean(axis=0), Y.mean(axis=0)

    def _count_in(self, X: Floats, Y: Floats) -> None:
        """Take a block into the running means."""
        x_mean, y_mean = self._means(X, Y)
        before, self._count = self._count, self._count + len(X)
        if before:
            share = len(X) / self._count
            x_mean = self.x_mean_ + share * (x_mean - self.x_mean_)
            y_mean = self._y_mean + share * (y_mean - self._y_mean)
        self.x_mean_, self._y_mean = x_mean, y_mean

    def _solve(
        self, X: Floats, Y: Floats, rank: int, names: tuple[str, ...], anchor: Anchor | None
    ) -> None:
        problem = Problem(X - self.x_mean_, Y - self._y_mean, rank, self.ridge, anchor)
        random = generator(self.random_state)
        trials: dict[str, Descent] = {}
        for name in names:
            if name == 'random':
                for i in range(self.n_random):
                    trials[f'random {i + 1}'] = self._descend(
                        problem, problem.random(random), self.max_steps
                    )
            else:
                start = problem.closed_form() if name == 'closed' else problem.pls()
                steps = 0 if (name, self.loss) == ('closed', 'l2') else self.max_steps
                trials[name] = self._descend(problem, start, steps)
        self.starts_ = {name: float(d.values[-1]) for name, d in trials.items()}
        self.start_ = min(self.starts_, key=lambda name: self.starts_[name])
        best = trials[self.start_]
        self.loss_ = self.starts_[self.start_]
        self.steps_, self.converged_ = best.steps, best.converged or best.steps == 0
        V, S, W = best.point[:3]
        self._keep(V, S, problem.basis @ W)
        self.intercept_ = self._y_mean + (best.point[3] if len(best.point) > 3 else 0.0)

    def _descend(self, problem: Problem, start: Point, max_steps: int) -> Descent:
        if self.loss == 'l2':
            return descend(
                problem.squared_loss, start, (True, False, True), max_steps, self.tolerance
            )
        rest = problem.Y - problem.predictions(start)
        offset = np.median(rest, axis=0) if self.fit_intercept else np.zeros(rest.shape[1])
        scale = float(np.median(np.abs(rest - offset)))
        point: Point = (*start, offset)
        steps, converged = 0, True
        alphas = np.asarray(self.alphas, dtype=float)
        for alpha in alphas:
            sharp = alpha / max(scale, 1e-12 * float(np.abs(problem.Y).max(initial=1e-300)))
            found = descend(
                partial(self._absolute, problem, sharp),
                point,
                (True, False, True, False),
                max_steps,
                self.tolerance,
                FLAT if alpha == alphas[-1] else 10 * FLAT,
            )
            point, steps, converged = found.point, steps + found.steps, found.converged
        exact = problem.absolute_loss(point, 1e12 / max(scale, 1e-300))[0]
        values = np.full(steps + 1, exact)
        return Descent(point, values, converged)

    def _absolute(self, problem: Problem, alpha: float, point: Point) -> tuple[float, Point]:
        value, free = problem.absolute_loss(point, alpha)
        if not self.fit_intercept:
            free = (*free[:3], np.zeros_like(free[3]))
        return value, free
