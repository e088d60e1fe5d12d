"""The PA-10's description: its URDF from the xacro files, its limits from the YAML files."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from xml.dom import minidom
from xml.parsers.expat import ExpatError

import numpy as np
import xacro
import yaml

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.resources import share_file

__all__ = [
    'JOINTS',
    'LINKS',
    'JointLimits',
    'armature',
    'expand_xacro',
    'joint_limits',
    'urdf',
]

JOINTS = ('s1', 's2', 's3', 'e1', 'e2', 'w1', 'w2')
"""The joints, base to tip, by the manufacturer's names."""

LINKS = ('base_link', 'link1', 'link2', 'link3', 'link4', 'link5', 'link6', 'link7')
"""The bodies, base to tip."""

# Xacro keeps its state in module variables, so one expansion at a time.
_xacro_lock = threading.Lock()


def urdf(
    prefix: str = '',
    lengths: str = 'B',
    mount: str = 'floor',
    ros2_control: str = 'none',
    gazebo: bool = False,
) -> str:
    """Expand the PA-10's xacro to URDF text; equal calls expand once.

    Parameters
    ----------
    prefix : str
        Put before every link and joint name but `world`.
    lengths : str
        Which set of lengths: 'A' or 'B'.
    mount : str
        'floor', or 'wall' as the right arm of a person who faces along the world's x axis.
    ros2_control : str
        'none', 'mock', 'gazebo', 'mujoco', or the full name of the real arm's plugin.
    gazebo : bool
        Add the blocks that only Gazebo reads.
    """
    texts = {'prefix': prefix, 'lengths': lengths, 'mount': mount, 'ros2_control': ros2_control}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise BadInput(f'{name} must be a string, not {value!r}.')
    if not isinstance(gazebo, bool):
        raise BadInput(f'gazebo must be True or False, not {gazebo!r}.')
    return _expand(**texts, gazebo=str(gazebo).lower())


@cache
def _expand(**arguments: str) -> str:
    return expand_xacro(share_file('urdf', 'pa10.urdf.xacro'), **arguments)


def expand_xacro(path: Path, **arguments: str) -> str:
    """Expand a xacro file, or a plain URDF, to URDF text.

    Parameters
    ----------
    path : Path
    **arguments : str
        Values of the file's `xacro:arg` elements; those that it does not have are left out.
    """
    with _xacro_lock:
        try:
            document = xacro.process_file(str(path), mappings=dict(arguments))
        except (xacro.XacroException, ExpatError) as error:
            # The first line is the sentence, the others say where in the files it stands.
            raise BadInput(f'{str(error).splitlines()[0].strip()} (in {path})') from error
    for node in list(document.childNodes):
        if node.nodeType == minidom.Node.COMMENT_NODE:
            document.removeChild(node)
    return str(document.toxml())


@dataclass(frozen=True, eq=False)
class JointLimits:
    """What the joints may do; all arrays have shape (n,), in the order of `names`.

    Attributes
    ----------
    names : tuple of str
    lower, upper : numpy.ndarray
        Positions, radians.
    velocity, acceleration, effort : numpy.ndarray
        Largest magnitudes: rad/s, rad/s², N·m (peak torque).
    """

    names: tuple[str, ...]
    lower: Floats
    upper: Floats
    velocity: Floats
    acceleration: Floats
    effort: Floats


def joint_limits(prefix: str = '', wider: bool = False) -> JointLimits:
    """Return the PA-10's limits.

    Parameters
    ----------
    prefix : str
        Put before the joint names, as in `urdf`.
    wider : bool
        Take the wider published range of S2 (±94° and not ±91°). The URDF has the narrower one.
    """
    position = np.radians(_row('joint_limits.yaml', 'position_wider' if wider else 'position'))
    return JointLimits(
        names=tuple(prefix + name for name in JOINTS),
        lower=-position,
        upper=position,
        velocity=_row('joint_limits.yaml', 'velocity'),
        acceleration=_row('joint_limits.yaml', 'acceleration'),
        effort=_row('joint_limits.yaml', 'torque_peak'),
    )


def armature() -> Floats:
    """Return the rotors' inertias seen at the joints, kg·m², shape (7,)."""
    return _row('masses.yaml', 'armature')


@cache
def _table(file: str) -> Any:
    with share_file('config', 'pa10', file).open(encoding='utf-8') as stream:
        return yaml.safe_load(stream)


def _row(file: str, quantity: str) -> Floats:
    """Return one quantity of all joints, base to tip, shape (7,)."""
    try:
        values = [float(_table(file)[quantity]['joints'][name]) for name in JOINTS]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f'{share_file("config", "pa10", file)} must give {quantity} as a number for each of '
            f'{", ".join(JOINTS)}: {type(error).__name__} {error}.'
        ) from error
    return np.array(values)
