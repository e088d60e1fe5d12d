"""The sampler against posteriors that can be integrated, and against the other estimators."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from kde_imitation.errors import BadInput
from kde_imitation.learning import MRS, BayesianMRS


@parametrize_with_checks([BayesianMRS(1, burn_in=150, n_samples=30, random_state=0)])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize('likelihood', ['gaussian', 'laplacian'])
def test_the_samples_have_the_posterior_that_quadrature_finds(likelihood):
    """Two inputs, one output: F is a vector of the plane.

    Uniform directions and dS/S make dF/‖F‖², and τ integrates out to a power of the misfit.
    """
    random = np.random.default_rng(1)
    X = random.normal(size=(25, 2)) * [1.0, 0.6]
    y = X @ [1.2, -0.8] + 0.7 * random.standard_t(4, size=25)
    model = BayesianMRS(
        1, likelihood, burn_in=1000, n_samples=10000, fit_intercept=False, random_state=0
    ).fit(X, y)
    s = model.samples_
    drawn = s.S * s.V[:, 0] * s.W[:, :, 0]
    # No node at zero, where the density has a pole and the data leave no mass.
    axis = np.linspace(-3, 4, 700)
    F = np.stack(np.meshgrid(axis, axis, indexing='ij'), axis=-1)
    E = y - F @ X.T
    if likelihood == 'gaussian':
        log_density = -0.5 * len(y) * np.log((E**2).sum(axis=-1))
    else:
        log_density = -len(y) * np.log(np.abs(E).sum(axis=-1))
    log_density -= np.log((F**2).sum(axis=-1))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = (density[..., None] * F).sum(axis=(0, 1))
    deviation = np.sqrt((density[..., None] * (F - mean) ** 2).sum(axis=(0, 1)))
    # The samples are correlated; means of long stretches hardly are.
    error = drawn.reshape(25, -1, 2).mean(axis=1).std(axis=0) / np.sqrt(25)
    assert (error < 0.1 * deviation).all()
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean), 4 * error)
    np.testing.assert_allclose(drawn.std(axis=0), deviation, rtol=0.15)


def test_every_sample_has_orthonormal_features_and_positive_scales():
    random = np.random.default_rng(2)
    X = random.normal(size=(40, 5))
    Y = X @ random.normal(size=(5, 4))
    samples = BayesianMRS(3, burn_in=300, n_samples=300, random_state=0).fit(X, Y).samples_
    assert samples.V.shape == (300, 4, 3)
    assert samples.W.shape == (300, 5, 3)
    for factor in (samples.V, samples.W):
        gram = np.einsum('mnr,mns->mrs', factor, factor)
        assert np.abs(gram - np.eye(3)).max() < 1e-10
    assert (samples.S > 0).all()
    assert (samples.tau > 0).all()


def problem(seed, n=300):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    F = random.normal(size=(3, 1)) @ random.normal(size=(1, 2))
    return X, X @ F + 0.3 * random.normal(size=(n, 2)), X @ F


@pytest.mark.parametrize('start', ['identity', 'closed'])
def test_the_most_probable_gaussian_map_is_near_the_least_squares_one(start):
    X, Y, _ = problem(3)
    model = BayesianMRS(1, 'gaussian', 1500, 3000, start=start, random_state=0).fit(X, Y)
    least = np.sum((Y - MRS(1).fit(X, Y).predict(X)) ** 2)
    assert least <= np.sum((Y - model.predict(X)) ** 2) < 1.01 * least
    assert model.tau_ == pytest.approx(np.sqrt(least / Y.size), rel=0.05)


def test_steps_are_tuned_to_be_accepted_often_enough():
    X, Y, _ = problem(4)
    model = BayesianMRS(1, burn_in=1000, n_samples=2000, random_state=0).fit(X, Y)
    assert set(model.acceptance_) == {'V', 'W', 'S', 'tau'}
    assert all(0.15 < rate < 0.5 for rate in model.acceptance_.values()), model.acceptance_


def test_the_laplacian_likelihood_bears_outliers():
    X, Y, truth = problem(5)
    Y[:3] += 60.0
    error = {
        name: np.mean(
            (BayesianMRS(1, name, 800, 800, random_state=0).fit(X, Y).predict(X) - truth) ** 2
        )
        for name in ('gaussian', 'laplacian')
    }
    assert error['laplacian'] < 0.02
    assert error['gaussian'] > 5 * error['laplacian']


@pytest.mark.parametrize(
    ('likelihood', 'noise'), [('gaussian', 'normal'), ('laplacian', 'laplace')]
)
def test_new_observations_fall_into_the_predicted_band_as_often_as_it_says(likelihood, noise):
    """±2 standard deviations hold 95.4 % of a normal and 94.1 % of a Laplacian variable."""
    random = np.random.default_rng(6)
    F = np.outer([1.0, -2.0, 0.5], [1.0, 3.0])
    X = random.normal(size=(4300, 3))
    Y = X @ F + getattr(random, noise)(0, 0.4, (4300, 2))
    model = BayesianMRS(1, likelihood, 1000, 500, estimate='mean', random_state=0)
    model.fit(X[:300], Y[:300])
    mean, deviation = model.predict(X[300:], return_std=True)
    inside = np.mean(np.abs(Y[300:] - mean) < 2 * deviation)
    assert inside == pytest.approx({'normal': 0.954, 'laplace': 0.941}[noise], abs=0.015)


def test_it_is_less_sure_far_from_the_data():
    X, Y, _ = problem(7, n=30)
    model = BayesianMRS(1, 'gaussian', 500, 500, random_state=0).fit(X, Y)
    _, near = model.predict(np.zeros((1, 3)), return_std=True)
    _, far = model.predict(np.full((1, 3), 50.0), return_std=True)
    assert (far > 3 * near).all()


def test_the_mean_of_the_maps_can_be_asked_for():
    X, Y, _ = problem(8)
    model = BayesianMRS(1, 'gaussian', 300, 200, estimate='mean', random_state=0).fit(X, Y)
    s = model.samples_
    mean = np.mean([(V * S) @ W.T for V, S, W in zip(s.V, s.S, s.W)], axis=0)
    wanted = (X - X.mean(axis=0)) @ mean.T + Y.mean(axis=0)
    np.testing.assert_allclose(model.predict(X), wanted, atol=1e-10)


def test_the_same_state_draws_the_same():
    X, Y, _ = problem(9)
    one, two = (BayesianMRS(1, random_state=4, burn_in=20, n_samples=20).fit(X, Y) for _ in '12')
    np.testing.assert_array_equal(one.samples_.S, two.samples_.S)


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'likelihood': 'cauchy'}, 'choose from'),
        ({'estimate': 'best'}, 'choose from'),
        ({'start': 'zero'}, 'choose from'),
        ({'n_samples': 0}, 'at least 1'),
        ({'burn_in': -1}, 'must not be negative'),
        ({'rank': 3}, 'at most rank 2'),
    ],
)
def test_parameters_that_cannot_be_used_are_named(parameters, message):
    X, Y, _ = problem(0)
    with pytest.raises(BadInput, match=message):
        BayesianMRS(**parameters).fit(X, Y)
