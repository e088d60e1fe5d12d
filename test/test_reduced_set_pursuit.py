"""Matching pursuit against direct formulas in feature space and exhaustive search."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.vectors import Gaussian, Linear, TotalVariation
from kde_imitation.learning.matching_pursuit import conjugate_gradients, pursue
from kde_imitation.learning.reduced_set_target import make_target


def problem(seed, n=12, r=2, kernel=None, dimension=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dimension))
    return Expansion(kernel or Gaussian(0.5), X, rng.normal(size=(n, r)), np.zeros(r))


def best_error(expansion, subset):
    """‖w − ŵ‖² of the best coefficients on a subset, by an orthonormal basis of feature space."""
    values, vectors = np.linalg.eigh(expansion.kernel(expansion.points))
    features = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    w = features @ expansion.coefficients
    chosen = features[:, list(subset)]
    return ((w - chosen @ np.linalg.lstsq(chosen, w, rcond=1e-12)[0]) ** 2).sum()


def squared_errors(found):
    return found.column_squares.sum(axis=1)


@pytest.mark.parametrize('seed', range(10))
def test_first_point_is_the_best_of_all(seed):
    expansion = problem(seed)
    found = pursue(make_target(expansion), 1)
    every = [best_error(expansion, [i]) for i in range(len(expansion))]
    assert found.order[0] == np.argmin(every)
    assert squared_errors(found)[0] == pytest.approx(min(every), rel=1e-9)


@pytest.mark.parametrize('seed', range(10))
def test_every_step_takes_the_point_that_lowers_the_refitted_error_most(seed):
    expansion = problem(seed)
    order = list(pursue(make_target(expansion), 6).order)
    for size in range(1, 6):
        rest = [i for i in range(len(expansion)) if i not in order[:size]]
        errors = {i: best_error(expansion, [*order[:size], i]) for i in rest}
        assert order[size] == min(errors, key=errors.get)


def test_greedy_choice_is_as_close_to_the_best_subset_as_theory_says():
    """Das and Kempe 2011: what greedy explains is at least 1 − exp(−λ) of the best possible.

    λ is the least eigenvalue of the correlations. In most small problems greedy is optimal.
    """
    optimal = []
    for seed in range(20):
        expansion = problem(seed, n=11, kernel=Gaussian(2.0))
        total = make_target(expansion).total
        share = 1 - np.exp(-np.linalg.eigvalsh(expansion.kernel(expansion.points))[0])
        found = squared_errors(pursue(make_target(expansion), 4))
        for size in (2, 3, 4):
            subsets = itertools.combinations(range(11), size)
            best = min(best_error(expansion, subset) for subset in subsets)
            assert found[size - 1] >= best * (1 - 1e-9)
            assert total - found[size - 1] >= share * (total - best)
            optimal.append(found[size - 1] <= best * (1 + 1e-9))
    assert np.mean(optimal) > 0.5


@pytest.mark.parametrize('rule', ['decrease', 'angle'])
@pytest.mark.parametrize('kernel', [Gaussian(0.5), Linear(), TotalVariation()])
def test_errors_and_coefficients_equal_the_direct_norm(kernel, rule):
    rng = np.random.default_rng(3)
    X = rng.random((30, 5))
    expansion = Expansion(kernel, X, rng.normal(size=(30, 3)), np.zeros(3))
    gram = kernel(X)
    total = (expansion.coefficients * (gram @ expansion.coefficients)).sum()
    found = pursue(make_target(expansion), 15, rule=rule)
    for size in range(1, len(found.order) + 1):
        difference = expansion.coefficients.copy()
        difference[found.order[:size]] -= found.coefficients(size)
        direct = np.einsum('ij,ik,kj->j', difference, gram, difference)
        np.testing.assert_allclose(found.column_squares[size - 1], direct, atol=1e-12 * total)


def test_angle_rule_takes_the_least_angle_to_what_remains():
    expansion = problem(5, kernel=Linear(), n=20, r=1, dimension=8)
    X = expansion.points
    w = X.T @ expansion.coefficients[:, 0]
    order = pursue(make_target(expansion), 5, rule='angle').order
    for size in range(5):
        chosen = X[order[:size]].T
        rest = w - chosen @ np.linalg.lstsq(chosen, w)[0] if size else w
        cosines = np.abs(X @ rest) / np.linalg.norm(X, axis=1)
        cosines[order[:size]] = 0
        assert order[size] == np.argmax(cosines)


def test_angle_does_not_depend_on_the_length_of_a_point():
    """With the squared norms of the printed (6), the short point would win."""
    X = np.array([[3.0, 0.3], [0.05, 0.05]])
    expansion = Expansion(Linear(), X, [[1.0], [0.0]], [0.0])
    assert pursue(make_target(expansion), 1, rule='angle').order[0] == 0
    w = X[0]
    assert np.argmax(np.abs(X @ w) / (X**2).sum(axis=1)) == 1


def test_factor_is_the_cholesky_factor_of_the_chosen_points():
    expansion = problem(7, n=25)
    found = pursue(make_target(expansion), 10)
    gram = expansion.kernel(expansion.points[found.order])
    np.testing.assert_allclose(found.factor, np.linalg.cholesky(gram), atol=1e-9)


def test_linear_kernel_needs_no_more_points_than_dimensions():
    expansion = problem(1, n=60, r=4, kernel=Linear(), dimension=6)
    found = pursue(make_target(expansion))
    assert len(found.order) == 6
    assert found.column_squares[-1].sum() < 1e-12 * make_target(expansion).total


def test_repeated_points_are_chosen_once_and_coefficients_stay_small():
    once = problem(2, n=30)
    twice = Expansion(
        once.kernel,
        np.repeat(once.points, 3, axis=0),
        np.repeat(once.coefficients, 3, axis=0) / 3,
        once.offset,
    )
    found = pursue(make_target(twice))
    chosen = found.order // 3
    assert len(set(chosen)) == len(chosen) <= 30
    assert found.column_squares[-1].sum() < 1e-12 * make_target(once).total
    assert np.abs(found.coefficients(len(chosen))).max() < 2 * np.abs(once.coefficients).max()


@pytest.mark.parametrize('distance', [1e-9, 1e-7, 1e-6])
def test_nearly_repeated_points_do_not_blow_up_coefficients(distance):
    """Points so close stand for each other: what is lost is of the order of their distance."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(20, 2))
    X = np.concatenate([base, base + distance * rng.normal(size=base.shape)])
    expansion = Expansion(Gaussian(0.5), X, rng.normal(size=(40, 1)), [0.0])
    assert np.linalg.cond(expansion.gram()) > 1e15
    found = pursue(make_target(expansion))
    beta = found.coefficients(len(found.order))
    merged = expansion.coefficients[:20] + expansion.coefficients[20:]
    assert len(found.order) <= 20
    assert np.abs(beta).max() <= np.abs(merged).max() * (1 + 1e-3)
    new = rng.normal(size=(100, 2))
    reduced = expansion.kernel(new, X[found.order]) @ beta
    lost = distance * np.abs(expansion.coefficients).sum()
    np.testing.assert_allclose(reduced, expansion(new), rtol=0, atol=lost)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 25),
    r=st.integers(1, 4),
    gamma=st.floats(1e-3, 1e2),
)
def test_errors_fall_with_size_and_lie_between_zero_and_the_norm(seed, n, r, gamma):
    expansion = problem(seed, n=n, r=r, kernel=Gaussian(gamma))
    target = make_target(expansion)
    errors = squared_errors(pursue(target))
    assert (np.diff(errors) <= 0).all()
    assert errors[0] < target.total
    assert errors[-1] >= 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), factor=st.floats(1e-6, 1e6))
def test_scaling_the_coefficients_changes_nothing_but_the_scale(seed, factor):
    one = problem(seed)
    other = Expansion(one.kernel, one.points, factor * one.coefficients, one.offset)
    a, b = pursue(make_target(one), 6), pursue(make_target(other), 6)
    np.testing.assert_array_equal(a.order, b.order)
    np.testing.assert_allclose(squared_errors(b), factor**2 * squared_errors(a), rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_turning_the_columns_changes_no_choice(seed):
    """Σ_j ‖·‖² does not depend on the basis of the columns: multi-hyperplane pursuit."""
    one = problem(seed, r=3)
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    a = pursue(make_target(one), 5)
    b = pursue(make_target(one.fold(turn)), 5)
    np.testing.assert_array_equal(a.order, b.order)
    np.testing.assert_allclose(squared_errors(a), squared_errors(b), rtol=1e-6)


def test_stops_at_the_wanted_error():
    target = make_target(problem(4, n=40))
    found = squared_errors(pursue(target, max_error=0.1))
    assert found[-1] <= 0.01 * target.total < found[-2]


def test_conjugate_gradients_reach_the_solution_and_fall_in_feature_space():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(8, 8))
    gram, inner = factor @ factor.T, rng.normal(size=(8, 2))
    exact = np.linalg.solve(gram, inner)
    gaps = []
    for steps in range(9):
        off = conjugate_gradients(gram, inner, steps) - exact
        gaps.append((off * (gram @ off)).sum())
    assert (np.diff(gaps) < 0).all()
    np.testing.assert_allclose(conjugate_gradients(gram, inner, 30), exact, rtol=1e-6)


def test_conjugate_gradients_stop_by_themselves_on_a_singular_matrix():
    factor = np.random.default_rng(2).normal(size=(10, 3))
    gram = factor @ factor.T
    inner = gram @ np.ones((10, 1))
    beta = conjugate_gradients(gram, inner, 1000)
    np.testing.assert_allclose(gram @ beta, inner, atol=1e-9 * np.abs(inner).max())
    assert np.linalg.norm(beta) <= np.sqrt(10) * (1 + 1e-9)


class Indefinite(Kernel):
    """Not a kernel: points far apart are more alike than a point is with itself."""

    def _gram(self, X, Y):
        return 1.0 + np.abs(X[:, :1] - Y[:, :1].T)

    def _diagonal(self, X):
        return np.ones(len(X))


def test_a_kernel_that_is_not_positive_is_refused():
    X = np.linspace(0, 3, 10)[:, None]
    with pytest.raises(BadInput, match='not positive'):
        pursue(make_target(Expansion(Indefinite(), X, np.ones((10, 1)), [0.0])))


def test_an_unknown_rule_is_refused():
    with pytest.raises(BadInput, match='decrease, angle'):
        pursue(make_target(problem(0)), rule='luck')
