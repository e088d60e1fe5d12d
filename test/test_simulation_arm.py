"""The simulated arm: it holds, follows, obeys its limits, and refuses bad commands."""

import os
import subprocess
import sys
import time
import types

import numpy as np
import pinocchio as pin
import pytest

from kde_imitation.errors import BadInput, KdeImitationError, MissingExtra
from kde_imitation.kinematics.description import armature, joint_limits, urdf
from kde_imitation.simulation import arm as arm_module
from kde_imitation.simulation.arm import SimulatedArm

BENT = np.radians([20, -30, -30, 80, 10, -40, 15])
HORIZONTAL = np.array([0, np.pi / 2, 0, 0, 0, 0, 0])


@pytest.fixture(scope='module')
def shared_arm():
    return SimulatedArm()


@pytest.fixture
def arm(shared_arm):
    shared_arm.reset(np.zeros(7))
    return shared_arm


def wall_arm():
    return SimulatedArm.pa10(mount='wall')


def follow(arm, path, n=10):
    """Step along commands (k, 7); return positions and torques after each, both (k, 7)."""
    states = []
    for command in path:
        arm.step(command, n)
        states.append((arm.q, arm.torque))
    positions, torques = zip(*states, strict=True)
    return np.array(positions), np.array(torques)


@pytest.mark.parametrize('posture', [np.zeros(7), BENT, HORIZONTAL])
@pytest.mark.parametrize('make', [SimulatedArm, wall_arm])
def test_a_posture_is_held_against_gravity(make, posture):
    arm = make()
    arm.reset(posture)
    positions, torques = follow(arm, [posture] * 100)
    assert np.abs(positions - posture).max() < 1e-5
    np.testing.assert_allclose(torques[-1], arm.chain.gravity(posture), atol=1e-3)


def test_gravity_pulls_harder_than_nothing_when_the_arm_is_level():
    assert abs(wall_arm().torque[1]) > 80
    assert np.abs(SimulatedArm().torque).max() < 1e-9


def test_a_slow_sine_is_followed_within_a_few_milliradians(arm):
    arm.reset(BENT)
    t = np.arange(1, 601) * 0.01
    path = BENT + 0.3 * np.minimum(t, 1)[:, None] * np.sin(np.pi / 2 * t)[:, None]
    positions, torques = follow(arm, path)
    # A speed of 0.5 rad/s behind the loops' 50/s would lag 10 mrad without its feed-forward.
    assert np.abs(positions - path).max() < 4e-3
    assert (np.abs(torques) < arm.chain.effort).all()


def test_time_counts_milliseconds(arm):
    arm.step(np.zeros(7))
    arm.step(np.zeros(7), n=25)
    assert arm.time == pytest.approx(0.035)


def test_torques_are_those_that_inverse_dynamics_finds_in_the_motion(arm):
    """Pinocchio, from the same URDF, knows nothing of servos, limits or integrators."""
    model = pin.buildModelFromXML(urdf())
    model.armature = armature()
    data = model.createData()
    arm.reset(BENT)
    saturated = 0
    for k in range(200):
        q, qd = arm.q, arm.qd
        arm.step(q + 0.3 if k < 100 else np.zeros(7), n=1)
        found = pin.rnea(model, data, q, qd, (arm.qd - qd) / 0.001)
        np.testing.assert_allclose(arm.torque, found, rtol=0, atol=1e-9)
        saturated += (np.abs(arm.torque) > 0.999 * arm.chain.effort).any()
    assert saturated > 5


def test_no_joint_gets_more_than_its_effort_limit(arm):
    rng = np.random.default_rng(0)
    worst = np.zeros(7)
    for _ in range(30):
        goal = rng.uniform(arm.chain.lower, arm.chain.upper)
        for _ in range(5):
            arm.step(goal, n=3)
            worst = np.maximum(worst, np.abs(arm.torque))
    limits = joint_limits()
    assert (worst <= limits.effort + 1e-9).all()
    assert (worst[:4] > 0.99 * limits.effort[:4]).all()


def test_a_far_command_is_approached_at_the_speed_limit(arm):
    goal = np.full(7, 1.0)
    follow(arm, [goal] * 25)
    np.testing.assert_allclose(arm.reference, joint_limits().velocity * 0.25, rtol=1e-9)
    assert (np.abs(arm.qd) < 1.2 * joint_limits().velocity).all()
    follow(arm, [goal] * 150)
    np.testing.assert_allclose(arm.q, goal, atol=1e-5)


def test_commands_past_a_limit_stop_at_the_limit():
    # S2 and E1 stay: nothing is in the way of the others.
    arm = SimulatedArm()
    command = np.array([9.0, 0.0, -9.0, 0.0, 9.0, -9.0, 9.0])
    positions, _ = follow(arm, [command] * 500)
    expected = np.clip(command, arm.chain.lower, arm.chain.upper)
    np.testing.assert_allclose(positions[-1], expected, atol=1e-5)
    # From full speed the reference stops at once; the arm must within a hundredth of a second.
    stopping = arm.chain.velocity * 0.01
    assert (positions > arm.chain.lower - stopping).all()
    assert (positions < arm.chain.upper + stopping).all()


def test_the_floor_stops_the_arm(arm):
    down = np.radians([0, 91, 0, 89, 0, 0, 0])
    follow(arm, [down] * 300)
    assert arm.chain.pose(down)[2, 3] < -0.2
    assert arm.chain.pose(arm.q)[2, 3] > -0.05
    assert arm.data.ncon > 0


def test_the_energy_of_the_motion_is_the_work_of_the_servos(arm):
    model = pin.buildModelFromXML(urdf())
    model.armature = armature()
    data = model.createData()

    def energy():
        # Pinocchio counts the links only; the rotors turn as well.
        links = pin.computeKineticEnergy(model, data, arm.q, arm.qd)
        rotors = 0.5 * np.sum(armature() * arm.qd**2)
        return links + rotors + pin.computePotentialEnergy(model, data, arm.q)

    arm.reset(BENT)
    start, work = energy(), 0.0
    for k in range(600):
        before = arm.qd
        arm.step(BENT + 0.3 * np.sin(2.0 * (k + 1) * 0.001), n=1)
        work += arm.torque @ (before + arm.qd) / 2 * 0.001
    gained = energy() - start
    assert abs(gained) > 1.0
    # First-order integrator, 1 ms: its energy errs by parts in a thousand over such a move.
    assert work == pytest.approx(gained, rel=0.02)


def test_an_unknown_payload_sags_and_a_known_one_does_not():
    unknown = SimulatedArm(payload=3.0, payload_known=False)
    known = SimulatedArm(payload=3.0)
    for arm in (unknown, known):
        arm.reset(HORIZONTAL)
        follow(arm, [HORIZONTAL] * 100)
    assert np.abs(known.q - HORIZONTAL).max() < 1e-5
    sag = unknown.q - HORIZONTAL
    assert (sag[[1, 3, 5]] > 1e-4).all()
    assert sag.max() < 0.05
    # The torque at S2 carries the links and 3 kg at 1.03 m in either case.
    for arm in (unknown, known):
        links = arm.chain.gravity(HORIZONTAL)[1]
        assert arm.torque[1] == pytest.approx(links - 3.0 * 9.81 * 1.03, rel=1e-3)


def test_a_payload_beyond_the_motors_cannot_be_held():
    arm = SimulatedArm(payload=30.0)
    arm.reset(HORIZONTAL)
    arm.step(HORIZONTAL, n=1)
    assert arm.torque[1] == pytest.approx(-200.0)
    arm.step(HORIZONTAL, n=50)
    assert arm.chain.pose(arm.q)[2, 3] < arm.chain.pose(HORIZONTAL)[2, 3] - 1e-3


def test_reset_forgets_the_motion_before(arm):
    follow(arm, [BENT] * 10)
    arm.reset(BENT)
    np.testing.assert_array_equal(arm.q, BENT)
    np.testing.assert_array_equal(arm.reference, BENT)
    assert not arm.qd.any()
    assert arm.time == 0.0
    first, _ = follow(arm, [BENT + 0.1] * 5)
    arm.reset(BENT)
    second, _ = follow(arm, [BENT + 0.1] * 5)
    np.testing.assert_array_equal(first, second)


def test_what_is_read_is_a_copy(arm):
    for values in (arm.q, arm.qd, arm.torque, arm.reference):
        values[:] = 99.0
    assert not arm.q.any()
    assert not arm.qd.any()
    assert not arm.reference.any()
    assert np.abs(arm.torque).max() < 99.0


@pytest.mark.parametrize(
    ('command', 'sentence'),
    [
        ([0, 0, 0, np.nan, 0, 0, 0], r'command holds nan at index \(3,\)'),
        ([np.inf, 0, 0, 0, 0, 0, 0], 'command holds inf'),
        (np.zeros(6), r'command must have shape \(7,\), not \(6,\)'),
        (np.zeros((1, 7)), r'command must have shape \(7,\)'),
        ('home', 'command must be an array of numbers'),
    ],
)
def test_a_bad_command_is_refused_and_nothing_moves(arm, command, sentence):
    arm.reset(BENT)
    arm.step(BENT + 0.1)
    state = arm.q, arm.qd, arm.time, arm.reference
    with pytest.raises(BadInput, match=sentence):
        arm.step(command)
    for before, after in zip(state, (arm.q, arm.qd, arm.time, arm.reference), strict=True):
        np.testing.assert_array_equal(before, after)


def test_no_steps_are_refused(arm):
    with pytest.raises(BadInput, match='n is 0; at least one step'):
        arm.step(np.zeros(7), n=0)


@pytest.mark.parametrize(
    ('q', 'sentence'),
    [
        ([0, 2.0, 0, 0, 0, 0, 0], r"q\[1\] is 2, but joint 's2' turns from -1.588 to 1.588"),
        ([0, np.nan, 0, 0, 0, 0, 0], 'q holds nan'),
        (np.zeros(8), r'q must have shape \(7,\)'),
    ],
)
def test_a_bad_reset_is_refused_and_nothing_moves(arm, q, sentence):
    arm.reset(BENT)
    with pytest.raises(BadInput, match=sentence):
        arm.reset(q)
    np.testing.assert_array_equal(arm.q, BENT)


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'payload': -1.0}, 'payload is -1.0 kg'),
        ({'payload': np.nan}, 'payload holds nan'),
        ({'armature': np.zeros(6)}, r'armature must have shape \(7,\)'),
        ({'armature': np.full(7, -0.1)}, 'armature is -0.1 at its least'),
        ({'urdf': '<robot'}, 'not well-formed XML'),
        ({'urdf': 'no_such_arm.urdf'}, "'no_such_arm.urdf' cannot be read"),
        ({'urdf': urdf().replace('base_link', 'payload'), 'payload': 1.0}, 'MuJoCo cannot'),
    ],
)
def test_an_arm_that_cannot_be_built_is_refused_with_a_sentence(options, sentence):
    with pytest.raises(BadInput, match=sentence):
        SimulatedArm(**options)


def test_a_branching_robot_is_refused_with_a_sentence():
    gripper = """<link name="finger"/><joint name="grip" type="revolute"><parent link="link7"/>
      <child link="finger"/><axis xyz="1 0 0"/>
      <limit lower="0" upper="1" velocity="1" effort="1"/></joint></robot>"""
    with pytest.raises(BadInput, match='must be one chain of joints'):
        SimulatedArm(urdf().replace('</robot>', gripper), tip='tool0')


def test_an_unstable_simulation_is_an_error_and_not_a_silent_restart(arm, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log where it stands.
    arm.reset(BENT)
    arm.step(BENT, n=20)
    arm.data.qvel[0] = np.nan
    with pytest.raises(KdeImitationError, match=r'became unstable 0.020 s after its reset'):
        arm.step(BENT)
    arm.reset(BENT)
    arm.step(BENT)


def test_another_arm_than_the_pa10_can_be_simulated(tmp_path):
    pendulum = """<robot name="pendulum"><link name="post"/>
      <link name="rod"><inertial><origin xyz="0.5 0 0"/><mass value="2"/>
        <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/></inertial></link>
      <joint name="hinge" type="continuous"><parent link="post"/><child link="rod"/>
        <origin xyz="0 0 1.5"/><axis xyz="0 1 0"/></joint></robot>"""
    path = tmp_path / 'pendulum.urdf'
    path.write_text(pendulum)
    arm = SimulatedArm(path)
    assert arm.names == ('hinge',)
    assert arm.torque == pytest.approx([-2 * 9.81 * 0.5])
    arm.step([7.0], n=1000)
    assert arm.q == pytest.approx([7.0], abs=0.05)


def test_prefixed_arms_are_simulated_too():
    arm = SimulatedArm.pa10(prefix='left/')
    assert arm.names[0] == 'left/s1'
    arm.step(np.full(7, 0.01))
    assert (arm.q > 0).all()


def test_the_pa10_is_the_arm_one_gets_unless_told():
    default, named = SimulatedArm(), SimulatedArm.pa10()
    np.testing.assert_array_equal(default.model.dof_armature, armature())
    for arm in (default, named):
        arm.step(BENT, n=20)
    np.testing.assert_array_equal(default.q, named.q)


def test_lengths_a_make_a_shorter_arm():
    arm = SimulatedArm.pa10(lengths='A')
    tool = arm.data.body('tool0').xpos
    assert tool[2] == pytest.approx(0.317 + 0.450 + 0.480 + 0.070)


def test_without_mujoco_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'mujoco', None)
    with pytest.raises(MissingExtra, match=r'pip install --upgrade "kde_imitation\[sim\]"'):
        arm_module.load_mujoco()


def test_a_mujoco_that_is_too_old_is_refused_with_its_version(monkeypatch):
    monkeypatch.setitem(sys.modules, 'mujoco', types.SimpleNamespace(__version__='3.4.0'))
    with pytest.raises(MissingExtra, match=r'needs MuJoCo 3.5 or newer, not 3.4.0; install'):
        arm_module.load_mujoco()


@pytest.mark.parametrize('library', ['no-such-library', 'osmesa'])
def test_physics_work_where_the_library_for_pictures_is_broken(library, tmp_path):
    # A PyOpenGL without its C library fails at import with an AttributeError.
    broken = tmp_path / 'OpenGL'
    broken.mkdir()
    (broken / '__init__.py').write_text('raise AttributeError("no OSMesa here")')
    code = (
        'from kde_imitation.simulation.arm import SimulatedArm; import numpy, os;'
        'arm = SimulatedArm(); arm.step(numpy.full(7, 0.01)); print(f"{arm.time:.3f}", '
        'os.environ["MUJOCO_GL"])'
    )
    done = subprocess.run(
        [sys.executable, '-c', code],
        env={**os.environ, 'MUJOCO_GL': library, 'PYTHONPATH': str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ['0.010', library], done.stderr


def test_a_second_of_simulation_takes_far_less_than_a_second(arm):
    start = time.perf_counter()
    follow(arm, [BENT] * 100)
    assert time.perf_counter() - start < 0.5
