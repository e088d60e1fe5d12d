"""The arm in MuJoCo, from the same URDF that the real one would use, behind a position servo."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput, KdeImitationError, MissingExtra
from kde_imitation.kinematics import description
from kde_imitation.kinematics.chain import Chain, read_urdf

__all__ = ['SimulatedArm', 'load_mujoco']

TIMESTEP = 0.001
"""Seconds of one step: the real arm's servo runs at 1 kHz too."""

POSITION_GAIN, SPEED_GAIN = 50.0, 300.0
"""Rates of the servo's two loops, 1/s: common values for industrial drives, well damped.

The speed loop has its rate with the largest inertia that the joint can meet.
"""

_INSTALL = 'install it with pip install --upgrade "kde_imitation[sim]"'

VISUAL_GROUP, COLLISION_GROUP, SCENE_GROUP = 1, 0, 2
"""Which of MuJoCo's groups holds what is drawn of the arm, what collides, and the room."""


def load_mujoco() -> Any:
    """Return the module `mujoco`, or say how to install it.

    Some versions cannot be imported where MUJOCO_GL names a library that is missing. Physics needs
    no pictures, so the import is then tried again without them.
    """
    try:
        mujoco = importlib.import_module('mujoco')
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == 'mujoco':
            raise MissingExtra(f'The simulated arm needs MuJoCo; {_INSTALL}.') from error
        wanted = os.environ.get('MUJOCO_GL')
        if wanted is None:
            raise
        for name in [name for name in sys.modules if name.startswith('mujoco.rendering')]:
            del sys.modules[name]
        os.environ['MUJOCO_GL'] = 'disable'
        try:
            mujoco = importlib.import_module('mujoco')
        finally:
            os.environ['MUJOCO_GL'] = wanted
    # Before 3.5 the integrator let a servo at its effort limit damp beyond it.
    if tuple(int(part) for part in mujoco.__version__.split('.')[:2]) < (3, 5):
        raise MissingExtra(
            f'The simulated arm needs MuJoCo 3.5 or newer, not {mujoco.__version__}; {_INSTALL}.'
        )
    return mujoco


class SimulatedArm:
    """A fixed-base arm with one position servo a joint, stepped at 1 kHz.

    The servo is what a position stream meets on the real arm, which takes speeds at 1 kHz. Between
    two commands a reference moves evenly from one to the next, never faster than the speed limit.
    A position loop turns the error to the reference into a speed, which is cut at the speed limit
    too; a speed loop turns the error of that into torque. What the links need at their speed
    anyhow, their weight above all, is fed forward (MuJoCo's `qfrc_bias`), so that a held posture
    does not sag. The sum is cut at the effort limit.

    Parameters
    ----------
    urdf : str or Path, optional
        URDF text or file of any fixed-base arm; the PA-10 on the floor unless told.
    armature : array_like, optional
        Rotor inertias at the joints, shape (n,); the PA-10's for the PA-10, otherwise zeros.
    payload : float
        A point mass at the tip, kg.
    payload_known : bool
        Whether the servos were told of the payload; if not, its weight shows as sag.
    tip : str, optional
        Last link, where the arm has more than one end.

    Attributes
    ----------
    chain : Chain
        The arm's kinematics and limits.
    names : tuple of str
        The joints, base to tip.
    model, data
        MuJoCo's own objects, for those who draw or measure more.
    """

    def __init__(
        self,
        urdf: str | Path | None = None,
        armature: npt.ArrayLike | None = None,
        payload: float = 0.0,
        payload_known: bool = True,
        tip: str | None = None,
    ) -> None:
        self._mujoco = load_mujoco()
        payload = float(as_floats('payload', payload, ()))
        if payload < 0.0:
            raise BadInput(f'payload is {payload} kg; it cannot be less than nothing.')
        if urdf is None:
            urdf = description.urdf()
            armature = description.armature() if armature is None else armature
        urdf = read_urdf(urdf)
        self.chain = Chain.from_urdf(urdf, tip=tip)
        self.names = self.chain.names
        n = len(self.names)
        rotors = as_floats('armature', np.zeros(n) if armature is None else armature, (n,))
        if (rotors < 0.0).any():
            raise BadInput(f'armature is {rotors.min()} at its least; no inertia is below zero.')

        inertia = _largest_inertia(self.chain, payload if payload_known else 0.0) + rotors
        self._gains = SPEED_GAIN * inertia
        self._surprise = 0.0 if payload_known else payload
        try:
            spec = _spec(self._mujoco, urdf, self.chain)
            _add_servos(self._mujoco, spec, self.chain, rotors, self._gains)
            _add_scene(self._mujoco, spec, self.chain)
            _add_payload(self._mujoco, spec, self.chain.tip, payload)
            self.model = spec.compile()
        except BadInput:
            raise
        except ValueError as error:
            raise BadInput(f'MuJoCo cannot use the URDF: {error}') from error
        self.data = self._mujoco.MjData(self.model)
        self.reset(np.clip(np.zeros(n), self.chain.lower, self.chain.upper))

    @classmethod
    def pa10(
        cls,
        lengths: str = 'B',
        mount: str = 'floor',
        prefix: str = '',
        payload: float = 0.0,
        payload_known: bool = True,
    ) -> SimulatedArm:
        """Return the PA-10 with its rotors; the arguments are those of its description."""
        return cls(
            description.urdf(prefix=prefix, lengths=lengths, mount=mount),
            armature=description.armature(),
            payload=payload,
            payload_known=payload_known,
        )

    @property
    def q(self) -> Floats:
        """Joint positions now, shape (n,)."""
        return np.array(self.data.qpos)

    @property
    def qd(self) -> Floats:
        """Joint velocities now, shape (n,)."""
        return np.array(self.data.qvel)

    @property
    def torque(self) -> Floats:
        """Efforts that the servos applied in the last step, weight included, shape (n,)."""
        return self._torque.copy()

    @property
    def time(self) -> float:
        """Seconds since the last reset."""
        return float(self.data.time)

    @property
    def reference(self) -> Floats:
        """Where the servos hold the joints now, shape (n,)."""
        return self._reference.copy()

    def reset(self, q: npt.ArrayLike) -> None:
        """Put the arm at rest into a posture inside its limits, shape (n,); time begins anew."""
        posture = as_floats('q', q, (len(self.names),))
        outside = (posture < self.chain.lower) | (posture > self.chain.upper)
        if outside.any():
            i = int(np.argmax(outside))
            raise BadInput(
                f'q[{i}] is {posture[i]:.4g}, but joint {self.names[i]!r} turns from '
                f'{self.chain.lower[i]:.4g} to {self.chain.upper[i]:.4g}.'
            )
        self._mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = posture
        self._reference = posture.copy()
        self._mujoco.mj_forward(self.model, self.data)
        self._torque = np.clip(self._feed_forward(), -self.chain.effort, self.chain.effort)

    def step(self, command: npt.ArrayLike, n: int = 10) -> None:
        """Move for n milliseconds towards a command that is due at their end.

        Parameters
        ----------
        command : array_like
            Joint positions, shape (joints,). Values past a limit are taken as the limit; with a
            wrong count or a value that is not finite nothing moves and `BadInput` is raised.
        n : int
            Steps of 1 ms; 10 for commands at 100 Hz.
        """
        command = as_floats('command', command, (len(self.names),))
        if n < 1:
            raise BadInput(f'n is {n}; at least one step must be made.')
        goal = np.clip(command, self.chain.lower, self.chain.upper)
        fastest = self.chain.velocity * TIMESTEP
        move = np.clip((goal - self._reference) / n, -fastest, fastest)
        data, limit, start = self.data, self.chain.velocity, self.time
        for _ in range(n):
            self._mujoco.mj_step1(self.model, data)
            speed = move / TIMESTEP + POSITION_GAIN * (self._reference - data.qpos)
            speed = np.clip(speed, -limit, limit)
            data.ctrl[:] = speed + self._feed_forward() / self._gains
            before = np.array(data.qvel)
            self._mujoco.mj_step2(self.model, data)
            self._reference += move
        # MuJoCo reports the torque before the step, but its integrator takes the speed loop's
        # part at the speed after it. What was applied is what the change of speed needed.
        self._mujoco.mj_mulM(self.model, data, self._torque, (data.qvel - before) / TIMESTEP)
        self._torque += data.qfrc_bias - data.qfrc_passive - data.qfrc_constraint
        if self._unstable():
            raise KdeImitationError(
                f'The simulation became unstable {start:.3f} s after its reset; give the arm '
                'larger inertias or armatures, and reset it.'
            )

    def _feed_forward(self) -> Floats:
        """Return the torque that the servos know to be needed as the arm moves now, (n,)."""
        needed = np.array(self.data.qfrc_bias)
        if self._surprise > 0.0:
            body = self.model.body('payload').id
            jacobian = np.empty((3, len(needed)))
            self._mujoco.mj_jacBodyCom(self.model, self.data, jacobian, None, body)
            needed += self._surprise * self.model.opt.gravity @ jacobian
        return needed

    def _unstable(self) -> bool:
        """Whether MuJoCo met numbers that are not finite, and began anew by itself."""
        kinds = self._mujoco.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        return any(self.data.warning[int(kind)].number > 0 for kind in bad)


def _largest_inertia(chain: Chain, payload: float) -> Floats:
    """Return the largest inertia that each joint meets in 200 postures over the range, (n,)."""
    lower, upper = np.maximum(chain.lower, -np.pi), np.minimum(chain.upper, np.pi)
    postures = np.random.default_rng(0).uniform(lower, upper, (200, len(lower)))
    links = np.diagonal(chain.mass_matrix(postures), axis1=-2, axis2=-1)
    point = payload * (chain.jacobian(postures)[:, :3] ** 2).sum(axis=1)
    return np.asarray((links + point).max(axis=0))


def _spec(mujoco: Any, urdf: str, chain: Chain) -> Any:
    """Return MuJoCo's editable form of the URDF, with everything that can be seen in it."""
    root = ElementTree.fromstring(urdf)
    extension = ElementTree.SubElement(root, 'mujoco')
    ElementTree.SubElement(extension, 'compiler', discardvisual='false', fusestatic='false')
    spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding='unicode'))
    found = tuple(joint.name for joint in spec.joints)
    if found != chain.names:
        raise BadInput(
            f'The simulated arm must be one chain of joints ({", ".join(chain.names)}), but the '
            f'URDF moves {", ".join(found)}.'
        )
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _add_servos(mujoco: Any, spec: Any, chain: Chain, rotors: Floats, gains: Floats) -> None:
    """Add the speed loops with their limits of torque, and the rotors."""
    for joint, rotor in zip(spec.joints, rotors, strict=True):
        joint.armature = rotor
    for name, gain, effort in zip(chain.names, gains, chain.effort, strict=True):
        limited = bool(np.isfinite(effort))
        spec.add_actuator(
            name=name,
            target=name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            gainprm=[gain, *[0.0] * 9],
            biasprm=[0.0, 0.0, -gain, *[0.0] * 7],
            forcelimited=limited,
            forcerange=[-effort, effort] if limited else [0.0, 0.0],
        )


def _add_scene(mujoco: Any, spec: Any, chain: Chain) -> None:
    """Add the floor, a light, and a wall where the base is at one."""
    world = spec.worldbody
    for body in spec.bodies[2:]:
        spec.add_exclude(bodyname1=body.parent.name, bodyname2=body.name)
    spec.add_texture(
        name='sky',
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.95, 0.97],
        rgb2=[0.62, 0.69, 0.77],
        width=64,
        height=384,
    )
    world.add_geom(
        name='floor',
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[0.0, 0.0, 0.1],
        rgba=[0.66, 0.69, 0.72, 1.0],
        group=SCENE_GROUP,
    )
    light = world.add_light(
        pos=[1.5, -2.0, 4.0],
        dir=[-0.35, 0.45, -1.0],
        diffuse=[0.5, 0.5, 0.5],
        castshadow=True,
    )
    light.type = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    spec.visual.headlight.ambient = [0.3, 0.3, 0.3]
    spec.visual.headlight.diffuse = [0.3, 0.3, 0.3]
    spec.visual.headlight.specular = [0.05, 0.05, 0.05]
    # The room is endless; shadows and depths are wanted as fine as the arm's own size allows.
    spec.stat.extent = 1.5
    spec.visual.quality.shadowsize = 2048
    spec.visual.rgba.haze = [0.79, 0.83, 0.88, 1.0]
    base = chain.placement
    outward = base[:3, 2]
    if abs(outward[2]) < 0.5 and base[2, 3] > 0.0:
        height = base[2, 3] + 0.35
        yaw = np.arctan2(outward[1], outward[0])
        world.add_geom(
            name='wall',
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.05, 0.35, height / 2],
            pos=[*(base[:2, 3] - 0.05 * outward[:2]), height / 2],
            quat=[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)],
            rgba=[0.55, 0.58, 0.62, 1.0],
            group=SCENE_GROUP,
        )


def _add_payload(mujoco: Any, spec: Any, tip: str, mass: float) -> None:
    """Add a point mass, drawn as a ball of steel; it collides with nothing."""
    if mass == 0.0:
        return
    radius = (mass / 7850.0 * 3.0 / (4.0 * np.pi)) ** (1.0 / 3.0)
    (carrier,) = [body for body in spec.bodies if body.name == tip]
    body = carrier.add_body(name='payload')
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=[radius, 0.0, 0.0],
        mass=mass,
        contype=0,
        conaffinity=0,
        rgba=[0.75, 0.35, 0.15, 1.0],
        group=VISUAL_GROUP,
    )
