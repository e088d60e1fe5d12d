"""Evaluating and searching a PSOM, against Lagrange's formula, differences and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BarycentricInterpolator
from scipy.optimize import least_squares

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.psom import Psom, chebyshev_axis, regular_axis
from kde_imitation.kinematics.psom.axes import interval_of


def lagrange(nodes, x):
    """Equation 3.3, written out."""
    return np.array(
        [
            np.prod([(x - other) / (node - other) for other in nodes if other != node])
            for node in nodes
        ]
    )


def grid_of(axes):
    return np.stack(np.meshgrid(*axes, indexing='ij'), axis=-1)


@pytest.fixture
def surface():
    """A 2-D PSOM with 3 outputs of full rank, and its raw values."""
    rng = np.random.default_rng(1)
    axes = [chebyshev_axis(-1, 2, 5), regular_axis(0, 1, 4)]
    values = rng.normal(size=(5, 4, 3))
    return Psom.from_grid(axes, values), axes, values


def test_axes_are_those_of_equations_3_9_and_3_10():
    assert regular_axis(-2, 4, 4) == pytest.approx([-2, 0, 2, 4])
    zeros = np.polynomial.chebyshev.chebroots([0] * 6 + [1])
    assert chebyshev_axis(-1, 1, 6) == pytest.approx(np.sort(zeros))
    assert chebyshev_axis(3, 7, 6) == pytest.approx(5 + 2 * np.sort(zeros))


@given(
    st.floats(-5, 5), st.floats(0.1, 9), st.integers(4, 12), st.sampled_from(['regular', 'zeros'])
)
def test_an_axis_stands_for_the_interval_it_was_made_for(lower, length, n, kind):
    make = regular_axis if kind == 'regular' else chebyshev_axis
    assert interval_of(make(lower, lower + length, n)) == pytest.approx((lower, lower + length))


def test_uneven_nodes_stand_for_the_interval_from_first_to_last():
    assert interval_of(np.array([0.0, 1.0, 2.5, 3.0])) == (0.0, 3.0)


def test_prediction_is_the_sum_of_lagrange_products(surface):
    psom, axes, values = surface
    for x in np.random.default_rng(2).uniform([-1, 0], [2, 1], (20, 2)):
        weights = np.einsum('i,j->ij', lagrange(axes[0], x[0]), lagrange(axes[1], x[1]))
        expected = np.einsum('ij,ijd->d', weights, values)
        assert psom.predict(x) == pytest.approx(expected, abs=1e-12)


def test_prediction_in_one_dimension_agrees_with_scipy():
    axis = chebyshev_axis(-1, 1, 12)
    values = np.exp(-8 * axis**2)
    x = np.linspace(-1, 1, 101)
    ours = Psom.from_grid([axis], values[:, None]).predict(x[:, None])[:, 0]
    assert ours == pytest.approx(BarycentricInterpolator(axis, values)(x), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(2, 6), min_size=1, max_size=4))
def test_the_map_passes_through_its_nodes(seed, sizes):
    axes = [regular_axis(-1, 1, n) for n in sizes]
    values = np.random.default_rng(seed).normal(size=(*sizes, 2))
    psom = Psom.from_grid(axes, values)
    assert psom.predict(grid_of(axes)) == pytest.approx(values, abs=1e-11)


def test_jacobian_agrees_with_central_differences(surface):
    psom, _, _ = surface
    x = np.random.default_rng(3).uniform([-1, 0], [2, 1], (7, 2))
    h = 1e-6
    steps = h * np.eye(2)
    expected = np.stack(
        [(psom.predict(x + s) - psom.predict(x - s)) / (2 * h) for s in steps], axis=-1
    )
    assert psom.jacobian(x) == pytest.approx(expected, abs=1e-7)


def test_leading_shapes_are_kept(surface):
    psom, _, _ = surface
    assert psom.predict(np.zeros((2, 5, 2))).shape == (2, 5, 3)
    assert psom.jacobian([0.0, 0.5]).shape == (3, 2)
    assert psom.best_match(np.zeros((4, 3))).shape == (4, 2)
    assert psom.predict(np.zeros((0, 2))).shape == (0, 3)


def test_evaluation_leaves_out_directions_that_carry_nothing():
    axes = [chebyshev_axis(-3, 3, 8)] * 2
    x, y = np.moveaxis(grid_of(axes), -1, 0)
    values = np.stack([np.cos(x) * np.sin(y), np.sin(x)], axis=-1)
    psom = Psom.from_grid(axes, values)
    assert psom.map.core.shape == (2, 2, 2)
    inside = np.random.default_rng(4).uniform(-3, 3, (50, 2))
    dense = [np.stack([lagrange(a, p[i]) for p in inside]) for i, a in enumerate(axes)]
    expected = np.einsum('si,sj,ijd->sd', *dense, values)
    assert psom.predict(inside) == pytest.approx(expected, abs=1e-12)


def test_local_map_interpolates_only_the_nearest_nodes():
    axis = regular_axis(0, 10, 11)
    values = np.sin(axis)[:, None]
    psom = Psom.from_grid([axis], values)
    expected = lagrange(axis[3:6], 4.2) @ values[3:6, 0]
    assert psom.predict([4.2], local=3) == pytest.approx([expected])
    edge = lagrange(axis[:3], 0.1) @ values[:3, 0]
    assert psom.predict([0.1], local=3) == pytest.approx([edge])


def test_local_map_on_all_nodes_is_the_full_map(surface):
    axes = [chebyshev_axis(-1, 1, 5)] * 3
    psom = Psom.from_grid(axes, np.random.default_rng(5).normal(size=(5, 5, 5, 2)))
    x = np.random.default_rng(6).uniform(-1, 1, (40, 3))
    assert psom.predict(x, local=5) == pytest.approx(psom.predict(x), abs=1e-11)


# Best match -------------------------------------------------------------------------------


@pytest.fixture
def planar_arm():
    """Two links of length 1: joints to (hand x, hand y, joint 1, joint 2)."""
    axes = [chebyshev_axis(-3, 3, 14), chebyshev_axis(-2.5, 2.5, 14)]
    q = grid_of(axes)
    hand = np.stack(
        [
            np.cos(q[..., 0]) + np.cos(q.sum(-1)),
            np.sin(q[..., 0]) + np.sin(q.sum(-1)),
        ],
        axis=-1,
    )
    return Psom.from_grid(axes, np.concatenate([hand, q], axis=-1))


def test_best_match_solves_inverse_kinematics_near_the_start(planar_arm):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        q = rng.uniform([-2, 0.4], [2, 2.2])
        target = planar_arm.predict(q)
        found = planar_arm.best_match(target, [1, 1, 0, 0], q + rng.normal(0, 0.1, 2))
        assert found == pytest.approx(q, abs=1e-7)


def test_best_match_forward_returns_the_joints_asked_for(planar_arm):
    q = np.array([0.3, -1.1])
    assert planar_arm.best_match([0, 0, *q], [0, 0, 1, 1]) == pytest.approx(q, abs=1e-9)


def test_best_match_mixed_keeps_a_joint_and_meets_one_coordinate(planar_arm):
    found = planar_arm.best_match([0, 1.2, 0.5, 0], [0, 1, 1, 0], [0.4, 0.4], full=True)
    assert found.x[0] == pytest.approx(0.5, abs=1e-7)
    assert found.y[1] == pytest.approx(1.2, abs=1e-7)
    assert found.distance < 1e-12
    assert found.converged


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_best_match_is_no_worse_than_scipy_from_the_same_start_and_stays_inside(seed):
    rng = np.random.default_rng(seed)
    axes = [regular_axis(-1, 1, 4)] * 2
    psom = Psom.from_grid(axes, rng.normal(size=(4, 4, 3)))
    target, start = 2 * rng.normal(size=3), rng.uniform(-0.9, 0.9, 2)
    weights = rng.uniform(0.1, 2, 3)
    ours = psom.best_match(target, weights, start, full=True)
    assert ours.converged
    assert (np.abs(ours.x) <= 1).all()

    def residual(x):
        return np.sqrt(weights) * (psom.predict(x) - target)

    assert ours.distance == pytest.approx(np.sum(residual(ours.x) ** 2))
    # From where ours stopped, SciPy finds nothing better nearby: it is a local minimum.
    polished = least_squares(residual, np.clip(ours.x, -1 + 1e-10, 1 - 1e-10), bounds=(-1, 1))
    assert ours.distance <= 2 * polished.cost * (1 + 1e-6) + 1e-9


def test_best_match_rests_on_the_bound_when_the_target_lies_beyond():
    axis = chebyshev_axis(0, 1, 5)
    psom = Psom.from_grid([axis], axis[:, None])
    found = psom.best_match([3.0], full=True)
    assert found.x == pytest.approx([1.0])
    assert found.distance == pytest.approx(4.0)


def test_best_match_begins_at_the_best_node_unless_told(planar_arm):
    q = np.random.default_rng(9).uniform([-2.5, -2.2], [2.5, 2.2], (50, 2))
    found = planar_arm.best_match(planar_arm.predict(q), full=True)
    assert found.x == pytest.approx(q, abs=1e-6)


def test_best_match_says_when_it_ran_out_of_steps(planar_arm):
    found = planar_arm.best_match([1, 1, 0, 0], [1, 1, 0, 0], [-2, -2], max_steps=1, full=True)
    assert not found.converged
    assert found.steps == 1


# Bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('axes', 'values', 'message'),
    [
        ([[0, 1, 1, 2]], np.zeros((4, 1)), 'Axis 0 must rise.*node 1 is at 1.0 and node 2 at 1.0'),
        ([[0, 2, 1]], np.zeros((3, 1)), 'Axis 0 must rise'),
        ([[0.0]], np.zeros((1, 1)), 'Axis 0 needs 2 to 64 nodes, not 1'),
        ([[0, np.nan]], np.zeros((2, 1)), 'Axis 0 holds nan'),
        ([], np.zeros(1), '1 to 16 axes, not 0'),
        ([[0, 1], [0, 1]], np.zeros((2, 3, 1)), r'shape \(2, 2, d\)'),
        ([[0, 1]], np.zeros(2), r'shape \(2, d\)'),
        ([[0, 1]], [[0], [np.inf]], r'values holds inf at index \(1, 0\)'),
        ([[0, 1]], [['a'], ['b']], 'values must be an array of numbers'),
    ],
)
def test_bad_grids_are_refused_with_a_sentence(axes, values, message):
    with pytest.raises(BadInput, match=message):
        Psom.from_grid(axes, values)


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda p: p.predict([0.0]), 'x must end in an axis of 2 values'),
        (lambda p: p.predict([np.nan, 0.0]), 'x holds nan'),
        (lambda p: p.predict([0.0, 0.0], local=9), 'local must be from 2 to 4'),
        (lambda p: p.jacobian([0.0, 0.0, 0.0]), 'x must end in an axis of 2 values'),
        (lambda p: p.best_match([0, 0]), 'y must end in an axis of 3 values'),
        (lambda p: p.best_match([0, 0, 0], [1, 1]), r'weights must have shape \(3,\)'),
        (lambda p: p.best_match([0, 0, 0], [1, -1, 1]), 'weights must be zero or positive'),
        (lambda p: p.best_match([0, 0, 0], [0, 0, 0]), 'one of them positive'),
        (lambda p: p.best_match([0, 0, 0], start=[0, 7]), 'start lies outside the grid'),
        (lambda p: p.best_match([0, 0, 0], max_steps=0), 'max_steps must be at least 1'),
    ],
)
def test_bad_calls_are_refused_with_a_sentence(surface, call, message):
    with pytest.raises(BadInput, match=message):
        call(surface[0])


def test_bounds_must_hold_the_nodes():
    with pytest.raises(BadInput, match='bounds of axis 0'):
        Psom.from_grid([[0, 1]], np.zeros((2, 1)), bounds=[[0.5, 1]])


@pytest.mark.parametrize('make', [regular_axis, chebyshev_axis])
def test_axes_refuse_empty_intervals_and_too_few_nodes(make):
    with pytest.raises(BadInput, match='lower < upper'):
        make(1, 1, 4)
    with pytest.raises(BadInput, match='2 to 64 nodes'):
        make(0, 1, 1)
