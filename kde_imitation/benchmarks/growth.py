"""How the time of kernel dependency estimation grows with points, features and rank."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track

from kde_imitation.benchmarks.report import Table, timings
from kde_imitation.checks import Floats
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.learning import MRS, KernelDependencyEstimator

POINTS, FEATURES, RANK, OUTPUTS = 1000, 50, 7, 60
REDUCED = 167


def problem(points: int, features: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Return inputs (points, features) and outputs (points, 60) that depend on them smoothly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(points, features)) / np.sqrt(features)
    hidden = np.tanh(X @ rng.normal(size=(features, OUTPUTS)))
    return X, hidden + rng.normal(0, 0.01, hidden.shape)


def estimator(rank: int, points: int) -> KernelDependencyEstimator:
    """Return the estimator that is measured: 100 input directions, all output directions."""
    return KernelDependencyEstimator(
        Gaussian(0.5),
        regressor=MRS(rank=rank),
        input_components=min(100, points // 3),
        output_components=None,
    )


def measure(points: int, features: int, rank: int) -> tuple[float, float, float]:
    """Return seconds to fit, and to predict one sample with all points and with 167."""
    X, Y = problem(points, features)
    model = estimator(rank, points)
    start = time.perf_counter()
    model.fit(X, Y)
    fitted = time.perf_counter() - start
    one = X[:1]
    whole = np.median(timings({'whole': lambda: model.expansion_(one)}, 200)['whole'])
    model.compress(n_points=min(REDUCED, points // 2), max_points=REDUCED)
    reduced = np.median(timings({'few': lambda: model.expansion_(one)}, 200)['few'])
    return fitted, float(whole), float(reduced)


SWEEPS: dict[str, tuple[Sequence[int], str]] = {
    'points': ((250, 500, 1000, 2000, 4000), 'cubed for the fit at most, linear for a prediction'),
    'features': ((10, 50, 250, 1000), 'linear'),
    'rank': ((1, 3, 7, 20, 60), 'linear'),
}


def slope(x: Floats, y: Floats) -> float:
    """Return the exponent between the last two points of a sweep, where constants matter least."""
    return float(np.log(y[-1] / y[-2]) / np.log(x[-1] / x[-2]))


def run(pictures: Path | None) -> Iterator[Table]:
    """Measure the three sweeps."""
    results: dict[str, Floats] = {}
    for name, (sizes, expected) in SWEEPS.items():
        table = Table(
            f'growth_{name}',
            f'Growth with {name}: fit (s), one embedding (µs) with all points and with {REDUCED}',
            [name, 'fit', 'all points', 'reduced set'],
        )
        rows = []
        for size in track(sizes, name, transient=True):
            settings = {'points': POINTS, 'features': FEATURES, 'rank': RANK, name: size}
            fit, whole, reduced = measure(**settings)
            rows.append((size, fit, 1e6 * whole, 1e6 * reduced))
            table.add(*rows[-1])
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
        x, fit, whole, reduced = rows.T
        axes.loglog(x, fit, 'o-', label='fit')
        axes.loglog(x, 1e-6 * whole, 's-', label='one embedding, all points')
        axes.loglog(x, 1e-6 * reduced, '^-', label=f'one embedding, {REDUCED} points')
        axes.set(xlabel=name, ylabel='seconds')
        axes.grid(True, which='both', alpha=0.3)
    axes.legend(fontsize=8)
    pictures.mkdir(parents=True, exist_ok=True)
    figure.savefig(pictures / 'growth.png', dpi=100)
