"""The pose kernel: held to its definition, and its derivatives to differences."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import urdf

WEIGHTS = [0.0, 0.5, 2.0, 0.0, 1.0, 3.0, 0.25]


def random_postures(count, seed=0):
    return np.random.default_rng(seed).uniform(pa10.LOWER, pa10.UPPER, (count, 7))


def by_definition(a, b, weights):
    """Σ λ_i p_i(a) · p_i(b), written out."""
    points = zip(weights, pa10.link_positions(a), pa10.link_positions(b), strict=True)
    return sum(weight * float(p @ p2) for weight, p, p2 in points)


def differences(function, q, step=1e-5):
    return np.stack(
        [(function(q + s) - function(q - s)) / (2 * step) for s in step * np.eye(7)], axis=-1
    )


@pytest.mark.parametrize('weights', [None, WEIGHTS], ids=['default', 'weighted'])
def test_gram_is_the_weighted_sum_of_dot_products_of_points(weights):
    kernel = PoseKernel(pa10, weights)
    Q, Q2 = random_postures(6), random_postures(4, seed=1)
    used = [0, 0, 1, 1, 1, 1, 1] if weights is None else weights
    expected = [[by_definition(a, b, used) for b in Q2] for a in Q]
    np.testing.assert_allclose(kernel.gram(Q, Q2), expected, atol=1e-14)


def test_gram_of_one_set_is_that_of_the_set_with_itself():
    kernel, Q = PoseKernel(pa10), random_postures(8)
    gram = kernel.gram(Q)
    np.testing.assert_array_equal(gram, kernel.gram(Q, Q))
    np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize(('weights', 'size'), [(None, 15), (WEIGHTS, 15), ([0] * 6 + [2], 3)])
def test_features_have_three_numbers_for_each_point_that_counts(weights, size):
    kernel, Q = PoseKernel(pa10, weights), random_postures(5)
    features = kernel.features(Q)
    assert features.shape == (5, size)
    np.testing.assert_allclose(features @ features.T, kernel.gram(Q), atol=1e-14)
    assert kernel.features(Q[0]).shape == (size,)
    assert kernel.features(Q.reshape(5, 1, 7)).shape == (5, 1, size)


def test_diagonal_is_that_of_the_gram_matrix():
    kernel, Q = PoseKernel(pa10, WEIGHTS), random_postures(20, seed=2)
    np.testing.assert_allclose(kernel.diagonal(Q), np.diag(kernel.gram(Q)), rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    arrays(float, st.tuples(st.integers(1, 12), st.just(7)), elements=st.floats(-4.5, 4.5)),
    arrays(float, 7, elements=st.floats(0, 100)).filter(lambda w: w.any()),
)
def test_gram_is_positive_semidefinite_for_any_weights(Q, weights):
    gram = PoseKernel(pa10, weights).gram(Q)
    eigenvalues = np.linalg.eigvalsh(gram)
    # Rounding moves an eigenvalue by a few dozen eps of the largest.
    assert eigenvalues[0] >= -1e-13 * eigenvalues[-1] - 1e-300


def test_turning_the_whole_arm_about_the_base_does_not_change_the_kernel():
    kernel = PoseKernel(pa10, WEIGHTS)
    Q = random_postures(10, seed=3)
    turned = Q + 0.7 * np.eye(7)[0]
    np.testing.assert_allclose(kernel.gram(turned), kernel.gram(Q), atol=1e-14)


def test_turning_the_hand_about_itself_does_not_change_the_kernel():
    kernel, Q = PoseKernel(pa10), random_postures(10, seed=4)
    np.testing.assert_allclose(kernel.gram(Q, Q + np.eye(7)[6]), kernel.gram(Q), atol=1e-14)


@pytest.mark.parametrize('weights', [None, WEIGHTS], ids=['default', 'weighted'])
def test_feature_jacobian_is_the_derivative_of_the_features(weights):
    kernel = PoseKernel(pa10, weights)
    for q in random_postures(10, seed=5):
        expected = differences(kernel.features, q)
        np.testing.assert_allclose(kernel.feature_jacobian(q), expected, atol=1e-9)


def test_feature_jacobian_takes_any_leading_shape():
    kernel, Q = PoseKernel(pa10), random_postures(6, seed=6)
    together = kernel.feature_jacobian(Q.reshape(2, 3, 7))
    assert together.shape == (2, 3, 15, 7)
    np.testing.assert_array_equal(together[1, 2], kernel.feature_jacobian(Q[5]))


def test_gradient_is_the_derivative_of_the_kernel_by_its_first_argument():
    kernel, Q = PoseKernel(pa10, WEIGHTS), random_postures(9, seed=7)
    for q in random_postures(5, seed=8):
        gradient = kernel.gradient(q, Q)
        assert gradient.shape == (9, 7)
        np.testing.assert_allclose(
            gradient, differences(lambda x: kernel.gram(x[None], Q)[0], q), atol=1e-8
        )


def test_gradients_of_several_postures_come_in_one_call():
    kernel, Q = PoseKernel(pa10), random_postures(4, seed=9)
    together = kernel.gradient(Q[:3], Q)
    assert together.shape == (3, 4, 7)
    for i in range(3):
        np.testing.assert_allclose(together[i], kernel.gradient(Q[i], Q), atol=1e-15)


def test_a_chain_from_its_urdf_serves_as_well():
    chain = Chain.from_urdf(urdf(), tip='flange')
    Q = random_postures(12, seed=10)
    centre = np.eye(12) - 1 / 12
    grams = [centre @ PoseKernel(arm).gram(Q) @ centre for arm in (pa10, chain)]
    np.testing.assert_allclose(*grams, atol=1e-13)
    gradients = [PoseKernel(arm).feature_jacobian(Q) for arm in (pa10, chain)]
    np.testing.assert_allclose(*gradients, atol=1e-14)


@pytest.mark.parametrize(
    ('weights', 'message'),
    [
        ([0, 0, 1, 1, -1, 1, 1], 'none may be negative'),
        ([0, 0, 1, 1, np.nan, 1, 1], 'nan at index'),
        ([0, 0, 1, 1, np.inf, 1, 1], 'inf at index'),
        ([0] * 7, 'all zero'),
        ([[1.0] * 7], r'shape \(any,\)'),
        (['heavy'] * 7, 'array of numbers'),
    ],
)
def test_weights_that_make_no_kernel_are_refused(weights, message):
    with pytest.raises(BadInput, match=message):
        PoseKernel(pa10, weights)


def test_the_wrong_number_of_weights_is_refused():
    kernel = PoseKernel(pa10, [1, 1, 1])
    for call in (kernel.features, kernel.feature_jacobian):
        with pytest.raises(BadInput, match='3 values, but the arm has 7 points'):
            call(np.zeros(7))


def test_default_weights_need_a_third_point():
    class Short:
        def link_positions(self, q):
            return np.zeros((*np.shape(q)[:-1], 2, 3))

    with pytest.raises(BadInput, match='only 2 points'):
        PoseKernel(Short()).features(np.zeros(2))


@pytest.mark.parametrize(
    ('Q', 'message'),
    [
        (np.zeros((3, 6)), '7 joint values'),
        (np.zeros(7), r'shape \(any, any\)'),
        (np.full((2, 7), np.nan), 'nan at index'),
    ],
)
def test_postures_that_are_none_are_refused(Q, message):
    kernel, good = PoseKernel(pa10), np.zeros((1, 7))
    for call in (
        kernel.gram,
        kernel.diagonal,
        lambda bad: kernel.gram(good, bad),
        lambda bad: kernel.gradient(good[0], bad),
    ):
        with pytest.raises(BadInput, match=message):
            call(Q)


def test_the_pose_kernel_is_a_kernel_like_the_others():
    kernel, Q, Q2 = PoseKernel(pa10, WEIGHTS), random_postures(9), random_postures(4, seed=1)
    gram = kernel.gram(Q, Q2)
    np.testing.assert_array_equal(kernel(Q, Q2), gram)
    rng = np.random.default_rng(0)
    alpha, offset = rng.normal(size=(4, 3)), rng.normal(size=3)
    np.testing.assert_allclose(kernel.expand(Q2, alpha, Q), gram @ alpha, atol=1e-13)
    function = Expansion(kernel, Q2, alpha, offset)
    np.testing.assert_allclose(function(Q), gram @ alpha + offset, atol=1e-13)
    expected = np.einsum('nr,nj->rj', alpha, kernel.gradient(Q[0], Q2))
    np.testing.assert_allclose(function.jacobian(Q[0]), expected, atol=1e-13)
    with pytest.raises(BadInput, match=r'shape \(any, 7\)'):
        function(np.zeros((2, 6)))


@pytest.mark.parametrize('weights', [None, WEIGHTS], ids=['default', 'weighted'])
def test_a_clone_and_a_pickle_keep_the_arm_and_the_weights(weights):
    kernel, Q = PoseKernel(pa10, weights), random_postures(3)
    assert kernel.get_params() == {'kinematics': pa10, 'weights': weights}
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        assert copy is not kernel
        assert copy.kinematics is pa10
        np.testing.assert_array_equal(copy.gram(Q), kernel.gram(Q))


def test_a_kernel_on_a_chain_is_pickled_with_it():
    chain = Chain.from_urdf(urdf(), tip='flange')
    kernel, Q = PoseKernel(chain), random_postures(3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel)).gram(Q), kernel.gram(Q))


def test_weights_set_later_are_checked_when_used():
    kernel = PoseKernel(pa10).set_params(weights=[-1.0] * 7)
    with pytest.raises(BadInput, match='none may be negative'):
        kernel.gram(random_postures(2))
