"""The compiled loops of kernels and their NumPy twin give the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kde_imitation.kernels import _twin
from kde_imitation.kernels._twin import Term

_core = pytest.importorskip('kde_imitation.kernels._core', reason='built without a compiler')
MODULES = pytest.mark.parametrize('module', [_core, _twin], ids=['compiled', 'twin'])


@st.composite
def terms(draw, columns):
    """One to four terms of any kind, on columns of which some may occur twice."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        chosen = draw(st.lists(st.integers(0, columns - 1), min_size=1, max_size=9))
        found.append(
            Term(
                draw(st.sampled_from(['overlap', 'gaussian', 'polynomial'])),
                draw(st.floats(0, 5)),
                np.array(chosen, dtype=np.intp),
                gamma=draw(st.floats(1e-3, 5)),
                degree=draw(st.integers(1, 5)),
                offset=draw(st.floats(0, 2)),
            )
        )
    return found


@st.composite
def problems(draw):
    columns = draw(st.integers(1, 12))
    chosen = draw(terms(columns))
    numbers = st.floats(0, 2, width=32)
    sizes = [draw(st.integers(1, 70)), draw(st.integers(1, 140))]
    X, Y = (draw(arrays(float, (size, columns), elements=numbers)) for size in sizes)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    r = draw(st.integers(1, 9))
    return chosen, X, Y, rng.normal(size=(len(X), r)), rng.normal(size=r)


def size_of(terms, X, Y, alpha):
    """Return the numbers that are added up, which rounding is measured against."""
    return np.abs(_twin.gram(terms, Y, X)) @ np.abs(alpha) + 1.0


@settings(max_examples=150, deadline=None)
@given(problems())
def test_gram_matrices_agree_to_twelve_digits(problem):
    chosen, X, Y, _, _ = problem
    ours, twin = _core.gram(chosen, X, Y), _twin.gram(chosen, X, Y)
    np.testing.assert_allclose(ours, twin, rtol=1e-12, atol=1e-12)
    own = _core.gram(chosen, X, X)
    np.testing.assert_array_equal(own, own.T)
    np.testing.assert_allclose(own, _twin.gram(chosen, X, X), rtol=1e-12, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(problems())
def test_expansions_agree_to_twelve_digits(problem):
    chosen, X, Y, alpha, offset = problem
    ours, twin = (m.Evaluator(chosen, X, alpha, offset)(Y) for m in (_core, _twin))
    assert (np.abs(ours - twin) <= 1e-12 * size_of(chosen, X, Y, alpha)).all()


@settings(max_examples=60, deadline=None)
@given(problems())
def test_single_precision_agrees_to_six_digits(problem):
    """Entries are single precision here, so that only the sums are rounded."""
    chosen, X, Y, alpha, offset = problem
    chosen = [term._replace(degree=min(term.degree, 2)) for term in chosen]
    ours, twin = (m.Evaluator(chosen, X, alpha, offset, 'float32')(Y) for m in (_core, _twin))
    # exp(−γd) moves by γ times the error of d, at most 5 · 9 · 4 eps of single precision here.
    assert (np.abs(ours - twin) <= 3e-5 * size_of(chosen, X, Y, alpha)).all()


def test_a_row_gives_the_same_alone_as_in_a_batch():
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(0, 1, (70, 10)), rng.uniform(0, 1, (200, 10))
    chosen = [
        Term('overlap', 1.0, np.arange(6)),
        Term('gaussian', 2.0, np.arange(3, 10), gamma=0.5),
    ]
    evaluate = _core.Evaluator(chosen, X, rng.normal(size=(70, 7)), rng.normal(size=7))
    together = evaluate(Y)
    for i in range(len(Y)):
        np.testing.assert_array_equal(evaluate(Y[i : i + 1]), together[i : i + 1])


@MODULES
def test_arrays_that_must_be_prepared_or_are_no_input_get_no_answer(module):
    chosen = [Term('overlap', 1.0, np.arange(2)), Term('gaussian', 1.0, np.arange(3), gamma=1.0)]
    evaluate = module.Evaluator(chosen, np.ones((4, 3)), np.ones((4, 2)), np.zeros(2))
    good = np.array([[1.0, 0.5, -2.0], [0.0, 0.0, 0.0]])
    assert evaluate(good).shape == (2, 2)
    for bad in (
        [[1.0, 0.5, 2.0]],
        None,
        good[0],
        good[:, :2].copy(),
        good[:, ::-1],
        good.astype(np.float32),
        good.astype(np.int64),
        good.astype('>f8'),
        np.array([[1.0, 0.5, np.nan]]),
        np.array([[1.0, 0.5, np.inf]]),
        np.array([[1.0, 0.5, -np.inf]]),
        np.array([[1.0, -0.5, 1.0]]),
        np.concatenate([np.ones((150, 3)), [[np.nan, 0, 0]]]),
    ):
        assert evaluate(bad) is None


@MODULES
@pytest.mark.parametrize('kind', ['overlap', 'gaussian', 'polynomial'])
def test_empty_sets_give_empty_answers(module, kind):
    chosen = [Term(kind, 1.0, np.arange(3), gamma=1.0, degree=2)]
    none, some = np.empty((0, 3)), np.ones((4, 3))
    assert module.gram(chosen, none, some).shape == (0, 4)
    assert module.gram(chosen, some, none).shape == (4, 0)
    evaluate = module.Evaluator(chosen, some, np.ones((4, 2)), np.zeros(2))
    assert evaluate(none).shape == (0, 2)
    nothing = module.Evaluator(chosen, none, np.ones((0, 2)), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(nothing(some), np.tile([1.0, 2.0], (4, 1)))
    assert module.Evaluator(chosen, some, np.ones((4, 0)), np.zeros(0))(some).shape == (4, 0)


@MODULES
@pytest.mark.parametrize('rounds', [0, 1, 17, 600])
def test_the_probes_do_the_work_they_are_timed_for(module, rounds):
    few = np.linspace(0, 1, 512)
    blocks = few.reshape(16, 32)
    expected = sum(np.minimum(blocks[i % 16], few[i % 512]).sum() for i in range(rounds))
    assert module.probe_overlaps(rounds) == pytest.approx(expected, rel=1e-12)
    data = np.arange(100.0)
    assert module.probe_reading(data, 2) == pytest.approx(data[:96].sum(), rel=1e-12)


@MODULES
def test_a_term_without_columns_is_constant(module):
    chosen = [
        Term('gaussian', 2.0, np.arange(0), gamma=1.0),
        Term('polynomial', 1.0, np.arange(0), degree=2, offset=3.0),
        Term('overlap', 5.0, np.arange(0)),
    ]
    X = np.empty((3, 0))
    np.testing.assert_array_equal(module.gram(chosen, X, X), np.full((3, 3), 11.0))
    evaluate = module.Evaluator(chosen, X, np.ones((3, 1)), np.zeros(1))
    np.testing.assert_array_equal(evaluate(X), np.full((3, 1), 33.0))
