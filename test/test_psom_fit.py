"""Fitting a PSOM+ to noisy, incomplete and scattered data, against dense linear algebra."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.linalg import null_space

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.psom import Psom, Roughness, chebyshev_axis, fit, regular_axis
from kde_imitation.kinematics.psom.fit import SampleFit, fill_nodes

TOY = np.array([0.2, 1.1, 0.4, 2.0, 1.7, 0.3, 1.2, 0.9])
TOY_AXIS = np.arange(1.0, 9.0)


def box_of(axes):
    return np.array([[a[0], a[-1]] for a in axes])


def polynomials(nodes):
    """The Lagrange polynomials of one axis as NumPy polynomials."""
    for i, node in enumerate(nodes):
        others = np.delete(nodes, i)
        yield Polynomial.fromroots(others) / np.prod(node - others)


def dense_roughness(axes):
    """M by the printed formulas (3.15 to 3.21), every integral by polynomial algebra.

    The nodes are moved to the middle first, which changes no integral but spares digits.
    """
    axes = [nodes - 0.5 * (nodes[0] + nodes[-1]) for nodes in axes]

    def integrals(nodes, order):
        derivatives = [p.deriv(order) if order else p for p in polynomials(nodes)]
        integral = np.empty((len(nodes), len(nodes)))
        for i, j in itertools.product(range(len(nodes)), repeat=2):
            whole = (derivatives[i] * derivatives[j]).integ()
            integral[i, j] = whole(nodes[-1]) - whole(nodes[0])
        return integral

    A, C, B = ([integrals(nodes, order) for nodes in axes] for order in range(3))
    total = 0
    for mu, nu in itertools.product(range(len(axes)), repeat=2):
        factors = list(A)
        if mu == nu:
            factors[mu] = B[mu]
        else:
            factors[mu], factors[nu] = C[mu], C[nu]
        product = np.ones((1, 1))
        for factor in factors:
            product = np.kron(product, factor)
        total = total + product
    return total


GRIDS = [
    [regular_axis(0, 2, 4)],
    [regular_axis(0, 2, 4), chebyshev_axis(-1, 1, 3)],
    [regular_axis(0, 1, 3), regular_axis(-1, 1, 2), chebyshev_axis(0, 3, 4)],
]


@pytest.mark.parametrize('axes', GRIDS, ids=['1-D', '2-D', '3-D'])
def test_roughness_is_the_integral_of_the_printed_formulas(axes):
    expected = dense_roughness(axes)
    roughness = Roughness(axes, box_of(axes))
    scale = np.abs(expected).max()
    size = len(expected)
    applied = roughness.apply(np.eye(size).reshape(*roughness.shape, size)).reshape(size, size)
    assert applied == pytest.approx(expected, abs=1e-10 * scale)
    assert roughness.block(np.arange(size), rows_at_once=5) == pytest.approx(
        expected, abs=1e-10 * scale
    )
    some = np.array([size - 1, 0, 2])
    assert roughness.block(some) == pytest.approx(expected[np.ix_(some, some)], abs=1e-10 * scale)


@pytest.mark.parametrize('axes', GRIDS, ids=['1-D', '2-D', '3-D'])
def test_the_two_bases_hold_the_same_roughness(axes):
    roughness = Roughness(axes, box_of(axes))
    w = np.random.default_rng(0).normal(size=(*roughness.shape, 2))
    c = roughness.coefficients(w)
    assert roughness.node_values(c) == pytest.approx(w)
    matrix = roughness.coefficient_matrix().toarray()
    flat = c.reshape(-1, 2)
    assert np.einsum('nd,nm,md->d', flat, matrix, flat) == pytest.approx(roughness.value(w))
    assert roughness.apply_to_coefficients(c).reshape(-1, 2) == pytest.approx(matrix @ flat)
    x = np.random.default_rng(1).uniform(*box_of(axes).T, (6, len(axes)))
    assert roughness.rows(x) @ flat == pytest.approx(Psom(axes, w).predict(x))


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_only_linear_maps_have_no_roughness(seed):
    rng = np.random.default_rng(seed)
    axes = GRIDS[2]
    grid = np.stack(np.meshgrid(*axes, indexing='ij'), axis=-1)
    roughness = Roughness(axes, box_of(axes))
    linear = (grid @ rng.normal(size=3) + rng.normal())[..., None]
    assert roughness.value(linear) == pytest.approx([0], abs=1e-9)
    assert roughness.value(linear + rng.normal(size=linear.shape)) > 1e-6
    assert roughness.flat().sum() == 4


def test_noisy_nodes_are_smoothed_as_equation_3_27_says():
    M = dense_roughness([TOY_AXIS])
    for weight in (0.01, 0.3, 10):
        expected = np.linalg.solve(np.eye(8) + weight * M, TOY)
        psom = Psom.from_grid([TOY_AXIS], TOY[:, None], smoothing=weight)
        assert psom.values[:, 0] == pytest.approx(expected)


def test_missing_nodes_are_filled_as_equation_3_30_says():
    M = dense_roughness([TOY_AXIS])
    u, k = [2, 5], [0, 1, 3, 4, 6, 7]
    expected = -np.linalg.solve(M[np.ix_(u, u)], M[np.ix_(u, k)] @ TOY[k])
    gaps = np.isin(np.arange(8), u)
    values = np.where(gaps, np.nan, TOY)[:, None]
    psom = Psom.from_grid([TOY_AXIS], values, missing=gaps)
    assert psom.values[u, 0] == pytest.approx(expected)
    assert (psom.values[k, 0] == TOY[k]).all()


def test_per_node_smoothing_morphs_between_known_and_missing():
    """Equation 3.33, whose ends are interpolation (λ = 0) and missing data (λ = ∞)."""
    M = dense_roughness([TOY_AXIS])
    for weight in (0.0, 0.05, 2.0):
        each = np.zeros(8)
        each[[2, 5]] = weight
        expected = np.linalg.solve(np.eye(8) + np.diag(each) @ M, TOY)
        psom = Psom.from_grid([TOY_AXIS], TOY[:, None], smoothing=each)
        assert psom.values[:, 0] == pytest.approx(expected)
    each[[2, 5]] = np.inf
    gaps = np.isinf(each)
    missing = Psom.from_grid([TOY_AXIS], TOY[:, None], missing=gaps)
    assert Psom.from_grid([TOY_AXIS], TOY[:, None], smoothing=each).values == pytest.approx(
        missing.values
    )
    each[[2, 5]] = 1e9
    near = Psom.from_grid([TOY_AXIS], TOY[:, None], smoothing=each)
    assert near.values == pytest.approx(missing.values, abs=1e-5)


def test_conjugate_gradients_agree_with_the_dense_factor(monkeypatch):
    rng = np.random.default_rng(3)
    axes = [chebyshev_axis(-1, 1, 6)] * 2
    roughness = Roughness(axes, box_of(axes))
    values = rng.normal(size=(6, 6, 2))
    smoothing = rng.choice([0.0, 0.1, np.inf], size=(6, 6), p=[0.4, 0.3, 0.3])
    dense = fill_nodes(roughness, values, smoothing)
    monkeypatch.setattr(fit, 'DENSE_LIMIT', 0)
    assert fill_nodes(roughness, values, smoothing) == pytest.approx(dense, abs=1e-6)


# Scattered samples ------------------------------------------------------------------------


@pytest.fixture
def scattered():
    """Few samples on a small grid, and the dense matrices of section 3.3.5."""
    rng = np.random.default_rng(4)
    axes = [chebyshev_axis(-1, 1, 5), regular_axis(0, 2, 4)]
    x = rng.uniform([-0.95, 0], [0.95, 2], (12, 2))
    y = np.stack([np.sin(2 * x[:, 0]) * x[:, 1], np.cos(x.sum(1))], axis=-1)
    unit = Psom(axes, np.eye(20).reshape(5, 4, 20), bounds=box_of(axes))
    return axes, x, y, unit.predict(x), dense_roughness(axes)


def test_exact_samples_give_the_smoothest_map_through_them(scattered):
    """Equations 3.34 to 3.37, with the minus sign that the print lacks."""
    axes, x, y, B, M = scattered
    w0 = np.linalg.lstsq(B, y)[0]
    Z = null_space(B)
    expected = w0 - Z @ np.linalg.solve(Z.T @ M @ Z, Z.T @ M @ w0)
    psom = Psom.from_samples(axes, x, y, bounds=box_of(axes))
    assert psom.predict(x) == pytest.approx(y, abs=1e-9)
    assert psom.values.reshape(20, 2) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize('copies', [1, 3], ids=['fewer samples than nodes', 'more'])
def test_smoothed_samples_are_those_of_equation_3_40(scattered, copies):
    axes, x, y, B, M = scattered
    x, y, B = (np.tile(a, (copies, 1)) for a in (x, y, B))
    y = y + np.random.default_rng(5).normal(0, 0.1, y.shape)
    for weight in (1e-3, 0.5):
        expected = np.linalg.solve(B.T @ B + weight * M, B.T @ y)
        psom = Psom.from_samples(axes, x, y, weight, bounds=box_of(axes))
        assert psom.values.reshape(20, 2) == pytest.approx(expected, abs=1e-8)
        assert psom.smoothing == weight


def test_too_many_exact_samples_are_met_in_the_least_squares_sense(scattered):
    axes, x, y, B, _ = scattered
    rng = np.random.default_rng(6)
    x = rng.uniform([-1, 0], [1, 2], (60, 2))
    y = rng.normal(size=(60, 1))
    B = Psom(axes, np.eye(20).reshape(5, 4, 20)).predict(x)
    expected = B @ np.linalg.lstsq(B, y)[0]
    assert Psom.from_samples(axes, x, y).predict(x) == pytest.approx(expected, abs=1e-8)


def test_samples_that_the_grid_cannot_tell_apart_do_not_make_the_map_swing():
    rng = np.random.default_rng(12)
    axes = [chebyshev_axis(-1, 1, 8)] * 2
    x, new = rng.uniform(-1, 1, (64, 2)), rng.uniform(-0.9, 0.9, (500, 2))

    def kinked(p):
        return np.abs(p.sum(axis=1, keepdims=True))

    psom = Psom.from_samples(axes, x, kinked(x))
    B, T = (Psom(axes, np.eye(64).reshape(8, 8, 64)).predict(p) for p in (x, new))
    met = T @ np.linalg.lstsq(B, kinked(x))[0]
    ours, exact = (np.abs(f - kinked(new)).mean() for f in (psom.predict(new), met))
    assert ours < 0.1
    assert exact > 3 * ours
    assert np.abs(psom.predict(x) - kinked(x)).max() < 0.3


@pytest.mark.parametrize('count', [12, 40], ids=['fewer samples than nodes', 'more'])
def test_leave_one_out_error_is_what_refitting_gives(scattered, count):
    axes = scattered[0]
    rng = np.random.default_rng(7)
    x = rng.uniform([-1, 0], [1, 2], (count, 2))
    y = np.sin(3 * x[:, :1]) + rng.normal(0, 0.1, (count, 1))
    roughness = Roughness(axes, box_of(axes))
    errors = []
    for i in range(count):
        rest = np.arange(count) != i
        values = SampleFit(roughness, x[rest], y[rest]).smooth(0.02)
        errors.append(Psom(axes, values, bounds=box_of(axes)).predict(x[i]) - y[i])
    assert SampleFit(roughness, x, y).left_out(0.02) == pytest.approx(np.mean(np.square(errors)))


def test_a_chosen_smoothing_gives_the_same_map_as_when_it_is_given(scattered):
    axes, x, y, _, _ = scattered
    noisy = y + np.random.default_rng(8).normal(0, 0.2, y.shape)
    chosen = Psom.from_samples(axes, x, noisy, 'cv')
    again = Psom.from_samples(axes, x, noisy, chosen.smoothing)
    assert again.values == pytest.approx(chosen.values, abs=1e-6)


def test_cross_validation_chooses_a_smoothing_that_helps():
    rng = np.random.default_rng(9)
    axis = chebyshev_axis(-1, 1, 14)
    x = rng.uniform(-1, 1, (60, 1))
    y = np.sin(3 * x) + rng.normal(0, 0.2, x.shape)
    test = np.linspace(-0.95, 0.95, 200)[:, None]
    bounds = [[-1, 1]]

    def error(smoothing):
        psom = Psom.from_samples([axis], x, y, smoothing, bounds=bounds)
        return np.sqrt(np.mean((psom.predict(test) - np.sin(3 * test)) ** 2))

    best = min(error(weight) for weight in np.logspace(-8, 3, 34))
    assert error('cv') < 0.7 * error(0.0)
    assert error('cv') < 1.5 * best


@pytest.mark.parametrize('gaps', [False, True], ids=['complete', 'with missing nodes'])
def test_smoothing_from_a_noise_level_moves_the_values_by_that_much(gaps):
    rng = np.random.default_rng(10)
    axes = [chebyshev_axis(-1, 1, 12)] * 2
    x, y = np.meshgrid(*axes, indexing='ij')
    clean = np.sin(x + 2 * y)[..., None]
    noisy = clean + rng.normal(0, 0.05, clean.shape)
    missing = rng.random((12, 12)) < 0.2 if gaps else np.zeros((12, 12), dtype=bool)
    psom = Psom.from_grid(
        axes, np.where(missing[..., None], np.nan, noisy), noise=0.05, missing=missing
    )
    moved = np.sqrt(np.mean((psom.values - noisy)[~missing] ** 2))
    assert moved == pytest.approx(0.05, rel=1e-3)
    assert np.abs(psom.values - clean).mean() < np.abs(noisy - clean).mean()


def test_cross_validation_on_a_grid_removes_noise():
    rng = np.random.default_rng(11)
    axes = [chebyshev_axis(-1, 1, 12)] * 2
    x, y = np.meshgrid(*axes, indexing='ij')
    clean = np.sin(x + 2 * y)[..., None]
    noisy = clean + rng.normal(0, 0.05, clean.shape)
    psom = Psom.from_grid(axes, noisy, 'cv')
    assert psom.smoothing > 0
    assert np.abs(psom.values - clean).mean() < 0.7 * np.abs(noisy - clean).mean()


# Bad input --------------------------------------------------------------------------------

AXES = [regular_axis(0, 1, 3)] * 2


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'x': np.zeros((2, 2)), 'y': np.zeros((2, 1))}, '2 samples are too few: 3 are needed'),
        ({'x': np.full((9, 2), 0.5), 'y': np.zeros((9, 1))}, 'lie on one line or plane'),
        ({'x': np.zeros((9, 3)), 'y': np.zeros((9, 1))}, r'x must have shape \(any, 2\)'),
        ({'x': np.zeros((9, 2)), 'y': np.zeros((8, 1))}, r'y must have shape \(9, any\)'),
        ({'x': np.full((9, 2), np.nan), 'y': np.zeros((9, 1))}, 'x holds nan'),
        ({'x': np.full((9, 2), 2.0), 'y': np.zeros((9, 1))}, 'Sample 0 at .* outside the grid'),
    ],
)
def test_bad_samples_are_refused_with_a_sentence(arguments, message):
    with pytest.raises(BadInput, match=message):
        Psom.from_samples(AXES, **arguments)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ({'smoothing': -1}, 'smoothing must be zero or positive'),
        ({'smoothing': np.nan}, 'smoothing must be zero or positive'),
        ({'smoothing': np.zeros(3)}, r'smoothing must be one number or have shape \(3, 3\)'),
        ({'smoothing': 'auto'}, "must be a number, an array or 'cv'"),
        ({'smoothing': 1.0, 'noise': 0.1}, 'smoothing or noise, not both'),
        ({'noise': 0.0}, 'noise must be a positive'),
        ({'missing': np.zeros((3, 3))}, 'missing must be a boolean array'),
        ({'missing': np.zeros((3, 2), dtype=bool)}, r'of shape \(3, 3\)'),
        ({'missing': np.ones((3, 3), dtype=bool)}, 'Every node is missing'),
        ({'missing': ~np.eye(3, dtype=bool)}, '3 known nodes do not fix even a linear map'),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(arguments, message):
    with pytest.raises(BadInput, match=message):
        Psom.from_grid(AXES, np.zeros((3, 3, 1)), **arguments)


def test_infinite_smoothing_of_samples_is_refused():
    x = np.random.default_rng(0).random((9, 2))
    with pytest.raises(BadInput, match='smoothing must be finite'):
        Psom.from_samples(AXES, x, x, np.inf)
