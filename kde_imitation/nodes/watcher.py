"""A node that only listens: what passed over the topics, with the time it came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.nodes.base import ImitationNode, Polled
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
    QoSProfile,
    ReliabilityPolicy,
    deserialize_message,
)

__all__ = ['Track', 'WatcherNode']

# Every so manieth picture is kept.
KEPT = 5
# Seconds between two looks; no more come in between than a queue holds.
PERIOD = 0.1


class Track:
    """Messages that came in one after the other, read only when they are asked for.

    Parameters
    ----------
    message_type : type of the messages
    read : function
        Takes a message; returns the stamp of its picture in nanoseconds, and its values (n,), or
        None where it has none.

    Attributes
    ----------
    empty : int
        Messages without values among those last read.
    """

    def __init__(self, message_type: Any, read: Callable[[Any], tuple[int, Any]]) -> None:
        self._type, self._read = message_type, read
        self._came: list[tuple[int, bytes]] = []
        self.empty = 0

    def add(self, now: int, content: bytes) -> None:
        """Keep a message as it came, and when."""
        self._came.append((now, content))

    def __len__(self) -> int:
        return len(self._came)

    def arrays(self, start: int, last: int | None = None) -> tuple[Floats, Floats, Floats]:
        """Return times and stamps (n,) in seconds after a start, and the values (n, …).

        Parameters
        ----------
        start : int
            Nanoseconds.
        last : int, optional
            Read only so many, the newest.
        """
        rows = [
            (now, *self._read(deserialize_message(content, self._type)))
            for now, content in self._came[-last if last else 0 :]
        ]
        read, rows = len(rows), [row for row in rows if row[2] is not None]
        self.empty = read - len(rows)
        if not rows:
            return np.empty(0), np.empty(0), np.empty((0, 0))
        times, stamps, values = zip(*rows)
        begun = np.array(times, dtype=np.int64) - start, np.array(stamps, dtype=np.int64) - start
        return 1e-9 * begun[0], 1e-9 * begun[1], np.array(values, dtype=np.float64)


class WatcherNode(ImitationNode):
    """Keeps commands, joint states, goals and some pictures, for a report.

    It takes messages as bytes and now and then, so that watching costs the watched as little as
    can be; the middleware knows when each came.

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
        self._tracks: list[tuple[Polled, Track]] = []
        self.commands = self._track(
            Float64MultiArray, 'position_controller/commands', self._read_command
        )
        self.states = self._track(JointState, 'joint_states', self._read_state)
        self.goals = self._track(JointTrajectory, 'joint_path', self._read_goal)
        self.picture_times: list[int] = []
        self._pictures: list[tuple[int, bytes]] = []
        self._image = Polled(
            self,
            Image,
            'image_raw',
            QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT),
            raw=True,
        )
        self.create_timer(PERIOD, self.guarded(self._take_in))

    def _track(self, kind: Any, topic: str, read: Callable[[Any], tuple[int, Any]]) -> Track:
        self._tracks.append((Polled(self, kind, topic, raw=True), Track(kind, read)))
        return self._tracks[-1][1]

    def _take_in(self) -> None:
        """Keep what has come, with the time at which it came."""
        for topic, track in self._tracks:
            for content, info in topic.take():
                track.add(info['received_timestamp'] or self.now(), content)
        for content, info in self._image.take():
            now = info['received_timestamp'] or self.now()
            self.picture_times.append(now)
            if len(self.picture_times) % KEPT == 1:
                self._pictures.append((now, content))

    def _read_command(self, message: Float64MultiArray) -> tuple[int, Any]:
        return command_stamp(message) or 0, message.data

    def _read_state(self, message: JointState) -> tuple[int, Any]:
        return nanoseconds(message.header.stamp), read_joint_state(message, self.names)

    def _read_goal(self, message: JointTrajectory) -> tuple[int, Any]:
        path, _ = read_trajectory(message, self.names)
        return nanoseconds(message.header.stamp), path[-1] if len(path) else None

    @property
    def pictures(self) -> list[tuple[int, npt.NDArray[np.uint8]]]:
        """Return the pictures that were kept, each with the time at which it came."""
        return [
            (when, read_picture(deserialize_message(content, Image)))
            for when, content in self._pictures
        ]
