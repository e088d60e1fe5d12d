"""Rank-constrained regression against closed forms, other optimisers and finite differences."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kde_imitation.errors import BadInput
from kde_imitation.learning import MRS
from kde_imitation.learning.mrs_problem import Anchor, Problem, singular_form
from kde_imitation.learning.stiefel import random_point


def make(seed, n=60, p=7, o=5, rank=None, noise=0.5):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, p))
    F = random.normal(size=(p, o))
    if rank:
        F = random.normal(size=(p, rank)) @ random.normal(size=(rank, o))
    return X, X @ F + noise * random.normal(size=(n, o)) + 3.0


def reduced_rank_loss(X, Y, rank):
    """Least squares, its predictions projected on their leading singular vectors (2.3.4)."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    fitted = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    directions = np.linalg.svd(fitted)[2][:rank]
    return np.sum((Y - fitted @ directions.T @ directions) ** 2)


@parametrize_with_checks([MRS(), MRS(1, 0.1), MRS(1, loss='l1', starts='pls', max_steps=5)])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_descent_reaches_the_closed_form_on_two_hundred_problems():
    random = np.random.default_rng(0)
    for seed in range(200):
        n, p, o = random.integers(30, 80), random.integers(2, 10), random.integers(2, 8)
        rank = int(random.integers(1, min(p, o) + 1))
        X, Y = make(seed, n, p, o)
        start = ('pls', 'random')[seed % 2]
        model = MRS(rank, starts=start, n_random=1, random_state=seed, max_steps=2000).fit(X, Y)
        best = reduced_rank_loss(X, Y, rank)
        assert model.loss_ == pytest.approx(best, rel=1e-6), f'problem {seed} from {start}'
        assert model.start_.startswith(start)
        assert np.abs(model.V_.T @ model.V_ - np.eye(rank)).max() < 1e-10
        assert np.abs(model.W_.T @ model.W_ - np.eye(rank)).max() < 1e-10


@pytest.mark.parametrize('rank', [1, 3, 5])
def test_the_default_start_is_the_closed_form(rank):
    X, Y = make(1)
    model = MRS(rank).fit(X, Y)
    assert model.loss_ == pytest.approx(reduced_rank_loss(X, Y, rank), rel=1e-12)
    assert model.loss_ == pytest.approx(np.sum((Y - model.predict(X)) ** 2), rel=1e-9)
    assert model.start_ == 'closed'
    assert model.steps_ == 0


def test_without_a_rank_constraint_it_is_ridge_regression():
    X, Y = make(2)
    model, peer = MRS(5, ridge=7.0).fit(X, Y), Ridge(7.0).fit(X, Y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-10)


def test_with_rank_and_ridge_it_agrees_with_pymanopt():
    pymanopt = pytest.importorskip('pymanopt')
    X, Y = make(3, n=40, p=6, o=4)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    rank, ridge = 2, 20.0
    manifold = pymanopt.manifolds.Product(
        [
            pymanopt.manifolds.Stiefel(4, rank),
            pymanopt.manifolds.Euclidean(rank),
            pymanopt.manifolds.Stiefel(6, rank),
        ]
    )

    @pymanopt.function.numpy(manifold)
    def cost(V, S, W):
        return np.sum((Yc - (Xc @ W * S) @ V.T) ** 2) + ridge * S @ S

    @pymanopt.function.numpy(manifold)
    def slope(V, S, W):
        E = Yc - (Xc @ W * S) @ V.T
        return (
            -2 * E.T @ Xc @ W * S,
            -2 * np.diag(V.T @ E.T @ Xc @ W) + 2 * ridge * S,
            -2 * Xc.T @ E @ V * S,
        )

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=slope)
    solver = pymanopt.optimizers.ConjugateGradient(
        verbosity=0, max_iterations=2000, min_gradient_norm=1e-7, min_step_size=1e-14
    )
    random = np.random.default_rng(0)
    best = np.inf
    for _ in range(3):
        start = (random_point(4, 2, random), np.ones(2), random_point(6, 2, random))
        best = min(best, solver.run(problem, initial_point=start).cost)
    for starts in ('auto', 'pls', 'random'):
        model = MRS(rank, ridge, starts=starts, random_state=0).fit(X, Y)
        assert model.loss_ == pytest.approx(best, rel=1e-7), starts


def anchored_problem(seed):
    X, Y = make(seed, n=25, p=6, o=4)
    random = np.random.default_rng(seed)
    anchor = Anchor(
        random_point(4, 3, random), np.array([3.0, 2, 1]), random_point(6, 3, random), 5
    )
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    problem = Problem(X, Y, 3, 2.0, anchor)
    V, W = random_point(4, 3, random), random_point(6, 3, random)
    return X, Y, anchor, problem, (V, random.normal(size=3), W, random.normal(size=4))


def test_losses_are_what_they_are_written_to_be():
    X, Y, a, problem, (V, S, W, b) = anchored_problem(0)
    F = V @ np.diag(S) @ (problem.basis @ W).T
    F_prev = a.V @ np.diag(a.S) @ a.W.T
    penalty = 2.0 * np.sum(S**2) + 5 * np.sum((F - F_prev) ** 2)
    E = Y - X @ F.T
    assert problem.squared_loss((V, S, W))[0] == pytest.approx(np.sum(E**2) + penalty)
    E = E - b
    value = problem.absolute_loss((V, S, W, b), 0.7)[0]
    assert value == pytest.approx(np.sum(E * np.tanh(0.7 * E)) + penalty)
    sharp = problem.absolute_loss((V, S, W, b), 1e9)[0]
    assert sharp == pytest.approx(np.sum(np.abs(E)) + penalty)


@pytest.mark.parametrize('kind', ['squared', 'absolute'])
def test_gradients_agree_with_finite_differences(kind):
    """Along geodesics, as (35) leaves out a part of ∂/∂V that no step on the manifold sees."""
    from kde_imitation.learning.stiefel import Geodesic, random_tangent

    _, _, _, problem, point = anchored_problem(1)
    random = np.random.default_rng(5)

    def loss(p):
        return problem.squared_loss(p[:3]) if kind == 'squared' else problem.absolute_loss(p, 0.7)

    free = loss(point)[1]
    for i, G in enumerate(free):
        if i in (0, 2):
            D = random_tangent(point[i], 1.0, random)
            move = Geodesic(point[i], D).at
        else:
            D = random.normal(size=point[i].shape)

            def move(t, i=i, D=D):
                return point[i] + t * D

        h = 1e-5
        values = [loss((*point[:i], move(t), *point[i + 1 :]))[0] for t in (h, -h)]
        wanted = (values[0] - values[1]) / (2 * h)
        assert np.sum(G * D) == pytest.approx(wanted, rel=1e-6), f'factor {i}'


def test_the_absolute_loss_meets_linear_programming():
    """Without a rank constraint every output is a least-absolute-deviation problem."""
    X, Y = make(4, n=40, p=3, o=3)
    Y[5, 1] += 500.0
    best = 0.0
    for y in Y.T:
        n = len(y)
        A = np.hstack([X, np.ones((n, 1))])
        rows = np.block([[A, -np.eye(n)], [-A, -np.eye(n)]])
        costs = np.concatenate([np.zeros(4), np.ones(n)])
        bounds = [(None, None)] * 4 + [(0, None)] * n
        best += linprog(costs, rows, np.concatenate([y, -y]), bounds=bounds).fun
    model = MRS(3, loss='l1', random_state=0).fit(X, Y)
    assert model.loss_ == pytest.approx(np.abs(Y - model.predict(X)).sum())
    assert best <= model.loss_ * (1 + 1e-9)
    assert model.loss_ <= best * (1 + 1e-4)


def test_one_wild_sample_spoils_the_squared_loss_but_not_the_absolute():
    X, Y = make(5, n=150, rank=2, noise=0.1)
    clean = MRS(2).fit(X, Y).predict(X)
    Y[3, 0] = 1000.0
    absolute = MRS(2, loss='l1', random_state=0).fit(X, Y)
    squared = MRS(2).fit(X, Y)
    moved = [np.abs(m.predict(X) - clean).mean() for m in (absolute, squared)]
    assert moved[0] < 0.05
    assert moved[1] > 1.0
    assert absolute.start_ in absolute.starts_
    assert absolute.loss_ == min(absolute.starts_.values())
    assert set(absolute.starts_) == {'closed', 'pls', 'random 1', 'random 2'}


def least_by_factors(loss, p, o, rank, seed):
    """Minimise over F = A Bᵀ with a general optimiser, from several starts."""
    random = np.random.default_rng(seed)

    def unpack(v):
        return v[: o * rank].reshape(o, rank) @ v[o * rank :].reshape(rank, p)

    return min(
        minimize(lambda v: loss(unpack(v)), random.normal(size=rank * (p + o)), tol=1e-10).fun
        for _ in range(3)
    )


def test_the_next_block_is_met_while_staying_near_the_last_map():
    X, Y = make(6, n=60, p=4, o=3)
    model = MRS(2, ridge=1.0, gamma=8.0).fit(X[:40], Y[:40])
    before = model.coef_
    model.partial_fit(X[40:], Y[40:])
    # The means are those of both blocks.
    Xc, Yc = X[40:] - X.mean(axis=0), Y[40:] - Y.mean(axis=0)

    def loss(F):
        fit = np.sum((Yc - Xc @ F.T) ** 2)
        return fit + np.sum(F**2) + 8.0 * np.sum((F - before) ** 2)

    assert model.loss_ == pytest.approx(loss(model.coef_))
    assert model.loss_ == pytest.approx(least_by_factors(loss, 4, 3, 2, 0), rel=1e-7)
    again = MRS(2, ridge=1.0, gamma=8.0, starts='random', random_state=1, max_steps=2000)
    again.fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    assert again.loss_ == pytest.approx(model.loss_, rel=1e-6)


def test_a_heavy_anchor_does_not_move_and_none_forgets():
    X, Y = make(7, n=80)
    heavy = MRS(2, gamma=1e12, fit_intercept=False).fit(X[:40], Y[:40])
    before = heavy.coef_
    np.testing.assert_allclose(heavy.partial_fit(X[40:], Y[40:]).coef_, before, atol=1e-7)
    free = MRS(2, gamma=0.0, fit_intercept=False).fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    alone = MRS(2, fit_intercept=False).fit(X[40:], Y[40:])
    np.testing.assert_allclose(free.coef_, alone.coef_, atol=1e-10)


def test_one_sample_changes_nothing_across_its_direction():
    """Inputs that the block does not span keep the map they had, if the rank allows it."""
    X, Y = make(8, n=40, p=6, o=3)
    model = MRS(3, gamma=1.0, fit_intercept=False).fit(X, Y)
    before, x = model.coef_, np.arange(6.0)
    model.partial_fit(x[None], np.array([[5.0, -5.0, 9.0]]))
    across = np.eye(6) - np.outer(x, x) / (x @ x)
    np.testing.assert_allclose(model.coef_ @ across, before @ across, atol=1e-10)
    assert np.abs((model.coef_ - before) @ x).max() > 0.1


def test_blocks_with_a_growing_anchor_settle_near_the_truth():
    random = np.random.default_rng(9)
    F = random.normal(size=(3, 2)) @ random.normal(size=(2, 6))
    errors = {}
    for growth in (0.0, 1.0):
        model = MRS(2, gamma=10.0, gamma_growth=growth)
        late = []
        for block in range(60):
            X = random.normal(size=(15, 6))
            model.partial_fit(X, X @ F.T + 0.5 * random.normal(size=(15, 3)))
            if block >= 40:
                late.append(np.sum((model.coef_ - F) ** 2))
        errors[growth] = np.mean(late)
    assert errors[1.0] < 0.5 * errors[0.0] < 0.5


def test_the_absolute_loss_learns_from_blocks_too():
    X, Y = make(10, n=80, rank=2, noise=0.1)
    Y[45, 0] = 300.0
    model = MRS(2, loss='l1', starts='closed', gamma=1.0).fit(X[:40], Y[:40])
    model.partial_fit(X[40:], Y[40:])
    clean = np.arange(80) != 45
    # The running mean has taken the wild sample in, and the offset has to undo it.
    assert np.abs(model.predict(X[clean]) - Y[clean]).mean() < 0.2


def test_cross_validation_finds_the_rank_and_its_errors_are_those_of_single_fits():
    from sklearn.model_selection import KFold, cross_val_predict

    X, Y = make(11, n=100, p=8, o=6, rank=3, noise=0.3)
    model = MRS('cv', ridge=0.5).fit(X, Y)
    assert model.rank_ == 3
    folds = KFold(5, shuffle=True, random_state=0)
    for rank, error in model.cv_errors_.items():
        found = cross_val_predict(MRS(rank, ridge=0.5), X, Y, cv=folds)
        assert error == pytest.approx(np.mean((found - Y) ** 2), rel=1e-9)
    assert MRS('cv', loss='l1', cv=3, max_steps=20).fit(X[:40], Y[:40]).rank_ == 3


def test_thousands_of_inputs_are_handled_in_the_span_of_the_samples():
    X, Y = make(12, n=50, p=4000, o=6)
    model = MRS(6, ridge=3.0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Ridge(3.0).fit(X, Y).predict(X), atol=1e-8)
    steps = MRS(3, ridge=3.0, starts='pls', max_steps=300).fit(X, Y)
    assert steps.loss_ == pytest.approx(MRS(3, ridge=3.0).fit(X, Y).loss_, rel=1e-6)
    assert steps.W_.shape == (4000, 3)


@pytest.mark.parametrize('loss', ['l1', 'l2'])
def test_a_rank_above_that_of_the_data_leaves_scales_of_zero(loss):
    random = np.random.default_rng(13)
    X = random.normal(size=(30, 2)) @ random.normal(size=(2, 6))
    Y = X @ random.normal(size=(6, 5))
    model = MRS(4, loss=loss, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), Y, atol=1e-3)
    assert np.abs(model.V_.T @ model.V_ - np.eye(4)).max() < 1e-10
    assert np.abs(model.W_.T @ model.W_ - np.eye(4)).max() < 1e-10
    assert (model.S_[:-1] >= model.S_[1:]).all()


def test_constant_inputs_and_outputs_are_borne():
    X, Y = make(14)
    X[:, 2], Y[:, 1] = 4.0, -1.0
    model = MRS(3).fit(X, Y)
    np.testing.assert_allclose(model.predict(X)[:, 1], -1.0, atol=1e-12)
    assert np.isfinite(MRS(1).fit(np.ones((5, 2)), Y[:5]).predict(np.ones((1, 2)))).all()


def test_without_an_intercept_the_origin_maps_to_the_origin():
    X, Y = make(15)
    for loss in ('l2', 'l1'):
        model = MRS(2, loss=loss, fit_intercept=False, max_steps=20, random_state=0).fit(X, Y)
        np.testing.assert_array_equal(model.predict(np.zeros((1, 7))), 0.0)


def test_one_output_may_be_a_vector():
    X, Y = make(16)
    model = MRS(1).fit(X, Y[:, 0])
    assert model.predict(X).shape == (60,)
    np.testing.assert_allclose(model.coef_, Ridge(0.0).fit(X, Y[:, 0]).coef_, atol=1e-9)


def test_random_starts_repeat_with_their_state():
    X, Y = make(17)
    one, two = (MRS(2, starts='random', random_state=3, max_steps=4).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_it_is_cloned_searched_and_piped():
    X, Y = make(18, rank=2)
    pipe = make_pipeline(StandardScaler(), MRS(1))
    search = GridSearchCV(pipe, {'mrs__rank': [1, 2, 5], 'mrs__ridge': [0.0, 1e4]}, cv=3)
    assert search.fit(X, Y).best_params_['mrs__rank'] >= 2
    assert search.best_params_['mrs__ridge'] == 0.0
    assert clone(MRS(3, 0.5, alphas=(1.0, 2.0))).alphas == (1.0, 2.0)


def test_a_product_of_factors_is_brought_into_singular_form():
    random = np.random.default_rng(0)
    A, s, B = random.normal(size=(6, 3)), random.normal(size=3), random.normal(size=(8, 3))
    V, S, W = singular_form(A, s, B)
    np.testing.assert_allclose((V * S) @ W.T, (A * s) @ B.T, atol=1e-12)
    np.testing.assert_allclose(S, np.linalg.svd((A * s) @ B.T)[1][:3])


@pytest.mark.parametrize(
    ('parameters', 'message'),
    [
        ({'rank': 6}, 'at most rank 5; choose that or less'),
        ({'rank': 0}, 'whole number'),
        ({'rank': 1.5}, 'whole number'),
        ({'rank': 'many'}, "or 'cv'"),
        ({'ridge': -1.0}, 'ridge is -1.0'),
        ({'gamma': np.nan}, 'gamma is nan'),
        ({'loss': 'huber'}, "'l2' or 'l1'"),
        ({'starts': 'zero'}, "choose 'auto'"),
        ({'starts': ()}, "choose 'auto'"),
        ({'alphas': (1.0, 0.5)}, 'must be positive and grow'),
    ],
)
def test_parameters_that_cannot_be_used_are_named(parameters, message):
    X, Y = make(0)
    with pytest.raises(BadInput, match=message):
        MRS(**{'rank': 2, **parameters}).fit(X, Y)


def test_bad_data_are_refused():
    X, Y = make(0)
    with pytest.raises(ValueError, match='NaN'):
        MRS(1).fit(X, np.where(Y > 3, np.nan, Y))
    with pytest.raises(ValueError, match='inconsistent numbers of samples'):
        MRS(1).fit(X, Y[:-1])
    model = MRS(1).fit(X, Y)
    with pytest.raises(ValueError, match='7 features'):
        model.predict(X[:, :3])
    with pytest.raises(BadInput, match='the first block had'):
        model.partial_fit(X, Y[:, :2])
