"""Reduced sets: the same function from fewer expansion points (Bakır 2006, chapter 4).

One run of `reduce` gives the whole path of sizes; pick one from its curve of size against error:

>>> import numpy as np
>>> from kde_imitation.kernels.vectors import Gaussian
>>> from kde_imitation.learning import KernelPCA
>>> X = np.random.default_rng(0).normal(size=(200, 2))
>>> path = reduce(KernelPCA(Gaussian(0.2), 3).fit(X).expansion_)
>>> len(path.at(max_error=0.05)) < 40
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.progress import track
from scipy.linalg import lstsq

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion
from kde_imitation.learning.matching_pursuit import Pursuit, conjugate_gradients, pursue
from kde_imitation.learning.reduced_set_target import Indices, Target, make_target
from kde_imitation.learning.sparse_expansion import l0_supports, l1_supports

METHODS = ('pursuit', 'l1', 'l0')
# The penalised methods hold the Gram matrix of all candidates, and factorise it.
MOST_WHOLE = 5000
# Directions in which the values vary less than this share of the most are not fitted to values.
CUT = 1e-8

Supports = Callable[[Target, int | None, bool], Iterator[Indices]]


@dataclass(frozen=True)
class _Fit:
    """One size: the places of its points among the candidates, and where its factor is."""

    pursuit: Pursuit
    places: Indices
    size: int


class ReductionPath:
    """Approximations of one expansion by fewer points, from the smallest to the largest.

    Attributes
    ----------
    method : str
    sizes : (k,) array of int
        Numbers of points, growing. Pursuit has every size; ℓ1 and ℓ0 have those that their
        penalties happen to give.
    errors : (k,) array
        ‖f − f̂‖ / ‖f‖ in feature space, over all columns, without the offset; falling.
    column_errors : (k, r) array
        The same for each column; zero for a column that is itself zero.
    rounding : float
        Errors are differences of squares: below this they may be rounding, and the path ends.
    order : (m,) array of int
        Places among the candidates (by default: among the expansion's points) in the order in
        which they first appear along the path.
    """

    def __init__(
        self, expansion: Expansion, target: Target, method: str, fits: list[_Fit]
    ) -> None:
        self.method = method
        self._expansion = expansion
        self._target = target
        self._fits = fits
        squares = np.array([fit.pursuit.column_squares[fit.size - 1] for fit in fits])
        norms = target.squares
        self.sizes = np.array([fit.size for fit in fits], dtype=np.intp)
        self.errors = np.sqrt(squares.sum(axis=1) / norms.sum())
        self.rounding = float(np.sqrt(target.rounding / target.total))
        self.column_errors = np.sqrt(
            np.divide(squares, norms, out=np.zeros_like(squares), where=norms > 0)
        )
        distinct = fits[-1:] if method == 'pursuit' else fits
        seen = np.concatenate([fit.places[: fit.size] for fit in distinct])
        _, first = np.unique(seen, return_index=True)
        self.order = seen[np.sort(first)]

    def __len__(self) -> int:
        """Return the number of sizes."""
        return len(self.sizes)

    def __repr__(self) -> str:
        return (
            f'ReductionPath(method={self.method!r}, {self.sizes[0]} to {self.sizes[-1]} points, '
            f'error {self.errors[0]:.3g} to {self.errors[-1]:.3g})'
        )

    def _index(self, n_points: int | None, max_error: float | None) -> int:
        if (n_points is None) == (max_error is None):
            raise BadInput('Give either n_points or max_error to choose a size.')
        if n_points is not None:
            wanted = _whole('n_points', n_points)
            if wanted < self.sizes[0]:
                raise BadInput(f'The smallest size on this path is {self.sizes[0]}, not {wanted}.')
            return int(np.searchsorted(self.sizes, wanted, side='right')) - 1
        largest = _share('max_error', max_error)
        enough = np.flatnonzero(self.errors <= largest)
        if len(enough) == 0:
            raise BadInput(
                f'No size on this path has an error of {largest:g} or less; the least is '
                f'{self.errors[-1]:.3g} with {self.sizes[-1]} points. Raise max_points, or give '
                'more candidates.'
            )
        return int(enough[0])

    def indices(self, n_points: int | None = None, max_error: float | None = None) -> Indices:
        """Return the places of the points that `at` would use, (size,)."""
        fit = self._fits[self._index(n_points, max_error)]
        return fit.places[: fit.size].copy()

    def at(
        self,
        n_points: int | None = None,
        max_error: float | None = None,
        on: npt.ArrayLike | None = None,
    ) -> Expansion:
        """Return the reduced expansion of one size.

        Parameters
        ----------
        n_points : int, optional
            At most so many points: the largest size on the path that fits.
        max_error : float, optional
            At most this relative error: the smallest size that keeps it.
        on : (q, d) array, optional
            Places where the function will be used, such as the expansion's own points or a
            validation set. The coefficients, optimal in feature space, are then moved to the
            least squared difference of the values there ("Optimizing the real-valued output",
            4.3.1); with fewer places than points, by the smallest move.

        Returns
        -------
        Expansion
            Its offset is chosen so that the mean over the original expansion points (over `on`,
            if given) is that of the original; coordinates that were centred stay centred.
        """
        fit = self._fits[self._index(n_points, max_error)]
        places = fit.places[: fit.size]
        if on is None:
            beta = fit.pursuit.coefficients(fit.size)
            return _with_offset(self._expansion, self._target, places, beta)
        return self._fitted_on(as_floats('on', on, (None, self._expansion.points.shape[1])), fit)

    def _fitted_on(self, X: Floats, fit: _Fit) -> Expansion:
        if len(X) == 0:
            raise BadInput('on holds no point; give at least one, or None.')
        kernel = self._expansion.kernel
        points = self._target.candidates[fit.places[: fit.size]]
        basis = fit.pursuit.directions(kernel(X, points))
        components = fit.pursuit.components[: fit.size]
        missing = self._expansion(X) - basis @ components
        move = lstsq(basis - basis.mean(axis=0), missing - missing.mean(axis=0), cond=CUT)[0]
        offset = (missing - basis @ move).mean(axis=0)
        beta = fit.pursuit.from_components(components + move)
        return Expansion(kernel, points, beta, offset)


def _with_offset(
    expansion: Expansion, target: Target, places: Indices, coefficients: Floats
) -> Expansion:
    """Build the expansion, its offset moved so that the mean over the old points is kept."""
    lost = target.mean_values - target.mean_inner[places] @ coefficients
    return Expansion(
        expansion.kernel, target.candidates[places], coefficients, expansion.offset + lost
    )


def reduce(
    expansion: Expansion,
    method: str = 'pursuit',
    max_points: int | None = None,
    candidates: npt.ArrayLike | None = None,
    chunk: int | None = None,
    progress: bool = False,
    max_error: float = 0.0,
) -> ReductionPath:
    """Approximate an expansion by ever more points, all columns sharing the same points.

    Parameters
    ----------
    expansion : Expansion
        n points, r columns.
    method : {'pursuit', 'l1', 'l0'}
        'pursuit' is multi-hyperplane matching pursuit with back-fitting (A4.1, 4.3.2): fastest,
        and best at small sizes. 'l1' is the penalty (3) with one group a point, 'l0' the
        re-weighting A4.3; their coefficients are refitted after the choice (9).
    max_points : int, optional
        The largest size wanted. Without it the path goes on until nothing is gained.
    candidates : (m, d) array, optional
        Points to choose from, instead of the expansion's own.
    chunk : int, optional
        Choose within chunks of about so many candidates, then among what they kept (4.3.4). Bounds
        the memory, and the time of 'l1' and 'l0', which need it beyond 5000 candidates.
    progress : bool
        Show a bar.
    max_error : float
        Stop once the relative error is this small.

    Returns
    -------
    ReductionPath
    """
    if not isinstance(expansion, Expansion):
        raise BadInput(f'expansion must be an Expansion, not {type(expansion).__name__}.')
    if method not in METHODS:
        raise BadInput(f'method is {method!r}; choose from {", ".join(METHODS)}.')
    most = None if max_points is None else _whole('max_points', max_points)
    largest = _share('max_error', max_error)
    if chunk is not None and _whole('chunk', chunk) < 2:
        raise BadInput('chunk must be at least 2 points.')
    target = make_target(expansion, candidates)
    places: Indices = np.arange(len(target.candidates))
    if chunk is not None and chunk < len(places):
        places = _survivors(target, method, most, chunk, progress)
    elif method != 'pursuit' and len(places) > MOST_WHOLE:
        raise BadInput(
            f'{method} on {len(places)} candidates needs their whole Gram matrix; give chunk=1000 '
            "or so, or use method='pursuit'."
        )
    if method == 'pursuit':
        found = pursue(target.subset(places), most, largest, progress=progress)
        order = places[found.order]
        fits = [_Fit(found, order, size) for size in range(1, len(order) + 1)]
    else:
        fits = _refitted(target, method, places, most, largest, progress)
    if not fits:
        raise BadInput(
            'No candidate has anything in common with the expansion (all inner products vanish); '
            'give candidates closer to the expansion points.'
        )
    return ReductionPath(expansion, target, method, fits)


def _supports(method: str) -> Supports:
    return l1_supports if method == 'l1' else l0_supports


def _refitted(
    target: Target,
    method: str,
    places: Indices,
    most: int | None,
    max_error: float,
    progress: bool,
) -> list[_Fit]:
    """Refit the coefficients of each set of points; keep those that no smaller set equals."""
    best: dict[int, _Fit] = {}
    for support in _supports(method)(target.subset(places), most, progress):
        chosen = places[support]
        found = pursue(target.subset(chosen), max_error=max_error)
        size = len(found.order)
        if size == 0:
            continue
        rival = best.get(size)
        if rival is None or _left(found) < _left(rival.pursuit):
            best[size] = _Fit(found, chosen[found.order], size)
        if method == 'l1' and _left(found) <= max(target.rounding, max_error**2 * target.total):
            break
    fits: list[_Fit] = []
    for size in sorted(best):
        if not fits or _left(best[size].pursuit) < _left(fits[-1].pursuit):
            fits.append(best[size])
    return fits


def _left(found: Pursuit) -> float:
    return float(found.column_squares[-1].sum())


def _survivors(
    target: Target, method: str, most: int | None, chunk: int, progress: bool
) -> Indices:
    """Choose within chunks, each for the whole w; return the places of all points kept.

    Chunks are interleaved, so that each is spread over data that come in some order. Together they
    keep three times as many points as are wanted, or one chunk of them if no number is given.
    """
    n = len(target.candidates)
    count = -(-n // chunk)
    each = -(-(chunk if most is None else 3 * most) // count)
    kept = []
    parts = range(count)
    for part in track(parts, 'chunks', transient=True) if progress else parts:
        places = np.arange(part, n, count)
        piece = target.subset(places)
        if method == 'pursuit':
            kept.append(places[pursue(piece, each).order])
        else:
            largest = max(_supports(method)(piece, each, False), key=len, default=places[:0])
            kept.append(places[largest])
    return np.concatenate(kept)


def refit(expansion: Expansion, points: npt.ArrayLike, steps: int | None = None) -> Expansion:
    """Express an expansion by given points, with the best coefficients (9) that are stable.

    Parameters
    ----------
    expansion : Expansion
    points : (s, d) array
        Chosen by whatever means; repeated or nearly dependent points do no harm.
    steps : int, optional
        So many conjugate-gradient steps (4.3.5), which keep all points. Without it a factor that
        grows point by point leaves out points which depend on others, so that fewer may return.
    """
    target = make_target(expansion, points)
    if steps is None:
        found = pursue(target)
        return _with_offset(expansion, target, found.order, found.coefficients(len(found.order)))
    beta = conjugate_gradients(
        expansion.kernel(target.candidates), target.inner, _whole('steps', steps)
    )
    return _with_offset(expansion, target, np.arange(len(target.candidates)), beta)


def _whole(name: str, value: object) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1:  # type: ignore[operator]
        raise BadInput(f'{name} must be a whole number from 1 on, not {value!r}.')
    return int(value)  # type: ignore[call-overload,no-any-return]


def _share(name: str, value: object) -> float:
    if not isinstance(value, (int, float, np.number)) or not 0 <= float(value) < 1:
        raise BadInput(f'{name} must be a number from 0 to below 1, not {value!r}.')
    return float(value)
