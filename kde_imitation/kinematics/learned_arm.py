"""The arm learned from measurements: two PSOM+ maps instead of seven equations.

One map for a whole arm would need nodes in seven dimensions. The arm comes apart at the wrist:
joints 1 to 4 place the elbow, the wrist and the forearm's frame; joints 5 and 6 place the hand
in that frame. The last joint turns the hand about itself and moves no point. A robot without a
good model can be used all the same: drive it to the nodes, or anywhere, and measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats, as_postures
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import ArmMap
from kde_imitation.kernels.backend import core
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.psom import BestMatch, Psom, chebyshev_axis

NEAR_JOINTS = 4
FAR_JOINTS = 2
POINTS = 7
# The first two points lie in the shoulder and never move; the maps give the other five.
STILL_POINTS = 2


@dataclass(frozen=True)
class LearnedArm:
    """Positions of the arm's points from two PSOM+ maps.

    Parameters
    ----------
    near : Psom, 4 inputs, 15 outputs
        Joints 1 to 4 to elbow (3), wrist (3) and the forearm's rotation matrix by rows (9).
    far : Psom, 2 inputs, 3 outputs
        Joints 5 and 6 to the hand in the forearm's frame, seen from the wrist.
    last : (float, float)
        Limits of joint 7.
    """

    near: Psom
    far: Psom
    last: tuple[float, float]

    def __post_init__(self) -> None:
        for name, part, inputs, outputs in (
            ('near', self.near, NEAR_JOINTS, 15),
            ('far', self.far, FAR_JOINTS, 3),
        ):
            if (part.inputs, part.outputs) != (inputs, outputs):
                raise BadInput(
                    f'The {name} map must go from {inputs} joints to {outputs} numbers, not from '
                    f'{part.inputs} to {part.outputs}.'
                )

    @classmethod
    def learn(
        cls,
        points: Callable[[Floats], Floats],
        pose: Callable[[Floats], Floats],
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        *,
        nodes: int = 8,
        hand_nodes: tuple[int, int] = (14, 12),
        smoothing: float | Literal['cv'] = 0.0,
    ) -> LearnedArm:
        """Drive an arm to the nodes of two Chebyshev grids and learn what it shows there.

        Parameters
        ----------
        points : callable
            Postures (…, 7) to the measured points (…, 7, 3).
        pose : callable
            Postures (…, 7) to the measured hand pose (…, 4, 4).
        lower, upper : (7,) array_like
        nodes : int
            Nodes a joint for joints 1 to 4.
        hand_nodes : (int, int)
            Nodes for joints 5 and 6, whose ranges are wide.
        smoothing : float or 'cv'
            λ ≥ 0 of both maps, for noisy measurements; 'cv' chooses it by cross-validation.
        """
        low = as_floats('lower', lower, (POINTS,))
        high = as_floats('upper', upper, (POINTS,))
        near_axes = [chebyshev_axis(low[j], high[j], nodes) for j in range(NEAR_JOINTS)]
        far_axes = [
            chebyshev_axis(low[NEAR_JOINTS + j], high[NEAR_JOINTS + j], hand_nodes[j])
            for j in range(FAR_JOINTS)
        ]

        def postures(axes: list[Floats], first: int) -> Floats:
            grid = np.stack(np.meshgrid(*axes, indexing='ij'), axis=-1)
            q = np.zeros((*grid.shape[:-1], POINTS))
            q[..., first : first + len(axes)] = grid
            return q

        q = postures(near_axes, 0)
        place, turn = points(q), pose(q)[..., :3, :3]
        shown = np.concatenate(
            [place[..., 2, :], place[..., 4, :], turn.reshape(*turn.shape[:-2], 9)], axis=-1
        )
        far = points(postures(far_axes, NEAR_JOINTS))
        return cls(
            Psom.from_grid(near_axes, shown, smoothing),
            Psom.from_grid(far_axes, far[..., 6, :] - far[..., 4, :], smoothing),
            (float(low[-1]), float(high[-1])),
        )

    @classmethod
    def of_pa10(cls, nodes: int = 8, geometry: pa10.Geometry = pa10.DEFAULT) -> LearnedArm:
        """Learn a PA-10 from its exact kinematics at the nodes."""
        return cls.learn(
            lambda q: pa10.link_positions(q, geometry),
            lambda q: pa10.forward(q, geometry),
            pa10.LOWER,
            pa10.UPPER,
            nodes=nodes,
        )

    @cached_property
    def map(self) -> ArmMap:
        """The compiled map (or its NumPy twin): 7 joints to the five moving points."""
        compiled: ArmMap = core.ArmMap(self.near.map, self.far.map, 1)
        return compiled

    @cached_property
    def lower(self) -> Floats:
        """Lower joint limits (7,)."""
        return np.concatenate([self.near.bounds[:, 0], self.far.bounds[:, 0], self.last[:1]])

    @cached_property
    def upper(self) -> Floats:
        """Upper joint limits (7,)."""
        return np.concatenate([self.near.bounds[:, 1], self.far.bounds[:, 1], self.last[1:]])

    def link_positions(self, q: npt.ArrayLike) -> Floats:
        """Return the points p1 … p7: (…, 7) to (…, 7, 3), metres, shoulder frame."""
        postures = as_postures('q', q, POINTS)
        lead = postures.shape[:-1]
        values = self.map.evaluate(postures.reshape(-1, POINTS))[0]
        points = np.zeros((*lead, POINTS, 3))
        points[..., STILL_POINTS:, :] = values.reshape(*lead, -1, 3)
        return points

    def position_jacobians(self, q: npt.ArrayLike) -> Floats:
        """Return the derivatives of the points by the joints: (…, 7) to (…, 7, 3, 7)."""
        postures = as_postures('q', q, POINTS)
        lead = postures.shape[:-1]
        _, slopes = self.map.evaluate(postures.reshape(-1, POINTS), True)
        assert slopes is not None
        result = np.zeros((*lead, POINTS, 3, POINTS))
        result[..., STILL_POINTS:, :, :] = slopes.reshape(*lead, -1, 3, POINTS)
        return result

    def best_match(
        self,
        points: npt.ArrayLike,
        weights: npt.ArrayLike,
        start: npt.ArrayLike,
        *,
        pull: float = 0.0,
        max_steps: int = 200,
        tolerance: float = 1e-12,
    ) -> BestMatch:
        """Find postures inside the limits whose points are nearest to the wanted ones.

        Parameters
        ----------
        points : (…, 7, 3) array
            Wanted points; rows with weight zero may hold anything finite.
        weights : (7,) array
            How much each point counts: only the last for the hand alone, all for a posture.
        start : (…, 7) or (7,) array
        pull : float
            λ ≥ 0 of the term λ‖q − start‖² that settles what the points leave open.
        """
        targets = as_floats('points', points)
        if targets.shape[-2:] != (POINTS, 3):
            raise BadInput(f'points must end in the shape (7, 3), not {targets.shape}.')
        importance = as_floats('weights', weights, (POINTS,))
        if (importance < 0).any() or not (importance[STILL_POINTS:] > 0).any():
            raise BadInput('weights must be zero or positive, and one of the last five positive.')
        if not (np.isfinite(pull) and pull >= 0):
            raise BadInput(f'pull must be zero or positive, not {pull}.')
        begin = as_postures('start', start, POINTS)
        if ((begin < self.lower - 1e-9) | (begin > self.upper + 1e-9)).any():
            raise BadInput('start lies outside the joint limits; clip it to them first.')
        lead = targets.shape[:-2]
        begin = np.broadcast_to(np.clip(begin, self.lower, self.upper), (*lead, POINTS))
        x, distance, steps, converged = self.map.best_match(
            np.ascontiguousarray(targets[..., STILL_POINTS:, :].reshape(-1, 15)),
            np.repeat(importance[STILL_POINTS:], 3),
            np.ascontiguousarray(begin.reshape(-1, POINTS)),
            self.lower,
            self.upper,
            np.full(POINTS, float(pull)),
            max_steps,
            tolerance,
        )
        q = x.reshape(*lead, POINTS)
        return BestMatch(
            q,
            self.link_positions(q),
            distance.reshape(lead),
            steps.reshape(lead),
            converged.reshape(lead),
        )
