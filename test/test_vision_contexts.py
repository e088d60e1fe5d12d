"""Shape contexts and code words: against slow oracles, and compiled against the NumPy twin."""

import pickle

import numpy as np
import pytest
from conftest import in_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone

from kde_imitation.errors import BadInput
from kde_imitation.kernels import _twin
from kde_imitation.vision import Codebook, ring_radii, shape_contexts
from kde_imitation.vision.codebook import total_variation

try:
    from kde_imitation.kernels import _core
except ImportError:  # built without a compiler
    _core = None
needs_compiler = pytest.mark.skipif(_core is None, reason='built without a compiler')
MODULES = pytest.mark.parametrize(
    'module', [pytest.param(_core, marks=needs_compiler), _twin], ids=['compiled', 'twin']
)


def outline(seed=0, count=100):
    """Edgels on a bumpy closed curve, as a person's outline has them."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0, 2 * np.pi, count, endpoint=False)
    radius = 30 + sum(rng.normal(0, 6) * np.cos(k * angle + rng.uniform(0, 6)) for k in (2, 3, 5))
    return np.column_stack([50 + radius * np.cos(angle), 50 + 1.3 * radius * np.sin(angle)])


def words_of(seed=0, count=80):
    """Code words that are contexts of other outlines."""
    found = np.concatenate([_twin.shape_contexts(outline(s), ring_radii(), 6) for s in (5, 6, 7)])
    return found[np.random.default_rng(seed).choice(len(found), count, replace=False)]


def contexts_by_angle(points, rings, sectors):
    """The definition, one pair at a time, with polar coordinates."""
    r = len(points)
    mean = pdist(points).mean()
    found = np.zeros((r, len(rings) * sectors))
    for i in range(r):
        for j in range(r):
            if i != j:
                dx, dy = points[j] - points[i]
                ring = sum(np.hypot(dx, dy) / mean >= rings) - 1
                sector = int((np.arctan2(dy, dx) % (2 * np.pi)) // (2 * np.pi / sectors))
                found[i, ring * sectors + sector] += 1 / (r - 1)
    return found


@MODULES
@pytest.mark.parametrize('sectors', [2, 6, 12])
def test_contexts_are_those_of_polar_coordinates(module, sectors):
    # Off the lines between sectors, where rounding would decide.
    points = outline(1, 40) + np.random.default_rng(1).normal(0, 0.1, (40, 2))
    expected = contexts_by_angle(points, ring_radii(7), sectors)
    assert module.shape_contexts(points, ring_radii(7), sectors) == pytest.approx(expected)


@needs_compiler
@settings(max_examples=150, deadline=None)
@given(
    arrays(float, st.tuples(st.integers(0, 60), st.just(2)), elements=st.integers(0, 30)),
    st.integers(1, 8),
    st.sampled_from([2, 4, 6, 8, 12]),
)
def test_contexts_agree_with_the_twin_even_on_lines_between_sectors(points, rings, sectors):
    ours, twin = (m.shape_contexts(points, ring_radii(rings), sectors) for m in (_core, _twin))
    np.testing.assert_allclose(ours, twin, rtol=0, atol=1e-12)


@needs_compiler
@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 100), st.integers(1, 90), st.floats(0, 0.5))
def test_words_and_shares_agree_with_the_twin(seed, count, words, softness):
    """Counts of few edgels have many equal distances: the first word must win them in both."""
    rng = np.random.default_rng(seed)
    X = rng.multinomial(20, np.full(36, 1 / 36), count) / 20
    W = rng.multinomial(20, np.full(36, 1 / 36), words) / 20
    ours, twin = _core.Coder(W), _twin.Coder(W)
    np.testing.assert_array_equal(ours.nearest(X)[0], twin.nearest(X)[0])
    np.testing.assert_array_equal(ours.nearest(X)[1], twin.nearest(X)[1])
    for soft in (0.0, softness):
        np.testing.assert_allclose(
            ours.shares(X, soft), twin.shares(X, soft), rtol=1e-12, atol=1e-12
        )


@MODULES
def test_nearest_words_are_those_of_the_city_block_distance(module):
    X, W = _twin.shape_contexts(outline(2), ring_radii(), 6), words_of()
    index, distance = module.Coder(W).nearest(X)
    expected = cdist(X, W, 'cityblock') / 2
    # 36 entries on either side, each rounded by 2^-16 at most.
    assert distance == pytest.approx(expected.min(axis=1), abs=36 * 2.0**-16)
    reached = expected[np.arange(len(X)), index]
    assert reached == pytest.approx(expected.min(axis=1), abs=2 * 36 * 2.0**-16)


@MODULES
def test_shares_are_the_counts_of_nearest_words_and_soften_continuously(module):
    X, coder = _twin.shape_contexts(outline(3), ring_radii(), 6), module.Coder(words_of())
    hard = coder.shares(X, 0.0)
    counted = np.bincount(coder.nearest(X)[0], minlength=80) / 100
    assert hard == pytest.approx(counted)
    for softness in (1e-9, 0.01, 0.1, 1.0):
        soft = coder.shares(X, softness)
        assert soft.sum() == pytest.approx(1)
        assert (soft >= 0).all()
    two = module.Coder(np.array([[1.0, 0.0], [0.0, 1.0]]))
    # d = 0.25 and 0.75: with softness 1 the weights are 1 and 1 − 0.5.
    assert two.shares(np.array([[0.75, 0.25]]), 1.0) == pytest.approx([2 / 3, 1 / 3])
    assert two.shares(np.empty((0, 2)), 0.1) == pytest.approx([0, 0])


@MODULES
def test_histograms_of_another_size_than_the_words_are_refused(module):
    coder = module.Coder(np.eye(3))
    with pytest.raises(ValueError, match='3 bins'):
        coder.nearest(np.eye(4))
    with pytest.raises(ValueError, match='3 bins'):
        coder.shares(np.eye(2), 0.0)


@needs_compiler
def test_threads_may_share_one_codebook():
    coder, X = _core.Coder(words_of()), np.tile(words_of(1), (200, 1))
    expected = coder.shares(X, 0.1)
    for shares in in_threads(lambda: coder.shares(X, 0.1)):
        np.testing.assert_array_equal(shares, expected)


def test_position_and_size_of_an_outline_do_not_matter():
    points = outline(4)
    moved = shape_contexts(3.7 * points + [110.0, -25.0])
    np.testing.assert_allclose(moved, shape_contexts(points), atol=1e-12)


def test_the_number_of_edgels_hardly_matters():
    """The mean context converges: twice the edgels change it less than half of them do."""
    few, some, many = (shape_contexts(outline(4, n)).mean(axis=0) for n in (50, 100, 800))
    assert np.abs(some - many).sum() < np.abs(few - many).sum() < 0.2
    assert shape_contexts(outline(4, 33)).sum(axis=1) == pytest.approx(np.ones(33))


def test_radii_are_those_of_the_thesis():
    assert ring_radii(4) == pytest.approx([0, np.exp(0.3) - 1, np.exp(0.6) - 1, np.exp(0.9) - 1])


@pytest.mark.parametrize('points', [np.empty((0, 2)), np.ones((1, 2)), np.ones((5, 2))])
def test_edgels_in_one_place_have_empty_contexts(points):
    assert (shape_contexts(points) == np.zeros((len(points), 36))).all()


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ((np.ones((4, 3)),), 'edgels must have shape'),
        (([[0.0, np.nan], [1.0, 2.0]],), 'every value must be finite'),
        ((np.eye(2), 0), 'rings is 0'),
        ((np.eye(2), 33), 'rings is 33'),
        ((np.eye(2), 6, 5), 'even number'),
        ((np.eye(2), 6, 66), 'even number'),
    ],
)
def test_what_is_no_set_of_edgels_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        shape_contexts(*arguments)


def sample(count=600, seed=0):
    return np.concatenate([shape_contexts(outline(seed + s)) for s in range(count // 100)])


def test_a_codebook_repeats_itself_and_its_words_come_from_the_sample():
    X = sample()
    book, again = Codebook(30).fit(X), Codebook(30).fit(X)
    np.testing.assert_array_equal(book.words_, again.words_)
    other = Codebook(30, random_state=1).fit(X)
    assert not np.array_equal(book.words_, other.words_)
    assert {row.tobytes() for row in book.words_} <= {row.tobytes() for row in X}


def test_rounds_never_raise_the_cost_and_end_far_below_random_words():
    X = sample()
    book = Codebook(30).fit(X)
    assert (np.diff(book.costs_) <= 1e-12).all()
    assert len(book.costs_) > 2
    rng = np.random.default_rng(0)
    random = [
        cdist(X, X[rng.choice(len(X), 30, replace=False)], 'cityblock').min(axis=1).mean() / 2
        for _ in range(20)
    ]
    assert book.cost_ < min(random)
    assert book.cost_ == pytest.approx(cdist(X, book.words_, 'cityblock').min(axis=1).mean() / 2)


def test_separate_groups_get_a_word_each():
    rng = np.random.default_rng(1)
    centres = np.eye(8) * 0.9
    X = np.concatenate([c + 0.1 * rng.dirichlet(np.ones(8), 40) for c in centres])
    book = Codebook(8).fit(X)
    assert sorted(book.words_.argmax(axis=1)) == list(range(8))
    assert book.transform(X) == pytest.approx(np.full(8, 1 / 8))


def test_only_a_part_of_a_large_sample_is_looked_at():
    book = Codebook(10, n_samples=50).fit(sample(400))
    assert book.words_.shape == (10, 36)


def test_a_small_change_of_shape_changes_soft_shares_by_little():
    """Hard shares move in whole contexts, hundredths of the picture; soft ones need not."""
    X = sample(800)
    paths = {}
    for softness in (0.0, 0.1):
        book = Codebook(40, softness=softness).fit(X)
        path = np.array(
            [
                book.transform(shape_contexts((1 - t) * outline(0) + t * outline(1)))
                for t in np.linspace(0, 0.1, 60)
            ]
        )
        paths[softness] = np.abs(np.diff(path, axis=0)).sum(axis=1).max()
    assert paths[0.1] < 0.5 * paths[0.0]


def test_total_variation_is_half_the_city_block_distance():
    rng = np.random.default_rng(2)
    X, Y = rng.dirichlet(np.ones(9), 7), rng.dirichlet(np.ones(9), 5)
    assert total_variation(X, Y) == pytest.approx(cdist(X, Y, 'cityblock') / 2)


def test_a_codebook_survives_cloning_and_pickling():
    X = sample(300)
    book = Codebook(20, softness=0.1).fit(X)
    copy = pickle.loads(pickle.dumps(book))
    np.testing.assert_array_equal(copy.transform(X), book.transform(X))
    assert clone(book).get_params() == book.get_params()


@pytest.mark.parametrize(
    ('options', 'X', 'message'),
    [
        ({}, np.ones((100, 4)) / 4, '1 different histograms for 80 words'),
        ({}, np.eye(90) * 2, 'sum above 1'),
        ({}, -np.eye(90), 'below 0'),
        ({}, np.full((90, 3), np.nan), 'finite'),
        ({}, np.ones(7), 'shape'),
        ({'n_words': 0}, np.eye(90), 'n_words is 0'),
        ({'n_samples': 50}, np.eye(90), 'no fewer samples'),
        ({}, np.zeros((90, 0)), '0 bins'),
    ],
)
def test_a_sample_that_gives_no_codebook_is_refused(options, X, message):
    with pytest.raises(BadInput, match=message):
        Codebook(**options).fit(X)


def test_histograms_that_do_not_fit_a_codebook_are_refused():
    book = Codebook(4).fit(np.eye(9))
    with pytest.raises(BadInput, match='8 bins, but the words have 9'):
        book.transform(np.eye(8))
