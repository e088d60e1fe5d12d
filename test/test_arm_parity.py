"""The compiled search for an arm and its NumPy twin find the same arm."""

import pickle

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.kernels import _twin

_core = pytest.importorskip('kde_imitation.kernels._core', reason='built without a compiler')

UPPER, FORE = np.linspace(0.25, 1.0, 7), np.linspace(0.1, 1.0, 9)


def some_maps(rng, count, height, width):
    """Blurred noise: smooth maps of values between 0 and 1."""
    noise = rng.uniform(size=(count, height, width)).astype(np.float32)
    maps = np.stack([cv2.GaussianBlur(each, (0, 0), 2.0) for each in noise])
    return np.clip((maps - 0.4) * 5, 0, 1).astype(np.float32)


def some_arms(rng, count, height, width):
    """Arms all over a map, and some that leave it."""
    return rng.uniform(-0.2, 1.2, (count, 3, 2)) * (width, height)


def a_search(module, tried, shape=(30, 40), refined=3, **options):
    arguments = {'steps': np.array([2.0, 1.0, 0.5]), 'rounds': 4, 'even': 0.5, **options}
    return module.ArmSearch(
        tried, np.array([9.0, 12.0]), shape, UPPER, FORE, refined=refined, **arguments
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 40), st.floats(0.0, 1.0))
def test_the_coverage_of_arms_agrees_to_twelve_digits(seed, height, width, even):
    rng = np.random.default_rng(seed)
    maps, arms = some_maps(rng, 9, height, width), some_arms(rng, 9, height, width)
    ours = _core.coverage(maps, arms, UPPER, FORE, even)
    assert ours == pytest.approx(_twin.coverage(maps, arms, UPPER, FORE, even), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(0, 9), st.floats(0.4, 2.0))
def test_templates_correlate_alike_in_single_precision(seed, size, reach, rate):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(size, size)).astype(np.float32)
    values = rng.uniform(size=(25, 33)).astype(np.float32)
    x, y = rng.uniform(-9, 40, 2)
    ours, twin = (m.correlate(values, weights, x, y, rate, reach) for m in (_core, _twin))
    # Four hundred products of order one, each rounded at the seventh digit.
    assert ours == pytest.approx(twin, abs=1e-4)


@pytest.mark.parametrize('module', [_core, _twin])
def test_templates_correlate_as_in_opencv(module):
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(9, 9)).astype(np.float32)
    values = rng.uniform(size=(15, 15)).astype(np.float32)
    peer = cv2.matchTemplate(values, weights, cv2.TM_CCORR)
    assert module.correlate(values, weights, 7.0, 7.0, 1.0, 3) == pytest.approx(peer, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 8))
def test_both_searches_find_the_same_arm(seed, tried, refined):
    rng = np.random.default_rng(seed)
    values = some_maps(rng, 1, 30, 40)[0]
    arms = some_arms(rng, tried, 30, 40)
    ours, twin = (
        a_search(module, arms, refined=min(refined, tried)).find(values)
        for module in (_core, _twin)
    )
    assert ours[0] == pytest.approx(twin[0], abs=1e-12)
    assert ours[1] == pytest.approx(twin[1], abs=1e-12)


@pytest.mark.parametrize('level', [0.0, 0.5, 1.0])
def test_ties_are_broken_alike_where_a_map_is_the_same_everywhere(level):
    rng = np.random.default_rng(3)
    arms = np.rint(rng.uniform(8, 22, (50, 3, 2)))
    arms = np.concatenate([arms, arms[::-1]])
    values = np.full((30, 40), level, dtype=np.float32)
    ours, twin = (a_search(module, arms).find(values) for module in (_core, _twin))
    assert ours[0].tolist() == twin[0].tolist()
    assert ours[1] == pytest.approx(twin[1], abs=1e-12)


@pytest.mark.parametrize('module', [_core, _twin])
def test_an_arm_twice_among_those_tried_changes_nothing(module):
    rng = np.random.default_rng(4)
    values, arms = some_maps(rng, 1, 30, 40)[0], some_arms(rng, 30, 30, 40)
    once = a_search(module, arms, refined=1).find(values)
    twice = a_search(module, np.repeat(arms, 2, axis=0), refined=2).find(values)
    assert once[0].tolist() == twice[0].tolist()
    assert once[1] == twice[1]


@pytest.mark.parametrize('module', [_core, _twin])
def test_a_search_survives_pickling(module):
    rng = np.random.default_rng(5)
    values, arms = some_maps(rng, 1, 30, 40)[0], some_arms(rng, 30, 30, 40)
    search = a_search(module, arms)
    again = pickle.loads(pickle.dumps(search))
    assert again.find(values)[0].tolist() == search.find(values)[0].tolist()


@pytest.mark.parametrize('module', [_core, _twin])
def test_wrong_shapes_are_refused(module):
    rng = np.random.default_rng(6)
    arms, maps = some_arms(rng, 5, 30, 40), some_maps(rng, 5, 30, 40)
    with pytest.raises(ValueError, match='one map for each arm'):
        module.coverage(maps[:4], arms, UPPER, FORE, 0.5)
    with pytest.raises(ValueError, match='one place or more'):
        module.coverage(maps, arms, np.zeros(0), FORE, 0.5)
    with pytest.raises(ValueError, match='square template'):
        module.correlate(maps[0], maps[1], 0.0, 0.0, 1.0, 3)
    with pytest.raises(ValueError, match='zero or more'):
        module.correlate(maps[0], maps[1, :, :30].copy(), 0.0, 0.0, 1.0, -1)
    with pytest.raises(ValueError, match='of the 5 arms'):
        a_search(module, arms, refined=6)
    with pytest.raises(ValueError, match='65536 cells'):
        a_search(module, arms, shape=(300, 300))
    with pytest.raises(ValueError, match=r'shape \(3, 2\)'):
        a_search(module, arms[:, :2])
    with pytest.raises(ValueError, match=r'\(30, 40\)'):
        a_search(module, arms).find(maps[0, :, :20].copy())
