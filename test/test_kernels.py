"""The kernels: held to their definitions, to scikit-learn, to differences, and to each other."""

import pickle

import numpy as np
import pytest
from conftest import in_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import pairwise
from sklearn.model_selection import GridSearchCV

from kde_imitation.errors import BadInput
from kde_imitation.kernels import (
    Expansion,
    Gaussian,
    Kernel,
    Linear,
    Polynomial,
    PoseKernel,
    Precomputed,
    TotalVariation,
    WeightedSum,
)
from kde_imitation.kinematics import pa10

COLUMNS = 6
SHAPE_AND_SKIN = WeightedSum(
    [
        (TotalVariation(), 1.0, slice(0, 3)),
        (TotalVariation(), 0.5, [3, 4]),
        (Gaussian(0.7), 2.0, [5, 0]),
    ]
)
SMOOTH = {
    'linear': Linear(),
    'polynomial': Polynomial(3, 0.5),
    'polynomial of degree one': Polynomial(1, 2.0),
    'polynomial of high degree': Polynomial(11, 0.1),
    'gaussian': Gaussian(0.3),
    'sum': WeightedSum([(Gaussian(0.5), 1.5, [0, 2, 2]), (Polynomial(2), 0.5, slice(1, None))]),
    'sum of sums': WeightedSum(
        [
            (WeightedSum([(Gaussian(2.0), 3.0, [1]), (Linear(), 1.0, None)]), 0.5, [4, 5]),
            (Linear(), 0.25, None),
        ]
    ),
}
KERNELS = {
    **SMOOTH,
    'overlap': TotalVariation(),
    'shape and skin': SHAPE_AND_SKIN,
    'with postures': WeightedSum([(PoseKernel(pa10), 2.0, [0, 1, 2, 3, 4, 5, 0])] * 2),
}
every_kernel = pytest.mark.parametrize('kernel', KERNELS.values(), ids=KERNELS)
smooth_kernels = pytest.mark.parametrize('kernel', SMOOTH.values(), ids=SMOOTH)


def rows(count, seed=0, columns=COLUMNS):
    return np.random.default_rng(seed).uniform(0, 1.5, (count, columns))


def close(actual, expected):
    """Compare to twelve digits of the largest number."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    ('kernel', 'function'),
    [
        (Linear(), pairwise.linear_kernel),
        (Gaussian(0.3), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.3)),
        (
            Polynomial(3, 0.5),
            lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=3, gamma=1, coef0=0.5),
        ),
        (
            Polynomial(11, 0.1),
            lambda X, Y: pairwise.polynomial_kernel(X, Y, degree=11, gamma=1, coef0=0.1),
        ),
        (
            TotalVariation(),
            lambda X, Y: (
                (X.sum(axis=1)[:, None] + Y.sum(axis=1) - pairwise.manhattan_distances(X, Y)) / 2
            ),
        ),
    ],
    ids=['linear', 'gaussian', 'polynomial', 'polynomial of high degree', 'overlap'],
)
@pytest.mark.parametrize('sizes', [(40, 70), (1, 33), (3, 1)], ids=str)
def test_gram_matrices_are_those_of_scikit_learn(kernel, function, sizes):
    X, Y = rows(sizes[0]), rows(sizes[1], seed=1)
    close(kernel(X, Y), function(X, Y))
    close(kernel(X), function(X, X))


def test_a_weighted_sum_is_the_sum_of_its_parts():
    X, Y = rows(9), rows(40, seed=1)
    expected = (
        np.minimum(X[:, None, :3], Y[None, :, :3]).sum(axis=2)
        + 0.5 * np.minimum(X[:, None, 3:5], Y[None, :, 3:5]).sum(axis=2)
        + 2.0 * pairwise.rbf_kernel(X[:, [5, 0]], Y[:, [5, 0]], gamma=0.7)
    )
    close(SHAPE_AND_SKIN(X, Y), expected)


def test_a_sum_of_sums_multiplies_the_weights_and_picks_columns_of_columns():
    X, Y = rows(8), rows(5, seed=1)
    expected = (
        1.5 * pairwise.rbf_kernel(X[:, [5]], Y[:, [5]], gamma=2.0)
        + 0.5 * X[:, 4:] @ Y[:, 4:].T
        + 0.25 * X @ Y.T
    )
    close(KERNELS['sum of sums'](X, Y), expected)


def test_a_sum_with_a_part_that_is_not_compiled_uses_the_part_itself():
    X, Y = rows(8), rows(5, seed=1)
    pick = [0, 1, 2, 3, 4, 5, 0]
    expected = 4.0 * PoseKernel(pa10).gram(X[:, pick], Y[:, pick])
    close(KERNELS['with postures'](X, Y), expected)


@every_kernel
def test_the_gram_matrix_of_a_set_with_itself_is_symmetric(kernel):
    X = rows(75)
    gram = kernel(X)
    np.testing.assert_array_equal(gram, gram.T)
    close(gram, kernel(X, X.copy()))


@every_kernel
def test_the_diagonal_is_that_of_the_gram_matrix(kernel):
    X = rows(40)
    close(kernel.diagonal(X), np.diagonal(kernel(X)))


@every_kernel
@pytest.mark.parametrize('columns', [1, 4, 7, 60])
@pytest.mark.parametrize('count', [1, 32, 75])
def test_an_expansion_is_the_gram_matrix_times_its_coefficients(kernel, columns, count):
    rng = np.random.default_rng(3)
    points, X = rows(count), rows(130, seed=1)
    alpha, offset = rng.normal(size=(count, columns)), rng.normal(size=columns)
    expected = kernel(X, points) @ alpha
    close(kernel.expand(points, alpha, X), expected)
    function = Expansion(kernel, points, alpha, offset)
    close(function(X), expected + offset)
    close(function(X[:1]), expected[:1] + offset)
    assert len(function) == count
    np.testing.assert_array_equal(function.gram(), kernel(points))


@every_kernel
def test_folding_is_a_matrix_after_the_expansion(kernel):
    rng = np.random.default_rng(4)
    function = Expansion(kernel, rows(20), rng.normal(size=(20, 5)), rng.normal(size=5))
    matrix, offset, X = rng.normal(size=(5, 2)), rng.normal(size=2), rows(9, seed=1)
    close(function.fold(matrix, offset)(X), function(X) @ matrix + offset)
    close(function.fold(matrix)(X), function(X) @ matrix)


def test_single_precision_keeps_six_digits_and_is_kept_by_folding():
    rng = np.random.default_rng(5)
    points, X = rows(90, columns=50), rows(30, seed=1, columns=50)
    alpha, offset = rng.normal(size=(90, 3)), np.zeros(3)
    for kernel in (TotalVariation(), Gaussian(0.05), Polynomial(2)):
        double = Expansion(kernel, points, alpha, offset)
        single = Expansion(kernel, points, alpha, offset, storage='float32')
        scale = np.abs(kernel(X, points)) @ np.abs(alpha)
        assert (np.abs(single(X) - double(X)) <= 1e-6 * scale).all()
        assert single.fold(np.eye(3)).storage == 'float32'


@smooth_kernels
def test_gradients_are_those_of_differences(kernel):
    points, h = rows(15), 1e-6
    for x in rows(4, seed=1):
        gradient = kernel.gradient(x, points)
        slopes = [
            (kernel((x + s)[None], points) - kernel((x - s)[None], points))[0] / (2 * h)
            for s in h * np.eye(COLUMNS)
        ]
        expected = np.stack(slopes, axis=-1)
        # Central differences of rounded values are good to eps / h of the kernel's size.
        scale = np.abs(kernel(x[None], points)).max() + np.abs(expected).max()
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-8 * scale)


@smooth_kernels
def test_the_jacobian_of_an_expansion_is_that_of_differences(kernel):
    rng, h = np.random.default_rng(6), 1e-6
    function = Expansion(kernel, rows(12), rng.normal(size=(12, 3)), rng.normal(size=3))
    x = rows(1, seed=1)[0]
    steps = np.concatenate([x + h * np.eye(COLUMNS), x - h * np.eye(COLUMNS)])
    ahead, behind = np.split(function(steps), 2)
    expected = ((ahead - behind) / (2 * h)).T
    scale = np.abs(kernel(x[None], rows(12))).max() + np.abs(expected).max()
    np.testing.assert_allclose(function.jacobian(x), expected, rtol=0, atol=1e-7 * scale)


@pytest.mark.parametrize(
    'kernel',
    [TotalVariation(), SHAPE_AND_SKIN, Precomputed(np.eye(2))],
    ids=['overlap', 'sum', 'precomputed'],
)
def test_kernels_with_kinks_refuse_a_gradient(kernel):
    columns = 1 if isinstance(kernel, Precomputed) else COLUMNS
    with pytest.raises(BadInput, match='has no gradient'):
        kernel.gradient(np.ones(columns), np.ones((2, columns)))


def test_a_part_of_weight_zero_does_not_stand_in_the_way_of_a_gradient():
    kernel = WeightedSum([(TotalVariation(), 0.0, None), (Gaussian(), 1.0, None)])
    points, x = rows(3), rows(1, seed=1)[0]
    np.testing.assert_array_equal(kernel.gradient(x, points), Gaussian().gradient(x, points))


histograms = arrays(
    float,
    st.tuples(st.integers(2, 40), st.just(COLUMNS)),
    elements=st.floats(0, 1e3, allow_subnormal=False),
)


@settings(max_examples=60, deadline=None)
@given(histograms, st.floats(1e-3, 10), st.integers(1, 4), st.floats(0, 10))
def test_gram_matrices_are_positive_semidefinite(X, gamma, degree, weight):
    for kernel in (
        TotalVariation(),
        Gaussian(gamma),
        Polynomial(degree, weight),
        WeightedSum([(TotalVariation(), weight, [0, 1]), (Gaussian(gamma), 1.0, [1, 2, 3])]),
    ):
        eigenvalues = np.linalg.eigvalsh(kernel(X))
        # Rounding moves an eigenvalue by a few dozen eps of the largest.
        assert eigenvalues[0] >= -1e-13 * eigenvalues[-1] - 1e-300


@settings(max_examples=60, deadline=None)
@given(histograms)
def test_the_squared_distance_of_total_variation_is_the_sum_of_differences(X):
    kernel = TotalVariation()
    own = kernel.diagonal(X)
    squares = own[:, None] + own - 2 * kernel(X)
    expected = np.abs(X[:, None] - X).sum(axis=2)
    np.testing.assert_allclose(squares, expected, rtol=0, atol=1e-13 * own.max())


@pytest.mark.parametrize('t', [0, 1e-9, 0.3, 1, 50, 300, 690, 5e4, 1e300])
def test_the_exponential_has_all_its_digits(t):
    value = Gaussian(1.0)([[0.0]], [[np.sqrt(t)]])[0, 0]
    # √t is rounded, which moves t by a few eps of t.
    assert value == pytest.approx(np.exp(-(np.sqrt(t) ** 2)), rel=1e-14, abs=1e-300)


def test_close_points_far_from_the_origin_keep_their_distance():
    """The difference is taken first: squares of 1e8 would leave no digit of it."""
    X = 1e8 + np.array([[0.0], [1.0]])
    assert Gaussian(0.5)(X)[0, 1] == pytest.approx(np.exp(-0.5), rel=1e-14)


def test_precomputed_picks_entries():
    gram = Gaussian(0.2)(rows(10))
    kernel = Precomputed(gram)
    picked = np.array([[7], [0], [7]])
    np.testing.assert_array_equal(kernel(picked, [[1], [2]]), gram[[7, 0, 7]][:, [1, 2]])
    np.testing.assert_array_equal(kernel.diagonal(picked), np.ones(3))
    alpha = np.arange(6.0).reshape(2, 3)
    close(
        Expansion(kernel, [[1], [2]], alpha, np.ones(3))(picked),
        gram[[7, 0, 7]][:, [1, 2]] @ alpha + 1,
    )


@every_kernel
def test_kernels_are_cloned_and_pickled(kernel):
    X = rows(5)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert copy is not kernel
        np.testing.assert_array_equal(copy(X), kernel(X))
    function = Expansion(kernel, X, np.eye(5), np.zeros(5))
    function(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(function))(X), function(X))


def test_parameters_of_a_sum_are_found_and_set_by_name():
    kernel = clone(SHAPE_AND_SKIN)
    assert kernel.get_params(deep=False) == {'parts': kernel.parts}
    names = kernel.get_params()
    assert names['weights'] == [1.0, 0.5, 2.0]
    assert names['weight1'] == 0.5
    assert names['kernel2__gamma'] == 0.7
    kernel.set_params(weights=[1, 2, 3], weight1=5.0, kernel2__gamma=0.1, kernel0=Linear())
    assert [weight for _, weight, _ in kernel.parts] == [1, 5.0, 3]
    assert isinstance(kernel.parts[0][0], Linear)
    assert kernel.parts[2][0].gamma == 0.1
    assert [weight for _, weight, _ in SHAPE_AND_SKIN.parts] == [1.0, 0.5, 2.0]
    assert SHAPE_AND_SKIN.parts[2][0].gamma == 0.7


class Ridge(RegressorMixin, BaseEstimator):
    """The smallest estimator with a kernel."""

    def __init__(self, kernel):
        self.kernel = kernel

    def fit(self, X, y):
        alpha = np.linalg.solve(self.kernel(X) + 1e-3 * np.eye(len(X)), y)
        self.function_ = Expansion(self.kernel, X, alpha[:, None], [0.0])
        return self

    def predict(self, X):
        return self.function_(X)[:, 0]


def test_a_grid_search_finds_the_weights_of_a_sum():
    """What is to be learned depends on the first three columns only."""
    X = rows(90, seed=8)
    y = np.minimum(X[:, :3], [0.5, 0.7, 0.9]).sum(axis=1)
    kernel = WeightedSum(
        [(TotalVariation(), 1.0, slice(0, 3)), (TotalVariation(), 1.0, slice(3, 6))]
    )
    grid = {'kernel__weights': [(0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]}
    search = GridSearchCV(Ridge(kernel), grid, cv=3).fit(X, y)
    assert search.best_params_ == {'kernel__weights': (1.0, 0.0)}
    single = GridSearchCV(Ridge(kernel), {'kernel__weight1': [1.0, 0.01]}, cv=3).fit(X, y)
    assert single.best_params_ == {'kernel__weight1': 0.01}


def test_an_expansion_takes_any_layout_of_numbers():
    rng = np.random.default_rng(7)
    function = Expansion(SHAPE_AND_SKIN, rows(40), rng.normal(size=(40, 7)), rng.normal(size=7))
    X = rows(8, seed=1)
    expected = function(X)
    readonly = X.copy()
    readonly.flags.writeable = False
    for same in (X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], readonly):
        np.testing.assert_array_equal(function(same), expected)
    close(function(X.astype(np.float32)), function(X.astype(np.float32).astype(float)))
    np.testing.assert_array_equal(
        function((10 * X).astype(int)), function((10 * X).astype(int).astype(float))
    )


@every_kernel
def test_an_expansion_of_no_rows_is_empty(kernel):
    function = Expansion(kernel, rows(4), np.ones((4, 3)), np.zeros(3))
    assert function(np.empty((0, COLUMNS))).shape == (0, 3)
    assert kernel(np.empty((0, COLUMNS)), rows(4)).shape == (0, 4)


def test_two_threads_may_use_one_expansion():
    rng = np.random.default_rng(9)
    function = Expansion(SHAPE_AND_SKIN, rows(167), rng.normal(size=(167, 7)), np.zeros(7))
    X = rows(3000, seed=1)
    expected = function(X)
    for results in in_threads(lambda: [function(X) for _ in range(5)]):
        for values in results:
            np.testing.assert_array_equal(values, expected)


BAD_ROWS = [
    (np.full((2, COLUMNS), np.nan), 'nan at index'),
    (np.array([[0.0] * 5 + [np.inf]]), r'inf at index \(0, 5\)'),
    (np.zeros(COLUMNS), r'shape \(any, '),
    ([['a'] * COLUMNS], 'array of numbers'),
    (np.array([[0.1] * 5 + [-0.5]]), r'X holds -0.5 at index \(0, 5\).*no entry may be negative'),
]


@pytest.mark.parametrize(('bad', 'message'), BAD_ROWS)
def test_rows_that_are_no_histograms_are_refused(bad, message):
    kernel = TotalVariation()
    function = Expansion(kernel, rows(40), np.ones((40, 2)), np.zeros(2))
    function(rows(1))
    calls = (function, kernel, kernel.diagonal, lambda X: kernel.expand(rows(2), np.eye(2), X))
    for call in calls:
        with pytest.raises(BadInput, match=message):
            call(bad)


def test_only_the_columns_of_histograms_may_not_be_negative():
    X = rows(3)
    X[:, 5] *= -1
    assert np.isfinite(SHAPE_AND_SKIN(X)).all()
    function = Expansion(SHAPE_AND_SKIN, X, np.ones((3, 1)), np.zeros(1))
    close(function(X), SHAPE_AND_SKIN(X).sum(axis=1, keepdims=True))
    for call in (SHAPE_AND_SKIN, function):
        with pytest.raises(BadInput, match='no entry may be negative'):
            call(-rows(1))


def test_the_wrong_number_of_columns_is_refused():
    function = Expansion(Gaussian(), rows(4), np.ones((4, 1)), np.zeros(1))
    with pytest.raises(BadInput, match=r'X must have shape \(any, 6\), not \(2, 5\)'):
        function(rows(2, columns=5))
    with pytest.raises(BadInput, match=r'Y must have shape \(any, 6\), not \(2, 5\)'):
        Gaussian()(rows(2), rows(2, columns=5))
    with pytest.raises(BadInput, match=r'coefficients must have shape \(4, any\)'):
        Gaussian().expand(rows(4), np.ones((3, 1)), rows(1))


@pytest.mark.parametrize(
    ('kernel', 'message'),
    [
        (Gaussian(0.0), 'gamma is 0.0; it must be a number above 0'),
        (Gaussian(-1), 'gamma is -1'),
        (Gaussian(np.nan), 'gamma is nan'),
        (Gaussian('scale'), "gamma is 'scale'"),
        (Gaussian(True), 'gamma is True'),
        (Polynomial(0), 'degree is 0; it must be a number at least 1'),
        (Polynomial(2.5), 'degree is 2.5; it must be a whole number'),
        (Polynomial(2, -1.0), 'offset is -1.0; it must be a number at least 0'),
        (WeightedSum([(Linear(), -1.0, None)]), 'none may be negative'),
        (WeightedSum([(Linear(), 0.0, None)]), 'all zero'),
        (WeightedSum([]), 'all zero'),
        (WeightedSum([(Linear(), np.nan, None)]), 'weights holds nan'),
        (WeightedSum([(Linear(), 1.0, [0, 6])]), r'columns \[0, 6\], but the input has 6'),
        (WeightedSum([(Linear(), 1.0, slice(3, 7))]), 'columns up to 7, but the input has 6'),
        (WeightedSum([(Linear(), 1.0, slice(3, 3))]), 'uses no column'),
        (WeightedSum([(Linear(), 1.0, 'shape')]), 'give a slice'),
        (WeightedSum([(Linear(), 1.0, [0.5])]), 'give a slice'),
        (WeightedSum([('rbf', 1.0, None)]), "holds 'rbf' where a Kernel is wanted"),
        (WeightedSum([(Gaussian(-2), 1.0, None)]), 'gamma is -2'),
    ],
)
def test_parameters_that_make_no_kernel_are_refused_when_used(kernel, message):
    with pytest.raises(BadInput, match=message):
        kernel(rows(3))
    with pytest.raises(BadInput, match=message):
        kernel.diagonal(rows(3))
    with pytest.raises(BadInput, match=message):
        Expansion(kernel, rows(3), np.ones((3, 1)), np.zeros(1))(rows(1))


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'weights': [1.0]}, '1 values, but there are 3 parts'),
        ({'weight3': 1.0}, "no parameter 'weight3'"),
        ({'gamma': 1.0}, "no parameter 'gamma'"),
        ({'weight0__gamma': 1.0}, "no parameter 'weight0__gamma'"),
    ],
)
def test_parameters_a_sum_does_not_have_are_refused(parameters, message):
    with pytest.raises(BadInput, match=message):
        clone(SHAPE_AND_SKIN).set_params(**parameters)


@pytest.mark.parametrize(
    ('matrix', 'X', 'message'),
    [
        (np.ones((2, 3)), [[0]], 'must be square'),
        ([[1.0, 0.5], [0.2, 1.0]], [[0]], 'must be symmetric'),
        (-np.eye(2), [[0]], 'negative entry on its diagonal'),
        ([[np.nan]], [[0]], 'nan at index'),
        (np.eye(2), [[2]], 'whole numbers from 0 to 1'),
        (np.eye(2), [[-1]], 'whole numbers from 0 to 1'),
        (np.eye(2), [[0.5]], 'whole numbers from 0 to 1'),
        (np.eye(2), [[0, 1]], 'must have one column'),
    ],
)
def test_bad_tables_and_numbers_are_refused(matrix, X, message):
    with pytest.raises(BadInput, match=message):
        Precomputed(matrix)(X)


def test_a_storage_that_is_none_is_refused():
    with pytest.raises(BadInput, match="storage is 'float16'; choose from float64, float32"):
        Expansion(Linear(), rows(2), np.ones((2, 1)), [0.0], storage='float16')


def test_a_kernel_of_ones_own_needs_only_its_gram_matrix():
    class Cosine(Kernel):
        def _gram(self, X, Y):
            return pairwise.cosine_similarity(X, Y)

    X, alpha = rows(20), np.random.default_rng(10).normal(size=(20, 2))
    kernel = Cosine()
    close(kernel.diagonal(X), np.ones(20))
    close(Expansion(kernel, X, alpha, np.zeros(2))(X), kernel(X) @ alpha)
    with pytest.raises(BadInput, match='Cosine has no gradient'):
        kernel.gradient(X[0], X)
    with pytest.raises(NotImplementedError, match='Kernel must define _terms or _gram'):
        Kernel()(X)
