"""A stand-in for ROS 2's `launch`, which runs a launch file and notes what it would start.

It knows the few classes that the launch files use, with the arguments that they use; anything else
fails as it would if it were misspelt. As in the real one, the namespace and the parameters that a
group sets end with the group, and what an event starts is in no group but its own.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from conftest import PACKAGE, ROOT

SHARED = 'kde_imitation.nodes.launching'


def kind(name: str, *arguments: str) -> Any:
    """Make a class that has these arguments and no others."""
    return make_dataclass(name, arguments, frozen=True)


LaunchDescription = kind('LaunchDescription', 'entities')
OpaqueFunction = kind('OpaqueFunction', 'function')
GroupAction = kind('GroupAction', 'actions')
PythonLaunchDescriptionSource = kind('PythonLaunchDescriptionSource', 'location')
IncludeLaunchDescription = kind('IncludeLaunchDescription', 'source', 'launch_arguments')
ExecuteProcess = kind('ExecuteProcess', 'cmd', 'output')
LogInfo = kind('LogInfo', 'msg')
RegisterEventHandler = kind('RegisterEventHandler', 'event_handler')
OnProcessExit = kind('OnProcessExit', 'target_action', 'on_exit')
FindPackageShare = kind('FindPackageShare', 'package')
PathJoinSubstitution = kind('PathJoinSubstitution', 'parts')
PushRosNamespace = kind('PushRosNamespace', 'namespace')
SetParameter = kind('SetParameter', 'name', 'value')
ParameterValue = kind('ParameterValue', 'value', 'value_type')


@dataclass(frozen=True)
class DeclareLaunchArgument:
    name: str
    default_value: str
    description: str
    choices: list[str] | None = None


@dataclass(frozen=True)
class LaunchConfiguration:
    name: str

    def perform(self, context: Any) -> str:
        return str(context.launch_configurations[self.name])


@dataclass(frozen=True, eq=False)
class Node:
    package: str
    executable: str
    name: str | None = None
    parameters: list[Any] = field(default_factory=list)
    remappings: list[tuple[str, str]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    output: str = 'log'
    respawn: bool = False
    respawn_delay: float | None = None


MODULES = {
    'launch': [LaunchDescription],
    'launch.actions': [
        *(DeclareLaunchArgument, ExecuteProcess, GroupAction, IncludeLaunchDescription, LogInfo),
        *(OpaqueFunction, RegisterEventHandler),
    ],
    'launch.event_handlers': [OnProcessExit],
    'launch.launch_description_sources': [PythonLaunchDescriptionSource],
    'launch.substitutions': [LaunchConfiguration, PathJoinSubstitution],
    'launch_ros': [],
    'launch_ros.actions': [Node, PushRosNamespace, SetParameter],
    'launch_ros.parameter_descriptions': [ParameterValue],
    'launch_ros.substitutions': [FindPackageShare],
}


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Put the stand-in into the place of `launch`, for as long as the block lasts."""
    with mock.patch.dict(sys.modules):
        for name, classes in MODULES.items():
            module = ModuleType(name)
            for each in classes:
                setattr(module, each.__name__, each)
            sys.modules[name] = module
        sys.modules.pop(SHARED, None)
        yield


@dataclass
class Run:
    """What a launch file declared and would have started, in order."""

    arguments: dict[str, DeclareLaunchArgument] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    """the namespace of each node"""
    common: list[dict[str, Any]] = field(default_factory=list)
    """the parameters that its group gives each node"""
    processes: list[list[str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    included: list[Any] = field(default_factory=list)
    handlers: list[OnProcessExit] = field(default_factory=list)

    def named(self, executable: str) -> Node:
        """Return the only node of an executable."""
        (found,) = [node for node in self.nodes if node.executable == executable]
        return found

    @property
    def executables(self) -> list[str]:
        return [node.executable for node in self.nodes]


def launch(file: Path, returncode: int = 0, **given: str) -> Run:
    """Run a launch file; processes that others wait for end at once with a return code."""
    with stand_in():
        run = Run()
        _include(file, run, {}, given, '', {}, returncode)
        return run


def _include(
    file: Path,
    run: Run,
    configurations: dict[str, str],
    given: dict[str, str],
    space: str,
    common: dict[str, Any],
    returncode: int,
) -> None:
    description = runpy.run_path(str(file))['generate_launch_description']()
    configurations.update(given)
    known = set()
    context = SimpleNamespace(launch_configurations=configurations)

    def carry_out(actions: list[Any], space: str, common: dict[str, Any]) -> None:
        for action in actions:
            match action:
                case DeclareLaunchArgument(name, default, _, choices):
                    known.add(name)
                    run.arguments.setdefault(name, action)
                    value = configurations.setdefault(name, default)
                    assert choices is None or value in choices, f'{name}: {value}'
                case OpaqueFunction(function):
                    carry_out(function(context), space, common)
                case GroupAction(inner):
                    carry_out(inner, space, dict(common))
                case PushRosNamespace(name):
                    space = f'{space}/{name}'
                case SetParameter(name, value):
                    common[name] = value
                case IncludeLaunchDescription(PythonLaunchDescriptionSource(str(place)), values):
                    arguments = dict(values)
                    inner = dict(configurations)
                    _include(Path(place), run, inner, arguments, space, common, returncode)
                case IncludeLaunchDescription(PythonLaunchDescriptionSource(place), values):
                    run.included.append((place, dict(values)))
                case RegisterEventHandler(handler):
                    run.handlers.append(handler)
                case ExecuteProcess(command):
                    run.processes.append(command)
                case LogInfo(message):
                    run.messages.append(message)
                case Node():
                    run.nodes.append(action)
                    run.spaces.append(space)
                    run.common.append(dict(common))
                case _:
                    raise AssertionError(f'{action!r} is no action')

    carry_out(description.entities, space, common)
    assert set(given) <= known, f'{file.name} does not declare {set(given) - known}'
    ended: set[int] = set()
    # The order in which handlers were registered says nothing; go on while one of them can act.
    while ready := [
        handler
        for handler in run.handlers
        if handler.target_action in run.nodes and id(handler) not in ended
    ]:
        ended.add(id(ready[0]))
        event = SimpleNamespace(returncode=returncode)
        carry_out(ready[0].on_exit(event, context), '', {})
    run.handlers = [handler for handler in run.handlers if id(handler) not in ended]


# What makes a publisher or subscription, and which of its arguments is the topic.
_MADE = {'create_publisher': 1, 'create_subscription': 1, 'Newest': 2, 'Polled': 2}


@functools.cache
def topics_of(path: Path) -> set[str]:
    """Return the topics that the source of a node names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
            topic = node.args[_MADE[name]] if name in _MADE else None
            if isinstance(topic, ast.Constant):
                found.add(topic.value)
    return found


def all_topics() -> set[str]:
    found = set().union(
        *(topics_of(path) for path in (ROOT / PACKAGE / 'nodes').glob('*_node.py'))
    )
    assert {'image_raw', 'joint_states', 'position_controller/commands', 'markers'} <= found
    return found
