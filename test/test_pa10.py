"""The closed-form PA-10: held to the published matrices, to its URDF, and to differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import joint_limits, urdf

SETS = {'A': pa10.LENGTHS_A, 'B': pa10.LENGTHS_B}
postures = st.tuples(*[st.floats(-limit, limit) for limit in pa10.LIMITS]).map(np.array)


def random_postures(*shape, seed=0):
    return np.random.default_rng(seed).uniform(pa10.LOWER, pa10.UPPER, (*shape, 7))


def published_matrix(joint, angle, millimetres):
    """A_1 .. A_7 as printed, but for the third row of A_1."""
    c, s = np.cos(angle), np.sin(angle)
    if joint == 1:
        rows = [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0]]
    elif joint % 2 == 0:
        rows = [[c, -s, 0, 0], [0, 0, 1, 0], [-s, -c, 0, 0]]
    else:
        rows = [[c, -s, 0, 0], [0, 0, -1, -millimetres[joint]], [s, c, 0, 0]]
    return np.array([*rows, [0, 0, 0, 1]])


def published_frames(q, geometry=pa10.DEFAULT):
    """F_1 .. F_7 of one posture, shape (7, 4, 4), in metres."""
    lengths = (geometry.upper_arm, geometry.forearm, geometry.hand)
    millimetres = {3 + 2 * i: 1000 * length for i, length in enumerate(lengths)}
    frame, frames = np.eye(4), []
    for joint, angle in enumerate(q, start=1):
        frame = frame @ published_matrix(joint, angle, millimetres)
        frames.append(frame)
    frames = np.array(frames)
    frames[:, :3, 3] /= 1000
    return frames


def differences(function, q, step=1e-5):
    """Central differences by the joints, last axis; their error is about step² and eps/step."""
    steps = step * np.eye(7)
    return np.stack(
        [(function(q + s) - function(q - s)) / (2 * step) for s in steps],
        axis=-1,
    )


@pytest.mark.parametrize('geometry', SETS.values(), ids=SETS.keys())
def test_points_are_those_of_the_published_matrices(geometry):
    for q in random_postures(50):
        expected = published_frames(q, geometry)[:, :3, 3]
        np.testing.assert_allclose(pa10.link_positions(q, geometry), expected, atol=1e-14)


def test_hand_pose_is_the_last_published_frame():
    for q in random_postures(50, seed=1):
        np.testing.assert_allclose(pa10.forward(q), published_frames(q)[6], atol=1e-14)


def test_hand_rotation_is_the_product_of_turns_about_z_and_y():
    q = random_postures(200, seed=2)
    expected = Rotation.from_euler('ZYZ', q[:, :3]) * Rotation.from_euler('YZY', q[:, 3:6])
    expected = expected * Rotation.from_euler('z', q[:, 6:])
    np.testing.assert_allclose(pa10.forward(q)[:, :3, :3], expected.as_matrix(), atol=1e-14)


@pytest.mark.parametrize('name', SETS)
def test_points_and_pose_are_those_of_the_urdf(name):
    chain = Chain.from_urdf(urdf(lengths=name), tip='flange')
    q = random_postures(4, 5, seed=3)
    np.testing.assert_allclose(
        pa10.link_positions(q, SETS[name]), chain.link_positions(q, origin='link1'), atol=1e-14
    )
    np.testing.assert_allclose(
        pa10.position_jacobians(q, SETS[name]),
        chain.position_jacobians(q, origin='link1'),
        atol=1e-14,
    )
    np.testing.assert_allclose(pa10.jacobian(q, SETS[name]), chain.jacobian(q), atol=1e-14)
    np.testing.assert_allclose(
        pa10.forward(q, SETS[name])[..., :3, :3], chain.pose(q)[..., :3, :3], atol=1e-14
    )


def test_limits_are_those_of_the_description():
    limits = joint_limits()
    np.testing.assert_allclose(pa10.LOWER, limits.lower, atol=1e-15)
    np.testing.assert_allclose(pa10.UPPER, limits.upper, atol=1e-15)


def test_zero_posture_stands_straight_along_z():
    heights = [0, 0, 0.45, 0.45, 0.95, 0.95, 1.03]
    points = pa10.link_positions(np.zeros(7))
    np.testing.assert_allclose(points[:, 2], heights, atol=1e-15)
    np.testing.assert_array_equal(points[:, :2], 0)
    np.testing.assert_array_equal(pa10.forward(np.zeros(7))[:3, :3], np.eye(3))
    np.testing.assert_array_equal(pa10.joint_axes(np.zeros(7)), np.eye(3)[[2, 1, 2, 1, 2, 1, 2]])


@given(postures)
def test_segments_keep_their_lengths(q):
    lengths = np.linalg.norm(np.diff(pa10.link_positions(q), axis=0), axis=-1)
    np.testing.assert_allclose(lengths, [0, 0.45, 0, 0.5, 0, 0.08], atol=1e-14)


@given(postures)
def test_first_two_points_never_move(q):
    np.testing.assert_array_equal(pa10.link_positions(q)[:2], 0)
    np.testing.assert_array_equal(pa10.position_jacobians(q)[:2], 0)


@given(postures)
def test_a_joint_does_not_move_the_points_before_it(q):
    jacobians = pa10.position_jacobians(q)
    for joint in range(7):
        np.testing.assert_array_equal(jacobians[: joint + 1, :, joint], 0)


def test_position_jacobians_are_the_derivatives_of_the_points():
    for q in random_postures(30, seed=4):
        np.testing.assert_allclose(
            pa10.position_jacobians(q), differences(pa10.link_positions, q), atol=1e-9
        )


def test_hand_jacobian_is_the_derivative_of_the_hand_pose():
    for q in random_postures(30, seed=5):
        rate = differences(pa10.forward, q)
        jacobian = pa10.jacobian(q)
        np.testing.assert_allclose(jacobian[:3], rate[:3, 3], atol=1e-9)
        spin = np.einsum('ikn,jk->ijn', rate[:3, :3], pa10.forward(q)[:3, :3])
        angular = np.stack([spin[2, 1], spin[0, 2], spin[1, 0]])
        np.testing.assert_allclose(jacobian[3:], angular, atol=1e-9)


def test_hand_jacobian_agrees_with_the_jacobian_of_the_last_point():
    q = random_postures(40, seed=6)
    np.testing.assert_allclose(
        pa10.jacobian(q)[:, :3], pa10.position_jacobians(q)[:, 6], atol=1e-15
    )


@pytest.mark.parametrize(
    ('function', 'shape'),
    [
        (pa10.link_positions, (7, 3)),
        (pa10.position_jacobians, (7, 3, 7)),
        (pa10.joint_axes, (7, 3)),
        (pa10.forward, (4, 4)),
        (pa10.jacobian, (6, 7)),
    ],
)
def test_any_leading_shape_gives_what_one_posture_at_a_time_gives(function, shape):
    q = random_postures(2, 3, seed=7)
    together = function(q)
    assert together.shape == (2, 3, *shape)
    for i in np.ndindex(2, 3):
        np.testing.assert_array_equal(together[i], function(q[i]))
    assert function(np.empty((0, 7))).shape == (0, *shape)
    assert function(q).flags.writeable
    assert function(q).flags.c_contiguous


@pytest.mark.parametrize(
    'function',
    [pa10.link_positions, pa10.position_jacobians, pa10.joint_axes, pa10.forward, pa10.jacobian],
)
@pytest.mark.parametrize(
    ('q', 'message'),
    [
        (np.zeros(6), '7 joint values'),
        (np.zeros((7, 1)), '7 joint values'),
        (0.0, '7 joint values'),
        ([0, 0, 0, np.nan, 0, 0, 0], 'nan at index'),
        ([0, 0, np.inf, 0, 0, 0, 0], 'inf at index'),
        (['a'] * 7, 'array of numbers'),
    ],
)
def test_postures_that_are_none_are_refused(function, q, message):
    with pytest.raises(BadInput, match=message):
        function(q)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((-0.45, 0.5, 0.08), 'must be positive'),
        ((0.45, 0, 0.08), 'must be positive'),
        ((0.45, 0.5, -0.01), 'must not be negative'),
        ((0.45, np.nan, 0.08), 'nan at index'),
        ((0.45, 0.5, 0.08, (1, 1, 1)), r'shape \(7,\)'),
        ((0.45, 0.5, 0.08, (1, 1, 1, 1, 1, 1, 0)), 'each must be positive'),
        ((0.45, 0.5, 0.08, (1, 1, 1, 3.2, 1, 1, 1)), 'half a turn'),
        ((0.45, 0.5, 0.08, (1, 1, 1, 1, 6.3, 1, 1)), 'less than a whole one'),
    ],
)
def test_impossible_measures_are_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        pa10.Geometry(*arguments)


def test_limits_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match='read-only'):
        pa10.UPPER[0] = 0
