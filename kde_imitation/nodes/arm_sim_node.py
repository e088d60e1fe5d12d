"""The arm in MuJoCo, on the topics of a real one under ros2_control."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput, KdeImitationError
from kde_imitation.nodes.arm import ARM_PARAMETERS, Arm
from kde_imitation.nodes.base import LATCHED, RELIABLE, ImitationNode, Polled
from kde_imitation.nodes.diagnostics import ERROR, OK
from kde_imitation.nodes.messages import read_command, read_trajectory, time_message
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import (
    Clock,
    ClockMessage,
    ClockType,
    Float64MultiArray,
    Header,
    JointState,
    JointTrajectory,
    String,
    Trigger,
)
from kde_imitation.simulation.arm import SimulatedArm

__all__ = ['ArmSimNode']

_MILLISECOND = 1_000_000
# A reference is renewed after so many steps; no more than so many are made at once.
_STRETCH, _MOST = 10, 100
_QUIET = 0.5


class ArmSimNode(ImitationNode):
    """Moves the simulated arm as the clock moves, 1 ms a step.

    A timer brings the physics up to the present, so that a short delay of the machine is made up
    for. A machine that is too slow lets the simulated arm fall behind by whole stretches, which
    shows as a real-time factor below 1; where this node gives the time, that goes slower instead.
    """

    NAME = 'arm_sim_node'
    PARAMETERS = (
        *ARM_PARAMETERS,
        Parameter('rate', 100.0, 'How often joint states are given.', 20.0, 1000.0, 'Hz'),
        Parameter(
            'start',
            (0.0,),
            'Posture at the start and after a reset: one value for all joints, or one a joint.',
            *(-10.0, 10.0, 'rad'),
            live=True,
        ),
        Parameter(
            'armature',
            (0.0,),
            "Inertias of the motors' rotors, seen at the joints: one value for all, or one a "
            "joint. A single 0 is the PA-10's own, and none for another arm.",
            *(0.0, 1000.0, 'kg m^2'),
        ),
        Parameter('payload', 0.0, 'A point mass at the tip.', 0.0, 100.0, 'kg'),
        Parameter('payload_known', True, 'Whether the servos know of the payload.'),
        Parameter(
            'command_period',
            0.01,
            'The servos take this time to reach a command of the position stream.',
            *(0.001, 0.1, 's'),
            live=True,
        ),
        Parameter('publish_clock', False, 'Whether this node gives the time on /clock.'),
    )

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._gives_time = bool(self.value('publish_clock'))
        self._sim_time = bool(self.get_parameter('use_sim_time').value)
        if self._gives_time and self._sim_time:
            raise BadInput(
                'publish_clock and use_sim_time are both true, but the node that gives the time '
                'cannot take it from others; set one of them to false.'
            )
        arm = Arm.of(self)
        self.arm = SimulatedArm(
            arm.urdf,
            armature=arm.armature(self.value('armature')),
            payload=self.value('payload'),
            payload_known=self.value('payload_known'),
            tip=arm.chain.tip,
        )
        self._simulated = 0 if self._gives_time else self.now()
        self._ticked = time.monotonic_ns()
        self._moved_at = self._ticked
        self._report_from = self._moved_at, 0
        self._steps = 0
        self._put_to_start()
        self._states = self.create_publisher(JointState, 'joint_states', RELIABLE)
        self._description = self.create_publisher(String, 'robot_description', LATCHED)
        self._description.publish(String(data=arm.urdf))
        self._clock_topic = (
            self.create_publisher(ClockMessage, '/clock', RELIABLE) if self._gives_time else None
        )
        self._inputs = (
            (
                Polled(self, Float64MultiArray, 'position_controller/commands'),
                self.guarded(self._on_command),
            ),
            (
                Polled(self, JointTrajectory, 'joint_trajectory_controller/joint_trajectory'),
                self.guarded(self._on_trajectory),
            ),
        )
        self.create_service(Trigger, '~/reset', self._on_reset)
        clock = Clock(clock_type=ClockType.STEADY_TIME) if self._gives_time else self.get_clock()
        self.create_timer(1.0 / self.value('rate'), self.guarded(self._tick), clock=clock)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how the simulated time goes against that of the wall."""
        wall, steps = self._report_from
        self._report_from = self._moved_at, self._steps
        factor = (self._steps - steps) * _MILLISECOND / max(self._moved_at - wall, 1)
        return {'real-time factor': f'{factor:.3f}', 'simulated time (s)': f'{self.arm.time:.3f}'}

    # --- commands ---

    def _put_to_start(self) -> None:
        start = np.asarray(self.value('start'))
        joints = len(self.arm.names)
        if len(start) not in (1, joints):
            raise BadInput(f'start has {len(start)} values, but the arm has {joints} joints.')
        self.arm.reset(np.broadcast_to(start, (joints,)))
        self._commanded_at: float | None = None
        self._plan([self.arm.reference], [0.0], self._simulated)

    def _take_in(self) -> None:
        """Plan by the commands that have come, from the time at which each did."""
        for topic, receive in self._inputs:
            for message, info in topic.take():
                receive(message, self.now() if self._sim_time else info['received_timestamp'])

    def _on_command(self, message: Float64MultiArray, came: int) -> None:
        command = read_command(message, len(self.arm.names))
        self._plan([command], [self.value('command_period')], came)
        self._commanded_at = time.monotonic()

    def _on_trajectory(self, message: JointTrajectory, came: int) -> None:
        path, times = read_trajectory(message, self.arm.names)
        if not len(path):
            path, times = self.arm.reference[None], np.zeros(1)
        self._plan(path, times, came)
        self._commanded_at = time.monotonic()

    def _plan(self, path: Any, times: Any, came: int) -> None:
        """Let the reference go evenly from posture to posture, each so long after an instant."""
        start = self._simulated
        now = start if self._gives_time else max(came, start)
        self._plan_times = np.concatenate([[0.0], 1e-9 * (now - start) + np.asarray(times)])
        self._plan_path = np.vstack([self.arm.reference, *path])
        self._plan_start = start

    def _reference(self, instant: int) -> Floats:
        """Return where the plan is at an instant (ns), shape (n,)."""
        times, path = self._plan_times, self._plan_path
        t = max(1e-9 * (instant - self._plan_start), 0.0)
        i = int(np.searchsorted(times, t, side='right'))
        if i == len(times):
            return np.asarray(path[-1])
        share = (t - times[i - 1]) / (times[i] - times[i - 1])
        return np.asarray(path[i - 1] + share * (path[i] - path[i - 1]))

    def _on_reset(self, request: Any, response: Any) -> Any:
        try:
            self._put_to_start()
            response.success, response.message = True, 'The arm is at its start, at rest.'
        except KdeImitationError as error:
            response.success, response.message = False, str(error)
        return response

    # --- time ---

    def _tick(self) -> None:
        """Bring the physics up to the present, and say where the arm is."""
        began = time.perf_counter()
        self._take_in()
        steps = self._due_steps()
        if not steps:
            return
        try:
            while steps:
                stretch = min(steps, _STRETCH)
                self._simulated += stretch * _MILLISECOND
                self.arm.step(self._reference(self._simulated), stretch)
                self._steps += stretch
                steps -= stretch
        except KdeImitationError as error:
            self.report.state(ERROR, f'{error} The service ~/reset does that.')
            raise
        self._moved_at = time.monotonic_ns()
        self._publish()
        self._say_state()
        self.report.done(time.perf_counter() - began)

    def _due_steps(self) -> int:
        """Return how many steps are to be made now."""
        if self._gives_time:
            wall = time.monotonic_ns()
            passed = wall - self._ticked
            steps = min(passed // _MILLISECOND, _MOST)
            self._ticked = wall - (passed % _MILLISECOND if steps < _MOST else 0)
            return int(steps)
        now = self.now()
        behind = (now - self._simulated) // _MILLISECOND
        if not 0 <= behind <= _MOST:
            # Too slow, or the clock was set: what lies between is left out.
            shift = now - min(max(behind, 0), _MOST) * _MILLISECOND - self._simulated
            self._simulated += shift
            self._plan_start += shift
            behind = min(max(behind, 0), _MOST)
        return int(behind)

    def _publish(self) -> None:
        stamp = time_message(self._simulated)
        arm = self.arm
        if self._clock_topic is not None:
            self._clock_topic.publish(ClockMessage(clock=stamp))
        self._states.publish(
            JointState(
                header=Header(stamp=stamp),
                name=list(arm.names),
                position=arm.q.tolist(),
                velocity=arm.qd.tolist(),
                effort=arm.torque.tolist(),
            )
        )

    def _say_state(self) -> None:
        last = self._commanded_at
        if last is None:
            self.report.state(OK, 'Holding its start: no command has come yet.')
        elif time.monotonic() - last > _QUIET:
            self.report.state(OK, 'Holding: no commands come in.')
        else:
            self.report.state(OK, 'Following commands.')
