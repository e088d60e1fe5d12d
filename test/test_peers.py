"""The regressions that MRS is compared with."""

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from kde_imitation.errors import BadInput
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.learning import (
    MRS,
    PLS,
    KernelPCA,
    PrincipalComponentRegression,
    ReducedRankRegression,
    RidgeRegression,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8)) @ RNG.normal(size=(8, 8))
Y = X @ RNG.normal(size=(8, 5)) + RNG.normal(size=(60, 5)) + 2.0
NEW = RNG.normal(size=(10, 8))


@parametrize_with_checks(
    [PrincipalComponentRegression(1), PLS(1), ReducedRankRegression(1, 0.1), RidgeRegression(0.1)]
)
def test_they_keep_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize('rank', [1, 4, 7])
def test_pls_predicts_as_scikit_learn_does(rank):
    ours, theirs = PLS(rank).fit(X, Y), PLSRegression(rank, scale=False).fit(X, Y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), atol=1e-10)


@pytest.mark.parametrize('rank', [1, 4, 8])
def test_principal_component_regression_is_least_squares_on_components(rank):
    ours = PrincipalComponentRegression(rank).fit(X, Y)
    theirs = make_pipeline(PCA(rank), LinearRegression()).fit(X, Y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), atol=1e-9)


def test_ridge_is_that_of_scikit_learn_with_few_and_many_inputs():
    wide = RNG.normal(size=(60, 500))
    for data in (X, wide):
        ours, theirs = RidgeRegression(3.0).fit(data, Y), Ridge(3.0).fit(data, Y)
        np.testing.assert_allclose(ours.predict(data), theirs.predict(data), atol=1e-9)


def test_ridge_on_kernel_coordinates_is_kernel_ridge():
    """With a centred kernel and centred outputs both are the same."""
    pca = KernelPCA(Gaussian(0.02), None).fit(X)
    ours = RidgeRegression(0.1).fit(pca.transform(X), Y).predict(pca.transform(NEW))
    gram, between = Gaussian(0.02)(X), Gaussian(0.02)(NEW, X)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    between = between - gram.mean(axis=0) - between.mean(axis=1)[:, None] + gram.mean()
    theirs = KernelRidge(alpha=0.1, kernel='precomputed').fit(centred, Y - Y.mean(axis=0))
    np.testing.assert_allclose(ours, theirs.predict(between) + Y.mean(axis=0), atol=1e-8)


@pytest.mark.parametrize('rank', [1, 3, 5])
def test_reduced_rank_projects_the_least_squares_predictions(rank):
    fitted = LinearRegression().fit(X, Y).predict(X)
    mean = Y.mean(axis=0)
    directions = np.linalg.svd(fitted - mean)[2][:rank]
    wanted = (fitted - mean) @ directions.T @ directions + mean
    np.testing.assert_allclose(ReducedRankRegression(rank).fit(X, Y).predict(X), wanted, atol=1e-9)


def test_no_regression_of_the_same_rank_fits_the_training_data_better_than_mrs():
    for rank in range(1, 6):
        best = MRS(rank).fit(X, Y).loss_
        for peer in (PLS, PrincipalComponentRegression, ReducedRankRegression):
            model = peer(rank).fit(X, Y)
            assert np.sum((model.predict(X) - Y) ** 2) >= best * (1 - 1e-12)
            assert model.rank_ <= rank


@pytest.mark.parametrize(
    'model', [PLS(6), PrincipalComponentRegression(6), ReducedRankRegression(4), RidgeRegression()]
)
def test_factors_are_orthonormal_ordered_and_make_the_map(model):
    model.fit(X, Y)
    r = model.rank_
    assert np.abs(model.V_.T @ model.V_ - np.eye(r)).max() < 1e-10
    assert np.abs(model.W_.T @ model.W_ - np.eye(r)).max() < 1e-10
    assert (model.S_ >= 0).all()
    assert (np.diff(model.S_) <= 0).all()
    wanted = (NEW - X.mean(axis=0)) @ model.coef_.T + Y.mean(axis=0)
    np.testing.assert_allclose(model.predict(NEW), wanted, atol=1e-9)
    np.testing.assert_allclose(
        model.features(NEW) @ model.V_.T + Y.mean(axis=0), wanted, atol=1e-9
    )


@pytest.mark.parametrize(
    ('model', 'message'),
    [
        (PLS(9), 'at most that many'),
        (PLS(0), 'whole number'),
        (PrincipalComponentRegression(True), 'whole number'),
        (ReducedRankRegression(6), 'at most rank 5'),
        (ReducedRankRegression(1, -1.0), 'zero or positive'),
        (RidgeRegression(np.inf), 'zero or positive'),
    ],
)
def test_parameters_that_cannot_be_used_are_named(model, message):
    with pytest.raises(BadInput, match=message):
        model.fit(X, Y)
