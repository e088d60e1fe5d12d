"""Parameters from one description: what they are called, mean, may be, and may become.

A node lists its `Parameter`s. From that list they are declared with their ranges, checked at the
start and on every change, refused with a sentence, written to `config/*.yaml`, and shown in the
manual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kde_imitation.errors import BadInput
from kde_imitation.nodes.ros import (
    FloatingPointRange,
    IntegerRange,
    Node,
    ParameterDescriptor,
    RosParameter,
    SetParametersResult,
)

__all__ = ['Parameter', 'Parameters', 'as_ros', 'refused']

Value = bool | int | float | str | tuple[float, ...]

_KINDS = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'a text'}
_FOREIGN = ('use_sim_time', 'start_type_description_service', 'qos_overrides.')


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node.

    The type is that of the default. `live` says whether it may change while the node runs.
    """

    name: str
    default: Value
    description: str
    lower: float | None = None
    upper: float | None = None
    unit: str = ''
    choices: tuple[str, ...] = ()
    live: bool = False

    @property
    def type(self) -> str:
        """The type by its name in ROS."""
        names = {bool: 'bool', int: 'integer', float: 'double', str: 'string'}
        return names.get(type(self.default), 'double_array')

    @property
    def allowed(self) -> str:
        """What it may be, in words; empty if anything of its type."""
        if self.choices:
            return ', '.join(repr(choice) for choice in self.choices)
        unit = f' {self.unit}' if self.unit else ''
        if self.lower is not None and self.upper is not None:
            return f'{self.lower:g} to {self.upper:g}{unit}'
        return f'in{unit}' if unit else ''

    def check(self, value: Any) -> Value:
        """Return the value in the parameter's type, or raise `BadInput`."""
        if isinstance(self.default, tuple):
            return self._check_array(value)
        kind: Any = type(self.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if kind is str and isinstance(value, int) and not isinstance(value, bool):
            # YAML makes a number of a camera's index.
            value = str(value)
        if type(value) is not kind or (kind is float and not math.isfinite(value)):
            raise BadInput(f'{self.name} must be {_KINDS[kind]}, not {value!r}.')
        if self.choices and value not in self.choices:
            raise BadInput(f'{self.name} is {value!r}, but must be one of {self.allowed}.')
        self._check_range(value)
        return value  # type: ignore[no-any-return]

    def _check_range(self, value: Any) -> None:
        if self.lower is None or self.upper is None:
            return
        if not self.lower <= value <= self.upper:
            raise BadInput(f'{self.name} is {value:g}, but must be from {self.allowed}.')

    def _check_array(self, value: Any) -> tuple[float, ...]:
        given = list(value) if hasattr(value, '__len__') and not isinstance(value, str) else []
        numbers = [float(one) for one in given if type(one) in (int, float) and math.isfinite(one)]
        if not numbers or len(numbers) != len(given):
            raise BadInput(f'{self.name} must be a list of numbers, not {value!r}.')
        for number in numbers:
            self._check_range(number)
        return tuple(numbers)

    def descriptor(self) -> ParameterDescriptor:
        """Return the description that ROS tools show."""
        constraints = [f'Allowed: {self.allowed}.'] if self.allowed else []
        constraints += [] if self.live else ['Read at the start of the node.']
        found = ParameterDescriptor(
            name=self.name,
            description=self.description,
            additional_constraints=' '.join(constraints),
            read_only=not self.live,
        )
        if self.lower is not None and self.upper is not None:
            if self.type == 'integer':
                found.integer_range = [
                    IntegerRange(from_value=int(self.lower), to_value=int(self.upper), step=0)
                ]
            elif self.type == 'double':
                found.floating_point_range = [
                    FloatingPointRange(
                        from_value=float(self.lower), to_value=float(self.upper), step=0.0
                    )
                ]
        return found


class Parameters:
    """The parameters of a node, declared and kept.

    Parameters
    ----------
    node : rclpy.node.Node
        Made with `automatically_declare_parameters_from_overrides`, so that what the user gave
        can be read before it is declared.
    described : sequence of Parameter
    agree : callable
        Called with all values, the new ones among them, before a change; raises `BadInput` if
        they do not go together.
    changed : callable
        Called after a change.
    """

    def __init__(
        self,
        node: Node,
        described: Sequence[Parameter],
        agree: Callable[[Mapping[str, Any]], None],
        changed: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._described = {parameter.name: parameter for parameter in described}
        self._agree, self._changed = agree, changed
        given = {
            name: found.value
            for name, found in node.get_parameters_by_prefix('').items()
            if not name.startswith(_FOREIGN)
        }
        unknown = sorted(set(given) - set(self._described))
        if unknown:
            raise BadInput(
                f'There is no parameter {", ".join(unknown)}; there are '
                f'{", ".join(self._described)}.'
            )
        self.values: dict[str, Any] = {}
        for parameter in described:
            value = parameter.check(given.get(parameter.name, parameter.default))
            if parameter.name in given:
                node.undeclare_parameter(parameter.name)
            self.values[parameter.name] = value
            node.declare_parameter(
                parameter.name,
                list(value) if isinstance(value, tuple) else value,
                parameter.descriptor(),
                ignore_override=True,
            )
        agree(self.values)

    def refusal(self, wanted: Sequence[RosParameter]) -> str:
        """Say why a change is refused; empty if it is not."""
        try:
            self._agree({**self.values, **self._checked(wanted)})
        except BadInput as error:
            return str(error)
        return ''

    def _checked(self, wanted: Sequence[RosParameter]) -> dict[str, Any]:
        new = {}
        for one in wanted:
            parameter = self._described.get(one.name)
            if parameter is None:
                continue
            if not parameter.live:
                raise BadInput(
                    f'{one.name} is read at the start only; start the node again with the new '
                    'value.'
                )
            new[one.name] = parameter.check(one.value)
        return new

    def in_type(self, wanted: Sequence[RosParameter]) -> list[RosParameter]:
        """Return the change with whole numbers made numbers where those are asked for."""
        new = self._checked(wanted)
        return [RosParameter(one.name, value=new.get(one.name, one.value)) for one in wanted]

    def apply(self, wanted: Sequence[RosParameter]) -> None:
        """Take a change that was not refused."""
        new = self._checked(wanted)
        if new:
            self.values.update(new)
            self._changed(new)


def as_ros(name: str, value: Any) -> RosParameter:
    """Return a value of a program as ROS takes it: all numbers of a list in one type."""
    if isinstance(value, list | tuple) and any(isinstance(one, float) for one in value):
        value = [float(one) if isinstance(one, int) else one for one in value]
    try:
        return RosParameter(name, value=value)
    except TypeError as error:
        raise BadInput(f'{name} cannot be {value!r}.') from error


def refused(reason: str) -> SetParametersResult:
    """Return the answer to a change that is refused."""
    return SetParametersResult(successful=False, reason=reason)
