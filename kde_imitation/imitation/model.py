"""The trained model: what a picture says about the arm, and which posture that is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.imitation import files, sequence
from kde_imitation.imitation.robot import Robot
from kde_imitation.kernels.backend import core
from kde_imitation.kernels.base import Expansion
from kde_imitation.kernels.nearest import nearest
from kde_imitation.vision.arm_features import ArmFeatures, SeenArm
from kde_imitation.vision.features import Seen, ThesisFeatures

Features = ArmFeatures | ThesisFeatures
FEATURES: dict[str, type[ArmFeatures] | type[ThesisFeatures]] = {
    'arm': ArmFeatures,
    'thesis': ThesisFeatures,
}
MAX_STEPS, TOLERANCE = 100, 1e-6


@dataclass(frozen=True)
class Embedding:
    """A picture as a point among the postures."""

    point: Floats
    """(r,)"""
    novelty: float
    """how unlike the demonstrations the picture is; above 1 the arm should hold, infinite where
    there is no person"""


@dataclass(frozen=True)
class Prediction:
    """What the model makes of one picture."""

    q: Floats
    """(joints,): posture inside the limits, radians; not to be used where `novel`"""
    embedding: Floats
    """(r,)"""
    novelty: float
    reason: str = ''
    """why the picture is novel, if it is known"""

    @property
    def novel(self) -> bool:
        """Whether the picture is unlike the demonstrations, so that the arm should hold."""
        return not self.novelty <= 1.0


@dataclass(frozen=True)
class Familiar:
    """How far pictures lie from those that were seen, in the feature space of the kernel.

    Parameters
    ----------
    expansion : Expansion
        Coordinates in a kernel PCA basis, and as the last column the mean of all kernel values.
    mean : float
        Mean of the Gram matrix.
    threshold : float
        Residual from which a picture is novel.
    """

    expansion: Expansion
    mean: float
    threshold: float

    def novelty(self, features: Floats) -> Floats:
        """Return the residuals (m,) of features (m, d), as multiples of the threshold."""
        values = self.expansion(features)
        same = self.expansion.kernel.diagonal(features)
        rest = same - 2.0 * values[:, -1] + self.mean - np.square(values[:, :-1]).sum(axis=1)
        result: Floats = np.sqrt(np.maximum(rest, 0.0)) / self.threshold
        return result


@dataclass(frozen=True)
class Goal:
    """The constrained pre-image, ready to solve: (7) of section 6.2.2 in Bakır (2006).

    Coordinates are lift · point + lift_offset; the posture q inside the limits is wanted for which
    A f(q) + b is nearest to them, f(q) the points of the arm, and near to where the search begins.
    """

    lift: Floats
    lift_offset: Floats
    matrix: Floats
    offset: Floats
    lower: Floats
    upper: Floats
    pull: Floats
    postures: Floats
    """(n, joints): the demonstrations"""
    coordinates: Floats
    """(n, c): where they lie"""


@dataclass
class ImitationModel:
    """From a picture of a person to the posture of the arm.

    Make one with `train`, or read it with `load`. The steps of `predict` can be taken one by one:
    `look`, `embed`, `solve`.
    """

    robot: Robot
    features: Features
    expansion: Expansion
    familiar: Familiar
    goal: Goal
    summary: dict[str, Any] = field(default_factory=dict)
    """what training measured, plain numbers and texts"""

    def __post_init__(self) -> None:
        goal = self.goal
        self._search = core.ProjectedMap(self.robot.map, goal.matrix, goal.offset)
        self._ones = np.ones(len(goal.offset))
        self.vector_size = int(self.features.n_features_out_)
        self.embedding_size = self.expansion.coefficients.shape[1]

    @property
    def joints(self) -> int:
        """Number of joints."""
        return self.robot.joints

    @property
    def names(self) -> tuple[str, ...]:
        """Joint names, base to tip."""
        return self.robot.names

    @staticmethod
    def train(*arguments: Any, **options: Any) -> ImitationModel:
        """Learn from demonstrations; see `training.train` for the arguments."""
        from kde_imitation.imitation.training import train

        return train(*arguments, **options)

    def look(self, image: npt.ArrayLike) -> SeenArm | Seen:
        """Return the features of a picture (h, w, 3), uint8, red, green, blue."""
        return self.features.look(image)

    def embed(self, vector: npt.ArrayLike) -> Embedding:
        """Return the point and the novelty of a feature vector (d,)."""
        features = as_floats('The feature vector', vector, (self.vector_size,))
        if not features.any():
            return Embedding(np.zeros(self.embedding_size), math.inf)
        points, novelties = self.embed_all(features[None])
        return Embedding(points[0], float(novelties[0]))

    def embed_all(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return points (m, r) and novelties (m,) of feature vectors (m, d)."""
        inputs, doubts = self.features.split(vectors)
        novelties = np.maximum(self.familiar.novelty(inputs), doubts)
        points = self.expansion(inputs)
        nobody = ~vectors.any(axis=1)
        points[nobody], novelties[nobody] = 0.0, math.inf
        return points, novelties

    def solve(self, point: npt.ArrayLike, start: npt.ArrayLike | None = None) -> Floats:
        """Return the posture (joints,) for a point (r,), inside the limits.

        Parameters
        ----------
        point : (r,) array
        start : (joints,) array, optional
            Where the arm is now; the nearest demonstration if left out.
        """
        wanted = as_floats('The embedding', point, (self.embedding_size,))[None]
        begin = None if start is None else as_floats('start', start, (self.joints,))[None]
        return np.asarray(self.solve_all(wanted, begin)[0])

    def solve_all(self, points: Floats, starts: Floats | None = None) -> Floats:
        """Return the postures (m, joints) for points (m, r)."""
        goal = self.goal
        wanted = np.ascontiguousarray(points @ goal.lift + goal.lift_offset)
        if starts is None:
            starts = goal.postures[nearest(wanted, goal.coordinates)[:, 0]]
        begin = np.clip(starts, goal.lower, goal.upper)
        q, _, _, _ = self._search.best_match(
            wanted,
            self._ones,
            np.ascontiguousarray(begin),
            goal.lower,
            goal.upper,
            goal.pull,
            MAX_STEPS,
            TOLERANCE,
        )
        return np.asarray(q)

    def predict(self, image: npt.ArrayLike, start: npt.ArrayLike | None = None) -> Prediction:
        """Return the posture for a picture (h, w, 3); see `Prediction.novel` before using it."""
        seen = self.look(image)
        found = self.embed(seen.vector)
        q = self.solve(found.point, start)
        reason = self._reason(seen.reason, found.novelty)
        return Prediction(q, found.point, found.novelty, reason)

    def predict_sequence(
        self, images: Iterable[npt.ArrayLike], movement: bool | None = None
    ) -> list[Prediction]:
        """Return the postures for pictures in order.

        Parameters
        ----------
        images : pictures
        movement : bool, optional
            Whether they show one movement, so that neighbours in time help each other; the
            pictures themselves decide if left out. Postures of pictures that are novel are then
            those of the path around them, and still to be held back.
        """
        vectors, reasons = [], []
        for image in images:
            seen = self.look(image)
            vectors.append(seen.vector)
            reasons.append(seen.reason)
        if not vectors:
            return []
        points, novelties = self.embed_all(np.stack(vectors))
        familiar = novelties <= 1.0
        if sequence.is_movement(points, familiar) if movement is None else movement:
            points = sequence.smooth(points, familiar)
        postures = self.solve_all(points)
        return [
            Prediction(q, point, float(novelty), self._reason(reason, float(novelty)))
            for q, point, novelty, reason in zip(postures, points, novelties, reasons)
        ]

    @staticmethod
    def _reason(known: str, novelty: float) -> str:
        """Return why a picture is novel."""
        if novelty <= 1.0:
            return ''
        return known or 'The picture is unlike the demonstrations.'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, whole or not at all."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        kind = next(name for name, cls in FEATURES.items() if isinstance(self.features, cls))
        parts = {
            'features': self.features.arrays(),
            'expansion': _single(self.expansion.arrays(), 'points'),
            'familiar': {
                **_single(self.familiar.expansion.arrays(), 'points', 'coefficients'),
                'mean': self.familiar.mean,
                'threshold': self.familiar.threshold,
            },
            'goal': self.goal.__dict__,
        }
        for part, values in parts.items():
            for name, value in values.items():
                arrays[f'{part}.{name}'] = np.asarray(value)
        header = {
            'features': kind,
            'kernel': type(self.expansion.kernel).__name__,
            'joints': self.joints,
            'vector_size': self.vector_size,
            'embedding_size': self.embedding_size,
            'robot': self.robot.header,
            'summary': self.summary,
        }
        files.write(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImitationModel:
        """Read a model; `BadInput` says what is wrong with the file."""
        header, arrays = files.read(path)
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for name, value in arrays.items():
            part, _, rest = name.partition('.')
            parts.setdefault(part, {})[rest] = value
        try:
            return cls._from_parts(header, parts)
        except KeyError as error:
            raise BadInput(f'{path} is not a model of this version: it has no {error}.') from error
        except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            reason = str(error).rstrip('.')
            raise BadInput(f'{path} is not a model of this version: {reason}.') from error

    @classmethod
    def _from_parts(
        cls, header: dict[str, Any], parts: dict[str, dict[str, npt.NDArray[Any]]]
    ) -> ImitationModel:
        features = FEATURES[header['features']].from_arrays(parts['features'])
        known = parts['familiar']
        embedding: dict[str, Any] = parts['expansion']
        robot = Robot.from_header(header['robot'])
        model = cls(
            robot,
            features,
            Expansion(features.kernel(), **embedding),
            Familiar(
                Expansion(
                    features.familiar_kernel(),
                    known['points'],
                    known['coefficients'],
                    known['offset'],
                    storage='float32',
                ),
                float(known['mean']),
                float(known['threshold']),
            ),
            Goal(**{name: as_floats(name, value) for name, value in parts['goal'].items()}),
            header.get('summary', {}),
        )
        model._check()
        return model

    def _check(self) -> None:
        """Hold the sizes of all parts against each other."""
        size = self.vector_size - self.features.doubts
        goal, joints = self.goal, self.joints
        outputs = len(goal.offset)
        count = len(goal.postures)
        for name, shape, wanted in (
            ('expansion.points', self.expansion.points.shape[1:], (size,)),
            ('familiar.points', self.familiar.expansion.points.shape[1:], (size,)),
            ('goal.lift', goal.lift.shape, (self.embedding_size, outputs)),
            ('goal.lift_offset', goal.lift_offset.shape, (outputs,)),
            ('goal.matrix', goal.matrix.shape, (outputs, self.robot.map.outputs)),
            ('goal.lower', goal.lower.shape, (joints,)),
            ('goal.upper', goal.upper.shape, (joints,)),
            ('goal.pull', goal.pull.shape, (joints,)),
            ('goal.postures', goal.postures.shape, (count, joints)),
            ('goal.coordinates', goal.coordinates.shape, (count, outputs)),
        ):
            if tuple(shape) != wanted:
                raise BadInput(f'{name} has shape {tuple(shape)}, not {wanted}')
        inside = (goal.lower >= self.robot.lower - 1e-9) & (goal.upper <= self.robot.upper + 1e-9)
        if not (inside & (goal.lower <= goal.upper)).all():
            raise BadInput("the limits of the postures are wider than the robot's")
        if not self.familiar.threshold > 0:
            raise BadInput('the threshold of novelty must be positive')


def _single(arrays: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return arrays with some of them in single precision, which training made sure they fit."""
    return {
        name: values.astype(np.float32) if name in names else values
        for name, values in arrays.items()
    }
