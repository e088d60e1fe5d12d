"""Geodesics and descent on the Stiefel manifold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm, null_space, qr
from scipy.stats import kstest

from kde_imitation.errors import BadInput
from kde_imitation.learning import stiefel
from kde_imitation.learning.stiefel import Geodesic, descend

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12)).map(lambda s: (max(s), min(s)))


def draw(n, r, seed):
    random = np.random.default_rng(seed)
    V = stiefel.random_point(n, r, random)
    return V, stiefel.random_tangent(V, 1.0, random), random


def by_the_large_exponential(V, D, t):
    """A2.1 as the thesis prints it: the exponential of an n × n matrix."""
    n, r = V.shape
    rest = null_space(V.T) if n > r else np.zeros((n, 0))
    Z = np.zeros((n, n))
    Z[:r, :r], Z[r:, :r], Z[:r, r:] = V.T @ D, rest.T @ D, -(rest.T @ D).T
    return (np.hstack([V, rest]) @ expm(t * Z))[:, :r]


@settings(max_examples=60, deadline=None)
@given(size=SIZES, seed=st.integers(0, 999), t=st.floats(-5, 5))
def test_the_small_exponential_follows_the_large_one(size, seed, t):
    V, D, _ = draw(*size, seed)
    wanted = by_the_large_exponential(V, D, t)
    np.testing.assert_allclose(Geodesic(V, D).at(t), wanted, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(size=SIZES, seed=st.integers(0, 999), t=st.floats(-3, 3))
def test_the_velocity_is_the_derivative_and_a_tangent_of_constant_length(size, seed, t):
    V, D, _ = draw(*size, seed)
    curve, h = Geodesic(V, D), 1e-6
    velocity = curve.velocity(t)
    slope = (curve.at(t + h) - curve.at(t - h)) / (2 * h)
    np.testing.assert_allclose(velocity, slope, atol=1e-6 * (1 + np.abs(D).max() ** 3))
    there = curve.at(t)
    skew = there.T @ velocity
    np.testing.assert_allclose(skew, -skew.T, atol=1e-10)
    length = stiefel.inner(V, D, D)
    assert stiefel.inner(there, velocity, velocity) == pytest.approx(length, abs=1e-9, rel=1e-9)


def test_columns_stay_orthonormal_after_thousands_of_steps():
    random = np.random.default_rng(0)
    V = stiefel.random_point(60, 7, random)
    for _ in range(5000):
        V = Geodesic(V, stiefel.random_tangent(V, 0.5, random)).at(1.0)
    assert np.abs(V.T @ V - np.eye(7)).max() < 1e-13


def test_a_rounding_error_does_not_grow():
    V = stiefel.random_point(30, 4, np.random.default_rng(0))
    wrong = V + 1e-6 * np.random.default_rng(1).normal(size=V.shape)
    right = stiefel.step_exactly_orthonormal(wrong)
    assert np.abs(right.T @ right - np.eye(4)).max() < 1e-10


def test_a_million_rows_need_no_matrix_of_that_size():
    V, D, _ = draw(1_000_000, 2, 0)
    there = Geodesic(V, D / 1000).at(1.0)
    assert np.abs(there.T @ there - np.eye(2)).max() < 1e-12


def test_the_gradient_gives_the_slope_along_every_tangent():
    """⟨grad, D⟩ in the canonical metric is the derivative of the function along D."""
    V, D, random = draw(8, 3, 4)
    B = random.normal(size=(8, 8))

    def f(point):
        return float(np.sum(np.sin(B @ point)))

    free = B.T @ np.cos(B @ V)
    slope = stiefel.inner(V, stiefel.gradient(V, free), D)
    curve, h = Geodesic(V, D), 1e-6
    assert slope == pytest.approx((f(curve.at(h)) - f(curve.at(-h))) / (2 * h), rel=1e-7)


def test_pi_stiefel_moves_downhill_with_a_negative_step():
    V, _, random = draw(9, 2, 5)
    A = random.normal(size=(9, 9))
    A = A + A.T
    before = np.trace(V.T @ A @ V)
    after = stiefel.pi_stiefel(V, 2 * A @ V, -1e-3)
    assert np.trace(after.T @ A @ after) < before


def test_random_points_are_uniform():
    """One coordinate of a uniform point on the sphere in three dimensions is uniform."""
    random = np.random.default_rng(3)
    first = [stiefel.random_point(3, 2, random)[0] for _ in range(2000)]
    for column in np.transpose(first):
        assert kstest(column, 'uniform', (-1, 2)).pvalue > 0.01


def test_random_tangents_are_alike_in_all_directions():
    """In an orthonormal frame of the tangent space the coordinates have unit variance."""
    V, _, random = draw(5, 2, 1)
    rest = null_space(V.T)
    draws = np.array([stiefel.random_tangent(V, 1.0, random) for _ in range(4000)])
    inside = np.einsum('nr,mns->mrs', V, draws)
    np.testing.assert_allclose(inside, -np.swapaxes(inside, 1, 2), atol=1e-12)
    coordinates = np.hstack([inside[:, 1:2, 0], (rest.T @ draws).reshape(4000, -1)])
    np.testing.assert_allclose(np.cov(coordinates.T), np.eye(7), atol=0.12)


@pytest.mark.parametrize('memory', [0, 10])
def test_descent_finds_the_leading_eigenspace(memory):
    random = np.random.default_rng(2)
    values = np.array([9.0, 8.0, 7.0, 3.0, 2.0, 1.0, 0.5])
    Q = qr(random.normal(size=(7, 7)))[0]
    A = (Q * values) @ Q.T

    def loss(point):
        return -float(np.trace(point[0].T @ A @ point[0])), (-2 * A @ point[0],)

    found = descend(loss, [stiefel.random_point(7, 3, random)], [True], 500, 1e-8, memory=memory)
    assert found.converged
    assert found.values[-1] == pytest.approx(-24.0, rel=1e-12)
    assert (np.diff(found.values) <= 1e-13 * 24).all()
    assert len(found.values) == found.steps + 1


def test_descent_in_a_flat_space_meets_rosenbrocks_minimum():
    def loss(point):
        x, y = point[0]
        value = (1 - x) ** 2 + 100 * (y - x**2) ** 2
        return value, (np.array([-2 * (1 - x) - 400 * x * (y - x**2), 200 * (y - x**2)]),)

    found = descend(loss, [np.array([-1.2, 1.0])], [False], 200, 1e-9)
    np.testing.assert_allclose(found.point[0], 1.0, atol=1e-6)


def test_descent_stops_where_told_and_says_so():
    A = np.diag(np.arange(6.0))
    start = stiefel.random_point(6, 2, np.random.default_rng(0))
    found = descend(
        lambda p: (float(np.trace(p[0].T @ A @ p[0])), (2 * A @ p[0],)), [start], [True], 3
    )
    assert found.steps == 3
    assert not found.converged


@pytest.mark.parametrize(
    ('V', 'message'),
    [
        (np.ones((3, 2)), 'not orthonormal'),
        (np.eye(2, 3), 'more columns'),
        (np.full((3, 1), np.nan), 'finite'),
        (np.ones(3), 'shape'),
    ],
)
def test_points_off_the_manifold_are_refused(V, message):
    with pytest.raises(BadInput, match=message):
        stiefel.pi_stiefel(V, np.ones_like(V), 0.1)
