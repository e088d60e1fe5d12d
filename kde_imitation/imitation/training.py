"""Training: from demonstrations to a model, its choices made by cross-validation."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.imitation.model import Familiar, Features, Goal, ImitationModel
from kde_imitation.imitation.robot import Robot
from kde_imitation.imitation.settings import Settings
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.learning import KernelPCA
from kde_imitation.learning.kde import KernelDependencyEstimator
from kde_imitation.learning.mrs import MRS
from kde_imitation.learning.preimage_constrained import ConstrainedPreImage
from kde_imitation.vision.arm_features import PIXELS, ArmFeatures
from kde_imitation.vision.background import LONGEST_SIDE, Background
from kde_imitation.vision.features import ThesisFeatures
from kde_imitation.vision.silhouette import PersonFinder, Silhouette

FEWEST_PAIRS = 10
# Arms are looked for among this many postures of the demonstrated range.
TRIED = 4000
# The demonstrated range of a joint is widened by this many radians for postures and arms.
MARGIN = 0.1
# Kernel PCA directions that novelty is measured from.
FAMILIAR_COMPONENTS = 100
# How much further than the quantile of held-out pictures a familiar one may be.
LENIENCE = 1.1
# Points of the compressed expansion, as a share of all, if the error allows it.
MOST_POINTS = 1 / 3


@dataclass
class Examples:
    """Demonstrations as numbers: feature vectors and postures."""

    X: Floats
    """(n, d): features of the pairs, without doubt"""
    Q: Floats
    """(n, joints)"""
    more: Floats
    """(m, d): features of the unpaired pictures"""
    kernel: Kernel
    familiar_kernel: Kernel
    """by which pictures are judged to be like others"""


Progress = Callable[[str, float], None]


def _silent(what: str, share: float) -> None:
    """Show no progress."""


def train(
    images: Sequence[npt.ArrayLike],
    postures: npt.ArrayLike,
    background: npt.ArrayLike,
    *,
    unpaired: Sequence[npt.ArrayLike] = (),
    skin: npt.ArrayLike | None = None,
    robot: Robot | None = None,
    settings: Settings | None = None,
    progress: Progress = _silent,
) -> ImitationModel:
    """Learn from pictures of a person and the postures that the person shows.

    Parameters
    ----------
    images : n pictures, (h, w, 3) uint8
    postures : (n, joints) array
    background : (h, w, 3) uint8
        The room without the person.
    unpaired : more pictures
        Without postures; they serve the input side.
    skin : (k, 3) array, optional
        Picked pixels of skin; only the features of the thesis use them.
    robot : Robot, optional
        The PA-10 unless told.
    settings : Settings, optional
    progress : callable
        Called with what is being done and the share of it that is done.
    """
    robot = Robot.pa10() if robot is None else robot
    settings = Settings() if settings is None else settings
    start = time.perf_counter()
    images = list(images)
    Q = robot.postures('postures', postures)
    if len(Q) != len(images):
        raise BadInput(f'There are {len(images)} pictures but {len(Q)} postures.')
    if len(Q) < FEWEST_PAIRS:
        raise BadInput(
            f'{len(Q)} demonstrations are too few; {FEWEST_PAIRS} is the least, 50 a good number.'
        )
    features, examples = see(images, Q, background, unpaired, skin, robot, settings, progress)
    model = fit(features, examples, robot, settings, progress)
    model.summary['seconds'] = round(time.perf_counter() - start, 3)
    return model


def see(
    images: Sequence[npt.ArrayLike],
    Q: Floats,
    background: npt.ArrayLike,
    unpaired: Sequence[npt.ArrayLike],
    skin: npt.ArrayLike | None,
    robot: Robot,
    settings: Settings,
    progress: Progress = _silent,
) -> tuple[Features, Examples]:
    """Learn the features, and return them with what they make of all pictures."""
    side = PIXELS if settings.features == 'arm' else LONGEST_SIDE
    finder = PersonFinder(Background(background, side=side))
    total = len(images) + len(unpaired)
    people: list[Silhouette] = []
    for picture in itertools.chain(images, unpaired):
        people.append(finder(picture))
        progress('Looking for the person', len(people) / total)
    known = np.array([person.found for person in people[: len(images)]], dtype=bool)
    if known.sum() < FEWEST_PAIRS:
        raise BadInput(
            f'Only {known.sum()} of the {len(images)} demonstrations show a person; is the '
            f'background that of the same camera? {people[0].reason}'
        )
    paired = [person for person in people[: len(images)] if person.found]
    others = [person for person in people[len(images) :] if person.found]
    Q = Q[known]
    features: Features
    progress('Reading the arm', 0.0)
    if settings.features == 'thesis':
        features = ThesisFeatures(finder.background, skin).fit_people(finder, [*paired, *others])
        vectors = np.stack([features.look_at(person).vector for person in (*paired, *others)])
    else:
        features = ArmFeatures(finder.background, settings.weights)
        features.fit_people(
            finder, paired, robot.directions(Q), robot.directions(_tried(Q, robot)), others
        )
        vectors = features.vectors_
    progress('Reading the arm', 1.0)
    inputs, _ = features.split(_rounded(vectors))
    count = len(paired)
    return features, Examples(
        inputs[:count], Q, inputs[count:], features.kernel(), features.familiar_kernel()
    )


def _rounded(values: Floats) -> Floats:
    """Return values in single precision, as the model file keeps them."""
    return values.astype(np.float32).astype(np.float64)


def _tried(Q: Floats, robot: Robot) -> Floats:
    """Draw postures from the demonstrated range."""
    lower, upper = demonstrated_range(Q, robot)
    return np.random.default_rng(0).uniform(lower, upper, (TRIED, robot.joints))


def demonstrated_range(Q: Floats, robot: Robot) -> tuple[Floats, Floats]:
    """Return the range (joints,) of the demonstrations, a little wider, inside the limits.

    Joints that never moved have no range.
    """
    lower, upper = Q.min(axis=0), Q.max(axis=0)
    margin = np.where(upper - lower > 1e-3, MARGIN, 0.0)
    return np.maximum(lower - margin, robot.lower), np.minimum(upper + margin, robot.upper)


def estimator(
    kernel: Kernel, Q: Floats, robot: Robot, settings: Settings, ridge: float, rank: int | str
) -> KernelDependencyEstimator:
    """Return kernel dependency estimation from features to postures, not yet fitted."""
    lower, upper = demonstrated_range(Q, robot)
    return KernelDependencyEstimator(
        input_kernel=kernel,
        output_kernel=PoseKernel(robot.kinematics),
        regressor=MRS(rank=rank, ridge=ridge),
        preimage=ConstrainedPreImage(robot.map, lower, upper, settings.pull),
        input_components=settings.input_components,
        output_components=None,
    )


def fit(
    features: Features,
    examples: Examples,
    robot: Robot,
    settings: Settings,
    progress: Progress = _silent,
) -> ImitationModel:
    """Choose by cross-validation, fit to all examples, compress, and calibrate novelty."""
    choice = choose(examples, robot, settings, progress)
    if isinstance(features, ArmFeatures):
        features.rescale(choice['scale'])
        root = np.sqrt(choice['scale'])
        examples = Examples(
            _rounded(examples.X * root),
            examples.Q,
            _rounded(examples.more * root),
            examples.kernel,
            examples.familiar_kernel,
        )
    progress('Fitting', 0.0)
    kde = estimator(
        examples.kernel, examples.Q, robot, settings, choice['ridge'], choice['rank']
    ).fit(examples.X, examples.Q, examples.more if len(examples.more) else None)
    size = len(kde.expansion_.points)
    everything = np.vstack([examples.X, examples.more])
    path = kde.compress(max_error=settings.max_error)
    fewer, chosen = int(MOST_POINTS * size), kde.expansion_
    if len(chosen.points) > fewer > 0:
        kde.compress(n_points=fewer)
        if _compression_error(kde, everything) > settings.max_error:
            kde.expansion_ = chosen
    progress('Fitting', 0.5)
    familiar = _familiar(examples, settings)
    progress('Fitting', 1.0)
    lower, upper = demonstrated_range(examples.Q, robot)
    preimage = kde.preimage_
    goal = Goal(
        kde.lift_,
        kde.lift_offset_,
        preimage.matrix_,
        preimage.offset_,
        lower,
        upper,
        np.full(robot.joints, settings.pull),
        examples.Q,
        preimage.coordinates_,
    )
    expansion = kde.expansion_
    summary = {
        'pairs': len(examples.X),
        'unpaired': len(examples.more),
        'features': settings.features,
        'scale': choice['scale'],
        'ridge': choice['ridge'],
        'rank': choice['rank'],
        'fold_error_mm': round(choice['error'], 2),
        'fold_errors': choice['table'],
        'input_directions': int(kde.input_pca_.n_components_),
        'input_spectrum': _shares(kde.input_pca_),
        'output_spectrum': _shares(kde.output_pca_),
        'points_full': size,
        'points': len(expansion.points),
        'compression': [[int(n), float(e)] for n, e in zip(path.sizes, path.errors)],
        'compression_error': _compression_error(kde, everything),
    }
    return ImitationModel(
        robot,
        features,
        Expansion(
            examples.kernel,
            _rounded(expansion.points),
            expansion.coefficients,
            expansion.offset,
        ),
        familiar,
        goal,
        summary,
    )


def choose(
    examples: Examples, robot: Robot, settings: Settings, progress: Progress = _silent
) -> dict[str, Any]:
    """Choose scale, ridge and rank by the error of postures in folds.

    Both kernel PCAs see everything, as they will later; the regression sees all folds but one.
    """
    scales = settings.scales if settings.features == 'arm' else (1.0,)
    folds = list(
        KFold(min(settings.folds, len(examples.X)), shuffle=True, random_state=0).split(examples.X)
    )
    table = []
    best: dict[str, Any] = {'error': np.inf}
    output = KernelPCA(PoseKernel(robot.kinematics), None).fit(examples.Q)
    Y = output.transform(examples.Q)
    lower, upper = demonstrated_range(examples.Q, robot)
    preimage = ConstrainedPreImage(robot.map, lower, upper, settings.pull).fit(output, examples.Q)
    for turn, scale in enumerate(scales):
        root = np.sqrt(scale)
        pca = KernelPCA(examples.kernel, settings.input_components)
        pca.fit(np.vstack([examples.X, examples.more]) * root)
        Z = pca.transform(examples.X * root)
        for ridge, rank in itertools.product(settings.ridges, _ranks(Z, Y)):
            predicted = np.empty_like(Y)
            for train_rows, test_rows in folds:
                found = MRS(rank=rank, ridge=ridge).fit(Z[train_rows], Y[train_rows])
                predicted[test_rows] = found.predict(Z[test_rows])
            postures = preimage.solve(predicted).x
            error = 1000 * float(robot.errors(postures, examples.Q).mean())
            table.append([float(scale), float(ridge), int(rank), round(error, 2)])
            if error < best['error']:
                best = {'scale': scale, 'ridge': ridge, 'rank': rank, 'error': error}
        progress('Choosing kernel, ridge and rank', (turn + 1) / len(scales))
    return {**best, 'table': table}


def _ranks(Z: Floats, Y: Floats) -> list[int]:
    most = min(Z.shape[1], Y.shape[1])
    return list(range(max(most - 3, 1), most + 1))


def _familiar(examples: Examples, settings: Settings) -> Familiar:
    """Measure novelty from a kernel PCA basis; the threshold comes from pictures held out.

    Demonstrations are spread out and movements are not, so that each has a quantile of its own.
    """
    X, kernel = np.vstack([examples.X, examples.more]), examples.familiar_kernel
    count = min(FAMILIAR_COMPONENTS, len(X) // 2)
    residuals = np.empty(len(X))
    folds = KFold(min(settings.folds, len(X)), shuffle=True, random_state=0)
    for train_rows, test_rows in folds.split(X):
        pca = KernelPCA(kernel, count).fit(X[train_rows])
        residuals[test_rows] = pca.residual(X[test_rows])
    pairs = len(examples.X)
    threshold = LENIENCE * max(
        float(np.quantile(part, settings.familiar_quantile))
        for part in (residuals[:pairs], residuals[pairs:])
        if len(part)
    )
    pca = KernelPCA(kernel, count).fit(X)
    size = len(X)
    coefficients = np.column_stack([pca.vectors_, np.full(size, 1.0 / size)])
    offset = np.append(pca.expansion_.offset, 0.0)
    mean = float(kernel(X).mean())
    expansion = Expansion(kernel, X, _rounded(coefficients), offset, storage='float32')
    return Familiar(expansion, mean, max(threshold, 1e-6))


def _shares(pca: KernelPCA) -> list[float]:
    """Return the share of the variance along each direction, rounded for the summary."""
    return [round(float(share), 6) for share in pca.explained_variance_ratio_[:60]]


def _compression_error(kde: KernelDependencyEstimator, X: Floats) -> float:
    """Return the error of the compressed embedding of pictures, relative to its spread."""
    full, small = kde.full_expansion_(X), kde.expansion_(X)
    spread = float(np.square(full - full.mean(axis=0)).sum())
    return float(np.sqrt(np.square(full - small).sum() / spread))
