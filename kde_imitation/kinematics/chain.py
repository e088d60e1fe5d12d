"""Any serial arm from its URDF: link positions, poses, Jacobians, mass matrix, weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from kde_imitation.checks import Floats, as_postures
from kde_imitation.errors import BadInput

__all__ = ['Chain', 'read_urdf']

_MOVING = ('revolute', 'continuous', 'prismatic')
# URDF readers take no infinity; what is as far as this is meant to be one.
_FAR = 1e9
_UNLIMITED = {'lower': -_FAR, 'upper': _FAR, 'velocity': _FAR, 'effort': _FAR}


class Chain:
    """The joints between two links of a robot, and what they carry.

    Make one with `from_urdf`. Postures are arrays (…, n), one value a joint in the order of
    `names`; every method takes any leading shape and gives it back. Coordinates are those of the
    base link. Pinocchio reads the URDF and answers for the dynamics; kinematics of many postures
    at once are computed here, because Pinocchio takes one at a time. `mass_matrix` and `gravity`
    share working memory: give each thread a chain of its own.

    Attributes
    ----------
    names : tuple of str
        The joints, base to tip.
    links : tuple of str
        The link that each joint moves.
    base, tip : str
        The link that coordinates refer to, and the one whose pose is asked for.
    lower, upper : numpy.ndarray
        Range of each joint, shape (n,); infinite for continuous joints.
    velocity, effort : numpy.ndarray
        Largest magnitudes of each joint, shape (n,); infinite where the URDF gives none.
    """

    def __init__(self, tree: _Tree, tip: str, base: str, names: tuple[str, ...]) -> None:
        self.names, self.base, self.tip = names, base, tip
        self.links = tuple(tree.joints[name].child for name in names)
        self.model = tree.model(names)
        self._data = self.model.createData()
        self.lower, self.upper, self.velocity, self.effort = (
            np.where(np.abs(limit) < _FAR, limit, np.copysign(np.inf, limit))
            for limit in (
                self.model.lowerPositionLimit,
                self.model.upperPositionLimit,
                self.model.velocityLimit,
                self.model.effortLimit,
            )
        )

        zero = np.zeros(len(names))
        pin.computeJointJacobians(self.model, self._data, zero)
        # One column a joint, in the joint's own frame: its axis, as translation and as rotation.
        # The bindings drop the second axis of arrays with one column.
        jacobians = [
            np.reshape(pin.getJointJacobian(self.model, self._data, i + 1, pin.LOCAL), (6, -1))
            for i in range(len(names))
        ]
        columns = np.array([jacobian[:, i] for i, jacobian in enumerate(jacobians)])
        self._slide, self._turn = columns[:, :3], columns[:, 3:]
        self._base_from_root = self._frame(base).placement.inverse()
        placements = [self.model.jointPlacements[i + 1] for i in range(len(names))]
        placements[0] = self._base_from_root * placements[0]
        self._offset = np.array([placement.translation for placement in placements])
        fixed = np.array([placement.rotation for placement in placements])
        skew = np.array([pin.skew(axis) for axis in self._turn])
        self._slide_in_parent = np.einsum('nij,nj->ni', fixed, self._slide)
        # Rodrigues' formula with the fixed rotation multiplied in.
        self._rotations = fixed, fixed @ skew, fixed @ skew @ skew

    @classmethod
    def from_urdf(
        cls,
        source: str | Path,
        tip: str | None = None,
        base: str | None = None,
        joints: Sequence[str] | None = None,
    ) -> Chain:
        """Read a chain from URDF text, or from a file.

        Parameters
        ----------
        source : str or Path
            The URDF itself, or the path of its file.
        tip : str, optional
            Last link; may be left out where the robot has only one end.
        base : str, optional
            First link; the one that carries the first moving joint unless told.
        joints : sequence of str, optional
            The joints to move, base to tip; all between base and tip unless told. Every other
            joint of the robot stays at zero.
        """
        tree = _Tree(read_urdf(source))
        tip = tree.check_link(tip, 'tip') if tip is not None else tree.only_end()
        path = tree.path(tip, tree.check_link(base, 'base') if base is not None else None)
        names = tree.moving(path, joints)
        return cls(tree, tip, tree.joints[names[0]].parent if base is None else base, names)

    def link_positions(self, q: npt.ArrayLike, origin: str | None = None) -> Floats:
        """Return where the moving links' frames are, (…, n) to (…, n, 3), in metres.

        Parameters
        ----------
        q : array_like
            Postures, shape (…, n).
        origin : str, optional
            A link whose position is taken as the origin; the axes stay those of the base.
        """
        rotations, positions = self._joint_frames(self._postures(q))
        if origin is None:
            return positions
        return positions - self._point(origin, rotations, positions)[0][..., None, :]

    def position_jacobians(self, q: npt.ArrayLike, origin: str | None = None) -> Floats:
        """Return how `link_positions` change with the joints, (…, n) to (…, n, 3, n), exactly."""
        rotations, positions = self._joint_frames(self._postures(q))
        n = len(self.names)
        jacobians = self._velocities(rotations, positions, positions, np.arange(1, n + 1))
        if origin is not None:
            point, joint = self._point(origin, rotations, positions)
            moved = self._velocities(rotations, positions, point[..., None, :], np.array([joint]))
            jacobians = jacobians - moved
        return jacobians

    def pose(self, q: npt.ArrayLike) -> Floats:
        """Return the tip's pose in the base's frame, (…, n) to (…, 4, 4)."""
        rotations, positions = self._joint_frames(self._postures(q))
        placement = self._frame(self.tip).placement
        pose = np.zeros((*positions.shape[:-2], 4, 4))
        pose[..., :3, :3] = rotations[..., -1, :, :] @ placement.rotation
        pose[..., :3, 3] = self._point(self.tip, rotations, positions)[0]
        pose[..., 3, 3] = 1.0
        return pose

    def jacobian(self, q: npt.ArrayLike) -> Floats:
        """Return the tip's Jacobian, (…, n) to (…, 6, n), exactly.

        Rows are the tip's velocity and then its angular velocity, both along the base's axes.
        """
        rotations, positions = self._joint_frames(self._postures(q))
        point, joint = self._point(self.tip, rotations, positions)
        linear = self._velocities(rotations, positions, point[..., None, :], np.array([joint]))
        angular = np.einsum('...nij,nj->...in', rotations, self._turn)
        return np.concatenate([linear[..., 0, :, :], angular], axis=-2)

    def mass_matrix(self, q: npt.ArrayLike) -> Floats:
        """Return the joint-space inertia of the links, (…, n) to (…, n, n), without rotors."""

        def one(posture: Floats) -> Floats:
            inertia = pin.crba(self.model, self._data, posture)
            upper = np.triu(np.reshape(inertia, (len(posture), -1)))
            return np.asarray(upper + np.triu(upper, 1).T)

        return self._each(one, q, (len(self.names),) * 2)

    def gravity(self, q: npt.ArrayLike) -> Floats:
        """Return the efforts that hold the links against their weight, (…, n) to (…, n).

        The weight pulls along −z of the robot's root link.
        """

        def one(posture: Floats) -> Floats:
            return np.array(pin.computeGeneralizedGravity(self.model, self._data, posture))

        return self._each(one, q, (len(self.names),))

    @property
    def placement(self) -> Floats:
        """The base's pose in the frame of the robot's root link, (4, 4)."""
        return np.array(self._frame(self.base).placement.homogeneous)

    def _postures(self, q: npt.ArrayLike) -> Floats:
        return as_postures('q', q, len(self.names))

    def _each(self, function: Callable[[Floats], Floats], q: npt.ArrayLike, shape: Any) -> Floats:
        postures = self._postures(q)
        result = np.empty((*postures.shape[:-1], *shape))
        for index in np.ndindex(postures.shape[:-1]):
            result[index] = function(postures[index])
        return result

    def _frame(self, link: str) -> Any:
        return self.model.frames[self.model.getFrameId(link, pin.BODY)]

    def _joint_frames(self, q: Floats) -> tuple[Floats, Floats]:
        """Return the moving links' rotations (…, n, 3, 3) and positions (…, n, 3)."""
        fixed, sine, versine = self._rotations
        angle = q[..., None, None]
        local = fixed + np.sin(angle) * sine + (1.0 - np.cos(angle)) * versine
        shift = self._offset + q[..., None] * self._slide_in_parent
        rotations, positions = np.empty_like(local), np.empty_like(shift)
        rotations[..., 0, :, :], positions[..., 0, :] = local[..., 0, :, :], shift[..., 0, :]
        for i in range(1, len(self.names)):
            before = rotations[..., i - 1, :, :]
            rotations[..., i, :, :] = before @ local[..., i, :, :]
            step = before @ shift[..., i, :, None]
            positions[..., i, :] = positions[..., i - 1, :] + step[..., 0]
        return rotations, positions

    def _point(self, link: str, rotations: Floats, positions: Floats) -> tuple[Floats, int]:
        """Return a link's position (…, 3), and how many joints of the chain move it."""
        if not self.model.existFrame(link, pin.BODY):
            raise BadInput(f'The robot has no link {link!r}.')
        frame = self._frame(link)
        joint = int(frame.parentJoint)
        if joint == 0:
            point = (self._base_from_root * frame.placement).translation
            return np.broadcast_to(point, (*positions.shape[:-2], 3)), 0
        offset = rotations[..., joint - 1, :, :] @ frame.placement.translation
        return positions[..., joint - 1, :] + offset, joint

    def _velocities(
        self, rotations: Floats, positions: Floats, points: Floats, joints: npt.NDArray[np.intp]
    ) -> Floats:
        """Return the derivatives of points by the joints, (…, k, 3, n).

        `points` (…, k, 3) are fixed to the links behind the first `joints` (k,) joints.
        """
        turn = np.einsum('...nij,nj->...ni', rotations, self._turn)
        slide = np.einsum('...nij,nj->...ni', rotations, self._slide)
        arm = points[..., :, None, :] - positions[..., None, :, :]
        turn = turn[..., None, :, :]
        # The cross product written out: np.cross costs more than everything else here.
        x, y, z = (turn[..., i] for i in range(3))
        u, v, w = (arm[..., i] for i in range(3))
        cross = np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-2)
        moved = np.arange(len(self.names)) < joints[:, None]
        total = cross + np.moveaxis(slide, -1, -2)[..., None, :, :]
        return np.asarray(np.where(moved[:, None, :], total, 0.0))


@dataclass(frozen=True)
class _Joint:
    name: str
    kind: str
    parent: str
    child: str
    mimic: bool


class _Tree:
    """The links and joints of a URDF, before it is known which of them make the chain."""

    def __init__(self, text: str) -> None:
        try:
            self._root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise BadInput(f'The URDF is not well-formed XML: {error}.') from error
        if self._root.tag != 'robot':
            raise BadInput(f'The URDF must begin with <robot>, not <{self._root.tag}>.')
        self.links = {link.get('name', '') for link in self._root.findall('link')}
        self.joints: dict[str, _Joint] = {}
        self._above: dict[str, _Joint] = {}
        for element in self._root.findall('joint'):
            joint = self._joint(element)
            if joint.child in self._above:
                raise BadInput(
                    f'Link {joint.child!r} hangs on two joints, {self._above[joint.child].name!r} '
                    f'and {joint.name!r}; closed loops cannot be used.'
                )
            self.joints[joint.name] = self._above[joint.child] = joint

    def _joint(self, element: ElementTree.Element) -> _Joint:
        name, mimic = element.get('name', ''), element.find('mimic') is not None

        def end(tag: str) -> str:
            found = element.find(tag)
            link = '' if found is None else found.get('link', '')
            if link not in self.links:
                raise BadInput(f'Joint {name!r} names {link!r} as its {tag}, which is no link.')
            return link

        return _Joint(name, element.get('type', ''), end('parent'), end('child'), mimic)

    def check_link(self, link: str, role: str) -> str:
        """Return the link's name if the robot has it."""
        if link not in self.links:
            raise BadInput(f'The robot has no link {link!r} for the {role}.')
        return link

    def only_end(self) -> str:
        """Return the one link that carries no other."""
        ends = sorted(self.links - {joint.parent for joint in self.joints.values()})
        if len(ends) != 1:
            raise BadInput(
                f'The robot branches and ends in {len(ends)} links ({", ".join(ends)}); say with '
                'tip= which one is meant.'
            )
        return ends[0]

    def path(self, tip: str, base: str | None) -> list[_Joint]:
        """Return the joints from the base, or from the root, to the tip."""
        joints: list[_Joint] = []
        link = tip
        while link != base and link in self._above:
            joint = self._above[link]
            if joint in joints:
                raise BadInput(f'The joints above link {tip!r} go round in a circle.')
            joints.append(joint)
            link = joint.parent
        if base is not None and link != base:
            raise BadInput(f'Link {tip!r} does not hang below link {base!r}.')
        return joints[::-1]

    def moving(self, path: list[_Joint], wanted: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the joints to move, which must be of one degree of freedom."""
        moving = [joint for joint in path if joint.kind != 'fixed']
        if wanted is not None:
            for name in wanted:
                if name not in self.joints:
                    raise BadInput(f'The robot has no joint {name!r}.')
            chosen = [joint for joint in moving if joint.name in wanted]
            if [joint.name for joint in chosen] != list(wanted):
                raise BadInput(
                    f'The joints {", ".join(wanted)} must be named once each, base to tip, from '
                    f'{", ".join(joint.name for joint in moving)}.'
                )
            moving = chosen
        if not moving:
            raise BadInput('No joint moves between the base and the tip.')
        for joint in moving:
            if joint.kind not in _MOVING:
                raise BadInput(
                    f'Joint {joint.name!r} is {joint.kind!r}; only {", ".join(_MOVING)} joints '
                    'can be in a chain.'
                )
            if joint.mimic:
                raise BadInput(
                    f'Joint {joint.name!r} mimics another; leave it out with joints= to hold it '
                    'at zero.'
                )
        return tuple(joint.name for joint in moving)

    def model(self, names: tuple[str, ...]) -> Any:
        """Return Pinocchio's model in which only the named joints move."""
        # An angle with cosine and sine would be two numbers a joint; a revolute joint without
        # stops is the same motion with one.
        for element in self._root.findall('joint'):
            if element.get('type') == 'continuous':
                element.set('type', 'revolute')
                limit = element.find('limit')
                if limit is None:
                    limit = ElementTree.SubElement(element, 'limit')
                for name, value in _UNLIMITED.items():
                    if name in ('lower', 'upper') or name not in limit.attrib:
                        limit.set(name, str(value))
        try:
            full = pin.buildModelFromXML(ElementTree.tostring(self._root, encoding='unicode'))
        except (RuntimeError, ValueError) as error:
            raise BadInput(f'Pinocchio cannot use the URDF: {error}.') from error
        locked = [i for i, name in enumerate(full.names) if i > 0 and name not in names]
        return pin.buildReducedModel(full, locked, pin.neutral(full))


def read_urdf(source: str | Path) -> str:
    """Return URDF text as it is, or read it from the file that is named instead."""
    if isinstance(source, str) and source.lstrip().startswith('<'):
        return source
    try:
        return Path(source).read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f'The URDF file {str(source)!r} cannot be read: {error}.') from error
