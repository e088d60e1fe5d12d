"""Kernel ridge regression compressed: Bakır 2006, figure 4.5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.progress import track
from sklearn.datasets import load_diabetes, load_digits

from kde_imitation.benchmarks import reduced_sets_pictures as draw
from kde_imitation.benchmarks.report import Table
from kde_imitation.checks import Floats
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.kinematics import pa10
from kde_imitation.learning import reduce


def width(sigma: float) -> float:
    """Return γ of the Gaussian kernel for the width σ of the thesis."""
    return 1.0 / (2.0 * sigma**2)


def _normalised(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Subtract the mean and divide by the deviation of the training data."""
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def hand_positions(share: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw postures within a share of the PA-10's limits; the hand with 50 mm of noise."""
    postures = rng.uniform(share * pa10.LOWER, share * pa10.UPPER, (4000, len(pa10.LOWER)))
    return postures, pa10.link_positions(postures)[:, -1] + rng.normal(0, 0.05, (4000, 3))


def regression_sets() -> Iterator[tuple[str, Floats, Floats, Floats, Floats]]:
    """Yield name, training and test inputs, training and test outputs, normalised as in 4.4.4."""
    rng = np.random.default_rng(0)
    diabetes, digits = load_diabetes(), load_digits()
    sources: list[tuple[str, int, tuple[Floats, Floats]]] = [
        ('diabetes', 342, (diabetes.data, diabetes.target[:, None])),
        ('PA-10 hand, quarter of the range', 3000, hand_positions(0.25, rng)),
        ('digits, ten outputs', 1297, (digits.data, np.eye(10)[digits.target])),
        ('PA-10 hand, whole range', 3000, hand_positions(1.0, rng)),
    ]
    for name, count, (X, Y) in sources:
        order = rng.permutation(len(X))
        train, test = order[:count], order[count:]
        inputs, outputs = _normalised(X[train], X[test]), _normalised(Y[train], Y[test])
        yield name, *inputs, *outputs


def leave_one_out(X: Floats, Y: Floats) -> tuple[float, float]:
    """Return the width σ and the ridge with the least leave-one-out error, from 1000 rows."""
    X, Y = X[:1000], Y[:1000]
    found = []
    for sigma in np.sqrt(X.shape[1]) * np.array([0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0]):
        values, vectors = np.linalg.eigh(Gaussian(width(sigma))(X))
        turned = vectors.T @ Y
        for ridge in 10.0 ** np.arange(-4, 2):
            shrink = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + ridge)
            fitted = vectors @ (shrink[:, None] * turned)
            left_out = (Y - fitted) / (1.0 - vectors**2 @ shrink)[:, None]
            found.append((float((left_out**2).mean()), float(sigma), float(ridge)))
    return min(found)[1:]


def ridge_regression(kernel: Kernel, X: Floats, Y: Floats, ridge: float) -> Expansion:
    """Kernel ridge regression as an expansion in all training points."""
    gram = kernel(X)
    gram.flat[:: len(X) + 1] += ridge
    return Expansion(kernel, X, np.linalg.solve(gram, Y), np.zeros(Y.shape[1]))


def table_ridge(pictures: Path | None) -> Table:
    """Figure 4.5: test error of kernel ridge regression against the number of points."""
    kept = (5, 10, 20)
    table = Table(
        'reduced_sets_ridge',
        'Figure 4.5: kernel ridge regression compressed by pursuit (squared error, normalised)',
        (
            *('data', 'points', 'σ, ridge', 'test error', *(f'{part} % kept' for part in kept)),
            *('10 % refit', 'within 1 %', 'published'),
        ),
    )
    curves = {}
    for name, X, X_new, Y, Y_new in track(
        regression_sets(), description='ridge regression', total=4, transient=True
    ):
        sigma, ridge = leave_one_out(X, Y)
        full = ridge_regression(Gaussian(width(sigma)), X, Y, ridge)
        path = reduce(full, max_points=len(X) // 3)
        shares = [max(len(X) * part // 100, 1) for part in kept]
        places = np.geomspace(2, path.sizes[-1], 20).astype(int)
        sizes = np.unique([*places, *shares])
        tests = {}
        for size in sizes:
            for on in (False, True):
                reduced = path.at(n_points=int(size), on=X if on else None)
                tests[int(size), on] = float(((reduced(X_new) - Y_new) ** 2).mean())
        goal = float(((full(X_new) - Y_new) ** 2).mean())
        good = [size for size in sizes if tests[size, False] <= 1.01 * goal]
        table.add(
            *(name, len(X), f'{sigma:.3g}, {ridge:g}', goal),
            *(tests[size, False] for size in shares),
            tests[shares[1], True],
            f'{good[0]} points' if good else f'over {sizes[-1]}',
            'high error: easier',
        )
        rows = [[size, tests[size, False], tests[size, True]] for size in sizes]
        curves[name] = (len(X), goal, np.array(rows))
    table.notes += [
        'refit: the same points, coefficients refitted to the values at the training points. '
        'σ and ridge have the least leave-one-out error on training data.',
        'The thesis finds problems with a high error easier to compress (4.4.2).',
        'The thesis uses Abalone (0.410 with 3133 points) and Kin-32nm (0.6187 with 3000), which '
        'do not ship with scikit-learn; figure 4.5 gives curves, not numbers.',
    ]
    if pictures is not None:
        draw.draw_ridge(curves, pictures)
    return table
