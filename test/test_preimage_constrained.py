"""Constrained pre-images against SciPy, the kernel's own expansion and their promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import check_grad, least_squares
from sklearn.base import clone

from kde_imitation.errors import BadInput
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.kernels.vectors import Gaussian
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.chain_map import chain_map
from kde_imitation.kinematics.description import urdf
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.learning import ConstrainedPreImage, GradientPreImage, KernelPCA

LOWER, UPPER = pa10.LOWER, pa10.UPPER
RNG = np.random.default_rng(4)
SHOWN = 0.7 * RNG.uniform(LOWER, UPPER, (50, 7))
GOALS = 0.8 * RNG.uniform(LOWER, UPPER, (40, 7))
STARTS = np.clip(GOALS + RNG.normal(0, 0.2, GOALS.shape), LOWER, UPPER)
ARM = LearnedArm.of_pa10()
CHAIN = Chain.from_urdf(urdf())
MOVING = range(2, 7)

MODELS = {
    'learned': (ARM, ARM.map),
    'exact': (CHAIN, chain_map(CHAIN, MOVING)),
}


def basis_of(kinematics, components=0.99, weights=None):
    return KernelPCA(PoseKernel(kinematics, weights), components).fit(SHOWN)


def fitted(model='learned', components=0.99, **options):
    kinematics, points = MODELS[model]
    basis = basis_of(kinematics, components)
    return basis, ConstrainedPreImage(points, LOWER, UPPER, **options).fit(basis, SHOWN)


def residuals(basis, pull, wanted, start):
    """Write equation (7) with the kernel expansion, and its Jacobian, for SciPy."""
    kernel, expansion = basis.expansion_.kernel, basis.expansion_
    root = np.sqrt(pull)

    def values(q):
        return np.concatenate([basis.transform(q[None])[0] - wanted, root * (q - start)])

    def slopes(q):
        inner = expansion.coefficients.T @ kernel.gradient(q, expansion.points)
        return np.concatenate([inner, root * np.eye(7)])

    return values, slopes


@pytest.mark.parametrize('model', MODELS)
@pytest.mark.parametrize('components', [4, 0.99, None])
def test_one_small_matrix_gives_the_coordinates_of_the_expansion(model, components):
    basis, solver = fitted(model, components)
    values = solver.map.evaluate(GOALS)[0]
    folded = values @ solver.matrix_.T + solver.offset_
    assert solver.matrix_.shape == (basis.n_components_, 15)
    assert folded == pytest.approx(basis.transform(GOALS), abs=1e-9)


@pytest.mark.parametrize('model', MODELS)
@pytest.mark.parametrize('pull', [1e-3, 1e-1])
def test_it_finds_the_minimum_that_scipy_finds(model, pull):
    basis, solver = fitted(model, pull=pull, tolerance=1e-12)
    wanted = basis.transform(GOALS)
    found = solver.solve(wanted, STARTS)
    assert found.converged.all()
    costs, peers = [], []
    for x, target, start in zip(found.x[:15], wanted, STARTS):
        values, slopes = residuals(basis, pull, target, start)
        peer = least_squares(
            values,
            np.clip(start, LOWER + 1e-9, UPPER - 1e-9),
            slopes,
            bounds=(LOWER, UPPER),
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
        )
        costs.append((values(x) ** 2).sum())
        peers.append((values(peer.x) ** 2).sum())
    assert costs == pytest.approx(peers, abs=1e-9)


@pytest.mark.parametrize('model', MODELS)
def test_reachable_points_are_met_without_pull(model):
    basis, solver = fitted(model, components=None)
    found = solver.solve(basis.transform(GOALS), STARTS)
    assert np.median(found.distance) < 1e-5
    assert found.distance[found.distance > 1e-3].size <= 2


def test_distance_is_that_in_feature_space():
    basis, solver = fitted(pull=1e-2)
    wanted = basis.transform(GOALS)
    found = solver.solve(wanted, STARTS)
    inside = np.linalg.norm(basis.transform(found.x) - wanted, axis=1)
    assert found.distance == pytest.approx(np.hypot(inside, basis.residual(found.x)), abs=1e-7)


def test_arrays_of_any_kind_give_the_same_answer():
    basis, solver = fitted(pull=1e-2)
    wanted = basis.transform(GOALS)
    expected = solver.solve(wanted, STARTS)
    for goals, starts in (
        (wanted.tolist(), STARTS.tolist()),
        (np.asfortranarray(wanted), np.asfortranarray(STARTS)),
        (np.repeat(wanted, 2, axis=0)[::2], STARTS),
    ):
        found = solver.solve(goals, starts)
        assert (found.x == expected.x).all()
        assert (found.distance == expected.distance).all()
    narrow = solver.solve(wanted, STARTS.astype(np.float32))
    assert narrow.x == pytest.approx(expected.x, abs=1e-4)


def test_the_search_without_limits_serves_the_pose_kernel_too():
    basis = basis_of(ARM, None)
    wanted = basis.transform(GOALS[:5])
    near = GOALS[:5] + 0.02
    found = GradientPreImage(1, tolerance=1e-9).fit(basis, SHOWN).solve(wanted, near)
    assert found.distance.max() < 1e-5
    error = check_grad(
        lambda q: GradientPreImage().fit(basis, SHOWN)._objective(q, basis.weights(wanted)[0])[0],
        lambda q: GradientPreImage().fit(basis, SHOWN)._objective(q, basis.weights(wanted)[0])[1],
        STARTS[1],
    )
    assert error < 1e-5


@settings(max_examples=150, deadline=None)
@given(
    arrays(float, (2, 4), elements=st.floats(-1e3, 1e3)),
    arrays(float, (2, 7), elements=st.floats(-50, 50)),
    st.floats(0, 10),
    st.integers(1, 30),
)
def test_the_answer_is_always_inside_the_limits(wanted, start, pull, steps):
    basis = BASES[4]
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER, pull, max_steps=steps)
    found = solver.fit(basis, SHOWN).solve(wanted, start)
    assert (found.x >= LOWER).all()
    assert (found.x <= UPPER).all()
    assert (found.steps <= steps).all()
    assert np.isfinite(found.distance).all()


BASES = {4: basis_of(ARM, 4)}


@settings(max_examples=60, deadline=None)
@given(arrays(float, (1, 4), elements=st.floats(-3, 3)), st.floats(0, 1))
def test_a_search_never_ends_worse_than_it_began(wanted, pull):
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER, pull).fit(BASES[4], SHOWN)
    found = solver.solve(wanted, STARTS[0])
    places = BASES[4].transform(np.stack([STARTS[0], found.x[0]]))
    before, after = ((places - wanted) ** 2).sum(axis=1)
    assert after + pull * ((found.x[0] - STARTS[0]) ** 2).sum() <= before + 1e-12


def test_the_joint_that_moves_no_point_stays_where_it_is():
    basis, solver = fitted()
    found = solver.solve(basis.transform(GOALS), STARTS)
    assert found.x[:, 6] == pytest.approx(STARTS[:, 6], abs=1e-12)


def test_a_stronger_pull_moves_less():
    wanted = fitted()[0].transform(GOALS)
    moves = [
        np.linalg.norm(fitted(pull=pull)[1].solve(wanted, STARTS).x - STARTS, axis=1)
        for pull in (1e-3, 1e-1, 1e3)
    ]
    assert (moves[1] <= moves[0] + 1e-6).all()
    assert (moves[2] <= moves[1] + 1e-6).all()
    assert moves[2].max() < 1e-2


def test_each_joint_may_have_a_pull_of_its_own():
    basis, solver = fitted(pull=[1e6, 0, 0, 0, 0, 0, 0])
    found = solver.solve(basis.transform(GOALS), STARTS)
    assert found.x[:, 0] == pytest.approx(STARTS[:, 0], abs=1e-4)
    assert np.abs(found.x[:, 1:] - STARTS[:, 1:]).max() > 0.1


def test_a_coordinate_without_weight_does_not_count():
    basis, solver = fitted(components=4, weights=[1.0, 1.0, 1.0, 0.0])
    wanted = basis.transform(GOALS[:5])
    moved = wanted + np.array([0, 0, 0, 5.0])
    assert solver.solve(moved, STARTS[:5]).x == pytest.approx(solver.solve(wanted, STARTS[:5]).x)


def test_a_start_outside_of_the_limits_is_moved_to_them():
    basis, solver = fitted(pull=1e-2)
    wanted = basis.transform(GOALS[:1])
    outside = solver.solve(wanted, 2 * UPPER)
    assert outside.x == pytest.approx(solver.solve(wanted, UPPER).x)


def test_without_a_start_it_begins_at_the_nearest_example():
    basis, solver = fitted(pull=1e-3)
    wanted = basis.transform(GOALS)
    near = SHOWN[np.linalg.norm(basis.transform(SHOWN) - wanted[:, None], axis=2).argmin(axis=1)]
    assert (solver.solve(wanted).x == solver.solve(wanted, near).x).all()


def test_weights_of_the_pose_kernel_are_folded_in():
    basis = basis_of(ARM, None, [0, 0, 0, 0, 0.25, 0, 4.0])
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER).fit(basis, SHOWN)
    folded = ARM.map.evaluate(GOALS)[0] @ solver.matrix_.T + solver.offset_
    assert folded == pytest.approx(basis.transform(GOALS), abs=1e-9)
    assert (solver.matrix_[:, :6] == 0).all()


def test_the_arm_may_be_learned_and_the_kernel_exact():
    basis = basis_of(pa10)
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER, tolerance=1e-9).fit(basis, SHOWN)
    found = solver.solve(basis.transform(GOALS), STARTS)
    gap = np.linalg.norm(basis.transform(found.x) - basis.transform(GOALS), axis=1)
    assert np.median(gap) < 5e-3


def test_repeated_solving_leads_to_the_goal_in_small_steps():
    basis, solver = fitted(pull=0.1)
    goal = basis.transform(GOALS[:1])[0]
    way = solver.approach(goal, STARTS[0], max_postures=400, least_move=1e-5)
    gaps = np.linalg.norm(basis.transform(way) - goal, axis=1)
    assert (way[0] == STARTS[0]).all()
    assert 5 < len(way) < 400
    assert (np.diff(gaps) < 1e-9).all()
    assert gaps[-1] < 0.05 * gaps[0]
    alone = fitted(pull=0.1)[1].solve(goal[None], STARTS[0]).x[0]
    assert way[1] == pytest.approx(alone)
    assert len(solver.approach(goal, STARTS[0], max_postures=3)) == 3


def test_a_clone_shares_the_map_and_is_not_fitted():
    _, solver = fitted(pull=0.5)
    copy = clone(solver)
    assert copy.map is solver.map
    assert copy.pull == 0.5
    assert not hasattr(copy, 'projected_')
    assert clone(solver.set_params(pull=0.25)).pull == 0.25


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'lower': LOWER[:6]}, r'lower must have shape \(7,\)'),
        ({'upper': UPPER * np.nan}, 'upper holds nan'),
        ({'lower': UPPER, 'upper': LOWER}, 'limits of joint 0 are empty'),
        ({'pull': -1.0}, 'pull is .* no value may be negative'),
        ({'pull': np.nan}, 'pull holds nan'),
        ({'pull': [1.0, 2.0]}, r'pull must have shape \(7,\)'),
        ({'weights': [1.0]}, r'weights must have shape \(4,\)'),
        ({'weights': [1, 1, 1, -1]}, 'weights is .* no value may be negative'),
        ({'max_steps': 0}, 'max_steps must be at least 1'),
        ({'tolerance': 0.0}, 'tolerance must be positive'),
        ({'map': ARM.near.map}, 'takes 4 joints, but the postures of the basis have 7'),
        ({'map': chain_map(CHAIN, [5, 6])}, r'the pose kernel compares points \[2, 3, 4, 5, 6\]'),
    ],
)
def test_wrong_settings_are_refused(change, message):
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER).set_params(**change)
    with pytest.raises(BadInput, match=message):
        solver.fit(BASES[4], SHOWN)


def test_other_kernels_are_refused():
    basis = KernelPCA(Gaussian(0.1)).fit(SHOWN)
    with pytest.raises(BadInput, match='need the pose kernel'):
        ConstrainedPreImage(ARM.map, LOWER, UPPER).fit(basis, SHOWN)


def test_wrong_calls_are_refused():
    solver = ConstrainedPreImage(ARM.map, LOWER, UPPER)
    with pytest.raises(BadInput, match='not fitted'):
        solver.solve(np.zeros((1, 4)))
    with pytest.raises(BadInput, match='not fitted'):
        solver.approach(np.zeros(4), STARTS[0])
    solver.fit(BASES[4], SHOWN)
    with pytest.raises(BadInput, match='coordinates holds nan'):
        solver.solve(np.full((1, 4), np.nan))
    for bad in (np.nan, np.inf, -np.inf):
        start = STARTS[:1].copy()
        start[0, 3] = bad
        with pytest.raises(BadInput, match=f'start holds {bad}'):
            solver.solve(np.zeros((1, 4)), start)
        with pytest.raises(BadInput, match=f'coordinates holds {bad}'):
            solver.solve(np.full((1, 4), bad), STARTS[:1])
    with pytest.raises(BadInput, match=r'start must have shape \(2, 7\)'):
        solver.solve(np.zeros((2, 4)), STARTS[:3])
    with pytest.raises(BadInput, match=r'start must have shape \(7,\)'):
        solver.solve(np.zeros((1, 4)), np.zeros(6))
    with pytest.raises(BadInput, match='one goal'):
        solver.approach(np.zeros((2, 4)), STARTS[0])
