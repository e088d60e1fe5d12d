"""Time and memory of PSOM+: fits, one evaluation, one best match."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from kde_imitation.benchmarks.psom import grid, random_postures, wrist
from kde_imitation.benchmarks.report import Table, timings
from kde_imitation.checks import Floats
from kde_imitation.kernels import _twin
from kde_imitation.kernels.backend import BACKEND, core
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.kinematics.psom import Psom, chebyshev_axis


def fit_with_missing_nodes() -> None:
    """Fit 8⁴ nodes of which 400 are missing."""
    axes, values = grid(chebyshev_axis)
    missing = np.zeros(values.shape[:-1], dtype=bool)
    missing.flat[np.random.default_rng(0).permutation(missing.size)[:400]] = True
    Psom.from_grid(axes, values, missing=missing)


def smooth_noisy_nodes() -> None:
    """Smooth 8⁴ noisy nodes with a given λ."""
    axes, values = grid(chebyshev_axis)
    noisy = values + np.random.default_rng(0).normal(0, 10, values.shape)
    Psom.from_grid(axes, noisy, smoothing=0.002)


def fit_scattered_samples() -> None:
    """Fit 6144 scattered samples with a given λ."""
    x = random_postures(1, 6144)
    Psom.from_samples(grid(chebyshev_axis)[0], x, wrist(x), 1e-5)


def choose_smoothing_of_samples() -> None:
    """Fit 6144 scattered samples, λ by leave-one-out cross-validation."""
    x = random_postures(1, 6144)
    Psom.from_samples(grid(chebyshev_axis)[0], x, wrist(x), 'cv')


FITS = {
    '8⁴ nodes, 400 missing': (fit_with_missing_nodes, 'under 20 s, 2 GiB'),
    '8⁴ noisy nodes, λ given': (smooth_noisy_nodes, ''),
    '6144 scattered samples, λ given': (fit_scattered_samples, 'under 60 s'),
    '6144 scattered samples, λ by cross-validation': (choose_smoothing_of_samples, 'under 60 s'),
}


def _measure(name: str) -> tuple[float, float]:
    """Run one fit alone in this process: seconds, and the process's greatest memory in MiB."""
    start = time.perf_counter()
    FITS[name][0]()
    return time.perf_counter() - start, _peak_memory()


def _peak_memory() -> float:
    """Return the greatest memory of this process since it began, MiB.

    Linux counts it in /proc; `getrusage` would also count the process that started this one.
    """
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmHWM'):
            return int(line.split()[1]) / 1024
    return math.nan


def table_fits() -> Table:
    """Each fit in a process of its own, so that memory is its own too."""
    table = Table(
        'psom_fits',
        'PSOM+ fits, each in a new process (memory with interpreter and libraries)',
        ['fit', 'seconds', 'peak MiB', 'wanted'],
    )
    context = multiprocessing.get_context('spawn')
    for name, (_, wanted) in FITS.items():
        with context.Pool(1) as pool:
            table.add(name, *pool.apply(_measure, (name,)), wanted)
    return table


def _twin_of(compiled: _twin.TensorMap) -> _twin.TensorMap:
    return _twin.TensorMap(compiled.core, compiled.factors, compiled.centre, compiled.half)


def table_evaluation() -> Table:
    """One evaluation with Jacobian, compiled against NumPy, in one interleaved run."""
    table = Table(
        'psom_evaluation',
        'One posture, values and Jacobian, µs: median (95th percentile) of 2000',
        ['map', 'compiled', 'NumPy twin', 'ratio', 'wanted'],
    )
    if BACKEND != 'cython':
        table.notes.append('Built without the compiled module: both columns are the twin.')
    arm = LearnedArm.of_pa10()
    near, far = arm.near.map, arm.far.map
    half, centre = near.half, near.centre
    whole = (arm.near.values, [np.eye(n) for n in arm.near.values.shape[:-1]], centre, half)
    q = np.random.default_rng(0).uniform(pa10.LOWER, pa10.UPPER, (1, 7))
    q4 = np.ascontiguousarray(q[:, :4])
    cases = {
        'joints 1-4 to 15 outputs': (near, _twin_of(near), q4, '20 ×'),
        'whole arm, 7 joints to 15 outputs': (
            arm.map,
            _twin.ArmMap(_twin_of(near), _twin_of(far), 1),
            q,
            '20 ×',
        ),
        'all 8⁴ nodes × 15, as for noisy data': (
            core.TensorMap(*whole),
            _twin.TensorMap(*whole),
            q4,
            '',
        ),
    }
    for name, (compiled, twin, x, wanted) in cases.items():
        seconds = timings(
            {
                'compiled': partial(compiled.evaluate, x, True),
                'twin': partial(twin.evaluate, x, True),
            },
            2000,
        )
        ratio = np.median(seconds['twin']) / np.median(seconds['compiled'])
        table.add(name, *[_microseconds(s) for s in seconds.values()], f'{ratio:.1f} ×', wanted)
    table.notes.append(
        'The exact arm needs 3 of 8 polynomials a joint, so its maps are evaluated on a core of '
        '3⁴; a map of full rank reads all 4096 × 15 weights, and memory sets the pace.'
    )
    return table


def _microseconds(seconds: Floats) -> str:
    return f'{1e6 * np.median(seconds):.1f} ({1e6 * np.percentile(seconds, 95):.1f})'


def table_best_match() -> Table:
    """Inverse kinematics of the hand from a nearby start, against SciPy on the same problem."""
    table = Table(
        'psom_best_match',
        'Best match: hand position from a start 0.2 rad away, ms: median (95th percentile)',
        ['solver', 'time', 'solved to 1 µm', 'wanted'],
    )
    arm = LearnedArm.of_pa10()
    rng = np.random.default_rng(0)
    goals = rng.uniform(pa10.LOWER, pa10.UPPER, (300, 7)) * 0.95
    starts = np.clip(goals + rng.normal(0, 0.2, goals.shape), arm.lower, arm.upper)
    hands = arm.link_positions(goals)
    weights = np.array([0.0] * 6 + [1.0])

    def ours(i: int) -> Floats:
        return arm.best_match(hands[i], weights, starts[i]).x

    def scipy(i: int) -> Floats:
        found: Floats = least_squares(
            lambda q: arm.link_positions(q)[6] - hands[i, 6],
            starts[i],
            lambda q: arm.position_jacobians(q)[6],
            bounds=(arm.lower - 1e-9, arm.upper + 1e-9),
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
        ).x
        return found

    for name, solve, wanted in (
        ('ours, compiled', ours, 'under 1 ms'),
        ('scipy.optimize.least_squares', scipy, ''),
    ):
        seconds, solved = [], []
        for i in range(len(goals)):
            start = time.perf_counter()
            q = solve(i)
            seconds.append(time.perf_counter() - start)
            solved.append(np.linalg.norm(arm.link_positions(q)[6] - hands[i, 6]) < 1e-6)
        median, high = np.percentile(seconds, [50, 95]) * 1e3
        table.add(name, f'{median:.3f} ({high:.3f})', f'{100 * np.mean(solved):.1f} %', wanted)
    return table


def run(pictures: Path | None) -> Iterator[Table]:
    """Measure everything; there is nothing to draw."""
    yield table_fits()
    yield table_evaluation()
    yield table_best_match()
