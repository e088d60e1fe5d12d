"""The tracker keeps every limit whatever it is asked, and the stop is the shortest there is."""

import dataclasses

import numpy as np
import pytest
import ruckig
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control import Tracker, tracker
from kde_imitation.control.braking import Braking
from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kinematics.description import JointLimits, joint_limits

PERIOD = 0.01
PA10 = joint_limits()


def limits_of(n: int, seed: int = 0) -> JointLimits:
    """Limits of n joints, each with its own range, speed and acceleration."""
    rng = np.random.default_rng(seed)
    lower = -rng.uniform(0.2, 4.0, n)
    return JointLimits(
        names=tuple(f'j{i}' for i in range(n)),
        lower=lower,
        upper=lower + rng.uniform(0.3, 6.0, n),
        velocity=rng.uniform(0.3, 6.0, n),
        acceleration=rng.uniform(0.5, 20.0, n),
        effort=np.ones(n),
    )


def assert_inside(commands: np.ndarray, limits: JointLimits) -> None:
    """Every sample, and the differences of the samples, within the limits as they stand."""
    speed = np.diff(commands, axis=0) / PERIOD
    acceleration = np.diff(speed, axis=0) / PERIOD
    assert np.isfinite(commands).all()
    assert (commands >= limits.lower).all()
    assert (commands <= limits.upper).all()
    assert (np.abs(speed) <= limits.velocity).all()
    assert (np.abs(acceleration) <= limits.acceleration).all()


# --- the stop --------------------------------------------------------------------------------

states = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def draw_state(rng: np.random.Generator, n: int = 5) -> tuple[np.ndarray, ...]:
    most = rng.uniform(0.5, 20.0, n)
    jerk = most / rng.uniform(0.02, 1.0, n)
    acceleration = most * rng.choice([-1.0, 0.0, 1.0, *rng.uniform(-1, 1, 3)], n)
    speed = rng.uniform(-3, 3, n) * rng.choice([0.0, 1e-9, 0.01, 0.1, 1.0], n)
    return rng.uniform(-3, 3, n), speed, acceleration, most, jerk


@given(states)
def test_the_stop_is_as_short_as_ruckigs(rng):
    q, speed, acceleration, most, jerk = draw_state(rng)
    braking = Braking.from_state(q, speed, acceleration, most, jerk)
    wanted = ruckig.InputParameter(len(q))
    wanted.control_interface = ruckig.ControlInterface.Velocity
    wanted.synchronization = ruckig.Synchronization.No
    wanted.current_position, wanted.current_velocity = q.tolist(), speed.tolist()
    wanted.current_acceleration = acceleration.tolist()
    wanted.max_velocity, wanted.max_acceleration = [100.0] * len(q), most.tolist()
    wanted.max_jerk = jerk.tolist()
    trajectory = ruckig.Trajectory(len(q))
    ruckig.Ruckig(len(q)).calculate(wanted, trajectory)
    np.testing.assert_allclose(braking.times[3], trajectory.independent_min_durations, atol=1e-9)
    times = np.linspace(0.0, 1.1 * braking.duration, 23)
    expected = np.array([trajectory.at_time(t) for t in times])
    found = np.array([braking.at(t) for t in times])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(braking.positions(times), expected[:, 0], atol=1e-9)


@given(states)
def test_no_position_on_the_way_to_rest_is_beyond_the_extremes(rng):
    braking = Braking.from_state(*draw_state(rng))
    way = braking.positions(np.linspace(0.0, braking.duration, 2000))
    low, high = braking.extremes()
    assert (way >= low - 1e-12).all()
    assert (way <= high + 1e-12).all()
    spacing = np.abs(np.diff(way, axis=0)).max() + 1e-12
    np.testing.assert_allclose(way.min(axis=0), low, atol=spacing)
    np.testing.assert_allclose(way.max(axis=0), high, atol=spacing)


def test_a_joint_at_rest_has_no_way_to_go():
    braking = Braking.from_state(*np.zeros((3, 2)), np.ones(2), np.ones(2))
    assert braking.duration == 0.0
    np.testing.assert_array_equal(braking.at(0.01), np.zeros((3, 2)))


# --- limits ----------------------------------------------------------------------------------


@st.composite
def wild_requests(draw):
    """Goals on, near, inside and far outside the limits, kept for a moment or a long time."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.sampled_from([1, 2, 6, 7, 9]))
    limits = PA10 if n == 7 else limits_of(n, seed)
    requests = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(['inside', 'outside', 'lower', 'upper', 'mixed', 'tiny']))
        span = limits.upper - limits.lower
        goal = {
            'inside': rng.uniform(limits.lower, limits.upper),
            'outside': rng.uniform(limits.lower - span, limits.upper + span),
            'lower': limits.lower,
            'upper': limits.upper,
            'mixed': np.where(rng.random(n) < 0.5, limits.lower, limits.upper),
            'tiny': limits.upper - 10.0 ** rng.uniform(-9, -3, n),
        }[kind]
        action = draw(st.sampled_from(['follow', 'follow', 'straight', 'brake', 'chase']))
        scale = draw(st.sampled_from([0.02, 0.3, 1.0]))
        requests.append((action, goal, scale, draw(st.sampled_from([1, 3, 20, 80]))))
    return limits, requests, draw(st.sampled_from([0.02, 0.1, 0.5]))


def run(limits, requests, jerk_time, q=None) -> tuple[Tracker, np.ndarray]:
    follower = Tracker(limits, PERIOD, jerk_time, ramp_time=0.3, q=q)
    commands = [follower.q]
    rng = np.random.default_rng(0)
    for action, goal, scale, steps in requests:
        follower.scale_goal = scale
        for _ in range(steps):
            if action == 'brake':
                follower.brake()
            elif action == 'chase':
                follower.track(goal + rng.normal(scale=0.2, size=goal.shape))
            else:
                follower.track(goal, straight=action == 'straight')
            commands.append(follower.q)
    return follower, np.array(commands)


@settings(max_examples=120)
@given(wild_requests())
def test_no_goal_takes_a_sample_beyond_a_limit(drawn):
    follower, commands = run(*drawn)
    while not follower.at_rest:
        follower.brake()
        commands = np.vstack([commands, follower.q])
    assert_inside(commands, drawn[0])


@settings(max_examples=40)
@given(wild_requests())
def test_a_stop_takes_no_longer_than_deceleration_and_jerk_need(drawn):
    limits, requests, jerk_time = drawn
    follower, _ = run(limits, requests, jerk_time)
    # From full speed with full acceleration: let it go, brake, let it go; the speed that is won
    # meanwhile has to be braked too.
    longest = (limits.velocity / limits.acceleration + 4.0 * jerk_time).max() / 0.99
    for _ in range(int(np.ceil(longest / PERIOD))):
        follower.brake()
    assert follower.at_rest


@settings(max_examples=20)
@given(wild_requests(), st.integers(0, 2**32 - 1))
def test_the_goal_is_reached_from_wherever_the_joints_are(drawn, seed):
    limits, requests, jerk_time = drawn
    follower, _ = run(limits, requests, jerk_time)
    goal = np.random.default_rng(seed).uniform(limits.lower - 0.1, limits.upper + 0.1)
    follower.scale = follower.scale_goal = 1.0
    span = limits.upper - limits.lower
    longest = (
        2 * limits.velocity / limits.acceleration + 2 * span / limits.velocity + 12 * jerk_time
    ).max() + 2 * np.sqrt(span / limits.acceleration).max()
    for _ in range(int(longest / PERIOD) + 1):
        follower.track(goal)
    np.testing.assert_allclose(follower.q, np.clip(goal, limits.lower, limits.upper), atol=1.1e-6)


def test_from_rest_the_way_is_as_fast_as_a_joint_alone_could_go():
    follower = Tracker(PA10, PERIOD, jerk_time=0.1, q=np.zeros(7))
    goal = np.array([1.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    steps = 0
    while np.abs(follower.q - goal).max() > 1e-9:
        follower.track(goal)
        steps += 1
    # Speed limit 1, acceleration 5/3: a trapezium of speed with rounded corners.
    assert steps * PERIOD == pytest.approx(1.0 + 1.0 / (5 / 3) + 0.1, abs=0.02)


def test_on_a_straight_way_all_joints_keep_their_proportion():
    start, goal = np.zeros(7), np.array([1.0, -0.5, 0.7, 1.2, -2.0, 0.0, 0.3])
    follower = Tracker(PA10, PERIOD, q=start)
    follower.scale = follower.scale_goal = 0.3
    for _ in range(1500):
        follower.track(goal, straight=True)
        share = follower.q[0] / goal[0]
        np.testing.assert_allclose(follower.q, share * goal, atol=1e-6)
    np.testing.assert_allclose(follower.q, goal, atol=1e-6)


def test_the_speed_keeps_to_a_scale_that_changes_on_the_way():
    follower = Tracker(PA10, PERIOD, ramp_time=1.0, q=PA10.lower)
    follower.scale, fastest = 0.1, []
    for wanted in (0.5, 0.2):
        follower.scale_goal = wanted
        before = follower.scale
        for _ in range(200):
            follower.track(PA10.upper)
            assert abs(follower.scale - before) <= PERIOD + 1e-12
            before = follower.scale
        fastest.append(np.abs(follower.speed / PA10.velocity).max())
    assert fastest == pytest.approx([0.5, 0.2], rel=2e-3)


def test_joints_without_stops_are_followed_anywhere():
    endless = dataclasses.replace(PA10, lower=np.full(7, -np.inf), upper=np.full(7, np.inf))
    follower = Tracker(endless, PERIOD)
    for _ in range(3000):
        follower.track(np.full(7, 20.0))
    np.testing.assert_allclose(follower.q, 20.0, atol=1e-6)


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize('failure', ['error', 'raises', 'nan', 'far'])
def test_when_the_planner_fails_the_joints_brake_inside_the_limits(failure, monkeypatch):
    follower = Tracker(PA10, PERIOD, q=np.zeros(7))
    commands = [follower.q]
    for _ in range(60):
        assert follower.track(PA10.upper)
        commands.append(follower.q)
    output = follower._output

    class Broken:
        def update(self, given, _):
            if failure == 'raises':
                raise ruckig.RuckigError('no way')
            return ruckig.Result.ErrorInvalidInput if failure == 'error' else ruckig.Result.Working

    class Wrong:
        new_position = [np.nan if failure == 'nan' else 3.0] * 7
        new_velocity = output.new_velocity
        new_acceleration = output.new_acceleration

    monkeypatch.setattr(follower, '_planner', Broken())
    monkeypatch.setattr(follower, '_output', Wrong())
    for _ in range(120):
        assert not follower.track(PA10.upper)
        commands.append(follower.q)
    assert follower.at_rest
    assert_inside(np.array(commands), PA10)


def test_a_planner_that_drives_on_towards_a_stop_is_left_in_time(monkeypatch):
    one = JointLimits(('j',), *np.array([[-2.0], [2.0], [1.0], [1.0], [1.0]]))
    follower = Tracker(one, PERIOD, q=[-2.0])
    commands = [follower.q]
    for _ in range(200):
        follower.track([2.0])
        commands.append(follower.q)
    assert follower.speed == pytest.approx(0.999)

    class DriveOn:
        def update(self, given, output):
            self.new_position = [given.current_position[0] + PERIOD * given.current_velocity[0]]
            self.new_velocity, self.new_acceleration = given.current_velocity, [0.0]
            return ruckig.Result.Working

    planner = DriveOn()
    monkeypatch.setattr(follower, '_planner', planner)
    monkeypatch.setattr(follower, '_output', planner)
    taken = [follower.track([2.0]) for _ in range(10)]
    assert all(taken)
    for _ in range(400):
        follower.track([2.0])
        commands.append(follower.q)
    assert follower.at_rest
    commands = np.array(commands)
    assert (commands <= one.upper).all()
    assert follower.q[0] > 1.9


def test_a_step_that_is_not_allowed_is_not_taken():
    follower = Tracker(PA10, PERIOD, q=np.zeros(7))
    asked = []

    def never(q, braking):
        asked.append(q)
        return False

    assert not follower.track(PA10.upper, allow=never)
    assert len(asked) == 1
    np.testing.assert_array_equal(follower.q, 0.0)


def test_an_arm_a_little_beyond_a_limit_starts_at_the_limit():
    follower = Tracker(PA10, q=PA10.upper + 0.009)
    np.testing.assert_array_equal(follower.q, PA10.upper)


def test_an_arm_far_beyond_a_limit_is_named():
    with pytest.raises(BadInput, match=r'Joint s2 is at 1\.7.*move it back'):
        Tracker(PA10).reset([0, 1.7, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'velocity': np.zeros(7)}, 'velocity limit of joint s1'),
        ({'acceleration': np.full(7, np.inf)}, 'acceleration limit of joint s1'),
        ({'lower': PA10.upper}, 'no room'),
        ({'upper': np.ones(6)}, 'must hold 7 numbers'),
        ({'names': ()}, 'no joint'),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(change, message):
    with pytest.raises(BadInput, match=message):
        Tracker(dataclasses.replace(PA10, **change))


@pytest.mark.parametrize('time', ['period', 'jerk_time', 'ramp_time'])
@pytest.mark.parametrize('value', [0.0, -1.0, float('nan')])
def test_times_must_be_positive(time, value):
    with pytest.raises(BadInput, match=time):
        Tracker(PA10, **{time: value})


@pytest.mark.parametrize('goal', [np.zeros(6), np.full(7, np.nan), 'far'])
def test_a_goal_that_is_no_posture_is_refused_and_nothing_moves(goal):
    follower = Tracker(PA10)
    before = follower.q
    with pytest.raises(BadInput, match='goal'):
        follower.track(goal)
    np.testing.assert_array_equal(follower.q, before)


def test_without_ruckig_the_message_says_how_to_install_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(tracker.importlib, 'import_module', missing)
    with pytest.raises(MissingExtra, match=r'kde_imitation\[control\]'):
        Tracker(PA10)
