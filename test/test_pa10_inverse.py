"""Inverse kinematics of the PA-10: held to its forward kinematics and to dense search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.kinematics import pa10, pa10_inverse

LIMITS = np.array(pa10.LIMITS)
# Every joint bounded, E2 and W2 too, and less room in all of them.
NARROW = pa10.Geometry(0.45, 0.48, 0.07, (1.5, 1.2, 2.0, 2.0, 1.8, 1.4, 2.2))
# Joint values where shoulder, elbow or wrist are singular or at a limit, and such in between.
corners = [
    st.one_of(st.sampled_from([0.0, -limit, limit, limit / 2]), st.floats(-limit, limit))
    for limit in pa10.LIMITS
]


def random_postures(count, seed=0, limits=LIMITS):
    return np.random.default_rng(seed).uniform(-limits, limits, (count, 7))


def random_poses_in_reach(count, seed=0):
    """Poses whose wrist the elbow can reach; joint limits may forbid them all the same."""
    rng = np.random.default_rng(seed)
    poses = pa10.forward(rng.uniform(-np.pi, np.pi, (count, 7)))
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    wrist = direction * rng.uniform(0.36, 0.95, (count, 1))
    poses[:, :3, 3] = wrist + pa10.DEFAULT.hand * poses[:, :3, 2]
    return poses


def errors(q, poses, geometry=pa10.DEFAULT):
    """Largest distance and largest difference of a rotation's entries."""
    reached = pa10.forward(q, geometry)
    distance = np.linalg.norm(reached[..., :3, 3] - poses[..., :3, 3], axis=-1)
    return distance.max(), np.abs(reached[..., :3, :3] - poses[..., :3, :3]).max()


def on_both_turns(q):
    """Each posture with E2 and W2 as they are, and a whole turn to either side, inside limits."""
    shifts = 2 * np.pi * np.array([[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)])
    all_q = np.repeat(q[:, None], len(shifts), axis=1)
    all_q[..., [4, 6]] += shifts
    all_q = all_q.reshape(-1, 7)
    return all_q[(np.abs(all_q) <= LIMITS).all(axis=1)]


def dense_search(pose, samples=1440):
    """All postures inside the limits at evenly spaced arm angles."""
    psi = np.linspace(-np.pi, np.pi, samples, endpoint=False)
    q, valid = pa10_inverse.solve_at(pose, psi)
    return q[valid]


def use_of_limits(q):
    return np.sum(1 / (1 - (q / LIMITS) ** 2), axis=-1)


def test_every_reachable_pose_is_solved_inside_the_limits():
    poses = pa10.forward(random_postures(10_000))
    q, found = pa10_inverse.solve_batch(poses)
    assert found.all()
    assert (np.abs(q) <= LIMITS).all()
    distance, rotation = errors(q, poses)
    assert distance < 1e-9
    assert rotation < 1e-9


def test_the_posture_that_made_a_pose_is_the_one_nearest_to_itself():
    q = random_postures(3000, seed=1)
    solved, found = pa10_inverse.solve_batch(pa10.forward(q), near=q)
    assert found.all()
    np.testing.assert_allclose(solved, q, atol=1e-8)


@settings(max_examples=150, deadline=None)
@given(st.tuples(*corners).map(np.array))
def test_singular_and_extreme_postures_are_solved(q):
    pose = pa10.forward(q)
    for near in (None, q, np.zeros(7)):
        solved = pa10_inverse.solve(pose, near)
        assert (np.abs(solved) <= LIMITS).all()
        distance, rotation = errors(solved, pose)
        assert distance < 1e-9
        assert rotation < 1e-9


@pytest.mark.parametrize(
    'q',
    [
        np.zeros(7),
        [1, 0, -1, 0, 0.5, 0, 0.3],
        [0.4, 0, 1.2, 0.9, -0.5, 0.7, 0.3],
        [0.4, 0.6, 1.2, 0.9, -0.5, 0, 0.3],
        [0.4, 0.6, 1.2, 0.9, np.pi / 2, 0, 0.3],
        [0.4, 0.6, 1.2, 0, -0.5, 0.7, 0.3],
        [0.4, 0, 1.2, 0, -0.5, 0, 4.0],
        [0.4, np.arctan2(0.5 * np.sin(0.9), 0.45 + 0.5 * np.cos(0.9)), np.pi / 2, 0.9, 0, 1, 0],
    ],
    ids=[
        'straight up',
        'straight up, other split',
        'shoulder singular',
        'wrist singular',
        'wrist singular at a right angle',
        'elbow straight',
        'all three',
        'upper arm tilted as much as the triangle',
    ],
)
def test_a_singular_posture_is_found_again_from_itself(q):
    solved = pa10_inverse.solve(pa10.forward(q), near=q)
    np.testing.assert_allclose(solved, q, atol=1e-7)


@pytest.mark.parametrize('joints', [[1], [3], [5], [1, 3], [3, 5], [1, 5], [1, 3, 5]])
def test_postures_with_some_y_joints_at_zero_are_found_again_from_themselves(joints):
    q = random_postures(500, seed=20)
    q[:, joints] = 0
    solved, found = pa10_inverse.solve_batch(pa10.forward(q), near=q)
    assert found.all()
    np.testing.assert_allclose(solved, q, atol=1e-9)


@pytest.mark.parametrize('bend', [0.0, 1e-9, 1e-7, 2e-6, 1e-5])
def test_a_limit_met_by_an_arm_nearly_straight_does_not_lose_the_pose(bend):
    """The bend is hardly seen in the reach, but it decides on which side of the limit S2 is."""
    for side in (-1, 1):
        q = np.array([1.2, side * LIMITS[1], 0.0, side * bend, 2.6, LIMITS[5], 2.2])
        solved = pa10_inverse.solve(pa10.forward(q))
        assert (np.abs(solved) <= LIMITS).all()
        assert max(errors(solved, pa10.forward(q))) < 1e-9


@pytest.mark.parametrize('middle', [1, 5], ids=['shoulder', 'wrist'])
def test_a_singular_joint_leaves_its_neighbours_free_to_follow_the_wish(middle):
    """With S2 or W1 at zero, its neighbours may turn against each other and nothing moves."""
    q = np.array([0.4, 0.6, 1.2, 0.9, -0.5, 0.7, 0.3])
    q[middle] = 0
    turned = q.copy()
    turned[[middle - 1, middle + 1]] += [1.0, -1.0]
    np.testing.assert_allclose(pa10.forward(turned), pa10.forward(q), atol=1e-15)
    wish = turned + 0.01 * np.array([1, -2, 1.5, 1, 0, -1, 0])
    solved = pa10_inverse.solve(pa10.forward(q), near=wish)
    assert np.linalg.norm(solved - wish) <= np.linalg.norm(turned - wish) + 0.01


def test_wrist_on_the_base_axis_with_a_bent_elbow_is_solved():
    elbow = 1.1
    tilt = -np.arctan2(0.5 * np.sin(elbow), 0.45 + 0.5 * np.cos(elbow))
    q = np.array([0.7, tilt, 0.0, elbow, 0.3, 0.8, -0.2])
    assert np.hypot(*pa10.link_positions(q)[5, :2]) < 1e-15
    np.testing.assert_allclose(pa10_inverse.solve(pa10.forward(q), near=q), q, atol=1e-12)


def test_all_eight_branches_hold_the_hand_with_the_elbow_in_one_place():
    poses = pa10.forward(random_postures(200, seed=2))
    psi = np.random.default_rng(3).uniform(-np.pi, np.pi, 200)
    q, _ = pa10_inverse.solve_at(poses, psi)
    assert q.shape == (200, 8, 7)
    assert max(errors(q, poses[:, None])) < 1e-13
    elbows = pa10.link_positions(q)[..., 3, :]
    np.testing.assert_allclose(elbows, np.repeat(elbows[:, :1], 8, axis=1), atol=1e-13)
    np.testing.assert_array_equal(np.sign(q[..., [1, 3, 5]]), [pa10_inverse.BRANCHES] * 200)


def test_arm_angle_is_what_the_postures_were_solved_for():
    poses = pa10.forward(random_postures(200, seed=4))
    psi = np.random.default_rng(5).uniform(-np.pi, np.pi, 200)
    q, _ = pa10_inverse.solve_at(poses, psi)
    turned = pa10_inverse.arm_angle(q) - psi[:, None]
    np.testing.assert_allclose(np.cos(turned), 1, atol=1e-13)


def test_arm_angle_zero_puts_the_elbow_highest_and_grows_right_handed():
    pose = pa10.forward([0.5, 0.8, -1.0, 1.2, 0.4, 0.6, 0.2])
    psi = np.linspace(-np.pi, np.pi, 361)
    points = pa10.link_positions(pa10_inverse.solve_at(pose, psi).q[:, 0])
    assert psi[points[:, 3, 2].argmax()] == pytest.approx(0, abs=1e-12)
    wrist = points[0, 5]
    quarter = np.argmin(np.abs(psi - np.pi / 2))
    assert np.cross(points[180, 3], points[quarter, 3]) @ wrist > 0


def test_solve_at_marks_exactly_the_postures_inside_the_limits():
    poses = pa10.forward(random_postures(300, seed=6))
    q, valid = pa10_inverse.solve_at(poses[:, None], np.linspace(-3, 3, 9))
    wrapped = np.abs(np.arctan2(np.sin(q), np.cos(q)))
    np.testing.assert_array_equal(valid, (wrapped <= LIMITS).all(axis=-1))
    assert 0.5 < valid.mean() < 1


@pytest.mark.parametrize('geometry', [pa10.DEFAULT, NARROW], ids=['PA-10', 'narrow'])
def test_feasible_arm_angles_are_those_at_which_solve_at_is_valid(geometry):
    q = random_postures(60, seed=7, limits=np.array(geometry.limits))
    psi = np.linspace(-np.pi, np.pi, 2000, endpoint=False) + 1e-4
    bounded = 0
    for pose in pa10.forward(q, geometry):
        valid = pa10_inverse.solve_at(pose, psi, geometry).valid
        for branch, intervals in enumerate(pa10_inverse.feasible_arm_angles(pose, geometry)):
            inside, near_edge = np.zeros(2000, dtype=bool), np.zeros(2000, dtype=bool)
            for turn in (0, 2 * np.pi):
                for low, high in intervals:
                    inside |= (low <= psi + turn) & (psi + turn <= high)
                    near_edge |= np.abs(psi + turn - low) < 1e-7
                    near_edge |= np.abs(psi + turn - high) < 1e-7
            np.testing.assert_array_equal((inside == valid[:, branch]) | near_edge, True)
            bounded += 0 < inside.sum() < 2000
    assert bounded > 20


def test_feasible_intervals_are_disjoint_ordered_and_end_at_a_limit():
    ends = 0
    for pose in pa10.forward(random_postures(60, seed=8)):
        for branch, intervals in enumerate(pa10_inverse.feasible_arm_angles(pose)):
            flat = intervals.ravel()
            assert (np.diff(flat) >= 0).all()
            if len(intervals) > 1:
                assert not (flat[0] == -np.pi and flat[-1] == np.pi)
            if len(flat) == 0 or flat[-1] - flat[0] >= 2 * np.pi - 1e-12:
                continue
            assert flat[0] >= -np.pi
            assert flat[-1] <= flat[0] + 2 * np.pi
            at_ends = pa10_inverse.solve_at(pose, flat).q[:, branch]
            margin = np.min(np.abs(LIMITS - np.abs(at_ends)), axis=-1)
            np.testing.assert_allclose(margin, 0, atol=1e-9)
            ends += len(flat)
    assert ends > 100


def test_the_arm_straight_up_may_turn_as_far_as_its_third_joint():
    sets = pa10_inverse.feasible_arm_angles(pa10.forward(np.zeros(7)))
    for (shoulder, elbow, _), intervals in zip(pa10_inverse.BRANCHES, sets, strict=True):
        middle = 0 if elbow > 0 else np.pi
        expected = [[middle - LIMITS[2], middle + LIMITS[2]]] if shoulder > 0 else np.empty((0, 2))
        np.testing.assert_allclose(intervals, expected, atol=1e-12)


def test_no_arm_angle_of_a_dense_search_is_nearer():
    q = random_postures(60, seed=9)
    near = random_postures(60, seed=10)
    poses = pa10.forward(q)
    solved, _ = pa10_inverse.solve_batch(poses, near)
    for pose, target, mine in zip(poses, near, solved, strict=True):
        others = np.linalg.norm(on_both_turns(dense_search(pose)) - target, axis=1)
        assert np.linalg.norm(mine - target) <= others.min() + 1e-9


def test_no_arm_angle_of_a_dense_search_is_farther_from_the_limits():
    poses = pa10.forward(random_postures(60, seed=11))
    solved, _ = pa10_inverse.solve_batch(poses)
    for pose, mine in zip(poses, solved, strict=True):
        assert use_of_limits(mine) <= use_of_limits(dense_search(pose)).min() + 1e-9


@pytest.mark.parametrize('joint', [4, 6])
def test_joints_that_turn_past_half_a_turn_take_the_nearer_of_their_values(joint):
    q = np.array([0.3, 0.5, -0.4, 1.0, 0.2, 0.9, -0.1])
    q[joint] = np.radians(200)
    pose = pa10.forward(q)
    np.testing.assert_allclose(pa10_inverse.solve(pose, near=q), q, atol=1e-12)
    q[joint] -= 2 * np.pi
    np.testing.assert_allclose(pa10_inverse.solve(pose, near=q), q, atol=1e-12)


def test_a_wished_posture_far_outside_the_limits_still_gives_one_inside():
    pose = pa10.forward(random_postures(1, seed=12)[0])
    solved = pa10_inverse.solve(pose, near=np.full(7, 50.0))
    assert (np.abs(solved) <= LIMITS).all()
    assert max(errors(solved, pose)) < 1e-9
    others = np.linalg.norm(on_both_turns(dense_search(pose)) - 50.0, axis=1)
    assert np.linalg.norm(solved - 50.0) <= others.min() + 1e-9


@pytest.mark.parametrize('geometry', [pa10.LENGTHS_A, NARROW], ids=['A', 'narrow'])
def test_other_lengths_and_limits_are_solved_too(geometry):
    limits = np.array(geometry.limits)
    poses = pa10.forward(random_postures(2000, seed=13, limits=limits), geometry)
    q, found = pa10_inverse.solve_batch(poses, geometry=geometry)
    assert found.all()
    assert (np.abs(q) <= limits).all()
    assert max(errors(q, poses, geometry)) < 1e-9


def test_a_batch_gives_what_single_poses_give():
    poses = random_poses_in_reach(40, seed=14)
    near = random_postures(40, seed=15)
    for wish in (None, near):
        q, found = pa10_inverse.solve_batch(poses, wish)
        assert 0 < found.sum() < 40
        assert np.isnan(q[~found]).all()
        for i, pose in enumerate(poses):
            target = None if wish is None else wish[i]
            if found[i]:
                np.testing.assert_array_equal(pa10_inverse.solve(pose, target), q[i])
            else:
                with pytest.raises(Unreachable):
                    pa10_inverse.solve(pose, target)


def test_one_wish_serves_a_whole_batch():
    poses = pa10.forward(random_postures(5, seed=16))
    wish = np.full(7, 0.2)
    together = pa10_inverse.solve_batch(poses, wish).q
    np.testing.assert_array_equal(together, pa10_inverse.solve_batch(poses, [wish] * 5).q)


def test_an_empty_batch_gives_an_empty_answer():
    q, found = pa10_inverse.solve_batch(np.empty((0, 4, 4)))
    assert q.shape == (0, 7)
    assert found.shape == (0,)


def test_where_nothing_is_found_bounded_least_squares_finds_nothing_either():
    poses = random_poses_in_reach(200, seed=17)
    lost = poses[~pa10_inverse.solve_batch(poses).found][:12]
    assert len(lost) == 12
    starts = random_postures(4, seed=18)
    for pose in lost:
        assert not any(len(s) for s in pa10_inverse.feasible_arm_angles(pose))
        for start in starts:

            def residual(q, pose=pose):
                return (pa10.forward(q) - pose)[:3].ravel()

            best = least_squares(residual, start, bounds=(pa10.LOWER, pa10.UPPER))
            assert np.linalg.norm(best.fun) > 1e-3


def test_a_pose_too_far_away_is_said_to_be_so():
    pose = np.eye(4)
    pose[2, 3] = 1.05
    with pytest.raises(Unreachable, match=r'0\.9700 m .* reaches 0\.9500 m: .* too far'):
        pa10_inverse.solve(pose)


def test_a_pose_too_near_is_said_to_be_so():
    pose = np.eye(4)
    pose[:3, 3] = [0.1, 0, 0.08]
    nearest = np.linalg.norm(pa10.link_positions([0, 0, 0, LIMITS[3], 0, 0, 0])[5])
    with pytest.raises(Unreachable, match=rf'0\.1000 m .* {nearest:.4f} m away: .* too near'):
        pa10_inverse.solve(pose)


def test_a_pose_that_only_the_limits_forbid_is_said_to_be_so():
    pose = np.diag([1.0, -1, -1, 1])
    pose[2, 3] = -0.98
    with pytest.raises(Unreachable, match='within reach, but no posture inside the joint limits'):
        pa10_inverse.solve(pose)


def test_out_of_reach_no_branch_is_valid_and_no_value_is_missing():
    poses = np.array([np.eye(4)] * 2)
    poses[:, 2, 3] = [2.0, 0.1]
    q, valid = pa10_inverse.solve_at(poses, 0.3)
    assert not valid.any()
    assert np.isfinite(q).all()
    for pose in poses:
        assert [len(s) for s in pa10_inverse.feasible_arm_angles(pose)] == [0] * 8


def test_the_reach_is_closed():
    straight = np.array([0.3, 0.8, -0.2, 0.0, 1.0, 0.5, 0.2])
    folded = np.array([0.3, 0.8, -0.2, LIMITS[3], 1.0, 0.5, 0.2])
    for q in (straight, folded):
        assert max(errors(pa10_inverse.solve(pa10.forward(q)), pa10.forward(q))) < 1e-12


def _with(row, column, value):
    pose = np.eye(4)
    pose[2, 3] = 0.9
    pose[row, column] = value
    return pose


BAD_POSES = [
    (np.eye(3), 'shape'),
    (_with(0, 0, np.nan), 'nan at index'),
    (_with(0, 0, 1.1), 'away from orthonormal'),
    (_with(0, 0, -1), 'reflection'),
    (_with(3, 0, 0.5), '0 0 0 1'),
    ('pose', 'array of numbers'),
]


@pytest.mark.parametrize(('pose', 'message'), BAD_POSES)
def test_poses_that_are_none_are_refused(pose, message):
    for call in (
        lambda: pa10_inverse.solve(pose),
        lambda: pa10_inverse.solve_batch([pose]),
        lambda: pa10_inverse.solve_at(pose, 0.0),
        lambda: pa10_inverse.feasible_arm_angles(pose),
    ):
        with pytest.raises(BadInput, match=message):
            call()


def test_wishes_and_angles_that_fit_no_pose_are_refused():
    poses = pa10.forward(random_postures(3, seed=19))
    with pytest.raises(BadInput, match=r'near must have shape \(7,\), not \(6,\)'):
        pa10_inverse.solve(poses[0], near=np.zeros(6))
    with pytest.raises(BadInput, match='near holds nan'):
        pa10_inverse.solve(poses[0], near=[np.nan] * 7)
    with pytest.raises(BadInput, match=r'near must have shape \(7,\) or \(3, 7\)'):
        pa10_inverse.solve_batch(poses, near=np.zeros((2, 7)))
    with pytest.raises(BadInput, match='does not go with'):
        pa10_inverse.solve_at(poses, [0.0, 0.1])
    with pytest.raises(BadInput, match='psi holds inf'):
        pa10_inverse.solve_at(poses, np.inf)
    with pytest.raises(BadInput, match='7 joint values'):
        pa10_inverse.arm_angle(np.zeros(6))
