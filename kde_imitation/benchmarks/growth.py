"""How the time of kernel dependency estimation grows with points, features and rank."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from kde_imitation.benchmarks.report import Table, save_picture, timings
from kde_imitation.checks import Floats
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.learning import MRS, KernelDependencyEstimator

POINTS, FEATURES, RANK, OUTPUTS = 1000, 50, 7, 60
REDUCED, LANDMARKS, LARGEST = 167, 1000, 4000


def problem(points: int, features: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return inputs (points, features) and outputs (points, 60) that depend on them smoothly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(points, features)) / np.sqrt(features)
    hidden = np.tanh(X @ rng.normal(size=(features, OUTPUTS)))
    return X, hidden + rng.normal(0, 0.01, hidden.shape)


def estimator(rank: int, points: int, landmarks: int | None = None) -> KernelDependencyEstimator:
    """Return the estimator that is measured: 100 input directions, all output directions."""
    return KernelDependencyEstimator(
        Gaussian(0.5),
        regressor=MRS(rank=rank),
        input_components=min(100, points // 3),
        output_components=None,
        landmarks=landmarks,
    )


def seconds_to_fit(model: KernelDependencyEstimator, X: Floats, Y: Floats) -> float:
    """Fit a model and return how long it took."""
    start = time.perf_counter()
    model.fit(X, Y)
    return time.perf_counter() - start


def measure(points: int, features: int, rank: int) -> tuple[float, float, float, float]:
    """Measure one size.

    Returns
    -------
    tuple of float
        Seconds to fit with all points as landmarks (NaN above 4000) and with at most 1000, and to
        embed one sample with all expansion points and with 167.
    """
    X, Y = problem(points, features)
    few = estimator(rank, points, LANDMARKS)
    quick = seconds_to_fit(few, X, Y)
    if points <= LARGEST:
        model = estimator(rank, points)
        fitted = seconds_to_fit(model, X, Y)
    else:
        model, fitted = few, np.nan
    one = X[:1]
    whole = np.median(timings({'whole': lambda: model.expansion_(one)}, 200)['whole'])
    model.compress(n_points=min(REDUCED, points // 2), max_points=REDUCED)
    reduced = np.median(timings({'few': lambda: model.expansion_(one)}, 200)['few'])
    embedded = float(whole) if points <= LARGEST else np.nan
    return fitted, quick, embedded, float(reduced)


SWEEPS: dict[str, tuple[Sequence[int], str]] = {
    'points': ((500, 1000, 2000, 4000, 10_000), 'cubic in the landmarks, linear in all else'),
    'features': ((10, 50, 250, 1000), 'linear'),
    'rank': ((1, 3, 7, 20, 60), 'linear'),
}


def slope(x: Floats, y: Floats) -> float:
    """Return the exponent between the last two points of a sweep, where constants matter least."""
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    return float(np.log(y[-1] / y[-2]) / np.log(x[-1] / x[-2]))


def run(pictures: Path | None) -> Iterator[Table]:
    """Measure the three sweeps."""
    results: dict[str, Floats] = {}
    for name, (sizes, expected) in SWEEPS.items():
        table = Table(
            f'growth_{name}',
            f'Growth with {name}: seconds to fit, µs to embed one sample',
            [
                name,
                'fit, all points',
                f'fit, {LANDMARKS} landmarks',
                'embed, all points',
                f'embed, {REDUCED} points',
            ],
        )
        rows = []
        for size in track(sizes, name, transient=True):
            settings = {'points': POINTS, 'features': FEATURES, 'rank': RANK, name: size}
            fit, quick, whole, reduced = measure(**settings)
            rows.append((size, fit, quick, 1e6 * whole, 1e6 * reduced))
            table.add(size, *[None if np.isnan(v) else v for v in rows[-1][1:]])
        results[name] = np.array(rows, dtype=np.float64)
        x, *times = results[name].T
        table.add('exponent', *[f'{slope(x, y):.2f}' for y in times])
        table.notes.append(f'Expected: {expected}.')
        yield table
    if pictures:
        draw(results, pictures)


def draw(results: dict[str, Floats], pictures: Path) -> None:
    """Draw fit and prediction time against each quantity, on logarithmic axes."""
    figure = Figure(figsize=(11, 3.6), layout='constrained')
    for axes, (name, rows) in zip(figure.subplots(1, 3), results.items()):
        x, fit, quick, whole, reduced = rows.T
        axes.loglog(x, fit, 'o-', label='fit, all points')
        axes.loglog(x, quick, 'o--', label=f'fit, {LANDMARKS} landmarks')
        axes.loglog(x, 1e-6 * whole, 's-', label='one embedding, all points')
        axes.loglog(x, 1e-6 * reduced, '^-', label=f'one embedding, {REDUCED} points')
        axes.set(xlabel=name, ylabel='seconds')
        axes.grid(True, which='both', alpha=0.3)
    axes.legend(fontsize=8)
    save_picture(figure, pictures, 'growth.png')
