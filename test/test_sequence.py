"""Pictures of one movement help each other; independent pictures are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.imitation import sequence
from kde_imitation.imitation.sequence import is_movement, smooth

ALL = np.ones(80, dtype=bool)


def movement(noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth path (80, 3), and the same with noise."""
    t = np.linspace(0.0, 1.0, 80)
    path = np.column_stack([np.sin(6 * t), np.cos(4 * t), t])
    return path, path + noise * np.random.default_rng(seed).normal(size=path.shape)


@pytest.mark.parametrize('power', [-1.0, 0.5, 2.0])
def test_with_a_given_penalty_it_is_the_penalised_least_squares_solution(
    power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence, 'POWERS', (power - 1e-9, power + 1e-9))
    _, noisy = movement(0.1)
    count = len(noisy)
    # Second differences with ends that go on as their mirror image.
    second = 2.0 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)
    second[0, 0] = second[-1, -1] = 1.0
    wanted = np.linalg.solve(np.eye(count) + 10.0**power * second @ second, noisy)
    penalties = (2.0 - 2.0 * np.cos(np.pi * np.arange(count) / count)) ** 2
    path, _ = sequence._fit(noisy, np.ones(count), noisy.copy(), penalties)
    np.testing.assert_allclose(path, wanted, atol=1e-7)


@given(st.integers(0, 1000), st.floats(0.02, 0.3))
@settings(max_examples=25, deadline=None)
def test_a_noisy_movement_comes_nearer_to_the_true_one(seed: int, noise: float) -> None:
    path, noisy = movement(noise, seed)
    assert np.abs(smooth(noisy, ALL) - path).mean() < 0.7 * np.abs(noisy - path).mean()


def test_a_smooth_movement_is_left_as_it_is() -> None:
    path, _ = movement(0.0)
    np.testing.assert_allclose(smooth(path, ALL), path, atol=1e-3)


def test_one_wild_point_hardly_moves_the_path() -> None:
    path, noisy = movement(0.02)
    wild = noisy.copy()
    wild[40] += 5.0
    assert np.abs(smooth(wild, ALL) - path).max() < 0.15


def test_points_that_are_not_familiar_are_replaced_by_the_path_around_them() -> None:
    path, noisy = movement(0.02)
    familiar = ALL.copy()
    familiar[30:36] = False
    noisy[30:36] = 99.0
    assert np.abs(smooth(noisy, familiar) - path).max() < 0.15


@given(st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_turning_and_moving_the_points_turns_and_moves_the_path(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, noisy = movement(0.1, seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    shift = rng.normal(size=3)
    moved = smooth(noisy @ turn + shift, ALL)
    np.testing.assert_allclose(moved, smooth(noisy, ALL) @ turn + shift, atol=0.02)


@given(st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_independent_points_are_no_movement(seed: int) -> None:
    assert not is_movement(np.random.default_rng(seed).normal(size=(80, 3)), ALL)


@given(st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_a_noisy_movement_is_one(seed: int) -> None:
    assert is_movement(movement(0.1, seed)[1], ALL)


def test_too_few_points_are_left_alone() -> None:
    points = np.random.default_rng(0).normal(size=(4, 3))
    assert not is_movement(points, np.ones(4, dtype=bool))
    assert smooth(points, np.ones(4, dtype=bool)) is points
    many = np.random.default_rng(0).normal(size=(80, 3))
    assert smooth(many, ~ALL) is many
    assert not is_movement(many, ~ALL)
