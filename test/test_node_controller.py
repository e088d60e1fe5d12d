"""The controller alone, with the time in the hands of the test, and with the simulated arm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from node_bench import COMMANDS, MANY, READY, TRAJECTORIES, World, lines, status
from rclpy.duration import Duration as RosDuration
from rclpy.qos import ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import JOINTS, joint_limits
from kde_imitation.nodes.arm_controller_node import ArmControllerNode
from kde_imitation.nodes.arm_sim_node import ArmSimNode
from kde_imitation.nodes.base import RELIABLE
from kde_imitation.nodes.messages import (
    command_stamp,
    nanoseconds,
    time_message,
    trajectory_message,
    trajectory_stamp,
)

GOAL = np.array([0.2, 0.5, 0.1, 1.0, 0.0, 0.5, 0.1])


class Bench:
    """A controller with a clock, joint states and goals in the hands of the test."""

    def __init__(self, ros: World, **parameters: Any) -> None:
        self.ros, self.now, self.q = ros, 10**9, np.array(READY)
        self.told = ros.diagnoses()
        self.commands = ros.listen(Float64MultiArray, COMMANDS, MANY)
        self.clock = ros.speak(Clock, '/clock', RELIABLE)
        self.states = ros.speak(JointState, 'joint_states', RELIABLE)
        self.paths = ros.speak(JointTrajectory, 'joint_path', RELIABLE)
        values = {'use_sim_time': True, **parameters}
        self.node = ros.run(ArmControllerNode(values, context=ros.context))
        for speaker in (self.clock, self.states, self.paths):
            ros.connected(speaker)

    def step(self, names: tuple[str, ...] = JOINTS, q: Any = None) -> None:
        """Go on by 10 ms; the arm is where it was told to be."""
        self.now += 10**7
        q = self.q if q is None else q
        stamp = Header(stamp=time_message(self.now))
        self.states.publish(JointState(header=stamp, name=list(names), position=list(q)))
        self.arrived(self.states)
        seen = self.node.command
        self.clock.publish(Clock(clock=time_message(self.now)))
        self.ros.until(lambda: self.node.command is not seen)
        if self.node.command.q is not None:
            self.q = self.node.command.q

    def goal(self, path: Any, names: tuple[str, ...] = JOINTS) -> int:
        header = Header(stamp=time_message(self.now))
        times = [0.1 * i for i in range(len(path))]
        self.paths.publish(trajectory_message(names, path, times, header))
        self.arrived(self.paths)
        return self.now

    def arrived(self, speaker: Any) -> None:
        assert speaker.wait_for_all_acked(RosDuration(seconds=5.0))

    def enable(self, on: bool = True) -> Any:
        name = 'arm_controller_node/enable'
        return self.ros.call(SetBool, name, SetBool.Request(data=on))

    @property
    def state(self) -> str:
        return str(self.node.command.state.value)


def test_nothing_is_sent_before_the_arm_is_enabled(ros: World) -> None:
    bench = Bench(ros)
    answer = bench.enable()
    assert not answer.success
    for _ in range(5):
        bench.step()
        bench.goal([GOAL])
    assert bench.state == 'disabled'
    assert bench.commands == []


def test_the_arm_follows_a_goal_one_command_a_period_with_the_pictures_stamp(
    ros: World,
) -> None:
    bench = Bench(ros)
    for _ in range(3):
        bench.step()
    assert bench.enable().success
    stamps = set()
    for i in range(60):
        if i % 3 == 0:
            # In another order of joints, with the start of the path before the goal.
            order = JOINTS[::-1]
            stamps.add(bench.goal([bench.q[::-1], GOAL[::-1]], order))
        bench.step()
    assert bench.state == 'aligning'
    ros.until(lambda: len(bench.commands) == 60)
    found = [command_stamp(message) for message in bench.commands]
    assert set(found) - {None} <= stamps
    assert found[-1] == max(stamps)
    q = np.array([message.data for message in bench.commands])
    assert np.linalg.norm(q[-1] - GOAL) < np.linalg.norm(np.array(READY) - GOAL)
    assert (np.abs(np.diff(q, axis=0)) <= 0.01 * joint_limits().velocity).all()
    told = ros.until(
        lambda: (
            (found := status(bench.told, 'arm_controller_node'))
            and lines(found).get('latency from picture p50 (ms)') == '10.00'
            and found
        )
    )
    assert told.message == 'aligning: Moving to the goal, slowly at first.'
    # The goal at hand when the arm began to move was older, by two periods at most.
    assert float(lines(told)['latency from picture p95 (ms)']) <= 30.0
    assert {'tracking error (mrad)', 'speed scale'} <= set(lines(told))


def test_a_novel_picture_and_bad_joint_states_make_the_arm_hold(ros: World) -> None:
    bench = Bench(ros, enable_at_start=True, settle_time=0.0)
    for _ in range(5):
        bench.goal([GOAL])
        bench.step()
    assert bench.state == 'aligning', 'without a call of ~/enable'
    bench.goal([])
    bench.step()
    assert (bench.state, bench.node.command.reason) == (
        'holding',
        'The picture is unlike all demonstrations.',
    )
    bench.goal([GOAL])
    bench.step()
    assert bench.state == 'aligning'
    bench.step(q=[np.nan] * 7)
    assert bench.state == 'holding'
    for _ in range(20):
        bench.goal([GOAL])
        bench.step()
    assert bench.state == 'aligning'
    # Another device's joints on the same topic do not matter; a missing joint does.
    bench.states.publish(JointState(name=['gripper'], position=[0.0]))
    bench.step()
    assert bench.state == 'aligning'
    bench.step(names=JOINTS[:6], q=bench.q[:6])
    assert bench.state == 'holding'
    ros.until(
        lambda: (
            (found := status(bench.told, 'arm_controller_node'))
            and 'lacks the joints w2' in lines(found).get('last refusal', '')
        )
    )


def test_stop_brakes_and_only_enabling_lets_the_arm_go_on(ros: World) -> None:
    bench = Bench(ros, enable_at_start=True, start_scale=1.0)
    for _ in range(30):
        bench.goal([GOAL])
        bench.step()
    assert np.abs(bench.node.command.velocity).max() > 0.05
    answer = ros.call(Trigger, 'arm_controller_node/stop', Trigger.Request())
    assert answer.success
    for _ in range(60):
        bench.goal([GOAL])
        bench.step()
    assert bench.state == 'stopped'
    assert not np.any(bench.node.command.velocity)
    assert bench.enable().success
    for _ in range(3):
        bench.goal([GOAL])
        bench.step()
    assert bench.state == 'aligning'
    assert bench.enable(False).success
    for _ in range(60):
        bench.step()
    assert bench.state == 'disabled'
    assert bench.node.command.q is None


def test_the_arm_is_braked_when_the_node_ends(ros: World) -> None:
    heard = ros.listen(Float64MultiArray, COMMANDS, MANY)
    arm = ArmSimNode({'start': READY}, context=ros.context)
    controller = ArmControllerNode(
        # The goal lies behind the wall.
        {'enable_at_start': True, 'start_scale': 1.0, 'keep_off_mount': False},
        context=ros.context,
    )
    ros.run(controller, arm)
    paths = ros.speak(JointTrajectory, 'joint_path', RELIABLE)
    ros.connected(paths)

    def fast() -> bool:
        header = Header(stamp=ros.probe.get_clock().now().to_msg())
        paths.publish(trajectory_message(JOINTS, [READY + 0.8 * np.sign(GOAL)], [0.0], header))
        ros.pass_time(0.02)
        command = controller.command
        return command.velocity is not None and np.abs(command.velocity).max() > 0.2

    ros.until(fast)
    ros.end_nodes()
    ros.pass_time(0.1)
    q = np.array([message.data for message in heard])
    assert np.abs(np.diff(q, axis=0)).max() > 1e-3, 'it moved'
    assert np.abs(q[-1] - q[-2]).max() < 1e-5, 'it came to rest'
    second = np.abs(np.diff(q, n=2, axis=0)).max(axis=0)
    assert (second <= 1.2e-4 * joint_limits().acceleration + 1e-9).all(), 'not faster than allowed'


def test_settings_of_the_controller_change_while_it_runs(ros: World) -> None:
    bench = Bench(ros)
    answers = ros.set('arm_controller_node', speed_scale=0.5, speed_scale_=1, period=0.02)
    assert [taken for taken, _ in answers] == [True, False, False]
    assert bench.node.controller.settings.speed_scale == 0.5
    assert 'read at the start only' in answers[2][1]
    ((taken, reason),) = ros.set('arm_controller_node', speed_scale=7.0)
    assert not taken
    assert reason == 'speed_scale is 7, but must be from 0.02 to 1.'
    assert bench.node.controller.settings.speed_scale == 0.5


def test_trajectories_are_sent_where_the_arm_wants_them(ros: World) -> None:
    heard = ros.listen(JointTrajectory, TRAJECTORIES, MANY)
    bench = Bench(ros, command_interface='trajectory', enable_at_start=True)
    for _ in range(30):
        stamp = bench.goal([GOAL])
        bench.step()
    ros.until(lambda: heard and trajectory_stamp(heard[-1]) == stamp)
    assert tuple(heard[-1].joint_names) == JOINTS
    assert [nanoseconds(message.header.stamp) for message in heard] == [0] * len(heard)
    assert heard[-1].points[0].time_from_start.nanosec == 10**7
    assert bench.commands == []


def test_commands_and_states_are_reliable(ros: World) -> None:
    ros.run(
        ArmControllerNode(context=ros.context), ArmSimNode({'start': READY}, context=ros.context)
    )
    for topic in (COMMANDS, 'joint_states'):
        (offer,) = ros.until(
            lambda topic=topic: ros.probe.get_publishers_info_by_topic(f'/{topic}')
        )
        assert offer.qos_profile.reliability == ReliabilityPolicy.RELIABLE
        found = ros.probe.get_subscriptions_info_by_topic(f'/{topic}')
        assert found
        assert all(one.qos_profile.reliability == ReliabilityPolicy.RELIABLE for one in found)


def test_commands_come_a_hundred_times_a_second_and_the_arm_obeys(ros: World) -> None:
    heard = ros.listen(Float64MultiArray, COMMANDS, MANY)
    arm = ArmSimNode({'start': READY}, context=ros.context)
    controller = ArmControllerNode({'enable_at_start': True}, context=ros.context)
    ros.run(controller, arm)
    paths = ros.speak(JointTrajectory, 'joint_path', RELIABLE)
    ros.connected(paths)

    def there() -> bool:
        header = Header(stamp=ros.probe.get_clock().now().to_msg())
        paths.publish(trajectory_message(JOINTS, [GOAL], [0.0], header))
        ros.pass_time(0.03)
        return bool(np.abs(arm.arm.q - GOAL).max() < 0.01)

    ros.until(there)
    assert controller.command.state.value == 'following'
    count, began = len(heard), ros.probe.get_clock().now().nanoseconds
    ros.pass_time(1.0)
    passed = 1e-9 * (ros.probe.get_clock().now().nanoseconds - began)
    assert (len(heard) - count) / passed == pytest.approx(100.0, rel=0.1)


TERN = {'urdf': str(ROOT / 'urdf' / 'examples' / 'tern.urdf.xacro')}


def test_another_arm_comes_from_its_files_alone(ros: World) -> None:
    limits = str(ROOT / 'config' / 'tern' / 'joint_limits.yaml')
    heard = ros.listen(JointState, 'joint_states', MANY)
    arm = ArmSimNode(TERN, context=ros.context)
    values = {**TERN, 'limits': limits, 'enable_at_start': True}
    controller = ArmControllerNode(values, context=ros.context)
    ros.run(controller, arm)
    paths = ros.speak(JointTrajectory, 'joint_path', RELIABLE)
    ros.connected(paths)
    names = controller.names
    assert len(names) == 6
    goal = np.clip(arm.arm.q + 0.1, arm.arm.chain.lower, arm.arm.chain.upper)

    def there() -> bool:
        header = Header(stamp=ros.probe.get_clock().now().to_msg())
        paths.publish(trajectory_message(names, [goal], [0.0], header))
        ros.pass_time(0.03)
        return bool(heard) and bool(np.abs(heard[-1].position - goal).max() < 0.01)

    ros.until(there)
    assert tuple(heard[-1].name) == names


@pytest.mark.parametrize(
    ('parameters', 'said'),
    [
        (TERN, 'limits is empty, but urdf names another arm'),
        ({**TERN, 'limits': 'nowhere.yaml'}, "joint limits 'nowhere.yaml' cannot be read"),
        (
            {'urdf': TERN['urdf'].removesuffix('.xacro'), 'prefix': 'left_'},
            'give a xacro file with the argument prefix',
        ),
    ],
)
def test_another_arm_that_is_not_complete_is_one_sentence(
    ros: World, parameters: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        ArmControllerNode(parameters, context=ros.context)
