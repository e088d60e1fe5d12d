"""The arm follows the goals: 100 commands a second, inside all limits."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from kde_imitation.control import (
    ArmController,
    Command,
    ControlSettings,
    SelfCollisionGuard,
    State,
)
from kde_imitation.errors import BadInput
from kde_imitation.nodes.arm import ARM_PARAMETERS, Arm
from kde_imitation.nodes.base import RELIABLE, ImitationNode, Polled
from kde_imitation.nodes.diagnostics import OK, WARN
from kde_imitation.nodes.messages import (
    command_message,
    nanoseconds,
    read_joint_state,
    read_trajectory,
    trajectory_command,
)
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import (
    Float64MultiArray,
    JointState,
    JointTrajectory,
    RosDuration,
    SetBool,
    Trigger,
)

__all__ = ['ArmControllerNode']

# Without a step for so long, seconds, the clock is taken to stand still.
_STANDSTILL = 0.5
# So many periods without a command say that none will come.
_SILENCE = 5

_SETTINGS = tuple(
    Parameter(
        *(one.name, one.default, one.description, one.lower, one.upper, one.unit), live=one.live
    )
    for one in ControlSettings.parameters()
)


class ArmControllerNode(ImitationNode):
    """Sends commands to the arm, and says in its diagnostics what it does and why.

    All decisions are those of `kde_imitation.control.ArmController`; this node gives it messages
    and the time, and sends what it says. When the node ends it brakes the arm first.
    """

    NAME = 'arm_controller_node'
    PARAMETERS = (
        *ARM_PARAMETERS,
        Parameter(
            'command_interface',
            'position',
            "What the arm takes: 'position', a stream of positions on "
            "position_controller/commands, or 'trajectory', a short trajectory each period on "
            'joint_trajectory_controller/joint_trajectory.',
            choices=('position', 'trajectory'),
        ),
        Parameter(
            'enable_at_start',
            False,
            'Whether the arm may move as soon as its joint states come in, without ~/enable.',
        ),
        Parameter('self_collision', True, 'Whether the links are kept from touching each other.'),
        Parameter(
            'keep_off_mount',
            True,
            'Whether the links are kept off what the arm is mounted on too: the plane through its '
            "base at right angles to the base's z axis. Has no effect without self_collision.",
        ),
        Parameter(
            'limits',
            '',
            "YAML file with the accelerations of another arm's joints, in the form of MoveIt; it "
            'may narrow the other limits too. Empty for the PA-10.',
        ),
        *_SETTINGS,
    )

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(parameters, **options)
        arm = Arm.of(self)
        self.names = arm.names
        settings = self._settings({name.name: self.value(name.name) for name in _SETTINGS})
        guard = None
        if self.value('self_collision'):
            guard = SelfCollisionGuard(
                *(arm.urdf, settings.collision_margin, self.names, arm.chain.tip),
                keep_off_mount=self.value('keep_off_mount'),
            )
        self.controller = ArmController(arm.limits(self.value('limits')), settings, guard)
        self.command: Command | None = None
        self._enable_soon = bool(self.value('enable_at_start'))
        self._ending = self._rested = False
        self._stepped_at, self._sent_at = 0.0, 0
        # The controller counts in seconds, too coarse for the stamp itself.
        self._stamps: deque[tuple[float, int]] = deque(maxlen=64)
        self._measured: float | None = None
        self._streams = self.value('command_interface') == 'position'
        self._commands = (
            self.create_publisher(Float64MultiArray, 'position_controller/commands', RELIABLE)
            if self._streams
            else self.create_publisher(
                JointTrajectory, 'joint_trajectory_controller/joint_trajectory', RELIABLE
            )
        )
        self._joint_states = Polled(self, JointState, 'joint_states')
        self._paths = Polled(self, JointTrajectory, 'joint_path')
        self._receive_state = self.guarded(self._on_joint_state)
        self._receive_path = self.guarded(self._on_path)
        self.create_service(SetBool, '~/enable', self._on_enable)
        self.create_service(Trigger, '~/stop', self._on_stop)
        self.create_timer(settings.period, self.guarded(self._step))

    # --- parameters ---

    def _settings(self, values: Mapping[str, Any]) -> ControlSettings:
        return ControlSettings(**{one.name: values[one.name] for one in _SETTINGS})

    def agree(self, values: Mapping[str, Any]) -> None:
        """Let the controller judge its settings."""
        self._settings(values)

    def changed(self, values: Mapping[str, Any]) -> None:
        """Take new settings at once."""
        self.controller.configure(dataclasses.replace(self.controller.settings, **values))

    # --- messages ---

    def _on_joint_state(self, message: JointState) -> None:
        if not set(self.names) & set(message.name):
            # Of another device: joint states of several may come on one topic.
            return
        stamp = nanoseconds(message.header.stamp) or self.now()
        try:
            q = read_joint_state(message, self.names)
        except BadInput:
            self.controller.on_joint_states(np.full(len(self.names), np.nan), 1e-9 * stamp)
            raise
        self.controller.on_joint_states(q, 1e-9 * stamp)

    def _on_path(self, message: JointTrajectory) -> None:
        stamp = nanoseconds(message.header.stamp)
        path, _ = read_trajectory(message, self.names)
        self._stamps.append((1e-9 * stamp, stamp))
        self.controller.on_goal(path, 1e-9 * stamp, novel=len(path) == 0)

    def _on_enable(self, request: Any, response: Any) -> Any:
        self._enable_soon = False
        response.success, response.message = self.controller.enable(request.data)
        self.get_logger().info(response.message)
        return response

    def _on_stop(self, request: Any, response: Any) -> Any:
        self._enable_soon = False
        response.success, response.message = self.controller.stop()
        self.get_logger().info(response.message)
        return response

    # --- commands ---

    def _step(self) -> None:
        began = time.perf_counter()
        self._stepped_at = time.monotonic()
        if self._ending and self.controller.state is not State.DISABLED:
            self.controller.stop()
        self._take_in()
        now = self.now()
        command = self.command = self.controller.step(1e-9 * now)
        if self._enable_soon and not self._ending:
            self._enable_soon = not self.controller.enable(True).ok
        if command.q is not None:
            self._send(command)
            self._sent_at = now
        self._rested = self._at_rest(command, now)
        self._measure(command)
        moving = command.state in (State.ALIGNING, State.FOLLOWING)
        fine = moving or command.state is State.DISABLED
        self.report.state(OK if fine else WARN, f'{command.state.value}: {command.reason}')
        self.report.done(time.perf_counter() - began)

    def _take_in(self) -> None:
        """Give the controller what has come since the last period."""
        for message, _ in self._joint_states.take():
            self._receive_state(message)
        for message, _ in self._paths.take():
            self._receive_path(message)

    def _at_rest(self, command: Command, now: int) -> bool:
        """Whether the arm was asked to come to its end, and is there.

        A single step without a command says nothing: it may have come too soon after another.
        """
        if not self._ending:
            return False
        if command.velocity is not None:
            return not np.any(command.velocity)
        return now - self._sent_at > _SILENCE * 1e9 * self.controller.settings.period

    def _send(self, command: Command) -> None:
        stamp = dict(self._stamps).get(command.goal_stamp) if command.goal_stamp else None
        assert command.q is not None
        if self._streams:
            self._commands.publish(command_message(command.q, stamp))
        else:
            period = self.controller.settings.period
            self._commands.publish(trajectory_command(self.names, command.q, period, stamp))

    def _measure(self, command: Command) -> None:
        """Note the time from a picture to the first command that it caused."""
        stamp = command.goal_stamp
        if command.q is not None and stamp is not None and stamp != self._measured:
            self._measured = stamp
            self.report.latency(1e-9 * self.now() - stamp)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how well the arm follows its commands."""
        command = self.command
        if command is None:
            return {}
        return {
            'tracking error (mrad)': f'{1e3 * command.tracking_error:.2f}',
            'speed scale': f'{command.speed_scale:.2f}',
        }

    # --- the end ---

    def finished(self) -> bool:
        """Brake, and say whether the arm is at rest, or its clock stands still."""
        if not self._ending:
            self._ending, self._stepped_at = True, time.monotonic()
        return self._rested or time.monotonic() - self._stepped_at > _STANDSTILL

    def close(self) -> None:
        """Take the node down when the last command has arrived."""
        self._commands.wait_for_all_acked(RosDuration(seconds=_STANDSTILL))
        super().close()
