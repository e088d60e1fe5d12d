"""Kernel PCA against scikit-learn, against plain PCA, and against its own definition."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as PeerKernelPCA
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Kernel
from kde_imitation.kernels.vectors import Gaussian, Linear, TotalVariation
from kde_imitation.learning import KernelPCA
from kde_imitation.learning.kernel_pca import FunctionKernel

RNG = np.random.default_rng(7)
X = RNG.normal(size=(80, 4))
NEW = RNG.normal(size=(15, 4))


@parametrize_with_checks([KernelPCA(), KernelPCA(Gaussian(0.1), 3)])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


PEERS = {
    'rbf': (Gaussian(0.2), {'gamma': 0.2}),
    'linear': (Linear(), {}),
    'poly': (
        partial(polynomial_kernel, degree=3, gamma=0.5, coef0=1.0),
        {'gamma': 0.5, 'degree': 3, 'coef0': 1.0},
    ),
}


@pytest.mark.parametrize('name', ['rbf', 'linear', 'poly'])
def test_coordinates_agree_with_scikit_learn(name):
    kernel, parameters = PEERS[name]
    ours = KernelPCA(kernel, 4).fit(X)
    peer = PeerKernelPCA(4, kernel=name, **parameters).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, peer.eigenvalues_, rtol=1e-8)
    for data in (X, NEW):
        mine, theirs = ours.transform(data), peer.transform(data)
        signs = np.sign((mine * theirs).sum(axis=0))
        np.testing.assert_allclose(mine, theirs * signs, atol=1e-8 * np.abs(theirs).max())


def test_the_linear_kernel_is_ordinary_pca():
    ours, peer = KernelPCA(n_components=0.8).fit(X), PCA(0.8).fit(X)
    assert ours.n_components_ == peer.n_components_
    np.testing.assert_allclose(np.abs(ours.transform(NEW)), np.abs(peer.transform(NEW)))
    np.testing.assert_allclose(ours.explained_variance_ratio_, peer.explained_variance_ratio_)


@pytest.mark.parametrize(
    'kernel', [Gaussian(0.1), partial(laplacian_kernel, gamma=0.3), PEERS['poly'][0]]
)
def test_directions_are_orthonormal_and_coordinates_are_projections(kernel):
    pca = KernelPCA(kernel, 0.9).fit(X)
    gram = kernel(X) if isinstance(kernel, Gaussian) else kernel(X, X)
    a = pca.vectors_
    np.testing.assert_allclose(a.T @ gram @ a, np.eye(pca.n_components_), atol=1e-9)
    np.testing.assert_allclose(a.sum(axis=0), 0, atol=1e-12)
    centred = gram - gram.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(pca.transform(X), centred.T @ a, atol=1e-10)
    np.testing.assert_allclose(pca.fit_transform(X), pca.transform(X), atol=1e-10)


def test_a_callable_a_kernel_and_a_gram_matrix_give_the_same():
    by_object = KernelPCA(Gaussian(0.2), 6).fit(X)
    by_function = KernelPCA(partial(rbf_kernel, gamma=0.2), 6).fit(X)
    by_matrix = KernelPCA('precomputed', 6).fit(rbf_kernel(X, gamma=0.2))
    between = rbf_kernel(NEW, X, gamma=0.2)
    wanted, novelty = by_object.transform(NEW), by_object.residual(NEW)
    np.testing.assert_allclose(by_function.transform(NEW), wanted, atol=1e-9)
    np.testing.assert_allclose(by_matrix.transform(between), wanted, atol=1e-9)
    np.testing.assert_allclose(by_matrix.expansion_(between), wanted, atol=1e-9)
    np.testing.assert_allclose(by_function.residual(NEW), novelty, atol=1e-7)
    np.testing.assert_allclose(by_matrix.residual(between, np.ones(15)), novelty, atol=1e-7)


def test_histograms_may_be_compared_by_total_variation():
    histograms = RNG.dirichlet(np.ones(6), 50)
    pca = KernelPCA(TotalVariation(), 0.99).fit(histograms)
    squares = ((pca.transform(histograms)[:, None] - pca.transform(histograms)) ** 2).sum(axis=-1)
    gram = np.minimum(histograms[:, None], histograms).sum(axis=-1)
    wanted = np.diagonal(gram)[:, None] + np.diagonal(gram) - 2 * gram
    lost = 1 - pca.explained_variance_ratio_.sum()
    assert 0 < lost < 0.01
    assert (squares <= wanted + 1e-12).all()
    assert np.sum(wanted - squares) / np.sum(wanted) == pytest.approx(lost, rel=1e-6)


def test_the_residual_is_the_distance_that_pca_leaves_out():
    pca, peer = KernelPCA(n_components=2).fit(X), PCA(2).fit(X)
    left = np.linalg.norm(NEW - peer.inverse_transform(peer.transform(NEW)), axis=1)
    np.testing.assert_allclose(pca.residual(NEW), left, rtol=1e-8)


def test_training_points_have_no_residual_when_all_directions_are_kept():
    pca = KernelPCA(Gaussian(0.3), None).fit(X)
    assert pca.residual(X).max() < 1e-5
    assert pca.residual(NEW + 3.0).min() > 0.1


def test_weights_place_a_point_of_the_subspace():
    """For the linear kernel Σ γ_i φ(x_i) is a plain vector."""
    pca, peer = KernelPCA(n_components=3).fit(X), PCA(3).fit(X)
    gamma = pca.weights(pca.transform(NEW))
    np.testing.assert_allclose(gamma.sum(axis=1), 1.0)
    np.testing.assert_allclose(gamma @ X, peer.inverse_transform(peer.transform(NEW)), atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 40), d=st.integers(1, 6), seed=st.integers(0, 99))
def test_all_directions_keep_all_distances(n, d, seed):
    points = np.random.default_rng(seed).normal(size=(n, d))
    coordinates = KernelPCA(Gaussian(0.2), None).fit_transform(points)
    gram = rbf_kernel(points, gamma=0.2)
    squares = ((coordinates[:, None] - coordinates) ** 2).sum(axis=-1)
    np.testing.assert_allclose(squares, 2 - 2 * gram, atol=1e-8)


def test_signs_do_not_depend_on_the_order_of_arithmetic():
    """The same problem, once scaled and once through a copy in Fortran order."""
    first = KernelPCA(Gaussian(0.2), 10).fit(X).vectors_
    again = KernelPCA(Gaussian(0.05), 10).fit(2.0 * np.asfortranarray(X)).vectors_
    np.testing.assert_allclose(first, again, atol=1e-9)
    assert (first[np.abs(first).argmax(axis=0), np.arange(10)] > 0).all()


def test_a_share_keeps_the_fewest_directions_that_reach_it():
    every = KernelPCA(Gaussian(0.2), None).fit(X).explained_variance_ratio_
    assert every.sum() == pytest.approx(1.0)
    for share in (0.3, 0.75, 0.95, 0.999):
        r = KernelPCA(Gaussian(0.2), share).fit(X).n_components_
        assert every[:r].sum() >= share - 1e-9
        assert every[: r - 1].sum() < share


def test_more_directions_than_the_data_span_are_not_invented():
    with pytest.warns(UserWarning, match='span only 4 directions'):
        assert KernelPCA(n_components=9).fit(X).n_components_ == 4


def test_fitting_needs_room_for_one_matrix_and_no_more():
    points = RNG.normal(size=(1000, 3))
    KernelPCA(Gaussian(0.1), 30).fit(points[:100])
    tracemalloc.start()
    KernelPCA(Gaussian(0.1), 30).fit(points)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.3 * 8 * len(points) ** 2


def test_a_function_keeps_the_matrix_that_it_returned():
    gram = rbf_kernel(X)
    before = gram.copy()
    KernelPCA(lambda A, B: gram, 3).fit(X)
    assert (gram == before).all()


def test_many_equal_eigenvalues_keep_their_vectors_orthogonal():
    # Orthonormal points and their centre: all nonzero eigenvalues are one.
    pca = KernelPCA(FunctionKernel(lambda A, B: A @ B.T), 30).fit(np.eye(200))
    assert pca.eigenvalues_ == pytest.approx(np.ones(30))
    assert pca.vectors_.T @ pca.vectors_ == pytest.approx(np.eye(30), abs=1e-9)


def test_it_is_cloned_searched_and_piped():
    y = np.sin(X[:, 0]) + X[:, 1]
    pipe = make_pipeline(KernelPCA(Gaussian(1.0), 0.99), Ridge(1e-3))
    search = GridSearchCV(pipe, {'kernelpca__kernel__gamma': [0.01, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_['kernelpca__kernel__gamma'] == 0.01
    copy = clone(KernelPCA(Gaussian(0.4), 5))
    assert copy.kernel.gamma == 0.4
    assert copy.n_components == 5


def negative_distance(A, B):
    return -np.cbrt(((A[:, None] - B) ** 2).sum(axis=-1))


def test_a_kernel_that_is_conditionally_positive_may_be_used():
    """−‖x − y‖^p, p ≤ 2, is not positive, but its centred Gram matrix is."""
    assert KernelPCA(negative_distance, 0.9).fit(X).n_components_ > 1


@pytest.mark.parametrize(
    ('pca', 'data', 'message'),
    [
        (KernelPCA(lambda A, B: np.tanh(2 * A @ B.T - 1)), X, 'not positive'),
        (KernelPCA('precomputed'), X, 'square Gram matrix'),
        (KernelPCA('precomputed'), np.tri(4), 'not symmetric'),
        (KernelPCA('rbf'), X, "'precomputed' or None"),
        (KernelPCA(lambda A, B: 1.0), X, 'matrix of all pairs'),
        (KernelPCA(n_components=0), X, 'at least one'),
        (KernelPCA(n_components=1.5), X, 'share of variance'),
        (KernelPCA(n_components=True), X, 'share of variance'),
        (KernelPCA(), np.ones((5, 3)), 'All points are the same'),
    ],
)
def test_what_cannot_be_used_is_named(pca, data, message):
    with pytest.raises(BadInput, match=message):
        pca.fit(data)


def test_missing_values_are_refused():
    with pytest.raises(ValueError, match='NaN'):
        KernelPCA().fit(np.where(X > 1, np.nan, X))


def test_folds_cut_rows_and_columns_of_a_precomputed_matrix():
    gram, y = rbf_kernel(X, gamma=0.2), X[:, 0]
    by_matrix = make_pipeline(KernelPCA('precomputed', 6), Ridge(1.0))
    by_points = make_pipeline(KernelPCA(Gaussian(0.2), 6), Ridge(1.0))
    np.testing.assert_allclose(
        cross_val_score(by_matrix, gram, y), cross_val_score(by_points, X, y), rtol=1e-6
    )


def test_a_precomputed_residual_asks_for_the_diagonal():
    pca = KernelPCA('precomputed', 2).fit(rbf_kernel(X))
    with pytest.raises(BadInput, match='pass them as diagonal'):
        pca.residual(rbf_kernel(NEW, X))


def test_weights_check_their_coordinates():
    with pytest.raises(BadInput, match='coordinates must have shape'):
        KernelPCA(n_components=2).fit(X).weights(np.ones((3, 5)))


@pytest.mark.parametrize('count', [12, 60])
def test_few_features_give_the_same_as_the_gram_matrix(count):
    class Hidden(Kernel):
        """The linear kernel without its feature map."""

        def _gram(self, X, Y):
            return X @ Y.T

    X = np.random.default_rng(5).normal(size=(count, 8)) * [5, 4, 3, 2, 1, 0.5, 0.1, 0] + 2
    ours, gram = KernelPCA(Linear(), 0.999).fit(X), KernelPCA(Hidden(), 0.999).fit(X)
    new = X[:5] + 0.3
    assert ours.eigenvalues_ == pytest.approx(gram.eigenvalues_)
    assert ours.vectors_ == pytest.approx(gram.vectors_, abs=1e-9)
    assert ours.transform(new) == pytest.approx(gram.transform(new), abs=1e-9)
    assert ours.residual(new) == pytest.approx(gram.residual(new), abs=1e-6)
