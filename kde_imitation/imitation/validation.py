"""How good a model is, measured on demonstrations that it was not trained on.

The demonstrations are cut into folds. Kernel PCA on both sides, the regression with its settings
and the pre-image are made anew from all folds but one, and judged on that one. What turns pictures
into features is shared by all folds: it is fitted to all demonstrations, as in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.model_selection import KFold

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.imitation import training
from kde_imitation.imitation.robot import Robot
from kde_imitation.imitation.settings import Settings
from kde_imitation.kernels.base import Kernel
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.learning import (
    MRS,
    PLS,
    KernelPCA,
    PrincipalComponentRegression,
    ReducedRankRegression,
    RidgeRegression,
    reduce,
)
from kde_imitation.learning.kde import KernelDependencyEstimator

Progress = Callable[[str, float], None]
Rows = npt.NDArray[np.intp]

CURVE_SIZES = (8, 12, 20, 30, 50, 80, 120, 200, 300, 500)
FEATURE_COUNTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)
REDUCED_SIZES = (2, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
MRS_OF_FULL_RANK = 'MRS of full rank'
RESAMPLES = 10_000
METHODS = ('MRS', 'PLS', 'ridge', 'reduced rank', 'principal components', 'nearest neighbour')


@dataclass(frozen=True)
class Spectra:
    """Cumulative shares of the variance along the directions of kernel PCA."""

    outputs: Floats
    """postures in the feature space of the pose kernel"""
    inputs: Floats
    """all pictures in the feature space of the input kernel"""
    pairs: Floats
    """the demonstrations alone, in the coordinates that all pictures give"""

    @staticmethod
    def needed(shares: Floats, share: float = 0.95) -> int:
        """Return how many directions hold so much of the variance."""
        return min(int(np.searchsorted(shares, share - 1e-12)) + 1, len(shares))


@dataclass(frozen=True)
class Curve:
    """Errors in millimetres against a size, one column a fold."""

    sizes: Sequence[int]
    errors: Mapping[str, Floats]
    """name to (sizes, folds)"""


@dataclass(frozen=True)
class Study:
    """What the demonstrations say about the model. Errors are in millimetres."""

    folds: Sequence[Rows]
    """rows of the demonstrations that each fold held out"""
    spectra: Spectra
    peers: Mapping[str, Floats]
    """method to the mean error of each fold, (folds,)"""
    predicted: Floats
    """(n, joints): postures that MRS predicted for the held-out demonstrations"""
    errors: Floats
    """(n,): their errors"""
    demonstrations: Curve
    """against the number of demonstrations: MRS and nearest neighbour"""
    reduction: Curve
    """against the number of expansion points, 'reduced'; 'full' does not depend on the size"""

    def numbers(self) -> dict[str, Any]:
        """Return everything as plain numbers, for JSON."""
        return {
            'folds': [rows.tolist() for rows in self.folds],
            'spectra': {name: value.tolist() for name, value in self.spectra.__dict__.items()},
            'peers_mm': {name: value.tolist() for name, value in self.peers.items()},
            'errors_mm': self.errors.tolist(),
            'predicted': self.predicted.tolist(),
            **{
                name: {
                    'sizes': list(curve.sizes),
                    'errors_mm': {key: value.tolist() for key, value in curve.errors.items()},
                }
                for name, curve in (
                    ('demonstrations', self.demonstrations),
                    ('reduction', self.reduction),
                )
            },
        }


def mean_and_error(values: npt.ArrayLike) -> tuple[float, float]:
    """Return the mean of values (n,) and its standard error."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


def bootstrap_interval(values: Floats, share: float = 0.95) -> tuple[float, float]:
    """Return the interval that holds so much of the means of resampled values (n,)."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[rows].mean(axis=1), [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class _Fold:
    """One fold: what all but the held-out rows taught, and where everything lies in it."""

    learned: Rows
    held_out: Rows
    kde: KernelDependencyEstimator
    Z: Floats
    """(n, p): all pairs in input coordinates, as far as the learned ones span them"""
    Y: Floats
    """(n, o): all pairs in output coordinates"""


@dataclass(frozen=True)
class _Pairs:
    X: Floats
    Q: Floats
    more: Floats | None
    kernel: Kernel
    robot: Robot
    settings: Settings


def study(
    X: npt.ArrayLike,
    Q: npt.ArrayLike,
    more: npt.ArrayLike,
    kernel: Kernel,
    robot: Robot,
    settings: Settings | None = None,
    ridge: float = 1e-3,
    rank: int = 6,
    progress: Progress | None = None,
) -> Study:
    """Measure by cross-validation what the demonstrations allow.

    Parameters
    ----------
    X : (n, d) array
        Features of the demonstrations, as `kernel` takes them.
    Q : (n, joints) array
        Their postures.
    more : (m, d) array
        Features of pictures without a posture; m may be 0.
    kernel : Kernel
    robot : Robot
    settings : Settings, optional
        Folds, ridges and the share of the variance to keep come from here.
    ridge, rank : float, int
        What the model uses; the reduced sets are made from these. The comparison with peers
        chooses its own for every method, within the folds.
    progress : callable, optional
        Called with what is being done and the share of it that is done.
    """
    settings = Settings() if settings is None else settings
    inputs = as_floats('X', X, (None, None))
    postures = robot.postures('Q', Q)
    others = as_floats('more', more, (None, inputs.shape[1]))
    if len(postures) != len(inputs):
        raise BadInput(f'X has {len(inputs)} rows but Q has {len(postures)}.')
    if len(inputs) < training.FEWEST_PAIRS:
        raise BadInput(
            f'{len(inputs)} demonstrations are too few to be cut into folds; '
            f'{training.FEWEST_PAIRS} is the least.'
        )
    pairs = _Pairs(inputs, postures, others if len(others) else None, kernel, robot, settings)
    tell = progress if progress is not None else training._silent
    split = KFold(min(settings.folds, len(inputs)), shuffle=True, random_state=0)
    folds, peers, curves, reduced = [], [], [], []
    predicted = np.empty_like(postures)
    parts = list(split.split(inputs))
    sizes = _curve_sizes(min(len(learned) for learned, _ in parts))
    points = _reduced_sizes(min(len(learned) for learned, _ in parts) + len(others))
    for turn, (learned, held_out) in enumerate(parts):
        fold = _fold(pairs, learned, held_out)
        folds.append(held_out)
        found = _peers(pairs, fold)
        predicted[held_out] = found['MRS']
        truth = postures[held_out]
        peers.append([1000 * robot.errors(found[name], truth).mean() for name in METHODS])
        tell('Comparing in folds', (turn + 0.5) / len(parts))
        curves.append([_from_few(pairs, fold, size) for size in sizes])
        reduced.append(_reduced(pairs, fold, points, ridge, rank))
        tell('Comparing in folds', (turn + 1) / len(parts))
    by_method = np.transpose(peers)
    by_size = np.transpose(curves)
    by_points = np.transpose(reduced)
    return Study(
        folds=folds,
        spectra=spectra(pairs.X, pairs.Q, others, kernel, robot),
        peers=dict(zip(METHODS, by_method)),
        predicted=predicted,
        errors=1000 * robot.errors(predicted, postures),
        demonstrations=Curve(sizes, dict(zip(('MRS', 'nearest neighbour'), by_size))),
        reduction=Curve(points, {'reduced': by_points[:-1], 'full': by_points[-1:]}),
    )


def spectra(X: Floats, Q: Floats, more: Floats, kernel: Kernel, robot: Robot) -> Spectra:
    """Return the spectra of figures 6.7 to 6.9 in Bakır (2006)."""
    outputs = KernelPCA(PoseKernel(robot.kinematics), None).fit(Q)
    inputs = KernelPCA(kernel, None).fit(np.vstack([X, more]))
    shares = [
        np.cumsum(pca.explained_variance_ratio_ / pca.explained_variance_ratio_.sum())
        for pca in (outputs, inputs)
    ]
    Z = inputs.transform(X)
    variances = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False) ** 2
    variances = variances[: len(X) - 1]
    return Spectra(shares[0], shares[1], np.cumsum(variances / variances.sum()))


def _fold(pairs: _Pairs, learned: Rows, held_out: Rows) -> _Fold:
    Q = pairs.Q[learned]
    kde = training.estimator(pairs.kernel, Q, pairs.robot, pairs.settings, 1.0, 1)
    kde.fit(pairs.X[learned], Q, pairs.more)
    Z = kde.input_pca_.transform(pairs.X)
    if len(learned) < Z.shape[1]:
        # All methods find directions in the span of what they learn from; the rest is dead weight.
        span, _ = np.linalg.qr(Z[learned].T)
        Z = np.asarray(Z @ span)
    return _Fold(learned, held_out, kde, Z, kde.output_pca_.transform(pairs.Q))


def _candidates(method: str, Z: Floats, Y: Floats, settings: Settings) -> list[Any]:
    """Return what a method may choose from, given inputs (n, p) and outputs (n, o)."""
    ranks = range(1, min(*Z.shape, Y.shape[1]) + 1)
    # Inner folds see four fifths of the rows.
    most = min(Z.shape[1], int(0.8 * len(Z)) - 1)
    counts = [count for count in FEATURE_COUNTS if count <= max(most, 1)]
    if method == 'MRS':
        return [MRS(rank=rank, ridge=ridge) for rank in ranks[-4:] for ridge in settings.ridges]
    if method == MRS_OF_FULL_RANK:
        return [MRS(rank=ranks[-1], ridge=ridge) for ridge in settings.ridges]
    if method == 'PLS':
        return [PLS(rank=count) for count in counts if count <= 24]
    if method == 'ridge':
        return [RidgeRegression(ridge=ridge) for ridge in settings.ridges]
    if method == 'reduced rank':
        return [ReducedRankRegression(rank=rank) for rank in ranks]
    return [PrincipalComponentRegression(rank=count) for count in counts]


def _pick(method: str, Z: Floats, Y: Floats, settings: Settings) -> Any:
    """Return the best candidate by inner folds, fitted to all rows."""
    choices = _candidates(method, Z, Y, settings)
    if len(choices) > 1:
        totals = np.zeros(len(choices))
        for learned, judged in KFold(5, shuffle=True, random_state=1).split(Z):
            for place, choice in enumerate(choices):
                found = choice.fit(Z[learned], Y[learned])
                totals[place] += np.linalg.norm(found.predict(Z[judged]) - Y[judged], axis=1).sum()
        choices = [choices[int(totals.argmin())]]
    return choices[0].fit(Z, Y)


def _nearest(pairs: _Pairs, learned: Rows, held_out: Rows) -> Floats:
    """Return the postures of the most alike demonstrations."""
    cross = pairs.kernel(pairs.X[held_out], pairs.X[learned])
    squares = pairs.kernel.diagonal(pairs.X[learned]) - 2 * cross
    return np.asarray(pairs.Q[learned[squares.argmin(axis=1)]])


def _peers(pairs: _Pairs, fold: _Fold) -> dict[str, Floats]:
    """Return the postures (held out, joints) that each method predicts."""
    found = {}
    for method in METHODS[:-1]:
        best = _pick(method, fold.Z[fold.learned], fold.Y[fold.learned], pairs.settings)
        wanted = best.predict(fold.Z[fold.held_out])
        found[method] = np.asarray(fold.kde.preimage_.solve(wanted).x)
    found[METHODS[-1]] = _nearest(pairs, fold.learned, fold.held_out)
    return found


def _curve_sizes(most: int) -> list[int]:
    # The last step is kept from being a tiny one.
    return [*(size for size in CURVE_SIZES if size <= 0.9 * most), most]


def _reduced_sizes(most: int) -> list[int]:
    return [size for size in REDUCED_SIZES if size <= 0.8 * most] or [most]


def _from_few(pairs: _Pairs, fold: _Fold, size: int) -> tuple[float, float]:
    """Return the errors of MRS and nearest neighbour with the first rows of a fold only."""
    rows = fold.learned[:size]
    Q, truth = pairs.Q[rows], pairs.Q[fold.held_out]
    outputs = KernelPCA(fold.kde.output_kernel, None).fit(Q)
    best = _pick(MRS_OF_FULL_RANK, fold.Z[rows], outputs.transform(Q), pairs.settings)
    estimator = training.estimator(pairs.kernel, Q, pairs.robot, pairs.settings, 1.0, 1)
    preimage = clone(estimator.preimage).fit(outputs, Q)
    found = preimage.solve(best.predict(fold.Z[fold.held_out])).x
    near = _nearest(pairs, rows, fold.held_out)
    errors = [1000 * float(pairs.robot.errors(each, truth).mean()) for each in (found, near)]
    return errors[0], errors[1]


def _reduced(
    pairs: _Pairs, fold: _Fold, sizes: Sequence[int], ridge: float, rank: int
) -> list[float]:
    """Return the errors with so many points in the expansion, and last with all."""
    Q, truth = pairs.Q[fold.learned], pairs.Q[fold.held_out]
    most = min(rank, fold.Z.shape[1], fold.Y.shape[1])
    kde = training.estimator(pairs.kernel, Q, pairs.robot, pairs.settings, ridge, most)
    kde.fit(pairs.X[fold.learned], Q, pairs.more)
    full = kde.full_expansion_
    path = reduce(full)
    inputs = pairs.X[fold.held_out]
    errors = []
    for expansion in (*(path.at(n_points=size, on=full.points) for size in sizes), full):
        wanted = expansion(inputs) @ kde.lift_ + kde.lift_offset_
        found = np.asarray(kde.preimage_.solve(wanted).x)
        errors.append(1000 * float(pairs.robot.errors(found, truth).mean()))
    return errors
