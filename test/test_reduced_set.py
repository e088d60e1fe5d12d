"""The path of reduced sets: sizes, errors, offsets, chunks, and what a caller can do wrong."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion
from kde_imitation.kernels.vectors import Gaussian, Linear
from kde_imitation.learning import KernelPCA, reduce, refit

METHODS = ['pursuit', 'l1', 'l0']


def random_expansion(seed, n=60, r=3, gamma=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return Expansion(Gaussian(gamma), X, rng.normal(size=(n, r)), rng.normal(size=r))


def feature_error(expansion, reduced):
    """‖f − f̂‖ / ‖f‖ from one Gram matrix over the points of both."""
    points = np.concatenate([expansion.points, reduced.points])
    gram = expansion.kernel(points)
    full = np.concatenate([expansion.coefficients, 0 * reduced.coefficients])
    difference = np.concatenate([expansion.coefficients, -reduced.coefficients])
    left = max((difference * (gram @ difference)).sum(), 0.0)
    return np.sqrt(left / (full * (gram @ full)).sum())


@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('chunk', [None, 25])
def test_errors_are_those_of_the_expansions_that_at_returns(method, chunk):
    expansion = random_expansion(0)
    path = reduce(expansion, method, max_points=30, chunk=chunk)
    for size, error in zip(path.sizes, path.errors):
        reduced = path.at(n_points=int(size))
        assert len(reduced) == size
        assert feature_error(expansion, reduced) == pytest.approx(error, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize('method', METHODS)
def test_coefficients_are_the_best_for_their_points(method):
    expansion = random_expansion(1)
    path = reduce(expansion, method, max_points=20)
    reduced = path.at(n_points=20)
    gram = expansion.kernel(reduced.points)
    inner = expansion.kernel(reduced.points, expansion.points) @ expansion.coefficients
    np.testing.assert_allclose(gram @ reduced.coefficients, inner, atol=1e-8 * np.abs(inner).max())


@pytest.mark.parametrize('method', METHODS)
def test_sizes_grow_and_errors_fall(method):
    path = reduce(random_expansion(2), method)
    assert (np.diff(path.sizes) > 0).all()
    assert (np.diff(path.errors) <= 0).all()
    assert len(path) == len(path.sizes) == len(path.errors) == len(path.column_errors)


@pytest.mark.parametrize('method', METHODS)
def test_mean_over_the_expansion_points_is_kept(method):
    expansion = random_expansion(3)
    for size in (1, 5, 20):
        path = reduce(expansion, method, max_points=20)
        if size < path.sizes[0]:
            continue
        reduced = path.at(n_points=size)
        mean = expansion(expansion.points).mean(axis=0)
        np.testing.assert_allclose(reduced(expansion.points).mean(axis=0), mean, atol=1e-10)


def test_centred_coordinates_stay_centred():
    X = np.random.default_rng(4).normal(size=(100, 2)) + 3.0
    pca = KernelPCA(Gaussian(0.2), 3).fit(X)
    reduced = reduce(pca.expansion_).at(n_points=8)
    np.testing.assert_allclose(reduced(X).mean(axis=0), 0.0, atol=1e-12)
    kept = Expansion(reduced.kernel, reduced.points, reduced.coefficients, pca.expansion_.offset)
    assert np.abs(kept(X).mean(axis=0)).max() > 1e-4


def test_mean_is_kept_with_other_candidates_too():
    expansion = random_expansion(5)
    others = np.random.default_rng(0).normal(size=(40, 3))
    reduced = reduce(expansion, candidates=others).at(n_points=10)
    mean = expansion(expansion.points).mean(axis=0)
    np.testing.assert_allclose(reduced(expansion.points).mean(axis=0), mean, atol=1e-10)
    assert {tuple(p) for p in reduced.points} <= {tuple(p) for p in others}


@pytest.mark.parametrize('method', METHODS)
def test_columns_have_their_own_errors(method):
    expansion = random_expansion(6)
    path = reduce(expansion, method, max_points=15)
    reduced = path.at(n_points=15)
    for j in range(3):
        pick = np.eye(3)[:, [j]]
        alone = feature_error(expansion.fold(pick), reduced.fold(pick))
        assert alone == pytest.approx(path.column_errors[-1, j], rel=1e-6)


def test_a_zero_column_stays_zero():
    expansion = random_expansion(7)
    expansion.coefficients[:, 1] = 0.0
    path = reduce(expansion)
    assert not path.column_errors[:, 1].any()
    assert not path.at(n_points=5).coefficients[:, 1].any()


@pytest.mark.parametrize('method', METHODS)
def test_at_picks_the_smallest_size_that_keeps_the_error(method):
    path = reduce(random_expansion(8), method)
    for wanted in (0.5, 0.1):
        reduced = path.at(max_error=wanted)
        place = list(path.sizes).index(len(reduced))
        assert path.errors[place] <= wanted
        assert place == 0 or path.errors[place - 1] > wanted


def test_at_picks_the_largest_size_that_fits():
    path = reduce(random_expansion(8), 'l1')
    gap = int(np.flatnonzero(np.diff(path.sizes) > 1)[0])
    assert len(path.at(n_points=int(path.sizes[gap]) + 1)) == path.sizes[gap]
    assert len(path.at(n_points=10**6)) == path.sizes[-1]


@pytest.mark.parametrize('method', METHODS)
def test_indices_and_order_name_the_points(method):
    expansion = random_expansion(9)
    path = reduce(expansion, method, max_points=12)
    reduced = path.at(n_points=12)
    np.testing.assert_array_equal(expansion.points[path.indices(n_points=12)], reduced.points)
    assert len(set(path.order)) == len(path.order)
    assert set(path.indices(n_points=12)) <= set(path.order)


def test_pursuit_order_is_nested():
    path = reduce(random_expansion(10), max_points=10)
    for size in range(1, 11):
        np.testing.assert_array_equal(path.indices(n_points=size), path.order[:size])


@pytest.mark.parametrize('method', METHODS)
def test_all_points_give_the_function_back(method):
    """ℓ1 ends at a small penalty, not at none: it may stop a little before."""
    expansion = random_expansion(11, n=25, gamma=2.0)
    path = reduce(expansion, method)
    new = np.random.default_rng(0).normal(size=(50, 3))
    reduced = path.at(n_points=25)
    bound = path.errors[-1] * np.sqrt(
        (expansion.coefficients.T @ expansion.gram() @ expansion.coefficients).trace()
    )
    assert path.errors[-1] < (1e-7 if method != 'l1' else 1e-2)
    centred = expansion.kernel.expand(reduced.points, reduced.coefficients, new)
    full = expansion.kernel.expand(expansion.points, expansion.coefficients, new)
    assert np.linalg.norm(centred - full, axis=1).max() <= bound + 1e-7


@pytest.mark.parametrize('method', METHODS)
def test_repeated_points_give_the_path_of_the_points_once(method):
    once = random_expansion(12, n=30)
    twice = Expansion(
        once.kernel,
        np.tile(once.points, (2, 1)),
        np.tile(once.coefficients, (2, 1)) / 2,
        once.offset,
    )
    path = reduce(twice, method)
    assert path.sizes[-1] <= 30
    rows = {tuple(p) for p in path.at(n_points=30).points}
    assert len(rows) == path.sizes[-1]
    assert path.errors[-1] < 0.02
    largest = np.abs(once.coefficients).max()
    assert np.abs(path.at(n_points=30).coefficients).max() < 10 * largest


@pytest.mark.parametrize('method', METHODS)
def test_chunks_lose_little(method):
    """Kernel PCA of 300 points to 30: the points that chunks keep serve nearly as well."""
    X = np.random.default_rng(13).normal(size=(300, 3))
    expansion = KernelPCA(Gaussian(0.2), 4).fit(X).expansion_
    whole = reduce(expansion, method, max_points=30)
    parts = reduce(expansion, method, max_points=30, chunk=100)
    assert parts.sizes[-1] <= 30
    assert parts.errors[-1] < 1.5 * whole.errors[-1]


def test_a_chunk_that_holds_all_changes_nothing():
    expansion = random_expansion(14)
    a, b = reduce(expansion), reduce(expansion, chunk=60)
    np.testing.assert_array_equal(a.order, b.order)
    np.testing.assert_array_equal(a.errors, b.errors)


@pytest.mark.parametrize('method', METHODS)
def test_chunks_without_a_number_of_points_keep_about_one_chunk(method):
    path = reduce(random_expansion(15, n=90), method, chunk=30)
    assert path.sizes[-1] <= 30


def test_max_error_ends_the_path():
    for method in METHODS:
        path = reduce(random_expansion(16), method, max_error=0.2)
        assert path.errors[-1] <= 0.2
        if method == 'pursuit':
            assert path.errors[-2] > 0.2


def test_fit_on_values_is_the_least_squares_fit():
    expansion = random_expansion(17)
    path = reduce(expansion)
    X = np.random.default_rng(1).normal(size=(200, 3))
    fitted = path.at(n_points=12, on=X)
    design = np.column_stack([expansion.kernel(X, fitted.points), np.ones(200)])
    best = design @ np.linalg.lstsq(design, expansion(X))[0]
    np.testing.assert_allclose(fitted(X), best, atol=1e-6)
    plain = path.at(n_points=12)
    assert np.linalg.norm(fitted(X) - expansion(X)) < np.linalg.norm(plain(X) - expansion(X))
    assert feature_error(expansion, fitted) > path.errors[11]


def test_fit_on_few_values_meets_them_and_stays_near():
    expansion = random_expansion(18)
    path = reduce(expansion)
    X = expansion.points[:4]
    fitted = path.at(n_points=12, on=X)
    np.testing.assert_allclose(fitted(X), expansion(X), atol=1e-8)
    assert feature_error(expansion, fitted) < 2 * path.errors[11]


def test_refit_gives_the_function_back_from_repeated_points():
    expansion = random_expansion(19, n=20, gamma=1.0)
    points = np.repeat(expansion.points, 2, axis=0)
    reduced = refit(expansion, points)
    assert len(reduced) == 20
    new = np.random.default_rng(2).normal(size=(30, 3))
    np.testing.assert_allclose(reduced(new), expansion(new), atol=1e-6)


def test_refit_by_conjugate_gradients_improves_with_steps():
    expansion = random_expansion(20, n=20, gamma=1.0)
    points = np.repeat(expansion.points, 2, axis=0)
    errors = [feature_error(expansion, refit(expansion, points, steps)) for steps in (1, 3, 9)]
    assert errors[0] > errors[1] > errors[2]
    assert feature_error(expansion, refit(expansion, points, 200)) < 1e-6
    assert len(refit(expansion, points, 3)) == 40


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    r=st.integers(1, 3),
    method=st.sampled_from(METHODS),
)
def test_any_expansion_has_a_valid_path(seed, n, r, method):
    expansion = random_expansion(seed, n=n, r=r)
    path = reduce(expansion, method)
    assert ((path.errors >= 0) & (path.errors < 1)).all()
    assert 1 <= path.sizes[0] <= path.sizes[-1] <= n
    last = path.at(n_points=int(path.sizes[-1]))
    assert np.isfinite(last.coefficients).all()
    assert feature_error(expansion, last) == pytest.approx(path.errors[-1], rel=1e-4, abs=1e-6)


def test_two_thousand_points_are_reduced_to_two_hundred_within_five_seconds():
    rng = np.random.default_rng(21)
    expansion = Expansion(
        Gaussian(0.05), rng.normal(size=(2000, 10)), rng.normal(size=(2000, 7)), np.zeros(7)
    )
    start = time.process_time()
    assert reduce(expansion, max_points=200).sizes[-1] == 200
    assert time.process_time() - start < 5.0


def test_progress_shows_a_bar_and_changes_no_result(capsys):
    expansion = random_expansion(22)
    for method in METHODS:
        for chunk in (None, 20):
            quiet = reduce(expansion, method, max_points=10, chunk=chunk)
            assert capsys.readouterr() == ('', '')
            loud = reduce(expansion, method, max_points=10, chunk=chunk, progress=True)
            capsys.readouterr()
            np.testing.assert_array_equal(quiet.errors, loud.errors)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'method': 'pca'}, 'choose from pursuit, l1, l0'),
        ({'max_points': 0}, 'max_points must be a whole number from 1 on'),
        ({'max_points': 2.5}, 'max_points must be a whole number'),
        ({'max_points': True}, 'max_points must be a whole number'),
        ({'chunk': 1}, 'chunk must be at least 2'),
        ({'chunk': 'all'}, 'chunk must be a whole number'),
        ({'max_error': -0.1}, 'max_error must be a number from 0'),
        ({'max_error': float('nan')}, 'max_error must be a number from 0'),
        ({'candidates': np.zeros((3, 2))}, r'candidates must have shape \(any, 3\)'),
        ({'candidates': np.zeros((0, 3))}, 'candidates holds no point'),
        ({'candidates': np.full((2, 3), np.nan)}, 'candidates holds nan'),
        ({'candidates': np.full((2, 3), 1e3)}, 'No candidate has anything in common'),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(BadInput, match=message):
        reduce(random_expansion(0), **arguments)


@pytest.mark.parametrize('method', ['l1', 'l0'])
def test_candidates_without_anything_in_common_are_refused_by_all_methods(method):
    with pytest.raises(BadInput, match='No candidate has anything in common'):
        reduce(random_expansion(0), method, candidates=np.full((2, 3), 1e3))


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({}, 'either n_points or max_error'),
        ({'n_points': 3, 'max_error': 0.1}, 'either n_points or max_error'),
        ({'n_points': 0}, 'n_points must be a whole number'),
        ({'max_error': 1e-9}, 'Raise max_points'),
        ({'max_error': 'small'}, 'max_error must be a number'),
        ({'n_points': 3, 'on': np.zeros((2, 2))}, r'on must have shape \(any, 3\)'),
        ({'n_points': 3, 'on': np.zeros((0, 3))}, 'on holds no point'),
    ],
)
def test_a_wrong_wish_is_named(arguments, message):
    path = reduce(random_expansion(0), max_points=5)
    with pytest.raises(BadInput, match=message):
        path.at(**arguments)


def test_a_size_below_the_smallest_is_refused():
    X = np.random.default_rng(0).normal(size=(100, 10))
    path = reduce(KernelPCA(Gaussian(0.05), 7).fit(X).expansion_, 'l0')
    assert path.sizes[0] > 1
    with pytest.raises(BadInput, match=f'smallest size on this path is {path.sizes[0]}'):
        path.at(n_points=1)


def test_what_is_no_expansion_or_nothing_is_refused():
    with pytest.raises(BadInput, match='must be an Expansion, not list'):
        reduce([1, 2])
    with pytest.raises(BadInput, match='nothing to reduce'):
        reduce(Expansion(Linear(), np.zeros((0, 2)), np.zeros((0, 1)), [0.0]))
    with pytest.raises(BadInput, match='zero in feature space'):
        reduce(Expansion(Linear(), np.ones((4, 2)), np.zeros((4, 1)), [0.0]))
    with pytest.raises(BadInput, match='zero in feature space'):
        reduce(Expansion(Linear(), np.ones((2, 2)), [[1.0], [-1.0]], [0.0]))


def test_too_many_candidates_for_a_whole_gram_matrix_are_refused_with_advice():
    rng = np.random.default_rng(0)
    expansion = Expansion(Linear(), rng.normal(size=(5001, 1)), np.ones((5001, 1)), [0.0])
    with pytest.raises(BadInput, match='chunk=1000'):
        reduce(expansion, 'l1')


def test_a_precomputed_kernel_is_refused_with_advice():
    X = np.random.default_rng(0).normal(size=(20, 2))
    pca = KernelPCA('precomputed', 2).fit(X @ X.T)
    with pytest.raises(BadInput, match='computed from points'):
        reduce(pca.expansion_)


def test_path_says_what_it_is():
    path = reduce(random_expansion(0), max_points=4)
    assert repr(path).startswith("ReductionPath(method='pursuit', 1 to 4 points, error ")
