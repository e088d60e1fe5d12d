"""What the tests that start launch files share: skips with a reason, a node that listens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

launch_pytest = pytest.importorskip(
    'launch_pytest', reason='launch_pytest is not installed; it comes with ROS 2, not with pip'
)
rclpy = pytest.importorskip('rclpy', reason='ROS 2 is not installed')

from ament_index_python.packages import (  # noqa: E402
    PackageNotFoundError,
    get_package_prefix,
)
from launch import LaunchDescription  # noqa: E402
from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: E402
from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: E402

PATIENCE = 60.0


def need(*executables: tuple[str, str]) -> None:
    """Skip a test unless ROS 2 finds all executables, given as package and name."""
    for package, executable in executables:
        try:
            folder = Path(get_package_prefix(package)) / 'lib' / package
        except PackageNotFoundError:
            pytest.skip(f'the ROS 2 package {package} is not installed here')
        if not (folder / executable).is_file():
            pytest.skip(f'the ROS 2 package {package} has no executable {executable} here')


def description(name: str, **arguments: str) -> LaunchDescription:
    """Return a launch file with arguments, as a launch description."""
    source = PythonLaunchDescriptionSource(str(ROOT / 'launch' / f'{name}.launch.py'))
    included = IncludeLaunchDescription(source, launch_arguments=list(arguments.items()))
    return LaunchDescription([included, launch_pytest.actions.ReadyToTest()])


def own_domain() -> None:
    """Keep apart from other systems on the network, and from other tests at the same time."""
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    os.environ['ROS_DOMAIN_ID'] = str(101 + os.getpid() % 100)


class Listener:
    """A node that waits for messages."""

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node('listener', context=self._context)
        self._executor = rclpy.executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def first(
        self,
        kind: Any,
        topic: str,
        fits: Callable[[Any], bool] = lambda message: True,
        qos: QoSProfile | None = None,
    ) -> Any:
        """Return the first message on a topic that fits, or fail when patience is at its end."""
        qos = qos or QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
        heard: list[Any] = []
        subscription = self.node.create_subscription(kind, topic, heard.append, qos)
        end = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < end:
                self._executor.spin_once(timeout_sec=0.2)
                for message in heard:
                    if fits(message):
                        return message
                heard.clear()
        finally:
            self.node.destroy_subscription(subscription)
        raise AssertionError(f'Nothing that fits came on {topic} in {PATIENCE:g} s.')

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@contextmanager
def listening() -> Iterator[Listener]:
    listener = Listener()
    try:
        yield listener
    finally:
        listener.close()
