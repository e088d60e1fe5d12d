"""Choosing the node values: as near to the data as they deserve, as smooth as possible."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy  # which loads a part of itself when it is first used

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput, KdeImitationError
from kde_imitation.kinematics.psom.roughness import Roughness

Nodes = npt.NDArray[np.intp]

# Up to this many unknown nodes a dense factor is faster than conjugate gradients, and safer.
DENSE_LIMIT = 6000
CG_TOLERANCE, CG_STEPS = 1e-10, 20_000
# Samples are met exactly while the weakest of their combinations has this strength, relative to
# the strongest; in a worse case only combinations above the second number are.
WELL_POSED, TOLD_APART = 1e-5, 1e-4


def fill_nodes(roughness: Roughness, values: Floats, smoothing: Floats) -> Floats:
    """Smooth noisy node values and fill missing ones (3.27, 3.30, 3.33).

    Minimises Σ (w_i − w̃_i)² / λ_i + R(w): a node with λ = 0 keeps its value, one with λ = ∞ is
    free to be as smooth as its neighbours ask.

    Parameters
    ----------
    roughness : Roughness
    values : (n_1, …, n_q, d) array
    smoothing : (n_1, …, n_q) array
        λ of each node.

    Returns
    -------
    (n_1, …, n_q, d) array
    """
    flat = smoothing.ravel()
    free = np.flatnonzero(flat > 0)
    if free.size == 0:
        return values.copy()
    d = values.shape[-1]
    missing = np.isinf(flat)
    _fixes_a_plane(roughness, np.flatnonzero(~missing))
    known = np.where(missing[:, None], 0.0, values.reshape(-1, d))
    held = known.copy()
    held[free] = 0.0
    trust = 1.0 / flat[free]
    right = trust[:, None] * known[free]
    if free.size < flat.size:
        right -= roughness.apply(held.reshape(values.shape)).reshape(-1, d)[free]
    if free.size <= DENSE_LIMIT:
        solution = _dense(roughness, free, trust, right)
    else:
        solution = _conjugate_gradients(roughness, free, trust, right)
    held[free] = solution
    return held.reshape(values.shape)


def _fixes_a_plane(roughness: Roughness, known: Nodes) -> None:
    """Refuse data that leave a linear map, which has no roughness, undetermined."""
    places = np.stack(np.unravel_index(known, roughness.shape), axis=-1).astype(np.float64)
    rank = np.linalg.matrix_rank(np.column_stack([np.ones(len(known)), places]))
    if rank < places.shape[1] + 1:
        raise BadInput(
            f'{len(known)} known nodes do not fix even a linear map of {places.shape[1]} inputs; '
            'measure more of them, not all on one line or plane of the grid.'
        )


def _dense(roughness: Roughness, free: Nodes, trust: Floats, right: Floats) -> Floats:
    system = roughness.block(free)
    system[np.diag_indices(len(free))] += trust
    factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    solution: Floats = scipy.linalg.cho_solve(factor, right, check_finite=False)
    return solution


def _conjugate_gradients(
    roughness: Roughness, free: Nodes, trust: Floats, right: Floats
) -> Floats:
    """Solve for all outputs (n, d) at once, scaled by the diagonal, without building M."""
    buffer = np.zeros((roughness.size, right.shape[1]))

    def multiply(v: Floats) -> Floats:
        buffer[free] = v
        product = roughness.apply(buffer.reshape(*roughness.shape, -1))
        result: Floats = product.reshape(buffer.shape)[free] + trust[:, None] * v
        return result

    scale = 1.0 / (roughness.diagonal(free) + trust)[:, None]
    solution, rest = np.zeros_like(right), right.copy()
    scaled = scale * rest
    direction, power = scaled, (rest * scaled).sum(axis=0)
    goal = CG_TOLERANCE**2 * (right**2).sum(axis=0)
    for _ in range(CG_STEPS):
        if ((rest**2).sum(axis=0) <= goal).all():
            return solution
        image = multiply(direction)
        along = (direction * image).sum(axis=0)
        step = np.divide(power, along, out=np.zeros_like(power), where=along > 0)
        solution += step * direction
        rest -= step * image
        scaled = scale * rest
        before, power = power, (rest * scaled).sum(axis=0)
        turn = np.divide(power, before, out=np.zeros_like(power), where=before > 0)
        direction = scaled + turn * direction
    raise KdeImitationError(
        f'The smoothest values of {len(free)} nodes were not found in {CG_STEPS} steps; '
        'use fewer nodes a dimension or a smaller smoothing.'
    )


class SampleFit:
    """The smoothest map through, or near, scattered samples (3.34 to 3.40).

    With M = RᵀR on the coefficients that have roughness, z = R c_rough and d the flat
    coefficients, the fit is min ‖y − T d − Z z‖² + λ‖z‖²: a ridge regression whose flat part is
    not penalised. T is projected away first.

    Parameters
    ----------
    roughness : Roughness
    x : (s, q) array
    y : (s, k) array
    """

    def __init__(self, roughness: Roughness, x: Floats, y: Floats) -> None:
        self._roughness = roughness
        self._is_flat = roughness.flat()
        flat_count = int(self._is_flat.sum())
        if len(x) < flat_count:
            raise BadInput(
                f'{len(x)} samples are too few: {flat_count} are needed to fix even a linear map '
                f'of {x.shape[1]} inputs.'
            )
        rows = roughness.rows(x)
        self._T = rows[:, self._is_flat]
        self._Q, self._triangle = np.linalg.qr(self._T)
        pivots = np.abs(np.diag(self._triangle))
        if pivots.min() <= 1e-10 * pivots.max():
            raise BadInput(
                'The samples all lie on one line or plane of the input space; spread them out, or '
                'leave out the input that never changes.'
            )
        rough = ~self._is_flat
        M = roughness.coefficient_matrix()[rough][:, rough].toarray()
        self._R = scipy.linalg.cholesky(M, overwrite_a=True, check_finite=False)
        self._Z = scipy.linalg.solve_triangular(
            self._R, rows[:, rough].T, trans='T', check_finite=False
        ).T
        self._y = y
        self._Z2 = self._project(self._Z)
        self._y2 = self._project(y)
        self._spectrum: tuple[Floats, Floats, Floats] | None = None

    def _project(self, a: Floats) -> Floats:
        projected: Floats = a - self._Q @ (self._Q.T @ a)
        return projected

    def _values(self, z: Floats) -> Floats:
        """Turn z into node values (n_1, …, n_q, k)."""
        c = np.empty((self._roughness.size, z.shape[1]))
        c[~self._is_flat] = scipy.linalg.solve_triangular(self._R, z, check_finite=False)
        c[self._is_flat] = scipy.linalg.solve_triangular(
            self._triangle, self._Q.T @ (self._y - self._Z @ z), check_finite=False
        )
        return self._roughness.node_values(c.reshape(*self._roughness.shape, -1))

    def exact(self) -> Floats:
        """Return node values of the smoothest map through the samples.

        Where the grid has too few nodes for that, the smoothest of those that miss them least.
        Where it can hardly tell some combinations of samples apart, as happens when samples are
        nearly as many as nodes, meeting these too would make the map swing wildly for the sake of
        what its polynomials cannot express; such combinations are left to smoothness.
        """
        U, squares, coordinates = self._decompose()
        strength = np.sqrt(squares / squares[-1])
        possible = min(len(self._y2) - self._Q.shape[1], self._Z2.shape[1])
        if len(squares) == possible and strength[0] > WELL_POSED:
            z = scipy.linalg.lstsq(
                self._Z2, self._y2, cond=1e-13, lapack_driver='gelsy', check_finite=False
            )[0]
        else:
            met = strength > TOLD_APART
            z = self._Z2.T @ (U[:, met] @ (coordinates[met] / squares[met, None]))
        return self._values(z)

    def smooth(self, smoothing: float) -> Floats:
        """Return node values for one λ (3.40)."""
        Z = self._Z2
        if self._spectrum is not None:
            U, squares, coordinates = self._spectrum
            z = Z.T @ (U @ (coordinates / (squares + smoothing)[:, None]))
        elif Z.shape[0] <= Z.shape[1]:
            system = Z @ Z.T
            system[np.diag_indices(len(system))] += smoothing
            z = Z.T @ scipy.linalg.solve(system, self._y2, assume_a='pos', overwrite_a=True)
        else:
            system = Z.T @ Z
            system[np.diag_indices(len(system))] += smoothing
            z = scipy.linalg.solve(system, Z.T @ self._y2, assume_a='pos', overwrite_a=True)
        return self._values(z)

    def _decompose(self) -> tuple[Floats, Floats, Floats]:
        """Return left singular vectors U (s, r) of Z2, its squared singular values, and Uᵀy."""
        if self._spectrum is None:
            Z = self._Z2
            wide = Z.shape[0] <= Z.shape[1]
            squares, vectors = scipy.linalg.eigh(
                Z @ Z.T if wide else Z.T @ Z, driver='evd', overwrite_a=True, check_finite=False
            )
            keep = squares > squares[-1] * np.finfo(float).eps * len(squares)
            squares, vectors = squares[keep], vectors[:, keep]
            U = vectors if wide else (Z @ vectors) / np.sqrt(squares)
            self._spectrum = U, squares, U.T @ self._y2
        return self._spectrum

    def residuals(self, smoothing: float) -> Floats:
        """Return y − f(x) (s, k) of the fit with one λ."""
        U, squares, coordinates = self._decompose()
        kept = squares / (squares + smoothing)
        difference: Floats = self._y2 - U @ (kept[:, None] * coordinates)
        return difference

    def left_out(self, smoothing: float, squared: Floats | None = None) -> float:
        """Return the mean squared error when each sample is left out in turn: no refit needed."""
        U, squares, _ = self._decompose()
        kept = squares / (squares + smoothing)
        U2 = U**2 if squared is None else squared
        freedom = 1.0 - (self._Q**2).sum(axis=1) - U2 @ kept
        # A sample whose leverage is one determines its own residual: rounding decides its sign.
        errors = self.residuals(smoothing) / np.maximum(freedom, 1e-12)[:, None]
        return float(np.mean(errors**2))

    def choose(self, rule: Literal['cv'] | float) -> float:
        """Choose λ: by leave-one-out cross-validation, or so that the residual is the noise.

        Parameters
        ----------
        rule : 'cv' or float
            A number is the standard deviation σ of the noise: λ then makes the mean squared
            residual σ², as section 3.3.2 proposes.
        """
        U, squares, _ = self._decompose()
        low, high = np.log(squares[-1] * 1e-15), np.log(squares[-1] * 1e3)
        if rule == 'cv':
            squared = U**2
            grid = np.linspace(low, high, 43)
            scores = [self.left_out(float(np.exp(g)), squared) for g in grid]
            best = int(np.argmin(scores))
            if best in (0, len(grid) - 1):
                return float(np.exp(grid[best]))
            found = scipy.optimize.minimize_scalar(
                lambda g: self.left_out(float(np.exp(g)), squared),
                bounds=(grid[best - 1], grid[best + 1]),
                method='bounded',
                options={'xatol': 0.05},
            )
            return float(np.exp(found.x))

        def excess(log: float) -> float:
            return float(np.mean(self.residuals(float(np.exp(log))) ** 2)) - float(rule) ** 2

        if excess(low) >= 0:
            return float(np.exp(low))
        if excess(high) <= 0:
            return float(np.exp(high))
        return float(np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-6)))
