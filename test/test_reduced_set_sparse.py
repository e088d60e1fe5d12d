"""ℓ1, group ℓ1 and ℓ0 against optimality conditions and scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, MultiTaskLasso

from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion
from kde_imitation.kernels.vectors import Gaussian, Linear
from kde_imitation.learning.reduced_set_target import make_target
from kde_imitation.learning.sparse_expansion import (
    l0_supports,
    l1_supports,
    optimality_gap,
    reweighted,
    sparse_coefficients,
)


def problem(seed, n=40, r=3, gamma=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    expansion = Expansion(Gaussian(gamma), X, rng.normal(size=(n, r)), np.zeros(r))
    return expansion, expansion.gram(), expansion.gram() @ expansion.coefficients


def objective(gram, inner, beta, penalty, weights, grouped):
    size = np.linalg.norm(beta, axis=1) if grouped else np.abs(beta).sum(axis=1)
    return (beta * (gram @ beta - 2 * inner)).sum() + penalty * (weights * size).sum()


def design(gram, inner):
    """A matrix Φ and Y with ΦᵀΦ = K and ΦᵀY = b, for solvers that want features."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-13 * values[-1]
    root = np.sqrt(values[kept])
    return root[:, None] * vectors[:, kept].T, (vectors[:, kept].T @ inner) / root[:, None]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.05, 0.95),
    grouped=st.booleans(),
    weighted=st.booleans(),
)
def test_solution_meets_the_optimality_conditions(seed, share, grouped, weighted):
    _, gram, inner = problem(seed, n=25)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2, 25) if weighted else np.ones(25)
    size = np.linalg.norm(inner, axis=1) if grouped else np.abs(inner).max(axis=1)
    penalty = share * 2 * (size / weights).max()
    beta = sparse_coefficients(gram, inner, penalty, weights, grouped, tolerance=1e-6)
    gradient = 2 * (inner - gram @ beta)
    for i in range(25):
        bound = penalty * weights[i]
        parts = (
            [(beta[i], gradient[i])]
            if grouped
            else list(zip(beta[i, :, None], gradient[i, :, None]))
        )
        for b, g in parts:
            if np.any(b):
                np.testing.assert_allclose(g, bound * b / np.linalg.norm(b), atol=1e-5 * bound)
            else:
                assert np.linalg.norm(g) <= bound * (1 + 1e-5)


@pytest.mark.parametrize('share', [0.1, 0.4, 0.8])
def test_group_form_agrees_with_the_multi_task_lasso(share):
    _, gram, inner = problem(0)
    penalty = share * 2 * np.linalg.norm(inner, axis=1).max()
    phi, y = design(gram, inner)
    peer = MultiTaskLasso(
        alpha=penalty / (2 * len(phi)), fit_intercept=False, tol=1e-10, max_iter=200_000
    ).fit(phi, y)
    beta = sparse_coefficients(gram, inner, penalty, tolerance=1e-7)
    np.testing.assert_allclose(beta, peer.coef_.T, atol=1e-4 * np.abs(peer.coef_).max())


@pytest.mark.parametrize('share', [0.1, 0.4, 0.8])
def test_one_column_agrees_with_the_lasso_and_grouping_makes_no_difference(share):
    _, gram, inner = problem(1, r=1)
    penalty = share * 2 * np.abs(inner).max()
    phi, y = design(gram, inner)
    peer = Lasso(
        alpha=penalty / (2 * len(phi)), fit_intercept=False, tol=1e-12, max_iter=200_000
    ).fit(phi, y[:, 0])
    for grouped in (True, False):
        beta = sparse_coefficients(gram, inner, penalty, grouped=grouped, tolerance=1e-7)
        atol = 1e-4 * np.abs(peer.coef_).max()
        np.testing.assert_allclose(beta[:, 0], peer.coef_, atol=atol)


def test_no_other_coefficients_do_better():
    _, gram, inner = problem(2)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, len(gram))
    for grouped in (True, False):
        beta = sparse_coefficients(gram, inner, 2.0, weights, grouped, tolerance=1e-8)
        least = objective(gram, inner, beta, 2.0, weights, grouped)
        for scale in (1e-3, 1e-1, 1.0):
            other = beta + scale * rng.normal(size=beta.shape)
            assert objective(gram, inner, other, 2.0, weights, grouped) > least


def test_a_penalty_above_the_largest_gradient_leaves_nothing_and_just_below_leaves_a_point():
    _, gram, inner = problem(3)
    largest = 2 * np.linalg.norm(inner, axis=1).max()
    assert not sparse_coefficients(gram, inner, 1.0001 * largest).any()
    beta = sparse_coefficients(gram, inner, 0.999 * largest, tolerance=1e-6)
    assert np.flatnonzero(beta.any(axis=1)) == [np.linalg.norm(inner, axis=1).argmax()]


def test_groups_share_points_where_single_entries_do_not():
    _, gram, inner = problem(4, r=5)
    beta = {}
    for grouped in (True, False):
        low, high = 1e-3, 1e3
        for _ in range(40):
            penalty = np.sqrt(low * high)
            beta[grouped] = sparse_coefficients(gram, inner, penalty, grouped=grouped)
            off = (beta[grouped] * (gram @ beta[grouped] - 2 * inner)).sum()
            low, high = (low, penalty) if off > -0.9 * explained(gram, inner) else (penalty, high)
    used = {key: int(b.any(axis=1).sum()) for key, b in beta.items()}
    assert used[True] < used[False]
    assert (beta[True] != 0).sum() == 5 * used[True]


def explained(gram, inner):
    """‖w‖², for w in the span of the points."""
    return (inner * np.linalg.lstsq(gram, inner, rcond=1e-12)[0]).sum()


def test_start_changes_the_way_but_not_the_result():
    _, gram, inner = problem(5)
    cold = sparse_coefficients(gram, inner, 1.0, tolerance=1e-8)
    start = np.random.default_rng(0).normal(size=inner.shape)
    warm = sparse_coefficients(gram, inner, 1.0, start=start, tolerance=1e-8)
    np.testing.assert_allclose(warm, cold, atol=1e-4 * np.abs(cold).max())


def test_gap_is_zero_at_the_closed_form_optimum_and_positive_beside_it():
    """With K = I each row is shrunk by γ/2 alone."""
    inner = np.array([[3.0, 4.0], [0.3, 0.4]])
    optimum = np.array([[2.4, 3.2], [0.0, 0.0]])
    assert optimality_gap(np.eye(2), inner, optimum, 2.0, np.ones(2), True) < 1e-12
    assert optimality_gap(np.eye(2), inner, optimum + 0.1, 2.0, np.ones(2), True) > 0.05
    solved = sparse_coefficients(np.eye(2), inner, 2.0, tolerance=1e-10)
    np.testing.assert_allclose(solved, optimum, atol=1e-9)


def test_repeated_points_do_not_hinder_convergence():
    _, gram, inner = problem(6)
    twice = np.tile(gram, (2, 2))
    beta = sparse_coefficients(twice, np.tile(inner, (2, 1)), 1.0, tolerance=1e-6)
    once = sparse_coefficients(gram, inner, 1.0, tolerance=1e-6)
    np.testing.assert_allclose(
        gram @ (beta[:40] + beta[40:]), gram @ once, atol=1e-4 * np.abs(inner).max()
    )


def test_l1_path_grows_to_the_limit_and_no_further():
    expansion, _, _ = problem(7)
    sizes = [len(s) for s in l1_supports(make_target(expansion), 15)]
    assert sizes[0] <= 2
    assert np.diff(sizes).max() <= 4
    assert 11 < max(sizes) <= 15


@pytest.mark.parametrize('seed', range(5))
def test_l0_fixed_point_is_a_stationary_point_of_its_objective(seed):
    """On the support: 2 (Kβ − b)_ij + 2 γ β_ij / v_i² = 0 with v_i = Σ_j |β_ij|."""
    _, gram, inner = problem(seed)
    penalty = 0.05
    support, beta = reweighted(gram, inner, penalty, steps=2000)
    v = np.abs(beta).sum(axis=1, keepdims=True)
    slope = gram[np.ix_(support, support)] @ beta - inner[support] + penalty * beta / v**2
    assert 0 < len(support) < len(gram)
    assert np.abs(slope).max() < 0.01 * np.abs(inner).max()


def test_l0_single_point_has_the_closed_form():
    """K = 1: v² − b v + γ = 0, so v = (b + √(b² − 4γ)) / 2, and nothing beyond γ = b²/4."""
    gram, inner = np.eye(1), np.array([[3.0]])
    support, beta = reweighted(gram, inner, 2.0, steps=200)
    assert len(support) == 1
    assert beta[0, 0] == pytest.approx(2.0, rel=1e-2)
    assert len(reweighted(gram, inner, 2.3, steps=2000)[0]) == 0


def test_l0_without_loss_needs_as_many_points_as_dimensions():
    """Figure 4.1: points in ten dimensions with a linear kernel."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(80, 10))
    expansion = Expansion(Linear(), X, rng.normal(size=(80, 1)), [0.0])
    target = make_target(expansion)
    first = next(iter(l0_supports(target)))
    assert len(first) == 10
    w = X.T @ expansion.coefficients
    beta = np.linalg.lstsq(X[first].T, w)[0]
    np.testing.assert_allclose(X[first].T @ beta, w, atol=1e-9 * np.abs(w).max())


def test_l0_sets_are_nested_and_respect_the_limit():
    expansion, _, _ = problem(9, n=60)
    target = make_target(expansion)
    whole = list(l0_supports(target))
    for larger, smaller in itertools.pairwise(whole):
        assert set(smaller) <= set(larger)
    limited = list(l0_supports(target, 12))
    assert 0 < max(map(len, limited)) <= 12


@pytest.mark.parametrize('penalty', [0.0, -1.0, float('nan')])
def test_a_penalty_that_is_not_positive_is_refused(penalty):
    with pytest.raises(BadInput, match='penalty must be positive'):
        sparse_coefficients(np.eye(2), np.ones((2, 1)), penalty)
    with pytest.raises(BadInput, match='penalty must be positive'):
        reweighted(np.eye(2), np.ones((2, 1)), penalty)


def test_weights_that_are_not_positive_are_refused():
    with pytest.raises(BadInput, match='weights must all be positive'):
        sparse_coefficients(np.eye(2), np.ones((2, 1)), 1.0, np.array([1.0, 0.0]))
