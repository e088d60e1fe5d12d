"""Pre-images by search: gradient descent and the fixed point (Bakır 2006, 3.2.1 and 3.2.2).

Both write Ψ = Σ_i γ_i φ(y_i) with the weights γ of the kernel PCA (the mean's share included) and
look for the minimum of ‖φ(x) − Ψ‖² = k(x, x) − 2 Σ_i γ_i k(y_i, x) + C, equation (5). It has many
minima; both begin at several patterns and keep the best of what they find.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.learning.preimage import Flags, Ints, PreImage, nearest

__all__ = ['FixedPointPreImage', 'GradientPreImage']


class _Search(PreImage):
    """A search from several starts.

    Parameters
    ----------
    restarts : int ≥ 1
        The first run begins at `start`, or else at the nearest example; each further one at an
        example drawn at random.
    max_steps : int ≥ 1
        Bound on the steps of each run.
    tolerance : float > 0
        When a run has converged, relative to the spread of the examples.
    random_state : int, RandomState or None
    """

    def __init__(
        self,
        restarts: int = 2,
        max_steps: int = 500,
        tolerance: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.restarts = restarts
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.random_state = random_state

    def _prepare(self) -> None:
        for name in ('restarts', 'max_steps'):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= 1):
                raise BadInput(f'{name} must be a whole number of at least 1, not {value!r}.')
        if not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise BadInput(f'tolerance must be positive, not {self.tolerance}.')
        spread = np.sqrt(((self.examples_ - self.examples_.mean(axis=0)) ** 2).sum(axis=1).mean())
        self.spread_ = float(spread) if spread > 0 else 1.0

    def _gammas(self, coordinates: Floats) -> Floats:
        """Return γ (m, n) with Ψ = Σ_i γ_i φ(y_i)."""
        return self.basis_.weights(coordinates)

    def _runs(self, coordinates: Floats, start: Floats | None) -> Floats:
        """Return where the runs begin, (restarts, m, d)."""
        if start is None:
            start = self.examples_[nearest(coordinates, self.coordinates_)[:, 0]]
        random = check_random_state(self.random_state)
        drawn = random.randint(len(self.examples_), size=(self.restarts - 1, len(start)))
        return np.concatenate([start[None], self.examples_[drawn]])

    def _best(self, found: Floats, coordinates: Floats, converged: Flags) -> tuple[Floats, Flags]:
        """Return for each target the run (runs, m, d) that ended nearest, and if it converged."""
        distances = [self._measure(x, coordinates) for x in found]
        best = np.argmin(distances, axis=0)
        columns = np.arange(len(coordinates))
        return found[best, columns], converged[best, columns]


class GradientPreImage(_Search):
    """Quasi-Newton descent (L-BFGS) on equation (5) with exact gradients.

    For every kernel that has a gradient. It minimises over all of the input space and knows
    nothing of what patterns look like, and each step costs a gradient at every expansion point.

    Parameters
    ----------
    restarts, max_steps, tolerance, random_state
        See `FixedPointPreImage`; here a run has converged when no entry of the gradient, or no
        fall of the objective, is greater than the tolerance on the scale of the data.
    """

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        starts = self._runs(coordinates, start)
        converged = np.zeros(starts.shape[:2], dtype=bool)
        steps = np.zeros(len(coordinates), dtype=np.intp)
        found = np.empty_like(starts)
        gammas = self._gammas(coordinates)
        for i, gamma in enumerate(gammas):
            for run, x in enumerate(starts[:, i]):
                found[run, i], taken, converged[run, i] = self._descend(x, gamma)
                steps[i] += taken
        x, done = self._best(found, coordinates, converged)
        return x, steps, done

    def _objective(self, x: Floats, gamma: Floats) -> tuple[float, Floats]:
        """Return equation (5) without its constant, and its gradient (d,)."""
        kernel, points = self._kernel, self.basis_.expansion_.points
        row = x[None]
        value = float(kernel.diagonal(row)[0] - 2.0 * kernel(row, points)[0] @ gamma)
        # k(x, x) moves with both of its arguments, and k is symmetric.
        slope = 2.0 * (kernel.gradient(x, row)[0] - gamma @ kernel.gradient(x, points))
        return value, slope

    def _descend(self, start: Floats, gamma: Floats) -> tuple[Floats, int, bool]:
        """Run one search in units of the examples' spread and of the features' variance."""
        length, scale = self.spread_, float(np.sum(self.basis_.eigenvalues_)) / len(gamma)

        def scaled(u: Floats) -> tuple[float, Floats]:
            value, slope = self._objective(start + length * u, gamma)
            return value / scale, slope * (length / scale)

        result = minimize(
            scaled,
            np.zeros_like(start),
            jac=True,
            method='L-BFGS-B',
            options={
                'maxiter': self.max_steps,
                'maxfun': 20 * self.max_steps,
                'gtol': self.tolerance,
                'ftol': max(self.tolerance**2, 10 * np.finfo(float).eps),
            },
        )
        return start + length * result.x, int(result.nit), result.status == 0


class FixedPointPreImage(_Search):
    """The fixed-point iteration of algorithm A3.1, for Gaussian kernels.

    At a minimum of (5) z is a mean of the patterns, z = Σ γ_i k'(y_i, z) y_i / Σ γ_i k'(y_i, z)
    (equations 7 and 8), which is iterated. It holds for kernels of ‖x − z‖² alone; for a Gaussian
    k' is k itself up to a factor. The weights γ include the share of the mean, which (8) leaves
    out. A pre-image lies in the span of the patterns, but, as weights may be negative, not always
    between them. A run whose denominator vanishes begins again at an example drawn at random,
    and so does one where it is negative, as a step would lead away from Ψ. Should no run end
    nearer to Ψ than it began, its start is the answer, not converged.

    Parameters
    ----------
    restarts : int ≥ 1
        Runs: the first from `start`, or else from the nearest example, further ones from examples
        drawn at random.
    max_steps : int ≥ 1
        Bound on the steps of each run.
    tolerance : float > 0
        A run has converged when a step is shorter than this share of the examples' spread.
    random_state : int, RandomState or None
    """

    VANISHING = 1e-12
    """A denominator smaller than this share of Σ |γ_i| k(y_i, z) counts as none."""

    def _prepare(self) -> None:
        super()._prepare()
        if not isinstance(self._kernel, Gaussian):
            raise BadInput(
                f'The fixed point serves the Gaussian kernel, not {type(self._kernel).__name__}; '
                'use GradientPreImage or LearnedPreImage.'
            )

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        starts = self._runs(coordinates, start)
        runs, count, size = starts.shape
        points = self.basis_.expansion_.points
        gammas = np.tile(self._gammas(coordinates), (runs, 1))
        random = check_random_state(self.random_state)
        z = starts.reshape(-1, size).copy()
        steps = np.zeros(runs * count, dtype=np.intp)
        converged = np.zeros(runs * count, dtype=bool)
        active = np.arange(runs * count)
        for _ in range(self.max_steps):
            shares = gammas[active] * self._kernel(z[active], points)
            denominator = shares.sum(axis=1)
            lost = denominator <= self.VANISHING * np.abs(shares).sum(axis=1)
            denominator[lost] = 1.0
            following = shares @ points / denominator[:, None]
            again = random.randint(len(self.examples_), size=int(lost.sum()))
            following[lost] = self.examples_[again]
            moved = np.linalg.norm(following - z[active], axis=1)
            z[active] = following
            steps[active] += 1
            converged[active] = ~lost & (moved <= self.tolerance * self.spread_)
            active = active[~converged[active]]
            if len(active) == 0:
                break
        found = np.concatenate([z.reshape(runs, count, size), starts])
        done = np.concatenate([converged.reshape(runs, count), np.zeros((runs, count), bool)])
        x, flags = self._best(found, coordinates, done)
        return x, steps.reshape(runs, count).sum(axis=0), flags
