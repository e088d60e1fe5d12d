"""Path correction on paths whose answer can be seen, and its promises on any path."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kde_imitation.errors import BadInput
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.kinematics import pa10
from kde_imitation.learning import correct_path


def same(q):
    return q


ARC = np.stack([np.cos(t := np.linspace(0, np.pi, 61)), np.sin(t)], axis=1)


def worst_distance(waypoints, training, features=same):
    """Measure a path with points much closer together than the method's own."""
    share = np.linspace(0, 1, 400)[:, None]
    pieces = [a + share * (b - a) for a, b in pairwise(waypoints)]
    shown, known = features(np.concatenate(pieces)), features(training)
    return np.linalg.norm(shown[:, None] - known, axis=2).min(axis=1).max()


def test_a_path_across_a_half_circle_follows_the_circle():
    path = correct_path(ARC[0], ARC[-1], same, ARC, 0.1)
    assert path.within
    assert path.straight == pytest.approx(1.0, abs=0.01)
    assert worst_distance(path.waypoints, ARC) < 0.11
    angles = np.arctan2(path.waypoints[1:-1, 1], path.waypoints[1:-1, 0])
    assert len(angles) >= 3
    assert (np.diff(angles) > 0).all()
    assert (path.waypoints[1:-1] == ARC[path.inserted]).all()


def test_the_first_posture_inserted_is_the_nearest_to_the_worst_point():
    training = np.array([[0.0, 0.0], [10.0, 0.0], [4.0, 3.0], [5.0, 2.0], [5.0, 7.0]])
    path = correct_path([0.0, 0.0], [10.0, 0.0], same, training, 0.5, max_insertions=1)
    line = np.linspace(0, 10, 201)[:, None] * [1.0, 0.0]
    gaps = np.linalg.norm(line[:, None] - training, axis=2)
    expected = gaps[gaps.min(axis=1).argmax()].argmin()
    assert path.inserted.tolist() == [expected]
    assert not path.within


def test_a_path_that_keeps_to_the_postures_stays_straight():
    path = correct_path(ARC[3], ARC[5], same, ARC, 0.1)
    assert path.within
    assert (path.waypoints == ARC[[3, 5]]).all()
    assert path.distances == pytest.approx([path.straight])


def test_ends_are_kept_even_where_they_stray_themselves():
    path = correct_path([-3.0, 0.0], ARC[0], same, ARC, 0.1)
    assert not path.within
    assert (path.waypoints[0] == [-3.0, 0.0]).all()
    assert (path.waypoints[-1] == ARC[0]).all()


def test_a_gap_in_the_demonstrations_does_not_send_the_path_through_all_of_them():
    rng = np.random.default_rng(2)
    training = np.concatenate([rng.normal(c, 0.1, (30, 2)) for c in (-2.0, 2.0)])
    path = correct_path([-2.0, -2.0], [2.0, 2.0], same, training, 0.5)
    assert not path.within
    assert len(path.inserted) <= 4


def test_ends_that_are_training_postures_are_not_inserted_again():
    training = np.array([[0.0, 0.0], [1.0, 0.0]])
    path = correct_path(training[0], training[1], same, training, 0.1)
    assert len(path.waypoints) == 2
    assert not path.within


def test_equal_ends_make_a_path_of_no_length():
    path = correct_path(ARC[4], ARC[4], same, ARC, 0.1)
    assert path.within
    assert path.distances == pytest.approx([0.0])


@settings(max_examples=80, deadline=None)
@given(
    arrays(float, (2, 2), elements=st.floats(-3, 3)),
    arrays(float, st.tuples(st.integers(1, 12), st.just(2)), elements=st.floats(-3, 3)),
    st.floats(0.05, 2),
    st.integers(0, 15),
)
def test_it_ends_with_bounded_insertions_and_tells_the_truth(ends, training, threshold, most):
    path = correct_path(*ends, same, training, threshold, max_insertions=most)
    assert len(path.inserted) <= min(most, len(training))
    assert len(set(path.inserted.tolist())) == len(path.inserted)
    assert path.waypoints.shape == (len(path.inserted) + 2, 2)
    assert len(path.distances) == len(path.waypoints) - 1
    assert (path.waypoints[[0, -1]] == ends).all()
    assert path.distances.max() <= path.straight
    assert path.within == (path.distances <= threshold).all()
    # Points 0.05 apart see the path to half of that, in each of the two joints.
    seen = worst_distance(path.waypoints, training)
    assert seen == pytest.approx(path.distances.max(), abs=0.05)


def test_postures_of_an_arm_are_compared_by_its_points():
    rng = np.random.default_rng(0)
    t = np.linspace(0, np.pi, 40)[:, None]
    sweep = np.zeros((40, 7))
    sweep[:, :2] = np.concatenate([1.2 * np.cos(t), 1.2 - 0.6 * np.sin(t)], axis=1)
    sweep[:, 6] = rng.uniform(-1, 1, 40)
    kernel = PoseKernel(pa10)
    path = correct_path(sweep[0], sweep[-1], kernel.features, sweep, 0.15)
    assert path.within
    assert len(path.inserted) >= 1
    assert path.straight > 0.15
    assert worst_distance(path.waypoints, sweep, kernel.features) < 0.16


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'q0': [np.nan, 0.0]}, 'q0 holds nan'),
        ({'q1': [0.0]}, r'q1 must have shape \(2,\)'),
        ({'training_postures': np.zeros((0, 2))}, 'training_postures is empty'),
        ({'training_postures': np.zeros((4, 3))}, r'training_postures must have shape \(any, 2\)'),
        ({'threshold': 0.0}, 'threshold must be positive'),
        ({'threshold': np.nan}, 'threshold must be positive'),
        ({'spacing': -1.0}, 'spacing must be positive'),
        ({'max_insertions': -1}, 'max_insertions must not be negative'),
        ({'features': lambda q: q * np.nan}, r'features\(training_postures\) holds nan'),
    ],
)
def test_wrong_calls_are_refused(change, message):
    call = {
        'q0': ARC[0],
        'q1': ARC[-1],
        'features': same,
        'training_postures': ARC,
        'threshold': 0.1,
    }
    with pytest.raises(BadInput, match=message):
        correct_path(**{**call, **change})
