"""Time of kernels: one reduced expansion, Gram matrices, and the limits of the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import KernelPCA as PeerPCA
from sklearn.metrics.pairwise import manhattan_distances, rbf_kernel

from kde_imitation.benchmarks.report import Table, save_picture, timings
from kde_imitation.checks import Floats
from kde_imitation.kernels import Expansion, Gaussian, Kernel, TotalVariation, WeightedSum, _twin
from kde_imitation.kernels.backend import BACKEND, core
from kde_imitation.learning.kernel_pca import KernelPCA

matplotlib.use('Agg', force=False)

# The reduced expansion that serves one picture: points, columns, features, and the directions
# of kernel PCA that it replaces (Bakır 2006, 6.3.1).
POINTS, OUTPUTS, FEATURES, DIRECTIONS = 167, 7, 100, 109
BURST = 50
SHAPE, SKIN_ROWS, SKIN_COLUMNS = slice(0, 80), slice(80, 90), slice(90, 100)
KERNELS: dict[str, Kernel] = {
    'total variation': TotalVariation(),
    'three total variations': WeightedSum(
        [
            (TotalVariation(), 1.0, SHAPE),
            (TotalVariation(), 0.5, SKIN_ROWS),
            (TotalVariation(), 0.5, SKIN_COLUMNS),
        ]
    ),
    'Gaussian': Gaussian(5.0),
}


def histograms(count: int, seed: int, features: int = FEATURES) -> Floats:
    """Return random histograms, (count, features), each of sum one, no entry zero."""
    return np.random.default_rng(seed).dirichlet(np.full(features, 0.5), count)


def _pairwise(kernel: Kernel) -> Callable[[Floats, Floats], float]:
    """Return k(x, y) of two rows as a scikit-learn user would write it."""
    if isinstance(kernel, Gaussian):
        return lambda x, y: float(np.exp(-kernel.gamma * ((x - y) ** 2).sum()))
    if isinstance(kernel, TotalVariation):
        return lambda x, y: float(np.minimum(x, y).sum())
    weights = np.concatenate([[1.0] * 80, [0.5] * 20])
    return lambda x, y: float(weights @ np.minimum(x, y))


def _rows(kernel: Kernel, points: Floats) -> Callable[[Floats], Floats]:
    """Return k(x, points) of one row x (1, d) by vectorised NumPy, shape (1, n)."""
    if isinstance(kernel, Gaussian):
        return lambda x: np.exp(-kernel.gamma * ((points - x) ** 2).sum(axis=1))[None]
    if isinstance(kernel, TotalVariation):
        return lambda x: np.minimum(points, x).sum(axis=1)[None]
    weights = np.concatenate([[1.0] * 80, [0.5] * 20])
    return lambda x: (np.minimum(points, x) @ weights)[None]


def _through(steps: Callable[[Floats], object], samples: Floats) -> Callable[[], object]:
    """Return a call that takes another sample each time, so that no branch is learned by heart."""
    every = cycle([np.ascontiguousarray(row[None]) for row in samples])
    return lambda: steps(next(every))


def _twin_of(function: Expansion) -> _twin.Evaluator:
    terms = function.kernel._terms(function.points.shape[1])
    assert terms is not None
    return _twin.Evaluator(terms, function.points, function.coefficients, function.offset)


def _show(seconds: Floats, unit: float = 1e6) -> str:
    return f'{unit * np.median(seconds):.2f} ({unit * np.percentile(seconds, 95):.2f})'


def _burst(call: Callable[[], object]) -> Callable[[], object]:
    """Return many calls in one, the first of which brings everything near."""

    def calls() -> None:
        for _ in range(BURST):
            call()

    return calls


def table_one_sample(name: str, repeats: int = 400) -> Table:
    """One sample through kernel PCA and PLS, folded, against the ways it is done elsewhere."""
    kernel, bursts = KERNELS[name], max(repeats // 10, 5)
    table = Table(
        f'kernels_one_sample_{name.replace(" ", "_").lower()}',
        f'One sample, {name}, {POINTS} points × {OUTPUTS} columns × {FEATURES} features, µs: '
        'median (95th percentile)',
        ['way', 'in a row', 'ratio', 'between others', 'ratio', 'wanted (goal)', 'difference'],
    )
    points, samples = histograms(POINTS, 0), histograms(256, 1)
    outputs = np.random.default_rng(2).normal(size=(POINTS, OUTPUTS))
    basis = KernelPCA(kernel, DIRECTIONS).fit(points)
    ours_pls = PLSRegression(OUTPUTS).fit(basis.transform(points), outputs)
    matrix = ours_pls.coef_.T
    moved = ours_pls.predict(np.zeros((1, DIRECTIONS)))[0]
    function = basis.expansion_.fold(matrix, moved)
    single = Expansion(kernel, points, function.coefficients, function.offset, storage='float32')
    peer = PeerPCA(DIRECTIONS, kernel=_pairwise(kernel)).fit(points)
    peer_pls = PLSRegression(OUTPUTS).fit(peer.transform(points), outputs)
    by_gram = PeerPCA(DIRECTIONS, kernel='precomputed').fit(kernel(points))
    gram_pls = PLSRegression(OUTPUTS).fit(by_gram.transform(kernel(points)), outputs)
    row = _rows(kernel, points)
    ways: dict[str, tuple[Callable[[Floats], object], str]] = {
        'ours': (function, ''),
        'ours, float32': (single, ''),
        'NumPy twin': (_twin_of(function), '5 × (20 ×)'),
        'scikit-learn, callable': (
            lambda x: peer_pls.predict(peer.transform(x)),
            '50 × (500 ×)',
        ),
        'scikit-learn, NumPy row': (lambda x: gram_pls.predict(by_gram.transform(row(x))), ''),
    }
    calls = {way: _through(steps, samples) for way, (steps, _) in ways.items()}
    # Before each way the same other work, so that none finds the caches warmer than another.
    other = calls['scikit-learn, NumPy row']
    alternating = [pair for way in calls for pair in ((f'before {way}', other), (way, calls[way]))]
    apart = timings(dict(alternating), repeats)
    together = timings({way: _burst(call) for way, call in calls.items()}, bursts)
    expected = np.asarray(function(samples))
    for way, (steps, wanted) in ways.items():
        found = np.concatenate([np.asarray(steps(x[None])) for x in samples[:40]])
        cells = []
        for seconds in (together, apart):
            ratio = np.median(seconds[way]) / np.median(seconds['ours'])
            cells += [
                _show(seconds[way], 1e6 / (BURST if seconds is together else 1)),
                None if way == 'ours' else f'{ratio:.1f} ×',
            ]
        table.add(way, *cells, wanted, float(np.abs(found - expected[:40]).max()))
    table.notes += [
        f'In a row: {bursts} interleaved bursts of {BURST} calls each, time by call. Between '
        f'others: {repeats} single calls, interleaved, each after one of scikit-learn with the '
        'NumPy row, which leaves the caches cold.',
        f'Every way starts from the same data: kernel PCA of {DIRECTIONS} directions, then PLS '
        f'to {OUTPUTS} outputs of unit size. Ours folds both into one expansion; scikit-learn '
        'goes through both, its kernel PCA with the kernel as a callable, or with the row of '
        'kernels by vectorised NumPy. Checks of the input are part of every time.',
    ]
    if BACKEND != 'cython':
        table.notes.append('Built without the compiled module: ours is the twin.')
    return table


def table_limits(repeats: int = 200) -> Table:
    """Say how far one evaluation is from what the core could do at most."""
    table = Table(
        'kernels_limits',
        f'One sample of total variation, {POINTS} × {FEATURES}: time against the limits of one '
        'core, many calls in a row, µs (median)',
        ['what', 'µs', 'rate'],
    )
    rng = np.random.default_rng(3)
    alpha = rng.normal(size=(POINTS, OUTPUTS))
    points, samples = histograms(POINTS, 0), histograms(256, 1)
    function = Expansion(TotalVariation(), points, alpha, np.zeros(OUTPUTS))
    nothing = Expansion(TotalVariation(), points[:1, :1], alpha[:1, :1], np.zeros(1))
    padded = -(-POINTS // 32) * 32 * FEATURES
    data, rounds = np.ones(padded), 200
    seconds = timings(
        {
            'call': _burst(_through(function, samples)),
            'empty': _burst(_through(nothing, samples[:, :1])),
            'batch': partial(function, samples),
            'overlaps': partial(core.probe_overlaps, rounds * padded // 32),
            'reading': partial(core.probe_reading, data, rounds),
        },
        repeats if BACKEND == 'cython' else 5,
    )
    middle = {name: float(np.median(s)) for name, s in seconds.items()}
    middle['call'] /= BURST
    middle['empty'] /= BURST
    pairs = POINTS * FEATURES
    arithmetic, reading = middle['overlaps'] / rounds, middle['reading'] / rounds
    batch = middle['batch'] / len(samples)
    loops = middle['call'] - middle['empty']
    for what, time in (
        ('one call', middle['call']),
        ('of it: Python, checks, the array of results', middle['empty']),
        ('of it: the loops', loops),
        ('one of a batch of 256', batch),
    ):
        rate = None if 'Python' in what else f'{pairs / time / 1e9:.2f} G minima/s'
        table.add(what, 1e6 * time, rate)
    table.add(
        'limit of arithmetic', 1e6 * arithmetic, f'{padded / arithmetic / 1e9:.2f} G minima/s'
    )
    table.add('limit of reading', 1e6 * reading, f'{8 * padded / reading / 1e9:.0f} GB/s')
    limit = max(arithmetic, reading)
    table.notes += [
        f'The limits are for {padded} numbers, the points filled up to blocks of 32. Arithmetic: '
        'a compiled loop takes minima of 4 KiB, which stay in the nearest cache, and adds them '
        'up. Reading: a compiled loop adds up as many numbers as the points have, again and '
        'again, so that they come from the second-level cache.',
        f'The larger limit is {100 * limit / loops:.0f} % of the loops, '
        f'{100 * limit / middle["call"]:.0f} % of the call and {100 * limit / batch:.0f} % of '
        'one in a batch; the rest of the loops weights the columns and checks the input.',
    ]
    return table


def table_throughput(repeats: int = 7) -> Table:
    """Gram matrices and batches, against the twin and scikit-learn."""
    table = Table(
        'kernels_throughput',
        f'Gram matrices, and batches through {POINTS} points, {FEATURES} features, ms: median '
        '(95th percentile)',
        ['what', 'ours', 'ours, float32', 'NumPy twin', 'scikit-learn', 'ratio', 'pairs/s'],
    )
    work: list[tuple[str, Kernel, int]] = [
        (name, kernel, n)
        for n in (500, 2000)
        for name, kernel in KERNELS.items()
        if name != 'three total variations'
    ]
    for name, kernel, n in track(work, 'Gram matrices', transient=True):
        X = histograms(n, 4)
        peer: Callable[[], object] = (
            partial(rbf_kernel, X, gamma=kernel.gamma)
            if isinstance(kernel, Gaussian)
            else partial(_overlap_by_distances, X)
        )
        seconds = timings(
            {'ours': partial(kernel, X), 'twin': partial(_twin_gram, kernel, X), 'peer': peer},
            repeats if n < 1000 else 3,
        )
        _add_throughput(table, f'Gram {n} × {n}, {name}', seconds, n * (n + 1) / 2)
    alpha = np.random.default_rng(5).normal(size=(POINTS, OUTPUTS))
    for name, kernel in KERNELS.items():
        points, X = histograms(POINTS, 0), histograms(1000, 6)
        function = Expansion(kernel, points, alpha, np.zeros(OUTPUTS))
        single = Expansion(kernel, points, alpha, np.zeros(OUTPUTS), storage='float32')
        seconds = timings(
            {
                'ours': partial(function, X),
                'single': partial(single, X),
                'twin': partial(_twin_of(function), X),
            },
            repeats,
        )
        _add_throughput(table, f'1000 samples, {name}', seconds, 1000 * POINTS)
    table.notes.append(
        'ratio: twin to ours. scikit-learn: rbf_kernel for the Gaussian (from dot products, which '
        'lose the digits of small distances; ours takes differences), manhattan_distances for '
        'total variation. pairs/s counts what ours has to compute, half of a symmetric matrix.'
    )
    return table


def _twin_gram(kernel: Kernel, X: Floats) -> Floats:
    terms = kernel._terms(X.shape[1])
    assert terms is not None
    return _twin.gram(terms, X, X)


def _overlap_by_distances(X: Floats) -> Floats:
    own = X.sum(axis=1)
    return np.asarray((own[:, None] + own - manhattan_distances(X)) / 2)


def _add_throughput(table: Table, what: str, seconds: dict[str, Floats], pairs: float) -> None:
    middle = {name: float(np.median(s)) for name, s in seconds.items()}
    table.add(
        what,
        *[
            _show(seconds[name], 1e3) if name in seconds else None
            for name in ('ours', 'single', 'twin', 'peer')
        ],
        f'{middle["twin"] / middle["ours"]:.1f} ×',
        f'{pairs / middle["ours"]:.3g}',
    )


def draw_sizes(pictures: Path, repeats: int = 25) -> None:
    """Draw the time of one sample over the number of expansion points, with the limit."""
    sizes = np.array([10, 32, 64, 128, 167, 256, 512, 1024, 2048])
    samples, rng = histograms(256, 1), np.random.default_rng(7)
    found: dict[str, list[float]] = {}
    for n in track(sizes, 'Sizes', transient=True):
        points, alpha = histograms(int(n), 8), rng.normal(size=(n, OUTPUTS))
        offset = np.zeros(OUTPUTS)
        function = Expansion(TotalVariation(), points, alpha, offset)
        single = Expansion(TotalVariation(), points, alpha, offset, storage='float32')
        calls: dict[str, Callable[[], object]] = {
            'NumPy twin': _through(_twin_of(function), samples),
            'compiled': _through(function, samples),
            'compiled, stored in float32': _through(single, samples),
        }
        bursts = {name: _burst(call) for name, call in calls.items()}
        for name, seconds in timings(bursts, repeats).items():
            found.setdefault(name, []).append(1e6 / BURST * float(np.median(seconds)))
    rounds = 100_000
    probe = timings({'probe': partial(core.probe_overlaps, rounds)}, 20)['probe']
    figure = Figure(figsize=(6.4, 4), layout='constrained')
    axes = figure.add_subplot()
    for (name, values), style in zip(found.items(), ('s-', 'o-', '^-')):
        axes.loglog(sizes, values, style, label=name)
    limit = 1e6 * np.median(probe) / (32 * rounds) * sizes * FEATURES
    axes.loglog(sizes, limit, 'k--', label='limit of arithmetic in double precision')
    axes.axvline(POINTS, color='0.8', zorder=0)
    axes.set(xlabel='expansion points', ylabel='µs a sample, one at a time')
    axes.set_title(f'Total variation, {FEATURES} features, {OUTPUTS} columns')
    axes.legend()
    save_picture(figure, pictures, 'kernels_sizes.png')


def run(pictures: Path | None) -> Iterator[Table]:
    """Measure everything; draw the time over the number of points if a folder is given."""
    for name in KERNELS:
        yield table_one_sample(name)
    yield table_limits()
    yield table_throughput()
    if pictures is not None:
        draw_sizes(pictures)
