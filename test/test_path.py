"""Smooth joint paths keep every limit between their postures too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control.path import SmoothPath
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import joint_limits

LIMITS = joint_limits()


def postures(seed, count, share=0.4):
    rng = np.random.default_rng(seed)
    return share * rng.uniform(LIMITS.lower, LIMITS.upper, (count, 7))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 8), st.floats(0.05, 1.0))
def test_speed_and_acceleration_reach_the_share_and_never_pass_it(seed, count, share):
    path = SmoothPath(postures(seed, count), LIMITS, share)
    t = np.linspace(0, path.duration, 4001)
    used = max(
        (np.abs(path.velocity(t)) / LIMITS.velocity).max(),
        (np.abs(path.acceleration(t)) / LIMITS.acceleration).max(),
    )
    assert used <= share * (1 + 1e-9)
    assert used >= share * 0.98


def test_path_passes_its_postures_and_rests_at_both_ends():
    points = postures(1, 6)
    path = SmoothPath(points, LIMITS)
    assert path.position(path.times) == pytest.approx(points)
    assert path.velocity([0.0, path.duration]) == pytest.approx(np.zeros((2, 7)), abs=1e-12)
    assert path.position([-1.0, path.duration + 5]) == pytest.approx(points[[0, -1]])


def test_velocity_and_acceleration_are_the_derivatives_of_the_position():
    path = SmoothPath(postures(2, 5), LIMITS)
    t, h = np.linspace(0.1, path.duration - 0.1, 50), 1e-5
    slope = (path.position(t + h) - path.position(t - h)) / (2 * h)
    assert path.velocity(t) == pytest.approx(slope, abs=1e-7)
    bend = (path.velocity(t + h) - path.velocity(t - h)) / (2 * h)
    assert path.acceleration(t) == pytest.approx(bend, abs=1e-5)


def test_a_path_that_swings_beyond_a_limit_is_refused():
    points = np.zeros((4, 7))
    points[1:3, 1] = LIMITS.upper[1]
    points[2, 0] = 0.1
    with pytest.raises(BadInput, match=r'takes joint s2 to .* beyond its limits'):
        SmoothPath(points, LIMITS)


@pytest.mark.parametrize(
    ('points', 'share', 'message'),
    [
        (np.zeros((1, 7)), 0.5, 'at least 2 postures, not 1'),
        (np.zeros((3, 6)), 0.5, r'shape \(any, 7\)'),
        (np.full((2, 7), np.nan), 0.5, 'postures holds nan'),
        (np.zeros((3, 7)), 0.5, 'Postures 0 and 1 of the path are equal'),
        (postures(0, 2), 0.0, 'share must be above 0'),
        (postures(0, 2), 1.5, 'share must be above 0 and at most 1'),
    ],
)
def test_bad_paths_are_refused_with_a_sentence(points, share, message):
    with pytest.raises(BadInput, match=message):
        SmoothPath(points, LIMITS, share)
