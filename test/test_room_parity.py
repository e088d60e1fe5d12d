"""The compiled comparison with the empty room and its NumPy twin give the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.kernels import _twin

_core = pytest.importorskip('kde_imitation.kernels._core', reason='built without a compiler')

SHADES = np.log(np.arange(256) + 8.0).astype(np.float32)
TOLERANCES = np.array([0.07, 0.12, 0.18], dtype=np.float32)
# Deviations are of order one in single precision, scores some hundred times as large.
SINGLE = 1e-6


def some_colours(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 900), st.sampled_from([3.0, 128.0, 250.0]))
def test_median_ratios_are_those_of_numpy(seed, count, cut_off):
    rng = np.random.default_rng(seed)
    now, before = some_colours(rng, count, 3), some_colours(rng, count, 3)
    now[:, 0] //= 64
    ours = _core.median_ratios(now, before, cut_off)
    assert ours.tolist() == _twin.median_ratios(now, before, cut_off).tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(20, 800), st.integers(1, 6), st.floats(0.0, 0.4))
def test_the_fitted_light_agrees_to_ten_digits(seed, count, rounds, outliers):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, (2, count))
    own = rng.normal(size=(3, count))
    terms = np.stack([[np.ones(count), x, y, x * x, x * y, y * y, line] for line in own])
    truth = rng.normal(size=(3, 7)) * 0.3
    values = (truth[:, None] @ terms)[:, 0] + rng.normal(size=(3, count)) * 0.02
    values += 2.0 * (rng.uniform(size=(3, count)) < outliers)
    pull = np.array([1e-9, *[1e-3 * count] * 6])
    for ours, twin in zip(
        _core.fit_light(terms, values, pull, rounds), _twin.fit_light(terms, values, pull, rounds)
    ):
        assert ours == pytest.approx(twin, abs=1e-10)


def test_the_fitted_light_passes_outliers_by():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-1, 1, (2, 700))
    own = rng.normal(size=700)
    terms = np.stack([np.ones(700), x, y, x * x, x * y, y * y, own])[None]
    truth = np.array([0.3, -0.1, 0.2, 0.05, -0.04, 0.03, 0.1])
    values = (truth @ terms[0] + 3.0 * (rng.uniform(size=700) < 0.2))[None]
    fitted, found, middles = _core.fit_light(terms, values, np.full(7, 1e-9), 6)
    assert found[0] == pytest.approx(truth, abs=1e-6)
    assert fitted[0] == pytest.approx(truth @ terms[0], abs=1e-6)
    assert middles[0] == np.median(fitted)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 40))
def test_deviations_and_scores_agree_in_single_precision(seed, height, width):
    rng = np.random.default_rng(seed)
    seen, empty = some_colours(rng, height, width, 3), some_colours(rng, height, width, 3)
    table = (SHADES[:, None] + rng.normal(size=3) * 0.2).astype(np.float32)
    field = rng.normal(size=(height, width, 3)).astype(np.float32)
    arguments = (seen, empty, SHADES, table, field, TOLERANCES)
    for ours, twin in zip(_core.unlike(*arguments), _twin.unlike(*arguments)):
        assert ours == pytest.approx(twin, abs=SINGLE, rel=SINGLE)
    rest = _twin.unlike(*arguments)[0]
    ours, twin = (m.scores_beyond(rest, field, TOLERANCES) for m in (_core, _twin))
    assert ours == pytest.approx(twin, abs=100 * SINGLE, rel=SINGLE)


@pytest.mark.parametrize('module', [_core, _twin])
def test_scores_are_one_where_a_tolerance_is_just_reached(module):
    # Grey up, grey down, and a pure colour of length 0.07.
    rest = np.array([[[0.12] * 3, [-0.18] * 3, np.array([1, -1, 0]) * 0.07 / np.sqrt(2)]], 'f4')
    score = module.scores_beyond(rest, np.zeros_like(rest), TOLERANCES)
    assert score[0] == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)


@pytest.mark.parametrize('module', [_core, _twin])
def test_unequal_sizes_are_refused(module):
    rng = np.random.default_rng(2)
    seen, field = some_colours(rng, 5, 6, 3), np.zeros((5, 6, 3), dtype=np.float32)
    table = np.zeros((256, 3), dtype=np.float32)
    with pytest.raises(ValueError, match='equal sizes'):
        module.unlike(seen, seen[:4].copy(), SHADES, table, field, TOLERANCES)
    with pytest.raises(ValueError, match='256 rows'):
        module.unlike(seen, seen, SHADES[:9].copy(), table, field, TOLERANCES)
    with pytest.raises(ValueError, match='equal sizes'):
        module.scores_beyond(field, field[:, :5].copy(), TOLERANCES)
    with pytest.raises(ValueError, match='three tolerances'):
        module.scores_beyond(field, field, TOLERANCES[:2].copy())
    with pytest.raises(ValueError, match='one or more'):
        module.median_ratios(seen[0], seen[0, :3].copy(), 250.0)
    with pytest.raises(ValueError, match='must have shape'):
        module.fit_light(np.zeros((3, 6, 9)), np.zeros((3, 9)), np.ones(7), 1)
    with pytest.raises(ValueError, match='one round'):
        module.fit_light(np.zeros((3, 7, 9)), np.zeros((3, 9)), np.ones(7), 0)
