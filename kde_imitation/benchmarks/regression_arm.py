"""Posture to joints on the PA-10: tables 2 and 3 of Bakır et al. (2004)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.model_selection import KFold, cross_val_predict

from kde_imitation.benchmarks.report import Table
from kde_imitation.checks import Floats
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.kinematics import pa10
from kde_imitation.learning.kernel_pca import KernelPCA
from kde_imitation.learning.mrs import MRS
from kde_imitation.learning.peers import PLS, RidgeRegression

TRAINING = 500
DRAWS = 5
WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RIDGES = tuple(10.0 ** np.arange(-7, 1))
FOLDS = KFold(3, shuffle=True, random_state=0)

# The paper says "random". Over the whole range of the joints a posture and its mirror image (q1
# half a turn on, q2 negated, ..) put elbow and hand on the same places with opposite joints, so
# that the best prediction is the mean. This is the part without mirror images.
QUARTER = np.pi / 2
UNIQUE_LOWER = np.array([-QUARTER, 0, -QUARTER, 0, -QUARTER, 0, -QUARTER])
UNIQUE_UPPER = np.array([QUARTER, QUARTER, QUARTER, pa10.UPPER[3], QUARTER, QUARTER, QUARTER])


def postures(draw: int, whole: bool = False) -> tuple[Floats, Floats]:
    """Draw 5000 postures: elbow and hand (5000, 6) in metres, joints (5000, 7)."""
    random = np.random.default_rng(draw)
    low, high = (pa10.LOWER, pa10.UPPER) if whole else (UNIQUE_LOWER, UNIQUE_UPPER)
    q = random.uniform(low, high, (5000, pa10.JOINTS))
    points = pa10.link_positions(q)
    return np.concatenate([points[:, 2], points[:, 6]], axis=1), q


def error(found: Floats, q: Floats) -> float:
    """Return the squared error, summed over joints, mean over postures, rad²."""
    return float(((found - q) ** 2).sum(axis=1).mean())


@dataclass
class Split:
    """Features of training and test postures, and their joints."""

    features: Floats
    test_features: Floats
    q: Floats
    test_q: Floats

    def errors(self, model: Any, joints: Floats | None = None) -> tuple[float, float]:
        """Fit and return the errors on training and test postures; `joints` may be spoiled."""
        spoiled = self.q if joints is None else joints
        model.fit(self.features, spoiled)
        sound = (spoiled == self.q).all(axis=1)
        train = error(model.predict(self.features)[sound], self.q[sound])
        return train, error(model.predict(self.test_features), self.test_q)


@cache
def split(draw: int, width: float, whole: bool = False) -> Split:
    """Embed the postures of a draw with a Gaussian kernel, all components kept."""
    X, q = postures(draw, whole)
    pca = KernelPCA(Gaussian(width), None).fit(X[:TRAINING])
    inside, outside = pca.transform(X[:TRAINING]), pca.transform(X[TRAINING:])
    return Split(inside, outside, q[:TRAINING], q[TRAINING:])


@dataclass
class Choice:
    """What three folds of the first draw chose: kernel width, ridge, rank."""

    width: float
    ridge: float
    rank: int
    score: float


@cache
def choose() -> dict[str, Choice]:
    """Choose the settings of each method, and of rank 4 as in the paper."""
    found: dict[str, Choice] = {}

    def offer(name: str, choice: Choice) -> None:
        if name not in found or choice.score < found[name].score:
            found[name] = choice

    for width in track(WIDTHS, 'settings by three folds', transient=True):
        data = split(0, width)
        for rank in (1, 2, 3, 4, 5, 6, 8, 10, 12):
            score = error(cross_val_predict(PLS(rank), data.features, data.q, cv=FOLDS), data.q)
            offer('PLS', Choice(width, 0.0, rank, score))
            if rank == 4:
                offer('PLS(4)', Choice(width, 0.0, rank, score))
        for ridge in RIDGES:
            scores = MRS('cv', ridge, cv=3).fit(data.features, data.q).cv_errors_
            for rank, score in scores.items():
                offer('MRS', Choice(width, ridge, rank, pa10.JOINTS * score))
                if rank == 4:
                    offer('MRS(4)', Choice(width, ridge, rank, pa10.JOINTS * score))
                if rank == pa10.JOINTS:
                    offer('RR', Choice(width, ridge, rank, pa10.JOINTS * score))
    return found


def model_of(name: str, choice: Choice) -> Any:
    """Return the estimator of a chosen method."""
    if name.startswith('PLS'):
        return PLS(choice.rank)
    return RidgeRegression(choice.ridge) if name == 'RR' else MRS(choice.rank, choice.ridge)


def _shown(values: list[float]) -> str:
    return f'{np.mean(values):.3f} ± {np.std(values) / np.sqrt(len(values)):.3f}'


def table_2() -> Table:
    """PLS, MRS and ridge regression."""
    table = Table(
        'regression_arm_2',
        f'Table 2: elbow and hand to joints, {TRAINING} of 5000 postures, squared error in rad², '
        f'mean ± standard error of {DRAWS} draws',
        [
            'method',
            'chosen',
            'training',
            'published',
            'test',
            'published',
            'test / MRS(4)',
            'publ.',
        ],
    )
    published = {
        'PLS(4)': (13.57, 58.0),
        'MRS(4)': (8.96, 53.5),
        'RR': (8.60, 54.0),
        'PLS': (None, None),
        'MRS': (None, None),
    }
    chosen = choose()
    results = {
        name: np.array(
            [
                split(draw, chosen[name].width).errors(model_of(name, chosen[name]))
                for draw in range(DRAWS)
            ]
        )
        for name in published
    }
    base = results['MRS(4)'][:, 1].mean()
    for name, (train, test) in published.items():
        c, found = chosen[name], results[name]
        settings = f'γ {c.width:g}'
        settings += f', λ {c.ridge:g}' if not name.startswith('PLS') else ''
        settings += f', rank {c.rank}' if name in ('PLS', 'MRS') else ''
        table.add(
            name,
            settings,
            _shown(list(found[:, 0])),
            train,
            _shown(list(found[:, 1])),
            test,
            f'{found[:, 1].mean() / base:.3f}',
            None if test is None else f'{test / 53.5:.3f}',
        )
    some = split(0, 1.0)
    mean = error(np.mean(some.q, axis=0), some.test_q)
    whole = split(0, 1.0, True)
    ridge = min(10.0 ** np.arange(-2, 3), key=lambda w: whole.errors(RidgeRegression(w))[1])
    table.notes.append(
        f'Joints without mirror postures; the mean posture has {mean:.2f}. The paper gives '
        'neither its range nor its unit: compare order and ratio. The last two rows let three '
        'folds choose the rank as well. RR and MRS take the smallest γ of the grid.'
    )
    table.notes.append(
        'MRS(4) is ahead of PLS(4) as published, but behind ridge regression, unlike there: the '
        'folds ask for more than four features here, and with them MRS is ahead of both.'
    )
    table.notes.append(
        'Over the whole range nothing can be learned: the mean posture has '
        f'{error(np.mean(whole.q, axis=0), whole.test_q):.1f}, ridge regression, '
        f'even with λ chosen on the test postures, {whole.errors(RidgeRegression(ridge))[1]:.1f}.'
    )
    return table


def table_3() -> Table:
    """One joint value of one posture set to 1000."""
    table = Table(
        'regression_arm_3',
        'Table 3: the same with q1 = 1000 in one training posture (training error without it)',
        ['method', 'training', 'published', 'test', 'published', 'test / MRS(4) L1', 'publ.'],
    )
    c = choose()['MRS(4)']
    models = {
        'PLS(4)': (choose()['PLS(4)'].width, PLS(4), 6.71, 1200.0),
        'MRS(4)': (c.width, MRS(4, c.ridge), None, None),
        'MRS(4) L1': (c.width, MRS(4, c.ridge, loss='l1', starts='pls'), 1.41, 151.0),
    }
    results = {}
    for name, (width, model, _, _) in track(models.items(), 'outlier', transient=True):
        found = []
        for draw in range(3):
            data = split(draw, width)
            spoiled = data.q.copy()
            spoiled[7, 0] = 1000.0
            found.append(data.errors(model, spoiled))
        results[name] = np.array(found)
    base = results['MRS(4) L1'][:, 1].mean()
    for name, (_, _, train, test) in models.items():
        found_ = results[name]
        table.add(
            name,
            _shown(list(found_[:, 0])),
            train,
            _shown(list(found_[:, 1])),
            test,
            f'{found_[:, 1].mean() / base:.1f}',
            None if test is None else f'{test / 151:.1f}',
        )
    table.notes.append(
        'Three draws; width and ridge are those that table 2 chose on clean data; MRS with the '
        'absolute loss starts from PLS, as in the paper.'
    )
    return table
