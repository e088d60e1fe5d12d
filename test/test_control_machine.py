"""The controller moves the arm when it may, and stops it when it must."""

import dataclasses
import itertools
import time

import numpy as np
import pytest
from control_bench import GOAL, PA10, PERIOD, READY, Bench, assert_inside
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control import ArmController, ControlSettings, SelfCollisionGuard, State
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import urdf
from kde_imitation.simulation.arm import SimulatedArm

FOLDED = np.array([0.0, 1.55, 0.0, 2.35, 0.0, 0.9, 0.0])


# --- the ordinary day ------------------------------------------------------------------------


def test_nothing_is_sent_before_enabling():
    bench = Bench()
    assert {(c.q is None, c.velocity is None, c.state) for c in bench.run(1.0)} == {
        (True, True, State.DISABLED)
    }


def test_the_arm_starts_where_it_is_aligns_slowly_and_follows():
    bench = Bench()
    bench.run(0.5)
    assert bench.controller.enable(True).ok
    commands = bench.run(8.0)
    np.testing.assert_allclose(commands[0].q, READY, atol=1e-4)
    states = [command.state for command in commands]
    assert states[0] is State.ALIGNING
    assert states[-1] is State.FOLLOWING
    assert states == sorted(states, key=[State.ALIGNING, State.FOLLOWING].index)
    early = np.array([command.velocity for command in commands[:20]])
    assert (np.abs(early) <= 0.21 * PA10.velocity).all()
    np.testing.assert_allclose(commands[-1].q, GOAL, atol=1e-6)
    assert commands[-1].goal_stamp == pytest.approx(bench.t - 0.01, abs=0.03)
    assert_inside(commands)


def test_the_speed_scale_rises_over_the_ramp_and_can_be_changed_on_the_way():
    bench = Bench(ramp_time=1.0)
    bench.goal = np.array([2.5, *READY[1:]])
    bench.moving()
    bench.controller.configure(dataclasses.replace(bench.controller.settings, speed_scale=0.3))
    bench.run(1.5)
    assert bench.log[-1].speed_scale == pytest.approx(0.3)
    assert np.abs(bench.log[-1].velocity[0]) == pytest.approx(0.3, rel=0.01)
    scales = [command.speed_scale for command in bench.log]
    assert np.abs(np.diff(scales[31:])).max() <= PERIOD + 1e-9
    assert_inside(bench.log)


def test_settings_that_shape_the_motion_cannot_change_while_running():
    controller = ArmController(PA10)
    for change in ({'period': 0.02}, {'jerk_time': 0.2}, {'collision_margin': 0.03}):
        with pytest.raises(BadInput, match=f'{next(iter(change))} cannot change'):
            controller.configure(ControlSettings(**change))


def test_a_path_is_followed_by_way_of_its_points():
    bench = Bench(q=np.zeros(7))
    corner, end = np.array([1.2, 0, 0, 0, 0, 0, 0]), np.array([1.2, 1.2, 0, 0, 0, 0, 0])
    bench.goal = np.array([np.zeros(7), corner, end])
    bench.run(0.3)
    bench.controller.enable(True)
    commands = bench.run(8.0)
    q = np.array([command.q for command in commands])
    np.testing.assert_allclose(q[-1], end, atol=1e-5)
    # The straight way to the end would pass 0.85 rad from the corner.
    assert np.linalg.norm(q - corner, axis=1).min() < 0.5
    assert_inside(commands)


# --- stopping --------------------------------------------------------------------------------


def test_a_stop_brakes_at_once_and_lasts_until_enabled_again():
    bench = Bench().moving()
    before = bench.log[-1].velocity
    assert bench.controller.stop().ok
    commands = bench.run(3.0)
    assert {command.state for command in commands} == {State.STOPPED}
    assert np.abs(commands[15].velocity).max() < np.abs(before).max()
    assert np.abs([command.velocity for command in commands[100:]]).max() < 1e-5
    assert_inside(bench.log)
    rest = commands[-1].q
    assert bench.controller.enable(True).ok
    begun = bench.step()
    np.testing.assert_allclose(begun.q, rest, atol=1e-4)
    bench.until(State.FOLLOWING)
    assert_inside(bench.log)


def test_disabling_a_moving_arm_brings_it_to_rest_before_it_is_silent():
    bench = Bench().moving()
    bench.controller.enable(False)
    commands = bench.run(2.0)
    sent = [command for command in commands if command.q is not None]
    assert 5 < len(sent) < 120
    assert np.abs(sent[-1].velocity).max() < 0.02
    assert [command.q is None for command in commands[len(sent) :]] == [True] * (200 - len(sent))
    assert_inside(bench.log)


def test_a_stop_before_enabling_sends_nothing():
    bench = Bench()
    bench.run(0.2)
    bench.controller.stop()
    assert all(command.q is None for command in bench.run(0.5))
    assert bench.controller.state is State.STOPPED


def test_a_stopped_arm_that_is_moved_by_others_is_left_alone():
    bench = Bench().moving()
    bench.controller.stop()
    bench.run(2.0)
    bench.blocked = True
    for _ in range(100):
        bench.q = bench.q + 0.005
        bench.step()
    assert bench.log[-1].q is None
    assert bench.log[-1].state is State.STOPPED


# --- enabling --------------------------------------------------------------------------------


def test_enabling_needs_a_controller_that_runs_and_fresh_joint_states():
    bench = Bench()
    assert 'has not run yet' in bench.controller.enable(True).message
    bench.states = False
    bench.run(0.3)
    answer = bench.controller.enable(True)
    assert not answer.ok
    assert 'No joint states have arrived' in answer.message
    bench.states = True
    bench.run(0.3)
    bench.states = False
    bench.run(0.3)
    assert 'older than 0.1 s' in bench.controller.enable(True).message
    assert bench.controller.state is State.DISABLED


def test_an_arm_beyond_its_limits_is_not_enabled():
    bench = Bench(q=PA10.upper + 0.1)
    bench.run(0.3)
    answer = bench.controller.enable(True)
    assert not answer.ok
    assert 'move it back' in answer.message


def test_enabling_twice_changes_nothing():
    bench = Bench().moving()
    assert bench.controller.enable(True).ok
    assert bench.step().state in (State.ALIGNING, State.FOLLOWING)
    assert_inside(bench.log)


def test_enabled_without_a_goal_the_arm_is_held_where_it_is():
    bench = Bench()
    bench.goals = False
    bench.run(0.3)
    bench.controller.enable(True)
    commands = bench.run(1.0)
    assert {command.state for command in commands} == {State.HOLDING}
    assert 'No goal has arrived' in commands[-1].reason
    np.testing.assert_array_equal([command.q for command in commands], [READY] * len(commands))


# --- its own links ---------------------------------------------------------------------------


@pytest.fixture(scope='module')
def guard():
    return SelfCollisionGuard(urdf())


def test_a_goal_in_collision_is_refused_and_the_next_is_followed(guard):
    bench = Bench(guard=guard).moving()
    bench.goal = FOLDED
    bench.run(1.5)
    assert bench.controller.state is State.HOLDING
    assert 'The goal is refused' in bench.controller.reason
    bench.goal = GOAL
    bench.until(State.FOLLOWING)
    assert_inside(bench.log)


def test_on_a_way_through_itself_the_arm_waits_for_a_goal_with_a_free_way(guard):
    aside = FOLDED + np.array([0, 0, 1.2, 0, 0, 0, 0])
    behind = FOLDED - np.array([0, 0, 1.2, 0, 0, 0, 0])
    assert guard.safe(aside)
    assert guard.safe(behind)
    assert not guard.clear_line(aside, behind)
    bench = Bench(q=aside, guard=guard)
    bench.goal = behind
    bench.run(0.3)
    bench.controller.enable(True)
    bench.run(4.0)
    assert bench.log[-1].state is State.HOLDING
    assert 'too near' in bench.log[-1].reason
    near = [guard.distance(command.q) for command in bench.log if command.q is not None]
    assert min(near) > 0.8 * guard.margin
    # It does not tremble at the border: one start, one hold.
    states = [command.state for command in bench.log if command.q is not None]
    assert sum(a is not b for a, b in itertools.pairwise(states)) <= 2
    bench.goal = READY
    bench.until(State.FOLLOWING)
    assert_inside(bench.log)


# --- any order of events ---------------------------------------------------------------------

EVENTS = ['enable', 'disable', 'stop', 'goal', 'bad goal', 'novel', 'states', 'goals']


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 60)), min_size=3, max_size=15),
    st.integers(0, 2**32 - 1),
)
def test_no_order_of_events_makes_a_command_beyond_a_limit(events, seed):
    rng = np.random.default_rng(seed)
    # Without a place where the arm is found anew, which is a jump of the command by design.
    bench = Bench(ramp_time=0.3, silence_after=100.0, tracking_tolerance=1.0)
    bench.run(0.3)
    bench.controller.enable(True)
    for event, steps in events:
        if event in ('enable', 'disable'):
            bench.controller.enable(event == 'enable')
        elif event == 'stop':
            bench.controller.stop()
        elif event in ('goal', 'bad goal'):
            bench.goal = rng.uniform(1.5 * PA10.lower, 1.5 * PA10.upper)
            bench.goal[rng.integers(7)] *= np.nan if event == 'bad goal' else 1.0
        elif event == 'novel':
            bench.novel = not bench.novel
        elif event == 'states':
            bench.states = not bench.states
        elif event == 'goals':
            bench.goals = not bench.goals
        commands = bench.run(steps * PERIOD)
        assert all(command.reason.endswith(('.', '?')) for command in commands)
    pieces = [[]]
    for command in bench.log:
        if command.q is None:
            pieces.append([])
        else:
            pieces[-1].append(command)
    for piece in pieces:
        if piece:
            assert_inside(piece)


# --- with the simulated arm ------------------------------------------------------------------


def test_the_simulated_arm_follows_a_waving_person_and_rests_where_the_person_rests(guard):
    arm = SimulatedArm()
    arm.reset(READY)
    controller = ArmController(PA10, guard=guard)
    way, costs = [], []
    for i in range(1200):
        t = i * PERIOD
        controller.on_joint_states(arm.q, t)
        if i % 3 == 0:
            wave = 0.5 * np.sin(2 * np.pi * 0.3 * min(t, 8.0))
            controller.on_goal(READY + wave * np.array([0, 0.5, 0.3, 1, 0, 0.2, 0]), t)
        if i == 30:
            assert controller.enable(True).ok
        began = time.perf_counter()
        command = controller.step(t)
        costs.append(time.perf_counter() - began)
        arm.step(arm.reference if command.q is None else command.q, 10)
        way.append((command.state, command.tracking_error))
    assert way[-1][0] is State.FOLLOWING
    assert {state for state, _ in way[40:]} <= {State.ALIGNING, State.FOLLOWING}
    assert np.nanmax([error for _, error in way]) < 0.02
    goal = READY + 0.5 * np.sin(2 * np.pi * 0.3 * 8.0) * np.array([0, 0.5, 0.3, 1, 0, 0.2, 0])
    np.testing.assert_allclose(arm.q, goal, atol=2e-3)
    assert np.median(costs) < 0.3 * PERIOD
