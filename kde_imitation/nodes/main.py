"""The executables for `ros2 run kde_imitation`: one callable a node.

Nothing of ROS is imported before it is needed, so that its absence is one sentence.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial

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


# What the console scripts of setup.cfg call, one name for each executable.
camera_node = partial(run, 'camera_node')
"""Run the node that gives pictures."""
pose_feature_node = partial(run, 'pose_feature_node')
"""Run the node that turns pictures into feature vectors."""
kde_regression_node = partial(run, 'kde_regression_node')
"""Run the node that turns feature vectors into points of the embedding of postures."""
preimage_node = partial(run, 'preimage_node')
"""Run the node that turns points of the embedding into postures."""
arm_controller_node = partial(run, 'arm_controller_node')
"""Run the node that moves the arm to the postures."""
arm_sim_node = partial(run, 'arm_sim_node')
"""Run the simulated arm."""
teach_node = partial(run, 'teach_node')
"""Run the teach-in."""
viewer_node = partial(run, 'viewer_node')
"""Run the web page that shows it all."""
