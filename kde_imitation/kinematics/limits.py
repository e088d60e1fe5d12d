"""What the joints of any arm may do: from its URDF, and accelerations from a YAML file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import JointLimits

__all__ = ['read_joint_limits']

_FIELDS = {
    'min_position': 'position',
    'max_position': 'position',
    'max_velocity': 'velocity',
    'max_acceleration': 'acceleration',
    'max_effort': 'effort',
    'max_jerk': 'jerk',
    'max_deceleration': 'deceleration',
}


def read_joint_limits(
    urdf: str | Path | Chain, file: str | Path, tip: str | None = None
) -> JointLimits:
    """Return the limits of an arm.

    A URDF has no place for accelerations. They come from a file in the form that MoveIt uses,
    which may narrow the other limits too, but never widen what the URDF says::

        joint_limits:
          elbow:
            has_acceleration_limits: true
            max_acceleration: 12.0
            max_velocity: 2.0        # optional, as are min_position, max_position, max_effort

    Where `has_…_limits` is false, the values of that kind are left out. Jerks and decelerations
    are not used.

    Parameters
    ----------
    urdf : str, Path or Chain
        URDF text, its file, or the chain that was read from it.
    file : str or Path
        YAML with an acceleration for every joint.
    tip : str, optional
        Last link, where the robot has more than one end.
    """
    chain = urdf if isinstance(urdf, Chain) else Chain.from_urdf(urdf, tip=tip)
    table = _read(Path(file).expanduser())
    unknown = sorted(set(table) - set(chain.names))
    if unknown:
        raise BadInput(
            f'{file} limits {", ".join(unknown)}, but the joints of the arm are '
            f'{", ".join(chain.names)}.'
        )
    rows = [_Row(str(file), name, table.get(name)) for name in chain.names]
    acceleration = np.array([row.number('max_acceleration', math.inf, 0.0) for row in rows])
    for row, limit in zip(rows, acceleration):
        if math.isinf(limit):
            raise BadInput(f'{file} must give joint {row.name!r} a max_acceleration, in rad/s².')
    lower, upper, velocity, effort = (
        np.array([row.number(field, *ends) for row, *ends in zip(rows, *limits)])
        for field, limits in (
            ('min_position', (chain.lower, chain.lower, chain.upper)),
            ('max_position', (chain.upper, chain.lower, chain.upper)),
            ('max_velocity', (chain.velocity, np.zeros(len(rows)), chain.velocity)),
            ('max_effort', (chain.effort, np.zeros(len(rows)), chain.effort)),
        )
    )
    for row, low, high, speed in zip(rows, lower, upper, velocity):
        if low >= high:
            raise BadInput(
                f'Joint {row.name!r} has the positions {low:g} to {high:g} in {file} and the '
                'URDF: no room to move.'
            )
        if not 0.0 < speed < math.inf:
            raise BadInput(
                f'Joint {row.name!r} has no speed limit; give it one in the URDF '
                f'(<limit velocity="…">), or as max_velocity in {file}.'
            )
    return JointLimits(chain.names, lower, upper, velocity, acceleration, effort)


def _read(file: Path) -> Mapping[str, Any]:
    """Return the table of a file, one entry a joint."""
    try:
        content = yaml.safe_load(file.read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f'The file of joint limits {str(file)!r} cannot be read: {error}.'
        ) from error
    except yaml.YAMLError as error:
        raise BadInput(f'{file} is not YAML: {" ".join(str(error).split())}.') from error
    table = content.get('joint_limits') if isinstance(content, dict) else None
    if not isinstance(table, dict):
        raise BadInput(f'{file} must have a mapping "joint_limits", with an entry for each joint.')
    return {str(name): entry for name, entry in table.items()}


class _Row:
    """What a file says of one joint."""

    def __init__(self, file: str, name: str, entry: Any) -> None:
        self._file, self.name = file, name
        if not isinstance(entry, dict):
            raise BadInput(f'{file} has no limits for joint {name!r}; give max_acceleration.')
        for key in entry:
            kind = str(key).removeprefix('has_').removesuffix('_limits')
            if key not in _FIELDS and kind not in _FIELDS.values():
                raise BadInput(
                    f'{file} gives joint {name!r} a {key!r}, which is not known; known are '
                    f'{", ".join(_FIELDS)}.'
                )
        self._entry = entry

    def number(
        self, field: str, default: float, least: float = -math.inf, most: float = math.inf
    ) -> float:
        """Return a value, which must lie from least to most, or the default if there is none."""
        if self._entry.get(f'has_{_FIELDS[field]}_limits') is False or field not in self._entry:
            return default
        value = self._entry[field]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise BadInput(
                f'{self._file}: {field} of joint {self.name!r} is {value!r}; it must be a number.'
            )
        if field not in ('min_position', 'max_position') and value <= 0:
            raise BadInput(
                f'{self._file}: {field} of joint {self.name!r} is {value:g}; it must be above 0.'
            )
        if not least <= value <= most:
            raise BadInput(
                f'{self._file}: {field} of joint {self.name!r} is {value:g}, wider than the '
                f'URDF, which has {default:g}.'
            )
        return float(value)
