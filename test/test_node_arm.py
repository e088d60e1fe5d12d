"""The simulated arm on the topics of a real one, through DDS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from node_bench import COMMANDS, MANY, READY, TRAJECTORIES, World, lines, status
from rclpy.qos import DurabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.description import JOINTS, urdf
from kde_imitation.nodes.arm_controller_node import ArmControllerNode
from kde_imitation.nodes.arm_sim_node import ArmSimNode
from kde_imitation.nodes.base import LATCHED, RELIABLE
from kde_imitation.nodes.messages import (
    command_message,
    nanoseconds,
    time_message,
    trajectory_message,
)

TERN = str(ROOT / 'urdf' / 'examples' / 'tern.urdf')
TERN_ROTORS = [0.2, 0.2, 0.1, 0.1, 0.05, 0.05]


def where(heard: list[JointState]) -> np.ndarray:
    return np.array(heard[-1].position)


def simulated(ros: World, **parameters: Any) -> tuple[ArmSimNode, list[JointState]]:
    heard = ros.listen(JointState, 'joint_states', MANY)
    node = ArmSimNode({'start': READY, **parameters}, context=ros.context)
    ros.run(node)
    ros.until(lambda: heard)
    return node, heard


def test_the_simulated_arm_holds_its_start_and_says_where_it_is(ros: World) -> None:
    _, heard = simulated(ros)
    ros.until(lambda: len(heard) >= 50)
    assert {tuple(message.name) for message in heard} == {JOINTS}
    for message in heard:
        assert np.abs(np.array(message.position) - READY).max() < 1e-3
        assert len(message.velocity) == len(message.effort) == 7
    assert np.abs(heard[-1].effort).max() > 1.0, 'it carries its weight'
    stamps = np.array([nanoseconds(message.header.stamp) for message in heard])
    assert (np.diff(stamps) > 0).all()
    assert (np.diff(stamps) % 1_000_000 == 0).all(), 'whole steps of 1 ms'


def test_joint_states_come_at_the_wanted_rate_in_step_with_the_clock(ros: World) -> None:
    told = ros.diagnoses()
    _, heard = simulated(ros, rate=100.0)
    ros.until(lambda: len(heard) >= 150)
    stamps = 1e-9 * np.array([nanoseconds(message.header.stamp) for message in heard])
    assert len(stamps) / (stamps[-1] - stamps[0]) == pytest.approx(100.0, rel=0.1)
    assert abs(1e-9 * ros.probe.get_clock().now().nanoseconds - stamps[-1]) < 0.5
    found = ros.until(lambda: status(told, 'arm_sim_node'))
    assert float(lines(found)['real-time factor']) == pytest.approx(1.0, abs=0.2)


def test_the_simulated_arm_follows_positions_and_holds_when_they_stop(ros: World) -> None:
    told = ros.diagnoses()
    _, heard = simulated(ros)
    speaker = ros.speak(Float64MultiArray, COMMANDS, RELIABLE)
    ros.connected(speaker)
    goal = np.array(READY) + 0.05
    speaker.publish(command_message(goal, None))
    ros.until(lambda: np.abs(where(heard) - goal).max() < 2e-3)
    ros.pass_time(0.3)
    assert np.abs(where(heard) - goal).max() < 2e-3
    ros.until(lambda: (found := status(told, 'arm_sim_node')) and 'Holding' in found.message)


def test_the_simulated_arm_follows_trajectories_in_their_time(ros: World) -> None:
    _, heard = simulated(ros)
    speaker = ros.speak(JointTrajectory, TRAJECTORIES, RELIABLE)
    ros.connected(speaker)
    middle, end = np.array(READY) + 0.2, np.array(READY)
    del heard[:]
    speaker.publish(trajectory_message(JOINTS, [middle, end], [0.5, 1.0], Header()))
    ros.until(lambda: heard and np.abs(where(heard) - middle).max() < 0.02)
    ros.until(lambda: np.abs(where(heard) - end).max() < 0.002)
    positions = np.array([message.position for message in heard])[:, 1]
    stamps = 1e-9 * np.array([nanoseconds(message.header.stamp) for message in heard])
    moving = np.flatnonzero(np.abs(positions - READY[1]) > 0.005)
    # From 5 mrad to 200 and back at 400 mrad a second.
    assert stamps[moving[-1]] - stamps[moving[0]] == pytest.approx(0.975, abs=0.06)


@pytest.mark.parametrize(
    ('message', 'said'),
    [
        (Float64MultiArray(data=[0.1] * 6), 'has 6 values, but the arm has 7'),
        (Float64MultiArray(data=[0.1] * 6 + [np.nan]), 'holds nan'),
        (trajectory_message(('s1', 's2'), [[0.1, 0.1]], [0.1], Header()), 'lacks the joints'),
    ],
    ids=['count', 'nan', 'names'],
)
def test_a_bad_command_is_said_and_nothing_moves(ros: World, message: Any, said: str) -> None:
    told = ros.diagnoses()
    _, heard = simulated(ros)
    topic = COMMANDS if isinstance(message, Float64MultiArray) else TRAJECTORIES
    speaker = ros.speak(type(message), topic, RELIABLE)
    ros.connected(speaker)
    speaker.publish(message)
    ros.until(lambda: (found := status(told, 'arm_sim_node')) and said in found.message)
    assert np.abs(where(heard) - READY).max() < 1e-3


def test_a_reset_puts_the_arm_at_its_start(ros: World) -> None:
    _, heard = simulated(ros)
    speaker = ros.speak(Float64MultiArray, COMMANDS, RELIABLE)
    ros.connected(speaker)
    speaker.publish(command_message(np.array(READY) + 0.3, None))
    ros.until(lambda: where(heard)[0] > 0.1)
    answer = ros.call(Trigger, 'arm_sim_node/reset', Trigger.Request())
    assert (answer.success, answer.message) == (True, 'The arm is at its start, at rest.')
    del heard[:]
    ros.until(lambda: len(heard) > 5)
    assert np.abs(where(heard) - READY).max() < 1e-3
    assert ros.set('arm_sim_node', start=[9.0]) == [(True, '')]
    answer = ros.call(Trigger, 'arm_sim_node/reset', Trigger.Request())
    assert not answer.success
    assert 'turns from' in answer.message


def test_an_unknown_payload_makes_the_arm_sag(ros: World) -> None:
    _, heard = simulated(ros, payload=5.0, payload_known=False)
    assert ros.until(lambda: np.abs(where(heard) - READY).max() > 1e-3)


@pytest.mark.parametrize(
    ('parameters', 'inertias'),
    [
        ({}, description.armature()),
        ({'urdf': TERN}, np.zeros(6)),
        ({'armature': [0.3]}, np.full(7, 0.3)),
        ({'armature': [0.0] * 7}, np.zeros(7)),
        ({'urdf': TERN, 'armature': TERN_ROTORS}, TERN_ROTORS),
    ],
    ids=['pa10', 'tern', 'one', 'none', 'each'],
)
def test_the_rotors_are_those_of_the_arm_unless_told(
    ros: World, parameters: dict[str, Any], inertias: Any
) -> None:
    node = ros.run(ArmSimNode(parameters, context=ros.context))
    np.testing.assert_array_equal(node.arm.model.dof_armature, inertias)


@pytest.mark.parametrize(
    ('parameters', 'mount'),
    [
        ({}, 'the mounting wall'),
        ({'mount': 'floor'}, 'the mounting floor'),
        ({'keep_off_mount': False}, None),
    ],
    ids=['wall', 'floor', 'off'],
)
def test_the_controller_keeps_off_the_mount_unless_told(
    ros: World, parameters: dict[str, Any], mount: str | None
) -> None:
    guard = ros.run(ArmControllerNode(parameters, context=ros.context)).controller.guard
    assert (guard.mount and guard.mount.name) == mount


def test_the_description_reaches_those_who_come_later(ros: World) -> None:
    simulated(ros, prefix='left_')
    heard = ros.listen(String, 'robot_description', LATCHED)
    ros.until(lambda: heard)
    assert heard[0].data == urdf(prefix='left_', mount='wall')
    (offer,) = ros.probe.get_publishers_info_by_topic('/robot_description')
    assert offer.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL


def test_the_simulated_arm_gives_the_time(ros: World) -> None:
    clocks = ros.listen(Clock, '/clock', MANY)
    _, heard = simulated(ros, publish_clock=True)
    ros.until(lambda: len(heard) > 30)
    times = [nanoseconds(message.clock) for message in clocks]
    assert times == sorted(set(times))
    assert times[-1] < 60e9, 'the time begins with the simulation'
    assert {nanoseconds(message.header.stamp) for message in heard} & set(times)
    with pytest.raises(BadInput, match='publish_clock and use_sim_time'):
        ArmSimNode({'publish_clock': True, 'use_sim_time': True}, context=ros.context)


def test_the_simulated_arm_stands_still_with_the_clock(ros: World) -> None:
    clock = ros.speak(Clock, '/clock', RELIABLE)
    heard = ros.listen(JointState, 'joint_states', MANY)
    node = ros.run(ArmSimNode({'start': READY, 'use_sim_time': True}, context=ros.context))
    ros.connected(clock)
    for step in range(1, 101):
        clock.publish(Clock(clock=time_message(10**9 + step * 10**7)))
        ros.pass_time(0.004)
    ros.until(lambda: len(heard) >= 50)
    ros.pass_time(0.2)
    time = node.arm.time
    assert time == pytest.approx(1.0, abs=0.25)
    ros.pass_time(0.2)
    assert node.arm.time == time
    # A clock that begins anew, as after the restart of a simulation.
    count = len(heard)
    for step in range(1, 30):
        clock.publish(Clock(clock=time_message(step * 10**7)))
        ros.pass_time(0.004)
    ros.until(lambda: len(heard) > count + 5)
    assert nanoseconds(heard[-1].header.stamp) <= 3 * 10**8
    assert np.abs(where(heard) - READY).max() < 1e-3


@pytest.mark.parametrize(
    ('parameters', 'said'),
    [
        ({'start': [0.0, 0.0]}, 'start has 2 values, but the arm has 7'),
        ({'start': [0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]}, "joint 's2' turns from"),
        ({'urdf': 'nowhere.urdf'}, 'cannot be read'),
        ({'payload': -1.0}, 'payload is -1'),
        ({'armature': [0.1, 0.1]}, 'armature has 2 values, but the arm has 7 joints; give one'),
        ({'armature': [-0.1]}, 'armature is -0.1, but must be from 0 to 1000'),
        ({'armature': [float('nan')] * 7}, 'armature must be a list of numbers'),
        ({'mount': 'ceiling'}, "must be one of 'floor', 'wall'"),
    ],
)
def test_an_arm_that_cannot_be_is_one_sentence(ros: World, parameters: dict, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ArmSimNode(parameters, context=ros.context)
