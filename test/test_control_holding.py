"""What disturbs the controller makes it hold with a reason, and its end lets it go on."""

import numpy as np
import pytest
from control_bench import GOAL, PA10, READY, Bench, assert_inside

from kde_imitation.control import ArmController, State
from kde_imitation.errors import BadInput

# --- holding, and going on -------------------------------------------------------------------


def stale_states(bench):
    bench.states = False


def stale_goals(bench):
    bench.goals = False


def novel_pictures(bench):
    bench.novel = True


def nan_goals(bench):
    bench.goal = np.full(7, np.nan)


def short_goals(bench):
    bench.goal = np.zeros(6)


TROUBLES = [
    (stale_states, 0.12, 'Joint states are older than 0.1 s'),
    (stale_goals, 0.55, 'goal is older than 0.5 s'),
    (novel_pictures, 0.05, 'unlike all demonstrations'),
    (nan_goals, 0.05, 'nan'),
    (short_goals, 0.05, '7 joints'),
]


@pytest.mark.parametrize(
    ('begin', 'within', 'reason'), TROUBLES, ids=[each[0].__name__ for each in TROUBLES]
)
def test_trouble_holds_the_arm_at_rest_and_its_end_lets_it_go_on(begin, within, reason):
    bench = Bench(ramp_time=0.5)
    bench.goal = np.array([2.5, *READY[1:]])
    bench.moving()
    begin(bench)
    commands = bench.run(within)
    assert commands[-1].state is State.HOLDING
    assert reason in commands[-1].reason
    held = bench.run(0.95)
    assert np.abs(held[-1].velocity).max() < 1e-5
    bench.states = bench.goals = True
    bench.novel, bench.goal = False, GOAL
    bench.until(State.ALIGNING, 0.5).until(State.FOLLOWING)
    assert_inside(bench.log)


def far_ahead(**changes):
    """Return a bench whose arm follows a goal that it will not reach soon, at full speed."""
    bench = Bench(align_tolerance=1.0, ramp_time=0.5, **changes)
    bench.goal = np.array([2.5, *READY[1:]])
    bench.q = np.array([1.6, *READY[1:]])
    bench.sent = [bench.q]
    bench.run(0.3)
    bench.controller.enable(True)
    bench.until(State.FOLLOWING)
    bench.goal = np.array([-2.5, *READY[1:]])
    bench.run(1.5)
    assert bench.log[-1].velocity[0] < -0.9
    return bench


def test_a_goal_that_is_missing_holds_the_arm_within_a_tenth_of_a_second():
    bench = far_ahead()
    bench.goals = False
    commands = bench.run(0.1)
    assert commands[-1].state is State.HOLDING
    assert 'came every 30 ms' in commands[-1].reason
    assert np.abs(commands[-1].velocity).max() < np.abs(commands[0].velocity).max()
    assert_inside(bench.log)


def test_after_a_short_gap_between_goals_the_arm_goes_on_where_it_was_at_full_speed():
    bench = far_ahead()
    bench.goals = False
    bench.run(0.3)
    assert bench.controller.state is State.HOLDING
    bench.goals = True
    command = bench.run(0.03)[-1]
    assert command.state is State.FOLLOWING
    assert command.reason == 'Following the person.'
    assert command.speed_scale == 1.0
    assert_inside(bench.log)


def test_after_a_gap_longer_than_the_timeout_the_arm_begins_slowly():
    bench = far_ahead()
    bench.goals = False
    bench.run(0.6)
    bench.goals = True
    command = bench.until(State.ALIGNING, 0.1).log[-1]
    assert command.speed_scale < 0.2


def test_a_gap_does_not_make_up_for_another_hold():
    bench = far_ahead()
    bench.novel = True
    bench.run(0.05)
    bench.goals = False
    bench.run(0.2)
    bench.goals, bench.novel = True, False
    assert bench.run(0.03)[-1].state is State.ALIGNING


def test_one_picture_that_is_passed_over_holds_nothing():
    bench = far_ahead()
    bench.goals = False
    bench.run(0.03)
    bench.goals = True
    assert {command.state for command in bench.run(0.3)} == {State.FOLLOWING}


def test_goals_that_are_old_but_regular_are_followed():
    bench = Bench(READY)
    bench.goals = False
    for tick in range(300):
        if tick % 10 == 0:
            bench.controller.on_goal(GOAL, bench.t - 0.3)
        bench.step()
        if tick == 30:
            assert bench.controller.enable(True).ok
    assert {command.state for command in bench.log[-200:]} <= {State.ALIGNING, State.FOLLOWING}


def test_a_wide_gap_may_be_allowed_up_to_the_timeout():
    bench = far_ahead(goal_gap=1000.0)
    bench.goals = False
    assert bench.run(0.45)[-1].state is State.FOLLOWING
    assert bench.run(0.1)[-1].state is State.HOLDING


def test_novel_pictures_are_borne_up_to_their_limit_but_never_followed():
    bench = Bench(novel_limit=5).moving()
    bench.novel, bench.goal = True, np.zeros(7)
    bench.run(0.12)
    assert bench.controller.state is State.ALIGNING
    assert bench.log[-1].goal_stamp < bench.t - 0.1
    bench.run(0.06)
    assert bench.controller.state is State.HOLDING


@pytest.mark.parametrize('bad', [np.full(7, np.nan), np.full(7, np.inf), np.zeros(6), 'arm'])
def test_joint_states_that_cannot_be_used_hold_the_arm_until_they_are_good_again(bad):
    bench = Bench().moving()
    bench.controller.on_joint_states(bad, bench.t + 0.001)
    assert bench.step().state is State.HOLDING
    assert 'joint states' in bench.controller.reason
    assert bench.run(0.15)[-1].state is State.HOLDING
    bench.until(State.ALIGNING, 0.2)
    assert_inside(bench.log)


def test_one_wrong_joint_state_in_between_holds_the_arm_for_a_moment_only():
    bench = Bench().moving()
    right = bench.q
    bench.q = right + np.array([0, 0, 0, 0.5, 0, 0, 0])
    assert bench.step().state is State.HOLDING
    assert 'Joint e1 jumped' in bench.controller.reason
    bench.until(State.ALIGNING, 1.5)
    # The command never went to where the arm was not.
    assert_inside(bench.log)


def test_an_arm_that_is_set_elsewhere_is_found_there_and_not_dragged_back():
    bench = Bench()
    bench.moving()
    elsewhere = READY - 0.6
    bench.blocked, bench.q, count = True, elsewhere, len(bench.log)
    bench.run(0.06)
    bench.blocked, bench.sent = False, [bench.q]
    bench.until(State.ALIGNING, 1.0)
    found = [command.q for command in bench.log[count + 6 :]]
    np.testing.assert_allclose(found, [elsewhere] * len(found), atol=1e-4)
    assert_inside(bench.log[count + 6 :])


def test_a_stopped_arm_that_is_set_elsewhere_is_sent_nothing_until_enabled():
    bench = Bench().moving()
    bench.controller.stop()
    bench.run(2.0)
    bench.q = READY - 0.6
    bench.sent = [bench.q] * 100
    bench.run(0.1)
    commands = bench.run(1.0)
    assert all(command.q is None for command in commands)
    bench.sent = [bench.q]
    assert bench.controller.enable(True).ok
    count = len(bench.log)
    bench.until(State.FOLLOWING)
    np.testing.assert_allclose(bench.log[count].q, READY - 0.6, atol=1e-4)
    assert_inside(bench.log[count:])


def test_after_a_hold_the_speed_rises_anew():
    bench = Bench(start_scale=0.1, ramp_time=1.0)
    bench.goal = np.array([2.5, *READY[1:]])
    bench.moving()
    assert bench.log[-1].speed_scale > 0.9
    bench.novel = True
    bench.until(State.HOLDING)
    bench.novel = False
    bench.until(State.ALIGNING)
    assert bench.log[-1].speed_scale == pytest.approx(0.1, abs=0.011)


def test_an_arm_that_starts_anew_meets_no_old_command():
    bench = Bench().moving()
    bench.states = False
    bench.run(0.9)
    assert bench.log[-1].q is not None
    assert bench.run(0.5)[-1].q is None
    bench.run(2.0)
    home, count = np.zeros(7), len(bench.log)
    bench.q, bench.sent, bench.states = home, [home], True
    bench.until(State.ALIGNING, 1.0)
    first = next(command.q for command in bench.log[count:] if command.q is not None)
    np.testing.assert_array_equal(first, home)
    bench.until(State.FOLLOWING)
    assert_inside(bench.log[count:])


def test_an_arm_that_comes_back_beyond_its_limits_is_stopped():
    bench = Bench().moving()
    bench.states = False
    bench.run(2.5)
    bench.q, bench.states = PA10.upper + 0.2, True
    commands = bench.run(1.0)
    assert commands[-1].state is State.STOPPED
    assert 'move it back' in commands[-1].reason
    assert all(command.q is None for command in commands)


def test_a_blocked_arm_is_not_pressed_and_after_some_trials_is_stopped():
    bench = Bench().moving()
    bench.blocked = True
    bench.until(State.HOLDING, 3.0)
    assert 'does not follow' in bench.controller.reason
    bench.run(0.8)
    bench.until(State.STOPPED, 20.0)
    assert 'Found 3 times' in bench.controller.reason
    commands = bench.run(2.0)
    assert {command.state for command in commands} == {State.STOPPED}
    np.testing.assert_allclose(commands[-1].q, bench.q, atol=1e-4)
    assert_inside(bench.log)


def test_a_blocked_arm_that_gets_free_goes_on_by_itself():
    bench = Bench().moving()
    bench.blocked = True
    bench.until(State.HOLDING, 3.0)
    bench.run(0.5)
    bench.blocked, bench.sent = False, [bench.q]
    bench.until(State.FOLLOWING)
    assert_inside(bench.log)


def test_an_arm_that_follows_late_is_not_thought_blocked():
    bench = Bench(delay=9)
    bench.goal = np.array([2.5, -1.0, 2.0, 2.0, 3.0, 2.0, 3.0])
    bench.run(0.3)
    bench.controller.enable(True)
    commands = bench.run(6.0)
    assert {command.state for command in commands} <= {State.ALIGNING, State.FOLLOWING}
    assert max(command.tracking_error for command in commands) < 0.02


# --- time ------------------------------------------------------------------------------------


def test_a_clock_that_is_set_back_holds_the_arm_and_it_goes_on_in_the_new_time():
    bench = Bench().moving()
    bench.t = 3.0
    bench.states = bench.goals = False
    assert bench.step().state is State.HOLDING
    bench.run(1.0)
    bench.states = bench.goals = True
    bench.until(State.FOLLOWING)
    assert_inside(bench.log)


def test_a_clock_set_back_by_a_moment_leaves_no_goal_from_the_future():
    bench = Bench().moving()
    bench.t -= 0.4
    bench.run(0.3)
    command = bench.step()
    assert command.state is State.ALIGNING
    assert command.goal_stamp <= bench.t


@pytest.mark.parametrize('kind', ['joint states', 'goals'])
def test_stamps_from_the_future_are_named_and_do_not_stay(kind):
    bench = Bench().moving()
    if kind == 'goals':
        bench.controller.on_goal(GOAL, bench.t + 60.0)
    else:
        bench.controller.on_joint_states(bench.q, bench.t + 60.0)
    assert bench.step().state is State.HOLDING
    assert f'The {kind} are stamped' in bench.controller.reason
    assert 'use_sim_time' in bench.controller.reason
    bench.until(State.ALIGNING, 0.5)


def test_goals_that_arrive_out_of_order_are_left_out():
    bench = Bench()
    bench.run(0.3)
    bench.controller.enable(True)
    bench.until(State.FOLLOWING)
    bench.controller.on_goal(np.zeros(7), bench.t - 0.2)
    bench.run(0.5)
    np.testing.assert_allclose(bench.log[-1].q, GOAL, atol=0.11)


def test_a_second_call_in_the_same_moment_sends_nothing_and_loses_nothing():
    bench = Bench().moving()
    assert bench.controller.step(bench.t + 0.001).q is None
    bench.run(0.5)
    assert_inside(bench.log)


def test_a_time_that_is_none_is_refused():
    with pytest.raises(BadInput, match='now'):
        ArmController(PA10).step(float('nan'))
