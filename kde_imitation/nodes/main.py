"""The executables for `ros2 run kde_imitation`: one function a node.

Nothing of ROS is imported before it is needed, so that its absence is one sentence.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections.abc import Sequence

from kde_imitation.errors import KdeImitationError

NODES = {
    'camera_node': 'CameraNode',
    'pose_feature_node': 'PoseFeatureNode',
    'kde_regression_node': 'KdeRegressionNode',
    'preimage_node': 'PreimageNode',
    'arm_controller_node': 'ArmControllerNode',
    'arm_sim_node': 'ArmSimNode',
    'teach_node': 'TeachNode',
    'viewer_node': 'ViewerNode',
}
"""Executables, each the module of the same name, and the class in it."""


def run(name: str, argv: Sequence[str] | None = None) -> int:
    """Run a node until SIGINT or SIGTERM; return 0, or 1 if it could not start or go on."""
    received: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: received.append(number))
    try:
        return _spin(name, list(sys.argv if argv is None else argv), received)
    except KdeImitationError as error:
        print(f'{name}: {error}', file=sys.stderr)
        return 1


def _spin(name: str, argv: list[str], received: list[int]) -> int:
    """Run a node until a signal was received."""
    module = importlib.import_module(f'kde_imitation.nodes.{name}')
    from kde_imitation.nodes.base import Spinner, start_ros
    from kde_imitation.nodes.ros import rclpy

    start_ros(argv)
    try:
        spinner = Spinner([getattr(module, NODES[name])()])
        spinner.start()
        # Not a threading.Event: setting one inside a signal handler can block for ever.
        while not received and spinner.alive:
            time.sleep(0.05)
        spinner.stop()
        if spinner.error is not None:
            raise spinner.error
    finally:
        rclpy.try_shutdown()
    return 0


def camera_node() -> int:
    """Run the node that gives pictures."""
    return run('camera_node')


def pose_feature_node() -> int:
    """Run the node that turns pictures into feature vectors."""
    return run('pose_feature_node')


def kde_regression_node() -> int:
    """Run the node that turns feature vectors into points of the embedding of postures."""
    return run('kde_regression_node')


def preimage_node() -> int:
    """Run the node that turns points of the embedding into postures."""
    return run('preimage_node')


def arm_controller_node() -> int:
    """Run the node that moves the arm to the postures."""
    return run('arm_controller_node')


def arm_sim_node() -> int:
    """Run the simulated arm."""
    return run('arm_sim_node')


def teach_node() -> int:
    """Run the teach-in."""
    return run('teach_node')


def viewer_node() -> int:
    """Run the web page that shows it all."""
    return run('viewer_node')
