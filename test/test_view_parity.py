"""The compiled view of an arm and its NumPy twin give the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.kernels import _twin

_core = pytest.importorskip('kde_imitation.kernels._core', reason='built without a compiler')

WHITEN = np.array([[1, 1, 1], [3, -3, 0], [2, 2, -4]], dtype=np.float32)
BOTH = pytest.mark.parametrize('module', [_core, _twin])


def some(rng, *shape):
    return rng.uniform(size=shape).astype(np.float32)


def a_picture(rng, height, width):
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.integers(1, 30),
    st.floats(-20, 20),
    st.floats(-20, 20),
    st.floats(0.3, 2.0),
)
def test_samples_of_a_picture_agree(seed, height, width, x, y, rate):
    rng = np.random.default_rng(seed)
    picture, mask = a_picture(rng, height, width), some(rng, height, width)
    factors = some(rng, 3) + 0.5
    arguments = (picture, mask, x, y, rate, 20, factors, 8.0)
    for ours, twin, size in zip(
        _core.sample_colours(*arguments), _twin.sample_colours(*arguments), (400.0, 1.0)
    ):
        # Single precision, relative to the greatest value.
        assert ours == pytest.approx(twin, abs=1e-6 * size)


@BOTH
def test_samples_at_whole_pixels_are_the_pixels_and_zero_outside(module):
    rng = np.random.default_rng(0)
    picture, mask = a_picture(rng, 6, 8), some(rng, 6, 8)
    one = np.ones(3, dtype=np.float32)
    colours, covered = module.sample_colours(picture, mask, -2.0, -1.0, 1.0, 12, one, 0.0)
    assert colours[1:7, 2:10].tolist() == picture.tolist()
    assert covered[1:7, 2:10].tolist() == mask.tolist()
    colours[1:7, 2:10] = 0
    assert not colours.any()


@BOTH
def test_unequal_sizes_are_refused(module):
    rng = np.random.default_rng(3)
    picture, mask = a_picture(rng, 5, 6), some(rng, 5, 6)
    one = np.ones(3, dtype=np.float32)
    with pytest.raises(ValueError, match='size of the mask'):
        module.sample_colours(picture, mask[:4].copy(), 0.0, 0.0, 1.0, 3, one, 0.0)
    with pytest.raises(ValueError, match='three factors'):
        module.sample_colours(picture, mask, 0.0, 0.0, 1.0, 3, one[:2].copy(), 0.0)
    with pytest.raises(ValueError, match='same size'):
        module.relative_to_face(some(rng, 5, 5, 3), mask, (0, 1, 0, 1), WHITEN)
    with pytest.raises(ValueError, match='same size'):
        module.beside_body(mask, mask, mask, mask[:4].copy())
