"""Unsupervised PSOM+: manifolds found without coordinates."""

import numpy as np
import pytest

from kde_imitation.benchmarks.psom import fish_bowl
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.psom import annealing, chebyshev_axis, fit_manifold


def test_schedule_is_the_published_one():
    assert annealing()[0] == pytest.approx(8.0)
    assert annealing()[-1] == pytest.approx(0.0124, abs=5e-5)
    assert len(annealing()) == 30


def test_points_on_a_plane_are_found_exactly():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    y = rng.uniform(-1, 1, (80, 2)) @ basis.T + rng.normal(size=4)
    found = fit_manifold(y, [chebyshev_axis(-1, 1, 4)] * 2, [1.0, 0.1])
    assert found.errors[-1] < 1e-20
    assert found.psom.predict(found.x) == pytest.approx(y, abs=1e-9)
    assert (np.abs(found.x) <= 1).all()


def test_a_curve_is_followed_and_ordered():
    t = np.linspace(-1.2, 1.2, 200)
    y = np.stack([np.sin(t), 1 - np.cos(t)], axis=-1)
    found = fit_manifold(y, [chebyshev_axis(-1, 1, 8)], annealing(0.1, 0.7, 20))
    assert found.errors[-1] < 1e-5
    assert (np.diff(found.x[:, 0]) > 0).all() or (np.diff(found.x[:, 0]) < 0).all()


def test_annealing_unfolds_the_fish_bowl():
    """Klanke reports a mean squared distance of 0.0386; noise alone leaves 0.01."""
    y = fish_bowl(0)
    found = fit_manifold(y, [chebyshev_axis(-1, 1, 12)] * 2)
    plane = np.mean(np.linalg.svd(y - y.mean(0), full_matrices=False)[1][2] ** 2) / len(y)
    assert 0.01 < found.errors[-1] < 0.06
    assert found.errors[-1] < plane / 100


@pytest.mark.parametrize(
    ('y', 'axes', 'smoothing', 'message'),
    [
        (np.zeros((2, 3)), 2, None, 'cannot fix a manifold of 2 dimensions'),
        (np.zeros((9, 1)), 2, None, 'cannot fix a manifold of 2 dimensions'),
        (np.outer(np.arange(9.0), [1, 2, 3]), 2, None, 'do not spread in 2 directions'),
        (np.full((9, 3), np.nan), 2, None, 'y holds nan'),
        (np.random.default_rng(0).random((9, 3)), 2, [1.0, 0.0], 'smoothing must be positive'),
    ],
)
def test_bad_points_are_refused_with_a_sentence(y, axes, smoothing, message):
    with pytest.raises(BadInput, match=message):
        fit_manifold(y, [chebyshev_axis(-1, 1, 4)] * axes, smoothing)


def test_bad_schedules_are_refused():
    with pytest.raises(BadInput, match='annealing needs'):
        annealing(start=0)
