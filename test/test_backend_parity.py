"""The compiled hot loops and their NumPy twin give the same numbers."""

import pickle

import numpy as np
import pytest
from conftest import in_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kde_imitation.kernels import _twin

_core = pytest.importorskip('kde_imitation.kernels._core', reason='built without a compiler')


def a_tensor(seed, sizes, ranks, outputs):
    """Arguments of a random tensor map whose values are of order one."""
    rng = np.random.default_rng(seed)
    core = rng.normal(size=(*ranks, outputs)) / np.sqrt(np.prod(ranks))
    factors = [rng.normal(size=(n, r)) / n for n, r in zip(sizes, ranks)]
    centre, half = rng.normal(size=len(sizes)), rng.uniform(0.5, 2, len(sizes))
    return core, factors, centre, half


def an_arm(module, seed=0):
    near = module.TensorMap(*a_tensor(seed, (5, 4, 6, 3), (3, 2, 4, 3), 15))
    far = module.TensorMap(*a_tensor(seed + 1, (4, 5), (3, 3), 3))
    return module.ArmMap(near, far, 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_tensor_maps_agree_to_twelve_digits(seed, sizes):
    arguments = a_tensor(seed, sizes, [max(1, n - 1) for n in sizes], 4)
    x = arguments[2] + arguments[3] * np.random.default_rng(seed).uniform(-1, 1, (9, len(sizes)))
    for jacobian in (False, True):
        ours = _core.TensorMap(*arguments).evaluate(x, jacobian)
        twin = _twin.TensorMap(*arguments).evaluate(x, jacobian)
        assert ours[0] == pytest.approx(twin[0], abs=1e-12)
        if jacobian:
            assert ours[1] == pytest.approx(twin[1], abs=1e-12)


def test_arm_maps_agree_to_twelve_digits():
    x = np.random.default_rng(2).uniform(-1, 1, (50, 7))
    ours, twin = (an_arm(module).evaluate(x, True) for module in (_core, _twin))
    assert ours[0] == pytest.approx(twin[0], abs=1e-12)
    assert ours[1] == pytest.approx(twin[1], abs=1e-12)
    assert (ours[1][:, :, 6] == 0).all()


def a_chain(module, seed=6):
    """Seven joints with random axes, and points on the base, in the middle and at the end."""
    rng = np.random.default_rng(seed)
    turns = Rotation.random(7, random_state=seed).as_matrix()
    axes = rng.normal(size=(7, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    origins, points = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    return module.ChainMap(turns, origins, axes, points, np.array([-1, 2, 2, 6], dtype=np.int32))


def test_chain_maps_agree_to_twelve_digits_and_with_scipy_rotations():
    x = np.random.default_rng(7).uniform(-3, 3, (40, 7))
    ours, twin = (a_chain(module).evaluate(x, True) for module in (_core, _twin))
    assert ours[0] == pytest.approx(twin[0], abs=1e-12)
    assert ours[1] == pytest.approx(twin[1], abs=1e-12)
    arm = a_chain(_twin)
    frame, place = np.eye(3), np.zeros(3)
    for j in range(7):
        place = place + frame @ arm.origins[j]
        frame = frame @ arm.turns[j] @ Rotation.from_rotvec(x[0, j] * arm.axes[j]).as_matrix()
    assert ours[0][0, 9:] == pytest.approx(place + frame @ arm.points[3], abs=1e-12)
    assert ours[0][:, :3] == pytest.approx(np.tile(arm.points[0], (40, 1)))


@pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])
def test_jacobians_of_all_maps_are_their_derivatives(module):
    rng = np.random.default_rng(8)
    arm, chain = an_arm(module), a_chain(module)
    projected = module.ProjectedMap(chain, rng.normal(size=(5, 12)), rng.normal(size=5))
    x, h = rng.uniform(-1, 1, (6, 7)), 1e-6
    for model in (arm, chain, projected):
        slopes = [
            (model.evaluate(x + s)[0] - model.evaluate(x - s)[0]) / (2 * h) for s in h * np.eye(7)
        ]
        assert model.evaluate(x, True)[1] == pytest.approx(np.stack(slopes, -1), abs=1e-7)


def test_projected_maps_agree_to_twelve_digits():
    rng = np.random.default_rng(9)
    A, b, x = rng.normal(size=(4, 15)), rng.normal(size=4), rng.uniform(-1, 1, (20, 7))
    ours, twin = (
        module.ProjectedMap(an_arm(module), A, b).evaluate(x, True) for module in (_core, _twin)
    )
    assert ours[0] == pytest.approx(twin[0], abs=1e-12)
    assert ours[1] == pytest.approx(twin[1], abs=1e-12)
    assert ours[0] == pytest.approx(an_arm(_twin).evaluate(x)[0] @ A.T + b)


def test_best_matches_agree():
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.8, 0.8, (30, 7))
    targets = an_arm(_twin).evaluate(x)[0] + rng.normal(0, 0.05, (30, 15))
    starts = np.clip(x + rng.normal(0, 0.1, x.shape), -1, 1)
    bounds = np.ones(7)
    pull = np.full(7, 1e-3)
    weights = rng.uniform(0, 1, 15)
    results = [
        an_arm(module).best_match(targets, weights, starts, -bounds, bounds, pull, 500, 1e-12)
        for module in (_core, _twin)
    ]
    (x1, cost1, _, done1), (x2, cost2, _, done2) = results
    assert done1.all()
    assert done2.all()
    assert cost1 == pytest.approx(cost2, abs=1e-12)
    assert x1 == pytest.approx(x2, abs=1e-6)


def test_pull_holds_the_solution_near_its_start():
    """With f linear the minimum is the ridge regression, known in closed form."""
    rng = np.random.default_rng(4)
    J, c = rng.normal(size=(3, 4)), rng.normal(size=3)
    # f(x) = J x + c on the box [-9, 9]^4 as a tensor of constants and linear terms.
    core = np.zeros((2, 2, 2, 2, 3))
    core[0, 0, 0, 0] = c
    for j in range(4):
        index = [0, 0, 0, 0]
        index[j] = 1
        core[tuple(index)] = 9 * J[:, j]
    target, start, pull = rng.normal(size=3), rng.normal(size=4), rng.uniform(0.1, 1, 4)
    weights = rng.uniform(0.5, 1.5, 3)
    expected = start + np.linalg.solve(
        J.T @ np.diag(weights) @ J + np.diag(pull), J.T @ (weights * (target - c - J @ start))
    )
    for module in (_core, _twin):
        model = module.TensorMap(core, [np.eye(2)] * 4, np.zeros(4), np.full(4, 9.0))
        x, _, _, converged = model.best_match(
            target[None], weights, start[None], np.full(4, -9.0), np.full(4, 9.0), pull, 50, 1e-12
        )
        assert converged.all()
        assert x[0] == pytest.approx(expected, abs=1e-9)


def test_two_threads_may_use_one_map():
    model = an_arm(_core)
    x = np.random.default_rng(5).uniform(-1, 1, (20_000, 7))
    expected = model.evaluate(x, True)
    for found in in_threads(lambda: [model.evaluate(x, True) for _ in range(3)]):
        for values, jacobians in found:
            assert (values == expected[0]).all()
            assert (jacobians == expected[1]).all()


@pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])
@pytest.mark.parametrize(
    ('sizes', 'ranks', 'message'),
    [((3,) * 17, (1,) * 17, '16 inputs at most'), ((65,), (2,), '64 nodes at most')],
)
def test_maps_that_are_too_large_are_refused(module, sizes, ranks, message):
    with pytest.raises(ValueError, match=message):
        module.TensorMap(*a_tensor(0, sizes, ranks, 1))


@pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])
def test_parts_that_do_not_fit_are_refused(module):
    core, factors, centre, half = a_tensor(0, (4, 4), (3, 3), 2)
    with pytest.raises(ValueError, match='does not fit'):
        module.TensorMap(core, [factors[0][:, :2], factors[1]], centre, half)
    part = module.TensorMap(core, factors, centre, half)
    with pytest.raises(ValueError, match='15 and 3 outputs'):
        module.ArmMap(part, part)
    with pytest.raises(ValueError, match='matrix does not fit'):
        module.ProjectedMap(part, np.zeros((2, 3)), np.zeros(2))


@pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])
def test_maps_survive_pickling_so_that_worker_processes_can_have_them(module):
    arm, chain = an_arm(module), a_chain(module)
    x = np.random.default_rng(10).uniform(-1, 1, (5, 7))
    for model in (arm, chain, module.ProjectedMap(arm, np.ones((2, 15)), np.zeros(2))):
        copy = pickle.loads(pickle.dumps(model))
        assert (copy.evaluate(x)[0] == model.evaluate(x)[0]).all()


@pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])
def test_an_empty_batch_gives_empty_answers(module):
    model = an_arm(module)
    values, jacobians = model.evaluate(np.empty((0, 7)), True)
    assert values.shape == (0, 15)
    assert jacobians.shape == (0, 15, 7)
