"""Pre-images against closed forms, finite differences, brute force and scikit-learn."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq, check_grad
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.kernel_ridge import KernelRidge

from kde_imitation.errors import BadInput
from kde_imitation.kernels.vectors import Gaussian, Linear, Polynomial, TotalVariation
from kde_imitation.learning import (
    DistancePreImage,
    FixedPointPreImage,
    GradientPreImage,
    KernelPCA,
    LearnedPreImage,
    NearestPreImage,
)
from kde_imitation.learning.preimage import nearest

RNG = np.random.default_rng(3)
Y = RNG.normal(size=(60, 4)) + 2.0
NEW = 0.7 * RNG.normal(size=(9, 4)) + 2.0
METHODS = [
    NearestPreImage(),
    GradientPreImage(random_state=0),
    FixedPointPreImage(random_state=0),
    DistancePreImage(),
    LearnedPreImage(),
]


def named(method):
    return type(method).__name__


def basis_of(kernel, components=None, patterns=Y):
    return KernelPCA(kernel, components).fit(patterns)


GAUSS = basis_of(Gaussian(0.1))


@pytest.mark.parametrize('method', [GradientPreImage(), DistancePreImage()], ids=named)
@pytest.mark.parametrize('components', [4, 2])
def test_linear_kernel_is_inverted_as_pca_inverts_it(method, components):
    basis = basis_of(Linear(), components)
    peer = PCA(components).fit(Y)
    found = clone(method).fit(basis, Y).solve(basis.transform(NEW))
    expected = peer.inverse_transform(peer.transform(NEW))
    assert found.x == pytest.approx(expected, abs=1e-6)
    assert found.converged.all()
    assert found.distance.max() < 1e-6


@pytest.mark.parametrize('method', [GradientPreImage(), DistancePreImage()], ids=named)
@pytest.mark.parametrize('offset', [0.0, 1.5])
def test_odd_polynomials_are_inverted_exactly(method, offset):
    basis = basis_of(Polynomial(3, offset))
    found = clone(method).fit(basis, Y).solve(basis.transform(NEW))
    assert found.x == pytest.approx(NEW, abs=1e-5)


@pytest.mark.parametrize(
    'method', [GradientPreImage(), FixedPointPreImage(), DistancePreImage()], ids=named
)
def test_the_pre_image_of_a_patterns_own_image_is_the_pattern(method):
    solver = clone(method).fit(GAUSS, Y)
    start = Y[:8] + RNG.normal(0, 0.3, (8, 4))
    found = solver.solve(GAUSS.transform(Y[:8]), start)
    assert found.x == pytest.approx(Y[:8], abs=1e-5)
    assert found.distance.max() < 1e-5


def test_a_search_begins_at_the_nearest_example_unless_told():
    solver = GradientPreImage(restarts=1, max_steps=1).fit(GAUSS, Y)
    here = solver.solve(GAUSS.transform(Y[:3]))
    assert here.x == pytest.approx(Y[:3], abs=1e-6)
    away = solver.solve(GAUSS.transform(Y[:3]), start=Y[3])
    assert np.abs(away.x - Y[:3]).max() > 0.1


@pytest.mark.parametrize('method', METHODS, ids=named)
def test_distance_is_that_of_the_approximate_pre_image_problem(method):
    found = clone(method).fit(GAUSS, Y).solve(GAUSS.transform(NEW))
    kernel, gamma = Gaussian(0.1), GAUSS.weights(GAUSS.transform(NEW))
    squares = (
        1.0
        - 2.0 * (gamma * kernel(found.x, Y)).sum(axis=1)
        + np.einsum('mi,ij,mj->m', gamma, kernel(Y), gamma)
    )
    assert found.distance**2 == pytest.approx(squares, abs=1e-12)


def test_distances_are_kept_through_refitting_and_pickling():
    solver = LearnedPreImage().fit(GAUSS, Y)
    found, twin = (solver.solve(GAUSS.transform(NEW)) for _ in range(2))
    expected = found.distance
    solver.fit(basis_of(Gaussian(0.3), 2), Y[:20])
    assert (twin.distance == expected).all()
    loaded = pickle.loads(pickle.dumps(twin))
    assert (loaded.distance == expected).all()
    assert (loaded.x == twin.x).all()


@pytest.mark.parametrize('kernel', [Gaussian(0.3), Linear(), Polynomial(3, 1.0)], ids=named)
def test_the_objective_is_the_squared_distance_and_its_gradient_exact(kernel):
    basis = basis_of(kernel, 3)
    wanted = basis.transform(NEW[:1])
    solver = GradientPreImage().fit(basis, Y)
    gamma = basis.weights(wanted)[0]
    both = np.array([solver._objective(x, gamma)[0] for x in NEW[1:3]])
    distances = solver._measure(NEW[1:3], np.repeat(wanted, 2, axis=0))
    assert np.diff(both) == pytest.approx(np.diff(distances**2), rel=1e-8)
    error = check_grad(
        lambda x: solver._objective(x, gamma)[0],
        lambda x: solver._objective(x, gamma)[1],
        NEW[1],
    )
    assert error < 1e-5 * np.linalg.norm(solver._objective(NEW[1], gamma)[1])


@pytest.mark.parametrize('method', [GradientPreImage(), FixedPointPreImage()], ids=named)
def test_a_converged_search_ends_where_the_gradient_vanishes(method):
    basis = basis_of(Gaussian(0.1), 6)
    wanted = basis.transform(NEW)
    found = clone(method).fit(basis, Y).solve(wanted)
    assert found.converged.all()
    assert (found.steps > 0).all()
    judge = GradientPreImage().fit(basis, Y)
    for x, gamma in zip(found.x, basis.weights(wanted)):
        assert np.abs(judge._objective(x, gamma)[1]).max() < 1e-6


def test_more_restarts_never_end_further_away():
    rng = np.random.default_rng(5)
    two = np.concatenate([rng.normal(-3, 0.5, (20, 2)), rng.normal(3, 0.5, (20, 2))])
    basis = basis_of(Gaussian(0.5), 5, two)
    wanted = rng.normal(size=(30, 5)) * basis.transform(two).std(axis=0)
    few, many = (
        FixedPointPreImage(restarts, random_state=0).fit(basis, two).solve(wanted, two[0])
        for restarts in (1, 8)
    )
    assert (many.distance <= few.distance + 1e-12).all()
    assert (many.distance < few.distance - 1e-3).any()


def test_a_bounded_search_says_that_it_did_not_converge():
    wanted = GAUSS.transform(NEW)
    for method in (GradientPreImage(1, max_steps=1), FixedPointPreImage(1, max_steps=1)):
        found = method.fit(GAUSS, Y).solve(wanted)
        assert not found.converged.any()
        assert (found.steps <= 1).all()


def test_restarts_repeat_with_the_same_random_state():
    wanted = GAUSS.transform(NEW)
    solvers = [FixedPointPreImage(5, random_state=seed).fit(GAUSS, Y) for seed in (1, 1)]
    first, second = (solver.solve(wanted) for solver in solvers)
    assert (first.x == second.x).all()
    assert (first.steps == second.steps).all()


@settings(max_examples=60, deadline=None)
@given(arrays(float, (3, 5), elements=st.floats(-50, 50)), st.integers(0, 2**31 - 1))
def test_the_fixed_point_is_finite_and_no_further_than_the_nearest_example(wanted, seed):
    basis = KernelPCA(Gaussian(0.2), 5).fit(Y)
    found = FixedPointPreImage(2, 50, random_state=seed).fit(basis, Y).solve(wanted)
    neighbour = NearestPreImage().fit(basis, Y).solve(wanted)
    assert np.isfinite(found.x).all()
    assert (found.distance <= neighbour.distance).all()


def test_a_vanishing_denominator_begins_again_elsewhere():
    line = np.array([[-1.0], [0.0], [1.0]])
    basis = KernelPCA(Gaussian(1.0), None).fit(line)
    wanted = basis.transform([[1.0]]) * 4.0
    gamma = basis.weights(wanted)[0]

    def denominator(z):
        return gamma @ np.exp(-((z - line[:, 0]) ** 2))

    zero = brentq(denominator, -3.0, 3.0, xtol=1e-16)
    found = FixedPointPreImage(1, random_state=0).fit(basis, line).solve(wanted, [zero])
    assert np.isfinite(found.x).all()
    assert abs(found.x[0, 0] - zero) > 0.5
    assert found.converged[0]


def test_the_nearest_example_is_the_nearest_in_coordinates():
    wanted = GAUSS.transform(NEW)
    found = NearestPreImage().fit(GAUSS, Y).solve(wanted)
    expected = cdist(wanted, GAUSS.transform(Y)).argmin(axis=1)
    assert (found.x == Y[expected]).all()
    assert (found.steps == 0).all()


@pytest.mark.parametrize('count', [1, 2, 7, 60])
def test_neighbours_come_in_order(count):
    expected = cdist(NEW, Y).argsort(axis=1)[:, :count]
    assert (nearest(NEW, Y, count) == expected).all()


def test_distance_constraints_are_algorithm_a3_2():
    basis = basis_of(Gaussian(0.1), 8)
    wanted = basis.transform(NEW)
    found = DistancePreImage(5).fit(basis, Y).solve(wanted)
    for c, gamma, x in zip(wanted, basis.weights(wanted), found.x):
        kernel = Gaussian(0.1)
        chosen = np.linalg.norm(basis.transform(Y) - c, axis=1).argsort()[:5]
        squared_norm = gamma @ kernel(Y) @ gamma
        feature = 1.0 - 2.0 * kernel(Y[chosen], Y) @ gamma + squared_norm
        squares = -np.log(1.0 - 0.5 * feature) / 0.1
        mean = Y[chosen].mean(axis=0)
        X = (Y[chosen] - mean).T
        norms = (X**2).sum(axis=0)
        expected = 0.5 * np.linalg.pinv(X @ X.T) @ X @ (norms - squares) + mean
        assert x == pytest.approx(expected, abs=1e-8)


def test_distance_constraints_with_few_neighbours_stay_in_their_span():
    found = DistancePreImage(3).fit(GAUSS, Y).solve(GAUSS.transform(NEW))
    for x, chosen in zip(found.x, nearest(GAUSS.transform(NEW), GAUSS.transform(Y), 3)):
        corner = Y[chosen[0]]
        plane = np.linalg.qr((Y[chosen[1:]] - corner).T)[0]
        assert x - corner == pytest.approx(plane @ plane.T @ (x - corner), abs=1e-10)


def test_distance_constraints_flag_what_no_gaussian_image_can_be_so_far_from():
    solver = DistancePreImage(4).fit(GAUSS, Y)
    wanted = GAUSS.transform(NEW[:2])
    wanted[1] *= 50.0
    found = solver.solve(wanted)
    assert found.converged.tolist() == [True, False]
    assert np.isfinite(found.x).all()


def test_more_neighbours_than_examples_means_all():
    wanted = GAUSS.transform(NEW)
    everything = DistancePreImage(60).fit(GAUSS, Y).solve(wanted)
    more = DistancePreImage(500).fit(GAUSS, Y).solve(wanted)
    assert (everything.x == more.x).all()


def test_the_learned_map_is_kernel_ridge_from_coordinates_to_patterns():
    places, wanted = GAUSS.transform(Y), GAUSS.transform(NEW)
    solver = LearnedPreImage(Gaussian(0.4), ridge=1e-3).fit(GAUSS, Y)
    peer = KernelRidge(kernel='rbf', gamma=0.4, alpha=1e-3).fit(places, Y - Y.mean(axis=0))
    expected = peer.predict(wanted) + Y.mean(axis=0)
    assert solver.solve(wanted).x == pytest.approx(expected, abs=1e-9)
    assert solver.expansion_(wanted) == pytest.approx(expected, abs=1e-9)


def test_the_learned_map_without_ridge_returns_every_example():
    found = LearnedPreImage(Gaussian(2.0), ridge=0.0).fit(GAUSS, Y).solve(GAUSS.transform(Y))
    assert found.x == pytest.approx(Y, abs=1e-6)


def test_leave_one_out_error_is_that_of_leaving_one_out():
    places, centred = GAUSS.transform(Y), Y - Y.mean(axis=0)
    solver = LearnedPreImage(Gaussian(0.4), ridge=1e-2).fit(GAUSS, Y)
    errors = []
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        peer = KernelRidge(kernel='rbf', gamma=0.4, alpha=1e-2).fit(places[rest], centred[rest])
        errors.append(((peer.predict(places[i : i + 1])[0] - centred[i]) ** 2).sum())
    assert solver.error_ == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-8)


def test_width_and_ridge_are_the_best_of_those_tried():
    chosen = LearnedPreImage().fit(GAUSS, Y)
    for kernel, ridge in ((None, 1.0), (Gaussian(0.05), None), (Gaussian(50.0), None)):
        assert chosen.error_ <= LearnedPreImage(kernel, ridge).fit(GAUSS, Y).error_


def test_more_examples_than_the_basis_was_fitted_on_help_the_learned_map():
    rng = np.random.default_rng(8)
    more = np.concatenate([Y, rng.normal(size=(300, 4)) + 2.0])
    basis = basis_of(Gaussian(0.1), 20)
    errors = [
        np.linalg.norm(LearnedPreImage().fit(basis, some).solve(basis.transform(NEW)).x - NEW)
        for some in (Y, more)
    ]
    assert errors[1] < 0.7 * errors[0]


def test_any_kernel_can_be_learned_back_and_looked_up():
    histograms = RNG.dirichlet(np.ones(6), 50)
    basis = KernelPCA(TotalVariation(), None).fit(histograms)
    for method in (LearnedPreImage(ridge=0.0), NearestPreImage()):
        found = method.fit(basis, histograms).solve(basis.transform(histograms[:5]))
        assert found.x == pytest.approx(histograms[:5], abs=1e-6)


@pytest.mark.parametrize('method', METHODS, ids=named)
def test_many_points_are_solved_as_each_alone(method):
    solver = clone(method).set_params(**({'restarts': 1} if hasattr(method, 'restarts') else {}))
    solver.fit(GAUSS, Y)
    wanted = GAUSS.transform(NEW)
    together = solver.solve(wanted)
    assert len(together) == len(NEW)
    for i in range(len(NEW)):
        alone = solver.solve(wanted[i : i + 1])
        assert together.x[i] == pytest.approx(alone.x[0], abs=1e-9)
        assert together.steps[i] == alone.steps[0]
    assert len(solver.solve(np.empty((0, wanted.shape[1])))) == 0


@pytest.mark.parametrize('method', METHODS, ids=named)
def test_failures_are_sentences(method):
    solver = clone(method)
    wanted = GAUSS.transform(NEW)
    with pytest.raises(BadInput, match='not fitted; call fit'):
        solver.solve(wanted)
    with pytest.raises(BadInput, match='basis is not fitted'):
        solver.fit(KernelPCA(), Y)
    with pytest.raises(BadInput, match=r'Y must have shape \(any, 4\)'):
        solver.fit(GAUSS, Y[:, :3])
    with pytest.raises(BadInput, match='Y holds nan'):
        solver.fit(GAUSS, np.full_like(Y, np.nan))
    with pytest.raises(BadInput, match='Y holds no pattern'):
        solver.fit(GAUSS, Y[:0])
    with pytest.raises(BadInput, match='precomputed'):
        solver.fit(KernelPCA('precomputed').fit(Y @ Y.T), Y)
    solver.fit(GAUSS, Y)
    with pytest.raises(BadInput, match='coordinates must have shape'):
        solver.solve(wanted[:, 1:])
    with pytest.raises(BadInput, match=r'coordinates holds -?inf'):
        solver.solve(wanted * np.inf)
    with pytest.raises(BadInput, match=r'start must have shape \(9, 4\)'):
        solver.solve(wanted, Y[:5])
    with pytest.raises(BadInput, match=r'start must have shape \(4,\)'):
        solver.solve(wanted, np.zeros(3))


@pytest.mark.parametrize(
    ('method', 'kernel', 'message'),
    [
        (FixedPointPreImage(), Linear(), 'serves the Gaussian kernel, not Linear'),
        (DistancePreImage(), TotalVariation(), 'cannot be had from TotalVariation'),
        (DistancePreImage(), Polynomial(2, 1.0), 'even degree'),
        (DistancePreImage(1), Gaussian(), 'n_neighbors must be a whole number'),
        (GradientPreImage(restarts=0), Gaussian(), 'restarts must be a whole number'),
        (GradientPreImage(max_steps=1.5), Gaussian(), 'max_steps must be a whole number'),
        (FixedPointPreImage(tolerance=0.0), Gaussian(), 'tolerance must be positive'),
        (LearnedPreImage(ridge=-1.0), Gaussian(), 'ridge must be zero or positive'),
        (LearnedPreImage(ridges=()), Gaussian(), 'ridges must be positive numbers'),
        (LearnedPreImage(widths=(-1.0,)), Gaussian(), 'widths must be positive numbers'),
    ],
)
def test_unfit_kernels_and_settings_are_refused(method, kernel, message):
    histograms = np.abs(Y)
    with pytest.raises(BadInput, match=message):
        method.fit(KernelPCA(kernel, 2).fit(histograms), histograms)


def test_examples_that_cannot_teach_are_refused():
    same = np.tile(Y[:1], (5, 1))
    with pytest.raises(BadInput, match='same coordinates'):
        LearnedPreImage().fit(GAUSS, same)
    with pytest.raises(BadInput, match='at least two examples'):
        DistancePreImage().fit(GAUSS, Y[:1])


def test_a_kernel_without_gradient_says_so():
    basis = KernelPCA(TotalVariation(), 2).fit(np.abs(Y))
    solver = GradientPreImage().fit(basis, np.abs(Y))
    with pytest.raises(BadInput, match='TotalVariation has no gradient'):
        solver.solve(basis.transform(np.abs(NEW)))
