"""Keeping the arm's links apart and off its mount, by the collision shapes of its URDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import coal
import numpy as np
import numpy.typing as npt
import pinocchio as pin

from kde_imitation.checks import Floats, as_floats
from kde_imitation.control.braking import Braking
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain, read_urdf

__all__ = ['MountingPlane', 'Nearest', 'SelfCollisionGuard']

# Postures on the way to rest, and on a line, are looked at so far apart, radians of the joint that
# moves most.
_SPACING = 0.06
_LINE_SPACING = 0.15
# Coal's distances are good to about this, metres.
_ROUNDING = 1e-5
# Stands for the mounting plane where the moving bodies are named by their joints.
_MOUNT = -1


@dataclass(frozen=True, eq=False)
class MountingPlane:
    """What an arm is fixed to: the plane through its base, at right angles to the base's z axis.

    The arm is on the side to which the axis points.

    Attributes
    ----------
    name : str
        For sentences: the mounting floor, wall or ceiling, by where z of the root link is up.
    placement : (4, 4) array
        Pose of a frame in the plane, z away from it, in the frame of the root link.
    """

    name: str
    placement: Floats

    @classmethod
    def of(cls, chain: Chain) -> MountingPlane:
        """Return the plane that the base of a chain is on."""
        upright = chain.placement[2, 2]
        kind = 'floor' if upright > 0.7 else 'ceiling' if upright < -0.7 else 'wall'
        return cls(f'the mounting {kind}', chain.placement)

    @staticmethod
    def heights(points: Floats) -> Floats:
        """Return how far points (…, 3), in the base's coordinates, are from it, metres (…)."""
        return np.asarray(points[..., 2])

    def shape(self) -> Any:
        """Return all that is behind the plane, as a shape that stands still."""
        behind = coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
        return pin.GeometryObject(self.name, 0, 0, pin.SE3(self.placement), behind)


class Nearest(NamedTuple):
    """The two links that are nearest to each other: metres, below zero where they overlap.

    Where the mounting plane is one of the two, it comes second.
    """

    distance: float
    first: str
    second: str


class SelfCollisionGuard:
    """Tells how far the links of an arm are from each other, and from what it is mounted on.

    Links that adjoin are left out, and so are those that some joint keeps within the margin of
    each other in every posture (found by trying 500). `distance` is exact; `safe` only asks
    whether all links are further apart than the margin. That is far faster, because shapes whose
    bounding boxes, grown by half the margin each, do not meet need no closer look.
    Each thread needs a guard of its own.

    Parameters
    ----------
    urdf : str or Path
        URDF text, or its file; the shapes below `collision` count.
    margin : float
        How far apart links are kept, metres.
    joints : sequence of str, optional
        The joints that move, base to tip; all that the arm has unless told.
    tip : str, optional
        Last link, where the robot has more than one end.
    package_dirs : sequence of str
        Folders in which packages lie that the URDF takes meshes from.
    keep_off_mount : bool
        Whether the plane that the arm is mounted on counts as a link.

    Attributes
    ----------
    margin : float
    mount : MountingPlane or None
    checked, left_out : tuple of (str, str)
        Pairs of links, named by their first shape's link.
    """

    def __init__(
        self,
        urdf: str | Path,
        margin: float = 0.02,
        joints: Sequence[str] | None = None,
        tip: str | None = None,
        package_dirs: Sequence[str] = (),
        keep_off_mount: bool = False,
    ) -> None:
        if not (np.isfinite(margin) and margin >= 0.0):
            raise BadInput(f'margin must be a distance of at least 0 m, not {margin}.')
        text = read_urdf(urdf)
        chain = Chain.from_urdf(text, tip=tip, joints=joints)
        self.margin, self._model, self._joints = margin, chain.model, len(chain.names)
        self._names = chain.names
        try:
            shapes = pin.buildGeomFromUrdfString(
                self._model, text, pin.COLLISION, package_dirs=list(package_dirs)
            )
        except (RuntimeError, ValueError) as error:
            raise BadInput(f'The collision shapes of the URDF cannot be used: {error}') from error
        if len(shapes.geometryObjects) == 0:
            raise BadInput(
                'The URDF has no collision shapes, so collisions cannot be seen; add <collision> '
                'elements to its links, or switch the guard off.'
            )
        self.mount = MountingPlane.of(chain) if keep_off_mount else None
        if self.mount is not None:
            shapes.addGeometryObject(self.mount.shape())
        self._data = self._model.createData()
        self._shapes = shapes
        self._leave_out(chain)
        self._results = shapes.createData()
        for request in self._results.collisionRequests:
            request.security_margin = margin
            request.enable_contact = False
        self._boxes = self._bounding_boxes()

    def _bounding_boxes(self) -> Any:
        """Return the shapes' boxes in all postures, or None where one is flat.

        Pinocchio leaves out what has a box without volume.
        """
        for shape in self._shapes.geometryObjects:
            shape.geometry.computeLocalAABB()
            if not shape.geometry.aabb_local.volume() > 0.0:
                return None
        return pin.BroadPhaseManager_NaiveCollisionManager(
            self._model, self._shapes, self._results
        )

    def _leave_out(self, chain: Chain) -> None:
        """Keep the pairs of shapes on links that neither adjoin nor are always near."""
        shapes = self._shapes
        shapes.addAllCollisionPairs()
        owners = [shape.parentJoint for shape in shapes.geometryObjects]
        links = [self._model.frames[shape.parentFrame].name for shape in shapes.geometryObjects]
        if self.mount is not None:
            owners[-1], links[-1] = _MOUNT, self.mount.name
        name: dict[int, str] = {}
        for owner, link in zip(owners, links):
            name.setdefault(owner, link)
        pairs = [(pair.first, pair.second) for pair in shapes.collisionPairs]
        bodies = [(owners[a], owners[b]) for a, b in pairs]
        lower, upper = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
        furthest = dict.fromkeys(bodies, -np.inf)
        data = shapes.createData()
        for q in np.random.default_rng(0).uniform(lower, upper, (500, self._joints)):
            pin.computeDistances(self._model, self._data, shapes, data, q)
            nearest = dict.fromkeys(bodies, np.inf)
            for body, result in zip(bodies, data.distanceResults):
                nearest[body] = min(nearest[body], result.min_distance)
            furthest = {body: max(furthest[body], nearest[body]) for body in furthest}
        parents = list(self._model.parents)

        def apart(a: int, b: int) -> bool:
            adjoin = b != _MOUNT and (parents[b] == a or parents[a] == b)
            return not adjoin and furthest[a, b] > self.margin

        for (first, second), body in zip(pairs, bodies):
            if not apart(*body):
                shapes.removeCollisionPair(pin.CollisionPair(first, second))
        self._links = name
        self.checked, self.left_out = (
            tuple((name[a], name[b]) for a, b in sorted(furthest) if apart(a, b) is wanted)
            for wanted in (True, False)
        )
        self._bodies = [
            (owners[pair.first], owners[pair.second]) for pair in shapes.collisionPairs
        ]

    def nearest(self, q: npt.ArrayLike) -> Nearest:
        """Return the nearest two links in a posture (n,); at infinity if no pair is checked."""
        posture = as_floats('q', q, (self._joints,))
        if not self._bodies:
            return Nearest(float('inf'), '', '')
        pin.computeDistances(self._model, self._data, self._shapes, self._results, posture)
        distances = [result.min_distance for result in self._results.distanceResults]
        index = int(np.argmin(distances))
        first, second = self._bodies[index]
        return Nearest(float(distances[index]), self._links[first], self._links[second])

    def distance(self, q: npt.ArrayLike) -> float:
        """Return the least distance between links in a posture (n,), metres, below 0 inside."""
        return self.nearest(q).distance

    def safe(self, q: npt.ArrayLike) -> bool:
        """Whether all links are further apart than the margin in a posture (n,)."""
        return self._safe(as_floats('q', q, (self._joints,)))

    def _safe(self, posture: Floats) -> bool:
        shapes = (self._shapes, self._results) if self._boxes is None else (self._boxes,)
        return not pin.computeCollisions(self._model, self._data, *shapes, posture, True)

    def allows(self, present: Floats, step: Floats, braking: Braking) -> bool:
        """Whether a step may be taken: it, and the stop after it, come to no link too near.

        From a posture that is too near already, whatever leads no nearer is allowed.

        Parameters
        ----------
        present, step : (n,) arrays
            The posture now and the one after the step.
        braking : Braking
            How the arm comes to rest from there.
        """
        way = [step, *_on_the_way(braking)]
        if all(self._safe(q) for q in way):
            return True
        now = self.distance(present)
        if now > self.margin:
            return False
        return all(self.distance(q) >= now - _ROUNDING for q in way)

    def clear_line(self, start: npt.ArrayLike, end: npt.ArrayLike) -> bool:
        """Whether the straight line between two postures (n,) is free.

        From a start that is too near already, it may lead away.
        """
        a, b = (as_floats('posture', q, (self._joints,)) for q in (start, end))
        count = int(np.ceil(np.abs(b - a).max() / _LINE_SPACING)) + 1
        last = self.distance(a)
        for share in np.linspace(0.0, 1.0, count + 1)[1:]:
            q = a + share * (b - a)
            if self.safe(q):
                last = np.inf
                continue
            distance = self.distance(q)
            if distance < last - _ROUNDING:
                return False
            last = distance
        return True


def _on_the_way(braking: Braking) -> list[Floats]:
    """Return postures on the way to rest, the last one the rest itself."""
    far = float(np.abs(braking.rest - braking.states[0, 0]).max())
    count = int(np.ceil(far / _SPACING))
    if count < 2:
        return [braking.rest]
    return [*braking.positions(braking.duration * np.arange(1, count) / count), braking.rest]
