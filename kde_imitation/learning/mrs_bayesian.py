"""Rank-constrained regression by sampling (Bakır 2006, section 2.5).

Instead of one best map, maps are drawn from their posterior: with any likelihood, smooth or not,
and with a measure of how sure a prediction is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.mrs import RankRegression, check_rank, generator
from kde_imitation.learning.mrs_problem import Problem
from kde_imitation.learning.sklearn_versions import validate_data
from kde_imitation.learning.stiefel import Geodesic, random_tangent

# The share of proposals to accept that a random walk in a few dimensions is best served by.
WANTED_ACCEPTANCE = 0.3
# How far log S and log τ may walk from their start. The scale-free prior 1/S is not integrable
# towards zero; in this range it is.
LOG_RANGE = 15.0


@dataclass
class Samples:
    """Maps drawn from the posterior, N of them."""

    V: Floats
    """(N, o, r)"""
    S: Floats
    """(N, r)"""
    W: Floats
    """(N, p, r)"""
    tau: Floats
    """(N,), the scale of the noise."""
    log_posterior: Floats
    """(N,), log P(Y | F, X, τ) + log π(τ), as A2.7 compares the maps."""


@dataclass
class _State:
    V: Floats
    S: Floats
    W: Floats
    tau: float


class BayesianMRS(RankRegression):
    """Maps of a given rank drawn from their posterior by a Metropolised Gibbs sampler (A2.7).

    Priors are uniform for V and W on their Stiefel manifolds, and free of scale, 1/S_i and 1/τ,
    for the scales and for the noise. V and W walk along geodesics in random directions (A2.6), S
    and τ by factors e^λ (equation 44). With this walk the prior and the asymmetry of the proposal
    cancel: a step is accepted by the ratio of the likelihoods alone. The lengths of the steps are
    tuned during burn-in and fixed thereafter.

    Parameters
    ----------
    rank : int
    likelihood : 'gaussian' or 'laplacian'
        exp(−‖Y − XFᵀ‖² / 2τ²) or exp(−Σ|Y − XFᵀ| / τ); the second bears outliers.
    burn_in, n_samples : int
        Sweeps before, and sweeps kept.
    estimate : 'map' or 'mean'
        What `predict` uses: the most probable map sampled, or the mean of all.
    start : 'identity' or 'closed'
        V, S, W all identities as in A2.7, or the closed form of the squared loss.
    fit_intercept : bool
        Centre by means; the outputs by medians if the likelihood is Laplacian.
    random_state : int, Generator or None

    Attributes
    ----------
    V_, S_, W_, x_mean_, intercept_, rank_
        The most probable map, see `RankRegression`.
    tau_ : float
        Its scale of the noise.
    samples_ : Samples
    acceptance_ : dict of str to float
        The share of steps accepted after burn-in, for V, W, S and tau.
    step_lengths_ : dict of str to float
    """

    def __init__(
        self,
        rank: int = 1,
        likelihood: str = 'laplacian',
        burn_in: int = 500,
        n_samples: int = 500,
        estimate: str = 'map',
        start: str = 'identity',
        fit_intercept: bool = True,
        random_state: object = None,
    ) -> None:
        self.rank = rank
        self.likelihood = likelihood
        self.burn_in = burn_in
        self.n_samples = n_samples
        self.estimate = estimate
        self.start = start
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> BayesianMRS:
        """Draw from the posterior given X (n, p) and y (n, o) or (n,)."""
        self._check_parameters()
        rows, targets = self._read(X, y)
        rank = check_rank(self.rank, rows.shape[1], targets.shape[1])
        self.x_mean_, self.intercept_ = np.zeros(rows.shape[1]), np.zeros(targets.shape[1])
        if self.fit_intercept:
            centre = np.mean if self.likelihood == 'gaussian' else np.median
            self.x_mean_, self.intercept_ = rows.mean(axis=0), centre(targets, axis=0)
        problem = Problem(rows - self.x_mean_, targets - self.intercept_, rank, 0.0)
        self._sample(problem, generator(self.random_state))
        best = int(self.samples_.log_posterior.argmax())
        s = self.samples_
        self.tau_ = float(s.tau[best])
        self._keep(s.V[best], s.S[best], s.W[best])
        return self

    def _check_parameters(self) -> None:
        choices = {
            'likelihood': ('gaussian', 'laplacian'),
            'estimate': ('map', 'mean'),
            'start': ('identity', 'closed'),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise BadInput(f'{name} is {getattr(self, name)!r}; choose from {allowed}.')
        if self.burn_in < 0 or self.n_samples < 1:
            raise BadInput(
                f'burn_in is {self.burn_in} and n_samples {self.n_samples}; the first must not '
                'be negative, and the second at least 1.'
            )

    def _misfit(self, problem: Problem, state: _State) -> float:
        """Return what the likelihood punishes: ½ ΣE² or Σ|E|."""
        E = problem.Y - problem.predictions((state.V, state.S, state.W))
        if self.likelihood == 'gaussian':
            return 0.5 * float((E**2).sum())
        return float(np.abs(E).sum())

    def _log_likelihood(self, misfit: float, tau: float, count: int) -> float:
        """Return log P(Y | F, X, τ) up to a constant, for `count` numbers in Y."""
        power = 2.0 if self.likelihood == 'gaussian' else 1.0
        return float(-misfit / tau**power - count * np.log(tau))

    def _first(self, problem: Problem) -> _State:
        o, k, r = problem.Y.shape[1], problem.Z.shape[1], problem.rank
        if self.start == 'closed':
            V, S, W = problem.closed_form()
            S = np.maximum(S, 1e-3 * max(float(S.max()), 1e-300))
        else:
            # The identity of the inputs, turned into the coordinates of their span.
            W = np.linalg.qr(problem.basis.T[:, :r] + 1e-12 * np.eye(k, r))[0]
            V, S = np.eye(o, r), np.ones(r)
        state = _State(V, S, W, 1.0)
        misfit = self._misfit(problem, state) / problem.Y.size
        spread = np.sqrt(2.0 * misfit) if self.likelihood == 'gaussian' else misfit
        state.tau = max(float(spread), 1e-12)
        return state

    def _sample(self, problem: Problem, random: np.random.Generator) -> None:
        state = self._first(problem)
        count = problem.Y.size
        floor, roof = (
            {'S': np.log(state.S) + way * LOG_RANGE, 'tau': np.log(state.tau) + way * LOG_RANGE}
            for way in (-1.0, 1.0)
        )
        steps = {'W': 0.1, 'V': 0.1, 'S': 0.1, 'tau': 0.1}
        accepted = dict.fromkeys(steps, 0)
        misfit = self._misfit(problem, state)
        value = self._log_likelihood(misfit, state.tau, count)
        propose: dict[str, Callable[[_State, float], _State]] = {
            'W': lambda s, step: _State(s.V, s.S, _walk(s.W, step, random), s.tau),
            'V': lambda s, step: _State(_walk(s.V, step, random), s.S, s.W, s.tau),
            'S': lambda s, step: _State(
                s.V, s.S * np.exp(random.normal(0, step, len(s.S))), s.W, s.tau
            ),
            'tau': lambda s, step: _State(
                s.V, s.S, s.W, s.tau * float(np.exp(random.normal(0, step)))
            ),
        }
        kept: list[tuple[_State, float]] = []
        for sweep in range(self.burn_in + self.n_samples):
            for name, make in propose.items():
                trial = make(state, steps[name])
                inside = name in ('V', 'W') or bool(
                    np.all(np.log(getattr(trial, name)) >= floor[name])
                    and np.all(np.log(getattr(trial, name)) <= roof[name])
                )
                new_misfit = misfit if name == 'tau' else self._misfit(problem, trial)
                new = self._log_likelihood(new_misfit, trial.tau, count)
                taken = inside and bool(np.log(random.uniform()) < new - value)
                if taken:
                    state, misfit, value = trial, new_misfit, new
                if sweep < self.burn_in:
                    rate = (float(taken) - WANTED_ACCEPTANCE) / np.sqrt(1.0 + sweep)
                    steps[name] = float(np.clip(steps[name] * np.exp(2.0 * rate), 1e-8, 10.0))
                else:
                    accepted[name] += taken
            if sweep >= self.burn_in:
                kept.append((state, value - float(np.log(state.tau))))
        self.samples_ = Samples(
            V=np.array([s.V for s, _ in kept]),
            S=np.array([s.S for s, _ in kept]),
            W=np.array([problem.basis @ s.W for s, _ in kept]),
            tau=np.array([s.tau for s, _ in kept]),
            log_posterior=np.array([value for _, value in kept]),
        )
        self.acceptance_ = {name: n / self.n_samples for name, n in accepted.items()}
        self.step_lengths_ = steps

    def predict(  # type: ignore[override]
        self, X: npt.ArrayLike, return_std: bool = False
    ) -> Floats | tuple[Floats, Floats]:
        """Predict outputs for X (m, p).

        Parameters
        ----------
        X : (m, p) array
        return_std : bool
            Also return the standard deviation of a new observation: the spread of the sampled
            maps, and the noise on top.

        Returns
        -------
        (m, o) array, or two of them
        """
        check_is_fitted(self, 'V_')
        best = super().predict(X)
        if self.estimate == 'map' and not return_std:
            return best
        rows = validate_data(self, X, reset=False, dtype=np.float64) - self.x_mean_
        s = self.samples_
        total = np.zeros((len(rows), len(self.intercept_)))
        squares = np.zeros_like(total)
        for V, S, W in zip(s.V, s.S, s.W):
            drawn = (rows @ W * S) @ V.T
            total += drawn
            squares += drawn**2
        mean = total / len(s.tau)
        noise = 1.0 if self.likelihood == 'gaussian' else 2.0
        variance = np.maximum(squares / len(s.tau) - mean**2, 0) + noise * (s.tau**2).mean()
        if self.estimate == 'mean':
            best = (mean + self.intercept_).reshape(best.shape)
        if not return_std:
            return best
        return best, np.asarray(np.sqrt(variance).reshape(best.shape))


def _walk(V: Floats, step: float, random: np.random.Generator) -> Floats:
    """Go along a random geodesic."""
    return Geodesic(V, random_tangent(V, step, random)).at(1.0)
