"""An arm that is not the PA-10 goes all the way: kinematics, control, simulation, model, nodes.

Its postures for the pictures of `teach_A` are those in which upper arm and forearm point where the
PA-10's do; a closed form gives them.
"""

import time

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import yaml
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control import ArmController, SelfCollisionGuard, State, Tracker
from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.imitation.robot import Robot
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.chain_map import chain_map
from kde_imitation.kinematics.description import expand_xacro, urdf
from kde_imitation.kinematics.limits import read_joint_limits
from kde_imitation.simulation.arm import SimulatedArm

FILE = ROOT / 'urdf' / 'examples' / 'tern.urdf'
XACRO = FILE.with_suffix('.urdf.xacro')
CONFIG = ROOT / 'config' / 'tern'
CHAIN = Chain.from_urdf(FILE)
LIMITS = read_joint_limits(CHAIN, CONFIG / 'joint_limits.yaml')
PERIOD = 0.01
(PARAMS,) = yaml.safe_load((CONFIG / 'params.yaml').read_text())['/**/arm_sim_node'].values()
BENT = np.array([0.8, 0.3, -0.4, 1.2, 0.5, -0.3])
# Its forearm in its stand.
BACK = np.array([-0.3, -1.2, 0.0, 0.4, 0.0, 0.0])
TEACH, MOVING = (ROOT / 'data' / 'actor' / name for name in ('teach_A', 'free_A'))
PAIRS, OTHERS = 30, 60


def postures(count, seed=0):
    return np.random.default_rng(seed).uniform(LIMITS.lower, LIMITS.upper, (count, 6))


# --- the description -------------------------------------------------------------------------


def test_pinocchio_and_mujoco_load_the_same_arm():
    ours, theirs = CHAIN.model, mujoco.MjModel.from_xml_path(str(FILE))
    names = ['raise', 'swing', 'twist', 'elbow', 'wrist_twist', 'wrist_bend']
    assert list(ours.names)[1:] == names == [theirs.joint(i).name for i in range(theirs.njnt)]
    np.testing.assert_allclose(theirs.jnt_range[:, 1], ours.upperPositionLimit)
    np.testing.assert_allclose(theirs.jnt_range[:, 0], ours.lowerPositionLimit)
    mass = sum(inertia.mass for inertia in list(ours.inertias)[1:])
    assert theirs.body_mass.sum() == pytest.approx(mass) == pytest.approx(7.1)


def test_the_xacro_adds_controlled_joints_and_changes_nothing_else():
    for mapping in ({}, {'ros2_control': 'mock'}, {'ros2_control': 'gazebo', 'gazebo': 'true'}):
        text = expand_xacro(XACRO, **mapping)
        chain = Chain.from_urdf(text)
        np.testing.assert_array_equal(chain.link_positions(BENT), CHAIN.link_positions(BENT))
        controlled = text.count('<command_interface name="position"/>')
        assert controlled == (6 if mapping else 0)
    with pytest.raises(BadInput, match="ros2_control is 'steam'; use none, mock or gazebo"):
        expand_xacro(XACRO, ros2_control='steam')


def test_its_controllers_command_its_joints():
    table = yaml.safe_load((CONFIG / 'controllers.yaml').read_text())
    declared = table['/**/controller_manager']['ros__parameters']
    for name in ('position_controller', 'joint_trajectory_controller'):
        assert name in declared
        assert tuple(table[f'/**/{name}']['ros__parameters']['joints']) == CHAIN.names


# --- kinematics ------------------------------------------------------------------------------


def test_positions_and_jacobians_are_those_of_pinocchio():
    model = pin.buildModelFromUrdf(str(FILE))
    data = model.createData()
    frame = model.getFrameId('tool0')
    for q in postures(200):
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        points = [data.oMi[i + 1].translation for i in range(6)]
        np.testing.assert_allclose(CHAIN.link_positions(q), points, atol=1e-12)
        np.testing.assert_allclose(CHAIN.pose(q), data.oMf[frame].homogeneous, atol=1e-12)
        jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(CHAIN.jacobian(q), jacobian, atol=1e-12)


def test_the_compiled_map_finds_postures_from_their_points():
    arm = chain_map(CHAIN)
    wanted = postures(300)
    points = arm.evaluate(wanted)[0]
    rng = np.random.default_rng(1)
    starts = np.clip(wanted + rng.normal(0, 0.3, wanted.shape), LIMITS.lower, LIMITS.upper)
    q, *_ = arm.best_match(
        *(points, np.ones(points.shape[1]), starts, LIMITS.lower, LIMITS.upper),
        *(np.zeros(6), 200, 1e-10),
    )
    assert ((q >= LIMITS.lower) & (q <= LIMITS.upper)).all()
    np.testing.assert_allclose(arm.evaluate(q)[0], CHAIN.link_positions(q).reshape(300, -1))
    error = np.linalg.norm((arm.evaluate(q)[0] - points).reshape(300, 6, 3), axis=2).max(axis=1)
    # A start on the far side of a straight arm may lead to another valley.
    assert (error < 1e-6).mean() > 0.95


# --- control ---------------------------------------------------------------------------------


def assert_inside(commands):
    speed = np.diff(commands, axis=0) / PERIOD
    assert (commands >= LIMITS.lower).all()
    assert (commands <= LIMITS.upper).all()
    assert (np.abs(speed) <= LIMITS.velocity).all()
    assert (np.abs(np.diff(speed, axis=0)) / PERIOD <= LIMITS.acceleration).all()


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_the_tracker_keeps_the_limits_whatever_it_is_asked(seed):
    rng = np.random.default_rng(seed)
    tracker = Tracker(LIMITS, PERIOD, q=rng.uniform(LIMITS.lower, LIMITS.upper))
    span = LIMITS.upper - LIMITS.lower
    commands = [tracker.q]
    for _ in range(6):
        goal = rng.uniform(LIMITS.lower - 0.3 * span, LIMITS.upper + 0.3 * span)
        for _ in range(int(rng.integers(1, 60))):
            tracker.track(goal)
            commands.append(tracker.q)
    while not tracker.at_rest:
        tracker.brake()
        commands.append(tracker.q)
    assert_inside(np.array(commands))


@pytest.fixture(scope='module')
def guard():
    return SelfCollisionGuard(FILE, 0.02)


def test_the_guard_sees_the_arm_at_its_stand(guard):
    assert guard.distance(np.zeros(6)) > 0.05
    assert guard.nearest(BACK).first == 'stand'
    assert guard.distance(BACK) < 0.0
    assert not guard.safe(BACK)


def test_the_controller_reaches_goals_and_keeps_the_arm_off_its_stand(guard):
    controller = ArmController(LIMITS, guard=guard)
    q, now, commands, states = np.zeros(6), 10.0, [], set()

    def go(goal, seconds):
        nonlocal q, now
        for _ in range(round(seconds / PERIOD)):
            now += PERIOD
            controller.on_joint_states(q, now)
            controller.on_goal(goal, now)
            command = controller.step(now)
            states.add(command.state)
            if command.q is not None:
                q = command.q
                commands.append(q)

    go(BENT, 0.5)
    assert controller.enable(True).ok
    go(BENT, 6.0)
    np.testing.assert_allclose(q, BENT, atol=1e-3)
    assert {State.ALIGNING, State.FOLLOWING} <= states
    go(BACK, 6.0)
    assert_inside(np.array(commands))
    assert min(guard.distance(each) for each in commands[::5]) > 0.019


# --- simulation ------------------------------------------------------------------------------


def test_the_simulated_arm_holds_and_follows():
    arm = SimulatedArm(FILE, armature=PARAMS['armature'])
    arm.reset(BENT)
    for _ in range(50):
        arm.step(BENT)
    np.testing.assert_allclose(arm.q, BENT, atol=1e-5)
    np.testing.assert_allclose(arm.torque, arm.chain.gravity(BENT), atol=1e-3)
    t = np.arange(1, 401) * PERIOD
    path = BENT + 0.3 * np.minimum(t, 1)[:, None] * np.sin(np.pi / 2 * t)[:, None]
    followed = []
    for command in path:
        arm.step(command)
        followed.append(arm.q)
        assert (np.abs(arm.torque) < arm.chain.effort).all()
    assert np.abs(np.array(followed) - path).max() < 4e-3


# --- the model -------------------------------------------------------------------------------


def turn(axis, angle):
    """Rotations (n, 3, 3) about a coordinate axis."""
    c, s, one = np.cos(angle), np.sin(angle), np.ones(len(angle))
    rotation = np.zeros((len(angle), 3, 3))
    a, b = [(1, 2), (2, 0)][axis]
    rotation[:, axis, axis] = one
    rotation[:, a, a] = rotation[:, b, b] = c
    rotation[:, b, a], rotation[:, a, b] = s, -s
    return rotation


def copied(pa10_postures):
    """Postures (n, 6) in which this arm points where the PA-10 on the wall does."""
    world = Chain.from_urdf(urdf(mount='wall')).placement[:3, :3]
    upper, fore = np.moveaxis(Robot.pa10().directions(pa10_postures) @ world.T, 1, 0)
    swing = np.arcsin(upper[:, 0])
    up = np.arctan2(-upper[:, 1], -upper[:, 2])
    frame = turn(0, -up) @ turn(1, -swing)
    x, y, z = np.einsum('nji,nj->in', frame, fore)
    straight = np.zeros(len(x))
    return np.stack([up, swing, np.arctan2(y, x), np.arccos(-z), straight, straight], axis=1)


@pytest.fixture(scope='module')
def robot():
    return Robot.from_urdf(FILE, tip='tool0', elbow='elbow', wrist='wrist_bend', base='world')


@pytest.fixture(scope='module')
def pairs():
    data = Dataset.open(TEACH)
    pictures = [data.image(i) for i in range(PAIRS + OTHERS)]
    return pictures, copied(data.labels[: PAIRS + OTHERS]), data.background


@pytest.fixture(scope='module')
def model(robot, pairs):
    pictures, labels, background = pairs
    return ImitationModel.train(pictures[:PAIRS], labels[:PAIRS], background, robot=robot)


def test_copied_postures_point_where_the_pa10_points_and_are_safe(robot, pairs, guard):
    labels = Dataset.open(TEACH).labels[: PAIRS + OTHERS]
    world = Chain.from_urdf(urdf(mount='wall')).placement[:3, :3]
    expected = Robot.pa10().directions(labels) @ world.T
    found = robot.directions(robot.postures('labels', pairs[1]))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert all(guard.safe(q) for q in pairs[1])


def test_a_model_learns_this_arm(robot, model, pairs):
    pictures, labels, _ = pairs
    seen = [model.predict(picture) for picture in pictures[PAIRS:]]
    q = np.array([one.q for one in seen])
    assert model.names == CHAIN.names
    assert ((q >= robot.lower) & (q <= robot.upper)).all()
    error = robot.errors(q, labels[PAIRS:])
    # Chance: a demonstration picked blindly.
    draw = np.random.default_rng(0).integers(0, PAIRS, OTHERS)
    chance = robot.errors(labels[draw], labels[PAIRS:])
    assert error.mean() < 0.5 * chance.mean()
    assert np.mean([one.novel for one in seen]) < 0.3


def test_a_model_file_carries_the_arm(model, pairs, tmp_path):
    model.save(tmp_path / 'tern.npz')
    again = ImitationModel.load(tmp_path / 'tern.npz')
    picture = pairs[0][PAIRS]
    assert again.names == model.names
    np.testing.assert_allclose(again.predict(picture).q, model.predict(picture).q, atol=1e-9)


# --- the nodes -------------------------------------------------------------------------------


@pytest.mark.parametrize('file', [FILE, XACRO], ids=['urdf', 'xacro'])
def test_the_nodes_move_this_arm(model, tmp_path, file):
    pytest.importorskip('rclpy', reason='ROS 2 is not installed; the extra "ros" brings it')
    from node_bench import own_domain

    from kde_imitation.nodes.stack import running_stack

    model.save(tmp_path / 'tern.npz')
    parameters = {
        '*': {'urdf': str(file), 'model': str(tmp_path / 'tern.npz')},
        'camera_node': {'source': str(MOVING)},
        'arm_sim_node': PARAMS,
        'arm_controller_node': {
            'limits': str(CONFIG / 'joint_limits.yaml'),
            'enable_at_start': True,
        },
    }
    with own_domain() as domain, running_stack(parameters, domain_id=domain) as stack:
        assert stack.arm.arm.names == stack.controller.names == CHAIN.names
        np.testing.assert_array_equal(stack.arm.arm.model.dof_armature, PARAMS['armature'])
        start, visited = stack.arm.arm.q, []
        for _ in range(200):
            visited.append(stack.arm.arm.q)
            if np.abs(visited[-1] - start).max() > 0.3:
                break
            time.sleep(0.05)
    assert np.abs(visited[-1] - start).max() > 0.3
    assert ((visited >= LIMITS.lower - 1e-3) & (visited <= LIMITS.upper + 1e-3)).all()
