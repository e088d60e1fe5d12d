"""Cross-validation of a model: nothing held out is seen, and the numbers are what they say."""

import json

import numpy as np
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.imitation import Robot, Settings
from kde_imitation.imitation.validation import (
    METHODS,
    Spectra,
    bootstrap_interval,
    mean_and_error,
    spectra,
    study,
)
from kde_imitation.kernels.vectors import Gaussian, Linear

ROBOT = Robot.pa10()
COUNT = 24


def demonstrations():
    """Return inputs that a smooth function turns into postures, and inputs without one."""
    rng = np.random.default_rng(3)
    hidden = rng.uniform(-1, 1, (COUNT + 12, 3))
    X = np.column_stack([hidden, np.sin(2 * hidden), hidden**2])
    Q = np.zeros((COUNT, 7))
    Q[:, [0, 1, 3]] = 0.6 * hidden[:COUNT]
    return X[:COUNT], Q, X[COUNT:]


X, Q, MORE = demonstrations()
KERNEL = Gaussian(0.2)
SETTINGS = Settings(ridges=(1e-4, 1e-2))


@pytest.fixture(scope='module')
def shown():
    return []


@pytest.fixture(scope='module')
def result(shown):
    return study(X, Q, MORE, KERNEL, ROBOT, SETTINGS, 1e-3, 4, lambda *seen: shown.append(seen))


def test_every_demonstration_is_held_out_once(result):
    assert sorted(np.concatenate(result.folds).tolist()) == list(range(COUNT))
    assert len(result.folds) == SETTINGS.folds


def test_the_posture_of_a_held_out_demonstration_is_not_seen(result):
    fold = result.folds[0]
    changed = Q.copy()
    changed[fold] = changed[fold][::-1] + 0.05
    again = study(X, changed, MORE, KERNEL, ROBOT, SETTINGS, 1e-3, 4)
    assert np.array_equal(again.predicted[fold], result.predicted[fold])
    rest = np.setdiff1d(np.arange(COUNT), fold)
    assert not np.allclose(again.predicted[rest], result.predicted[rest], atol=1e-3)


def test_a_held_out_picture_does_not_shape_the_input_coordinates(result):
    fold = result.folds[1]
    changed = X.copy()
    changed[fold[1:]] += 0.3
    again = study(changed, Q, MORE, KERNEL, ROBOT, SETTINGS, 1e-3, 4)
    assert np.allclose(again.predicted[fold[0]], result.predicted[fold[0]], atol=1e-12)


def test_errors_are_those_of_the_predicted_postures(result):
    assert np.allclose(result.errors, 1000 * ROBOT.errors(result.predicted, Q))
    means = [result.errors[fold].mean() for fold in result.folds]
    assert np.allclose(result.peers['MRS'], means)


def test_nearest_neighbour_is_the_nearest_learned_one(result):
    expected = []
    for fold in result.folds:
        learned = np.setdiff1d(np.arange(COUNT), fold)
        gaps = np.linalg.norm(X[fold][:, None] - X[learned][None], axis=2)
        near = Q[learned[gaps.argmin(axis=1)]]
        expected.append(1000 * ROBOT.errors(near, Q[fold]).mean())
    assert np.allclose(result.peers['nearest neighbour'], expected)


def test_a_smooth_map_is_learned_better_than_by_nearest_neighbour(result):
    assert tuple(result.peers) == METHODS
    for name in ('MRS', 'ridge', 'PLS'):
        assert result.peers[name].mean() < 0.7 * result.peers['nearest neighbour'].mean()


def test_more_demonstrations_help_and_all_of_them_equal_the_comparison(result):
    curve = result.demonstrations
    assert list(curve.sizes) == sorted(set(curve.sizes))
    assert curve.sizes[-1] == COUNT - max(len(fold) for fold in result.folds)
    assert curve.errors['MRS'][0].mean() > 1.3 * curve.errors['MRS'][-1].mean()
    for errors in curve.errors.values():
        assert errors.shape == (len(curve.sizes), SETTINGS.folds)


def test_the_reduced_set_comes_close_to_the_full_one(result):
    curve = result.reduction
    assert curve.errors['reduced'].shape == (len(curve.sizes), SETTINGS.folds)
    full = curve.errors['full'][0].mean()
    assert curve.errors['reduced'][-1].mean() < 1.1 * full
    assert curve.errors['reduced'][0].mean() > 1.1 * full


def test_spectra_of_the_linear_kernel_are_those_of_principal_components():
    found = spectra(X, Q, MORE, Linear(), ROBOT)
    values = np.linalg.eigvalsh(np.cov(np.vstack([X, MORE]).T))[::-1]
    assert np.allclose(found.inputs[: len(values)], np.cumsum(values) / values.sum())
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    assert np.allclose(found.pairs[: len(values)], np.cumsum(values) / values.sum())
    for shares in found.__dict__.values():
        assert (np.diff(shares) >= -1e-12).all()
        assert shares[-1] == pytest.approx(1.0)


@pytest.mark.parametrize(('share', 'count'), [(0.5, 1), (0.7, 2), (0.81, 3), (1.0, 4)])
def test_needed_counts_directions(share, count):
    assert Spectra.needed(np.array([0.5, 0.8, 0.9, 1.0]), share) == count


def test_mean_and_standard_error():
    mean, error = mean_and_error([1.0, 2.0, 3.0, 6.0])
    assert mean == 3.0
    assert error == pytest.approx(np.sqrt((4 + 1 + 0 + 9) / 3) / 2)


def test_the_bootstrap_interval_is_that_of_the_normal_law_for_many_values():
    values = np.random.default_rng(1).normal(100.0, 20.0, 400)
    low, high = bootstrap_interval(values)
    spread = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - spread, abs=0.1 * spread)
    assert high == pytest.approx(values.mean() + spread, abs=0.1 * spread)
    assert bootstrap_interval(values) == (low, high)


def test_numbers_survive_json(result):
    numbers = json.loads(json.dumps(result.numbers(), allow_nan=False))
    assert numbers['errors_mm'] == result.errors.tolist()
    assert numbers['reduction']['sizes'] == list(result.reduction.sizes)


def test_progress_reaches_the_end(result, shown):
    shares = [share for _, share in shown]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_unpaired_pictures_may_be_missing():
    alone = study(X[:12], Q[:12], np.empty((0, X.shape[1])), KERNEL, ROBOT, SETTINGS)
    assert np.isfinite(alone.errors).all()


@pytest.mark.parametrize(
    ('inputs', 'postures', 'more', 'said'),
    [
        (X[:5], Q[:5], MORE, 'too few'),
        (X[:-1], Q, MORE, 'rows'),
        (X, Q[:, :5], MORE, 'shape'),
        (X, Q, MORE[:, :2], 'more must have shape'),
        (X * np.nan, Q, MORE, 'finite'),
        (X, Q + 10, MORE, 'outside its limits'),
    ],
)
def test_wrong_arrays_are_refused(inputs, postures, more, said):
    with pytest.raises(BadInput, match=said):
        study(inputs, postures, more, KERNEL, ROBOT, SETTINGS)
