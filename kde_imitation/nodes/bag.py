"""Recording topics to a bag that `ros2 bag` and Foxglove read, without an installed ROS."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.nodes.base import LATCHED, RELIABLE, SENSOR, ImitationNode
from kde_imitation.nodes.ros import (
    CameraInfo,
    DiagnosticArray,
    Float64MultiArray,
    Image,
    JointState,
    JointTrajectory,
    MarkerArray,
    String,
)

__all__ = ['BagNode']

TOPICS: Mapping[str, tuple[Any, Any]] = {
    'image_raw': (Image, SENSOR),
    'camera_info': (CameraInfo, SENSOR),
    'pose_features': (Image, SENSOR),
    'pose_embedding': (Image, SENSOR),
    'novelty': (Image, SENSOR),
    'joint_path': (JointTrajectory, RELIABLE),
    'markers': (MarkerArray, RELIABLE),
    'position_controller/commands': (Float64MultiArray, 50),
    'joint_states': (JointState, 50),
    'robot_description': (String, LATCHED),
    '/diagnostics': (DiagnosticArray, 50),
}


class BagNode(ImitationNode):
    """Writes all topics of the imitation to a folder in the format of rosbag2, as MCAP.

    Parameters
    ----------
    folder : Path
        Made new; one that is there already is not touched.
    """

    NAME = 'bag_node'

    def __init__(
        self, parameters: Mapping[str, Any] | None = None, *, folder: Path, **options: Any
    ) -> None:
        super().__init__(parameters, **options)
        try:
            from rosbags.rosbag2 import StoragePlugin, Writer
            from rosbags.typesys import Stores, get_typestore
        except ModuleNotFoundError as error:
            self.destroy_node()
            raise MissingExtra(
                'Recording needs the library rosbags; install it with pip install '
                '"kde_imitation[ros]".'
            ) from error
        if folder.exists():
            self.destroy_node()
            raise BadInput(f'{folder} is there already; name another folder for the recording.')
        self._folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        store = get_typestore(Stores.ROS2_JAZZY)
        self.count = 0
        for topic, (kind, quality) in TOPICS.items():
            name = self.resolve_topic_name(topic)
            module, _, kind_name = kind.__module__, None, kind.__name__
            connection = self._writer.add_connection(
                name, f'{module.split(".")[0]}/msg/{kind_name}', typestore=store
            )
            self.create_subscription(kind, topic, self._keep(connection), quality, raw=True)

    def _keep(self, connection: Any) -> Any:
        def keep(content: bytes) -> None:
            self._writer.write(connection, self.now(), content)
            self.count += 1

        return keep

    def close(self) -> None:
        """Finish the file."""
        super().close()
        self._writer.close()
        if self.count == 0:
            shutil.rmtree(self._folder)
