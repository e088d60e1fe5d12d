"""What a user may set of the controller: each value with its unit, range and one sentence."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from kde_imitation.errors import BadInput

__all__ = ['ControlSettings', 'Parameter']


class Parameter(NamedTuple):
    """One setting as a node declares it: `lower` and `upper` are both allowed values.

    `live` says whether it may change while the arm moves.
    """

    name: str
    type: type[float] | type[int]
    default: float | int
    lower: float | int
    upper: float | int
    unit: str
    description: str
    live: bool


def _setting(
    default: float, lower: float, upper: float, unit: str, description: str, live: bool = True
) -> Any:
    metadata = {'range': (lower, upper), 'unit': unit, 'description': description, 'live': live}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class ControlSettings:
    """The settings of an `ArmController`, checked when made.

    `ControlSettings.parameters()` lists them with types, ranges and descriptions;
    `dataclasses.replace(settings, speed_scale=0.5)` gives a checked copy.
    """

    period: float = _setting(0.01, 0.001, 0.1, 's', 'Time between two commands.', live=False)
    jerk_time: float = _setting(
        0.1,
        0.02,
        1.0,
        's',
        'Time in which a joint reaches its acceleration limit: the jerk limit is the acceleration '
        'limit divided by it. Longer is gentler and follows later.',
        live=False,
    )
    speed_scale: float = _setting(
        1.0, 0.02, 1.0, '', 'Part of the speed limits that following may use.'
    )
    start_scale: float = _setting(
        0.1,
        0.02,
        1.0,
        '',
        'Part of the speed limits with which every start begins, if speed_scale is not less.',
    )
    ramp_time: float = _setting(
        2.0, 0.1, 30.0, 's', 'Time in which the speed scale rises from nothing to 1.'
    )
    align_tolerance: float = _setting(
        0.1, 0.001, 1.0, 'rad', 'Aligning ends when no joint is further from the goal.'
    )
    joint_state_timeout: float = _setting(
        0.1, 0.005, 2.0, 's', 'Joint states older than this make the arm hold.'
    )
    goal_timeout: float = _setting(
        0.5, 0.02, 10.0, 's', 'Goals whose picture is older than this make the arm hold.'
    )
    goal_gap: float = _setting(
        2.3,
        1.5,
        1000.0,
        '',
        'When no goal has come for so many times the usual interval between goals, the arm holds '
        'until the next; goal_timeout holds as well.',
    )
    settle_time: float = _setting(
        0.2, 0.0, 5.0, 's', 'How long joint states must be good again before the arm moves.'
    )
    novel_limit: int = _setting(
        1,
        1,
        1000,
        'pictures',
        'So many pictures in a row that are unlike the demonstrations make the arm hold; their '
        'goals are never followed.',
    )
    tracking_tolerance: float = _setting(
        0.15, 0.005, 1.0, 'rad', 'An arm further than this from its commands is thought blocked.'
    )
    arm_delay: float = _setting(
        0.1, 0.0, 1.0, 's', 'How late the arm and its joint states may follow the commands.'
    )
    jump_slack: float = _setting(
        0.05,
        0.001,
        1.0,
        'rad',
        'Joint states may differ so much more from one to the next than 1.5 times the speed limit '
        'allows.',
    )
    silence_after: float = _setting(
        1.0,
        0.0,
        3600.0,
        's',
        'When joint states have been missing for this long, commands cease until they return, so '
        'that an arm that starts anew meets no old command.',
    )
    blocked_limit: int = _setting(
        3, 1, 1000, '', 'So many times blocked within 30 s stop the arm until it is enabled again.'
    )
    collision_margin: float = _setting(
        0.02, 0.001, 0.2, 'm', 'Links that do not adjoin are kept so far apart.', live=False
    )
    lookahead: float = _setting(
        0.8,
        0.05,
        3.0,
        'rad',
        'On a path with points between, the arm heads for the point so far ahead.',
    )

    def __post_init__(self) -> None:
        """Check every value against its type and range."""
        for parameter in self.parameters():
            _check(parameter, getattr(self, parameter.name))
        if self.joint_state_timeout < self.period:
            raise BadInput(
                f'joint_state_timeout is {self.joint_state_timeout:g} s, shorter than the period '
                f'of {self.period:g} s: the arm would hold for ever. Make it longer.'
            )

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """List the settings, in the order in which they are best read."""
        found = []
        for field in dataclasses.fields(cls):
            default, told = cast(float, field.default), field.metadata
            lower, upper = told['range']
            rest = told['unit'], told['description'], told['live']
            found.append(Parameter(field.name, type(default), default, lower, upper, *rest))
        return tuple(found)


def _check(parameter: Parameter, value: Any) -> None:
    whole = parameter.type is int
    wanted = 'a whole number' if whole else 'a number'
    right = isinstance(value, int) if whole else isinstance(value, int | float)
    unit = f' {parameter.unit}' if parameter.unit else ''
    if isinstance(value, bool) or not right or not math.isfinite(value):
        raise BadInput(f'{parameter.name} must be {wanted}, not {value!r}.')
    if not parameter.lower <= value <= parameter.upper:
        raise BadInput(
            f'{parameter.name} is {value:g}{unit}, but must be from {parameter.lower:g} to '
            f'{parameter.upper:g}{unit}.'
        )
