"""A node that only listens: what passed over the topics, with the time it came in."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.nodes.base import RELIABLE, SENSOR, ImitationNode
from kde_imitation.nodes.messages import (
    command_stamp,
    nanoseconds,
    read_joint_state,
    read_picture,
    read_trajectory,
)
from kde_imitation.nodes.ros import (
    Float64MultiArray,
    Image,
    JointState,
    JointTrajectory,
    deserialize_message,
)

__all__ = ['Track', 'WatcherNode']

# Every so manieth picture is kept.
KEPT = 5


class Track:
    """Values that came in one after the other, each with a time and the stamp of its picture."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, Floats]] = []
        self._lock = threading.Lock()

    def add(self, now: int, stamp: int, value: npt.ArrayLike) -> None:
        """Keep a value; times in nanoseconds."""
        with self._lock:
            self._rows.append((now, stamp, np.array(value, dtype=np.float64)))

    def __len__(self) -> int:
        return len(self._rows)

    def arrays(self, start: int) -> tuple[Floats, Floats, Floats]:
        """Return times and stamps (n,) in seconds after a start, and the values (n, …)."""
        with self._lock:
            rows = list(self._rows)
        if not rows:
            return np.empty(0), np.empty(0), np.empty((0, 0))
        times, stamps, values = zip(*rows)
        begun = np.array(times, dtype=np.int64) - start, np.array(stamps, dtype=np.int64) - start
        return 1e-9 * begun[0], 1e-9 * begun[1], np.stack(values)


class WatcherNode(ImitationNode):
    """Keeps commands, joint states, goals and some pictures, for a report.

    Parameters
    ----------
    names : joint names of the arm
    """

    NAME = 'watcher_node'

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        *,
        names: tuple[str, ...],
        **options: Any,
    ) -> None:
        super().__init__(parameters, **options)
        self.names = names
        self.commands, self.states, self.goals = Track(), Track(), Track()
        self.novel: list[int] = []
        self.picture_times: list[int] = []
        self.pictures: list[tuple[int, npt.NDArray[np.uint8]]] = []
        self.create_subscription(
            Float64MultiArray, 'position_controller/commands', self._on_command, 50
        )
        self.create_subscription(JointState, 'joint_states', self._on_state, 50)
        self.create_subscription(
            JointTrajectory, 'joint_path', self.guarded(self._on_path), RELIABLE
        )
        # Bytes come in quickly; only pictures that are kept are made into messages.
        self.create_subscription(
            Image, 'image_raw', self.guarded(self._on_picture), SENSOR, raw=True
        )

    def _on_command(self, message: Float64MultiArray) -> None:
        self.commands.add(self.now(), command_stamp(message) or 0, message.data)

    def _on_state(self, message: JointState) -> None:
        q = read_joint_state(message, self.names)
        self.states.add(self.now(), nanoseconds(message.header.stamp), q)

    def _on_path(self, message: JointTrajectory) -> None:
        path, _ = read_trajectory(message, self.names)
        if len(path) == 0:
            self.novel.append(self.now())
        else:
            self.goals.add(self.now(), nanoseconds(message.header.stamp), path[-1])

    def _on_picture(self, content: bytes) -> None:
        now = self.now()
        self.picture_times.append(now)
        if len(self.picture_times) % KEPT == 1:
            self.pictures.append((now, read_picture(deserialize_message(content, Image))))
