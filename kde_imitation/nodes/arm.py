"""Which arm: the parameters that the nodes of an arm share, and what comes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.chain import Chain, read_urdf
from kde_imitation.kinematics.description import JointLimits
from kde_imitation.kinematics.limits import read_joint_limits
from kde_imitation.nodes.base import ImitationNode
from kde_imitation.nodes.parameters import Parameter

__all__ = ['ARM_PARAMETERS', 'Arm']

ARM_PARAMETERS = (
    Parameter('urdf', '', 'URDF or xacro file of another arm; empty for the PA-10.'),
    Parameter('tip', '', 'Last link of another arm, where it has more than one end.'),
    Parameter('prefix', '', 'Put before all link and joint names.'),
    Parameter('lengths', 'B', "Which set of the PA-10's link lengths.", choices=('A', 'B')),
    Parameter(
        'mount',
        'wall',
        "Where the PA-10's base is fixed: standing, or sideways as a right arm.",
        choices=('floor', 'wall'),
    ),
)


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm as a node's parameters describe it."""

    urdf: str
    chain: Chain
    prefix: str
    is_pa10: bool

    @classmethod
    def of(cls, node: ImitationNode) -> Arm:
        """Return the arm that the parameters of a node describe."""
        file, prefix, tip = (node.value(name) for name in ('urdf', 'prefix', 'tip'))
        if not file:
            text = description.urdf(prefix, node.value('lengths'), node.value('mount'))
            return cls(text, Chain.from_urdf(text), prefix, True)
        path = Path(file).expanduser()
        if path.suffix == '.xacro' and path.is_file():
            text = description.expand_xacro(path, prefix=prefix)
        elif prefix:
            raise BadInput(
                f'prefix is {prefix!r}, but {file} is a URDF as it is; give a xacro file with the '
                'argument prefix, or leave it out.'
            )
        else:
            text = read_urdf(path)
        return cls(text, Chain.from_urdf(text, tip=tip or None), prefix, False)

    @property
    def names(self) -> tuple[str, ...]:
        """The joints, base to tip."""
        return self.chain.names

    def limits(self, file: str) -> JointLimits:
        """Return what the joints may do; a URDF has no accelerations, so a file gives them."""
        if file:
            return read_joint_limits(self.chain, file)
        if self.is_pa10:
            return description.joint_limits(self.prefix)
        raise BadInput(
            'limits is empty, but urdf names another arm; give a YAML file with the acceleration '
            'of each joint.'
        )

    def armature(self, given: Sequence[float]) -> Floats | None:
        """Return the rotors' inertias (n,), kg·m².

        Given are one for all joints, or one a joint; a single 0 means what is known of the arm.
        """
        inertias, joints = np.asarray(given), len(self.names)
        if len(inertias) not in (1, joints):
            raise BadInput(
                f'armature has {len(inertias)} values, but the arm has {joints} joints; give one '
                'value for all joints, or one a joint.'
            )
        if len(inertias) == 1 and not inertias[0]:
            return description.armature() if self.is_pa10 else None
        return np.broadcast_to(inertias, (joints,))
