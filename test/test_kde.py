"""Kernel dependency estimation as a whole, against ordinary regression and its own parts."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kde_imitation.errors import BadInput
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.kernels.vectors import Gaussian, Linear
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.learning import (
    MRS,
    ConstrainedPreImage,
    KernelDependencyEstimator,
    choose_landmarks,
)


@parametrize_with_checks([KernelDependencyEstimator()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture
def curve():
    """Points of a line and a curve above it, with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 1))
    Y = np.column_stack([np.sin(2 * X), np.cos(X), X**2])
    return X, Y + rng.normal(0, 0.01, Y.shape)


def test_with_linear_kernels_and_full_rank_it_is_least_squares():
    rng = np.random.default_rng(1)
    X, B = rng.normal(size=(60, 5)), rng.normal(size=(5, 3))
    Y = X @ B + 0.1 * rng.normal(size=(60, 3)) + 2.0
    model = KernelDependencyEstimator(
        regressor=MRS(rank=3), input_components=None, output_components=None
    ).fit(X, Y)
    expected = LinearRegression().fit(X, Y).predict(X[:7] + 1)
    assert model.predict(X[:7] + 1) == pytest.approx(expected, abs=1e-6)


def test_rank_is_the_number_of_columns_of_the_folded_expansion(curve):
    model = KernelDependencyEstimator(
        Gaussian(0.5), regressor=MRS(rank=2), output_components=None
    ).fit(*curve)
    assert model.embed(curve[0]).shape == (120, 2)
    assert model.lift_ @ model.lift_.T == pytest.approx(np.eye(2), abs=1e-10)
    unfolded = model.regressor_.predict(model.input_pca_.transform(curve[0]))
    assert model.coordinates(curve[0]) == pytest.approx(unfolded, abs=1e-8)


def test_any_linear_regressor_serves_and_others_are_refused(curve):
    X, Y = curve
    model = KernelDependencyEstimator(Gaussian(0.5), regressor=Ridge(1e-6), input_components=None)
    assert model.fit(X, Y).score(X, Y) > 0.99
    model.set_params(regressor=RandomForestRegressor(3, random_state=0))
    with pytest.raises(BadInput, match='RandomForestRegressor is not linear'):
        model.fit(X, Y)


def test_unpaired_inputs_widen_what_is_known(curve):
    X, Y = curve
    far = np.linspace(4, 6, 40)[:, None]
    model = KernelDependencyEstimator(Gaussian(0.5), regressor=Ridge(1e-6), input_components=0.999)
    alone = clone(model).fit(X, Y).novelty(far)
    together = clone(model).fit(X, Y, X_unpaired=far)
    assert together.novelty(far).max() < 0.2 * alone.min()
    assert len(together.expansion_) == 160
    with pytest.raises(BadInput, match='X_unpaired has 2 features, but X has 1'):
        model.fit(X, Y, X_unpaired=np.zeros((4, 2)))


def test_landmarks_come_near_the_fit_with_all_inputs():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (600, 2))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X.sum(axis=1))])
    model = KernelDependencyEstimator(
        Gaussian(0.5), regressor=Ridge(1e-8), input_components=0.99999
    ).fit(X, Y)
    few = clone(model).set_params(landmarks=60).fit(X, Y)
    assert len(few.expansion_) == 60
    test = rng.uniform(-1.8, 1.8, (100, 2))
    assert few.predict(test) == pytest.approx(model.predict(test), abs=0.02)
    with pytest.raises(BadInput, match='landmarks must be at least 2'):
        clone(model).set_params(landmarks=1).fit(X, Y)


def test_landmarks_are_the_pivots_of_cholesky():
    rng = np.random.default_rng(4)
    X = np.vstack([rng.normal(size=(30, 3)), np.zeros((5, 3))])
    kernel = Gaussian(0.3)
    chosen = choose_landmarks(kernel, X, 12)
    assert len(set(chosen)) == 12
    gram = kernel(X)
    for step in range(1, 12):
        known = chosen[:step]
        explained = gram[:, known] @ np.linalg.solve(gram[np.ix_(known, known)], gram[known])
        left = np.diag(gram - explained)
        assert left[chosen[step]] == pytest.approx(left.max(), abs=1e-9)
    assert len(choose_landmarks(Linear(), X, 20)) == 3
    with pytest.raises(BadInput, match='at least 1'):
        choose_landmarks(kernel, X, 0)


def test_novelty_grows_away_from_the_training_inputs(curve):
    model = KernelDependencyEstimator(Gaussian(0.5), input_components=0.999).fit(*curve)
    inside, outside = model.novelty([[0.3]])[0], model.novelty([[9.0]])[0]
    assert inside < 0.1 < 0.9 < outside


def test_compression_keeps_the_embedding_within_the_error_it_states(curve):
    X, Y = curve
    model = KernelDependencyEstimator(Gaussian(0.5), regressor=MRS(rank=2)).fit(X, Y)
    full = model.embed(X)
    path = model.compress(n_points=8)
    assert len(model.expansion_) == 8
    assert path.at(n_points=8, on=X)(X) == pytest.approx(model.embed(X))
    spread = np.linalg.norm(full - full.mean(axis=0))
    assert np.linalg.norm(model.embed(X) - full) < 0.05 * spread
    model.compress(max_error=1e-6)
    assert len(model.expansion_) > 8
    assert model.embed(X) == pytest.approx(full, abs=1e-4)
    for wrong in ({}, {'n_points': 5, 'max_error': 0.1}):
        with pytest.raises(BadInput, match='n_points or max_error'):
            model.compress(**wrong)


def test_a_single_output_stays_flat():
    X = np.linspace(-2, 2, 50)[:, None]
    model = KernelDependencyEstimator(Gaussian(1.0), input_components=0.999)
    predicted = model.fit(X, np.sin(X[:, 0])).predict(X)
    assert predicted.shape == (50,)
    assert predicted == pytest.approx(np.sin(X[:, 0]), abs=0.01)


def test_grid_search_pipeline_and_joblib_work_on_it(curve):
    X, Y = curve
    model = KernelDependencyEstimator(Gaussian(), regressor=Ridge(1e-4), input_components=0.999)
    grid = {'input_kernel__gamma': [1e-3, 0.5], 'regressor__alpha': [1e-4, 10.0]}
    with joblib.parallel_config('threading'):
        search = GridSearchCV(model, grid, cv=4, n_jobs=2).fit(X, Y)
    assert search.best_params_ == {'input_kernel__gamma': 0.5, 'regressor__alpha': 1e-4}
    piped = make_pipeline(StandardScaler(), search.best_estimator_).fit(X, Y)
    assert piped.score(X, Y) > 0.99


@pytest.fixture(scope='module')
def imitation():
    """Noisy points of the arm as inputs, the pose kernel, and the constrained pre-image."""
    rng = np.random.default_rng(2)
    arm = LearnedArm.of_pa10()
    q = 0.5 * rng.uniform(arm.lower, arm.upper, (400, 7))
    q[:, 4:] = 0.0
    X = pa10.link_positions(q)[:, [2, 4, 6]].reshape(len(q), 9)
    X += rng.normal(0, 0.005, X.shape)
    model = KernelDependencyEstimator(
        Gaussian(1.0),
        PoseKernel(arm),
        regressor=Ridge(1e-4),
        preimage=ConstrainedPreImage(arm.map, arm.lower, arm.upper, pull=1e-6),
        input_components=0.9999,
        output_components=0.9999,
    )
    return arm, model.fit(X[:300], q[:300]), X[300:], q[300:]


def test_postures_come_back_through_the_constrained_pre_image(imitation):
    arm, model, X, q = imitation
    found = model.solve(X, start=q * 0.9)
    error = np.linalg.norm(
        pa10.link_positions(found.x)[:, [2, 4, 6]] - pa10.link_positions(q)[:, [2, 4, 6]], axis=-1
    )
    chance = np.linalg.norm(
        pa10.link_positions(q)[:, [2, 4, 6]] - pa10.link_positions(q).mean(0)[[2, 4, 6]], axis=-1
    )
    assert error.mean() < 0.1 * chance.mean()
    assert found.converged.all()
    assert (found.x >= arm.lower).all()
    assert (found.x <= arm.upper).all()


@pytest.mark.parametrize(
    ('X', 'message'),
    [([[np.nan]], 'NaN'), ([[1.0, 2.0]], 'features')],
)
def test_bad_inputs_are_refused(curve, X, message):
    model = KernelDependencyEstimator(Linear()).fit(*curve)
    with pytest.raises(ValueError, match=message):
        model.predict(X)


def test_the_dask_example_runs_on_a_local_cluster():
    if importlib.util.find_spec('distributed') is None:
        pytest.skip('dask.distributed is not installed')
    script = Path(__file__).resolve().parents[1] / 'examples' / 'grid_search_dask.py'
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.strip().splitlines()) == 3
    assert ' rad ' in done.stdout
