"""The hot loops in NumPy: the twin of `_core.pyx`, for machines without a compiler.

Same classes, same arguments, same results. The compiled module is the faster one; this one is
the easier to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kde_imitation.kernels._twin_arm import ArmSearch as ArmSearch
from kde_imitation.kernels._twin_arm import correlate as correlate
from kde_imitation.kernels._twin_arm import coverage as coverage
from kde_imitation.kernels._twin_room import fit_light as fit_light
from kde_imitation.kernels._twin_room import median_ratios as median_ratios
from kde_imitation.kernels._twin_room import scores_beyond as scores_beyond
from kde_imitation.kernels._twin_room import unlike as unlike
from kde_imitation.kernels._twin_view import beside_body as beside_body
from kde_imitation.kernels._twin_view import relative_to_face as relative_to_face
from kde_imitation.kernels._twin_view import sample_colours as sample_colours
from kde_imitation.kernels._twin_vision import Coder as Coder
from kde_imitation.kernels._twin_vision import shape_contexts as shape_contexts

Floats = npt.NDArray[np.floating[Any]]

MAX_INPUTS = 16
MAX_NODES = 64
# A step that takes off less than this share of the cost is slow.
FAST = 0.2


class Map:
    """A differentiable map f: R^m → R^d; subclasses fill in `evaluate`."""

    inputs: int
    outputs: int

    def evaluate(self, x: Floats, jacobian: bool = False) -> tuple[Floats, Floats | None]:
        """Return values (s, d) and Jacobians (s, d, m), or None, at points x (s, m)."""
        raise NotImplementedError

    def best_match(
        self,
        targets: Floats,
        weights: Floats,
        starts: Floats,
        lower: Floats,
        upper: Floats,
        pull: Floats,
        max_steps: int,
        tolerance: float,
    ) -> tuple[Floats, Floats, npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Minimise Σ p_i (f_i(x) − y_i)² + Σ λ_j (x_j − s_j)² inside bounds, target by target.

        Parameters
        ----------
        targets : (s, d), weights : (d,) the p_i, starts : (s, m), lower, upper : (m,)
        pull : (m,) the λ_j that hold x near its start
        max_steps : int
        tolerance : float
            Stop when the projected gradient or the step is smaller, relative to the scale.

        Returns
        -------
        x (s, m), cost (s,), steps (s,) int32, converged (s,) bool
        """
        x = np.array(starts, dtype=np.float64)
        cost = np.empty(len(x))
        steps = np.zeros(len(x), dtype=np.int32)
        converged = np.zeros(len(x), dtype=bool)
        for i in range(len(x)):
            x[i], cost[i], steps[i], converged[i] = self._levenberg_marquardt(
                targets[i], weights, x[i], lower, upper, pull, max_steps, tolerance
            )
        return x, cost, steps, converged

    def _levenberg_marquardt(
        self,
        y: Floats,
        p: Floats,
        start: Floats,
        lower: Floats,
        upper: Floats,
        pull: Floats,
        max_steps: int,
        tolerance: float,
    ) -> tuple[Floats, float, int, bool]:
        """Bounded Levenberg-Marquardt: inputs at a bound that the gradient pushes out stay there.

        While the cost falls fast the Gauss-Newton matrix serves; where it falls slowly, which
        large residuals cause, a matrix updated from step to step takes its place (Fletcher and
        Xu's hybrid), and the last steps are fast again.
        """

        def value_at(point: Floats, f: Floats) -> float:
            return float(np.sum(p * (f - y) ** 2) + np.sum(pull * (point - start) ** 2))

        def linearise(point: Floats) -> tuple[Floats, Floats]:
            values, jacobians = self.evaluate(point[None], True)
            assert jacobians is not None
            return values[0], jacobians[0]

        x, damping, fast = start.copy(), 1e-3, True
        curvature: Floats
        f, jac = linearise(x)
        value = value_at(x, f)
        step, jac_old, curvature = np.zeros_like(x), jac, np.zeros((x.size, x.size))
        for steps in range(max_steps):
            gradient = jac.T @ (p * (f - y)) + pull * (x - start)
            gauss = (jac.T * p) @ jac + np.diag(pull)
            if fast:
                curvature = gauss
            else:
                extra = (jac - jac_old).T @ (p * (f - y))
                curvature = _add_curvature(curvature, gauss, step, extra)
            scale = float(np.diag(gauss).max())
            held = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
            free = np.flatnonzero(~held)
            if free.size == 0 or np.abs(gradient[free]).max() <= tolerance * (scale + 1e-300):
                return x, value, steps, True
            moved = False
            while damping < 1e12:
                system = curvature[np.ix_(free, free)]
                lift = damping * (np.diag(system) + 1e-9 * scale)
                try:
                    factor = np.linalg.cholesky(system + np.diag(lift))
                except np.linalg.LinAlgError:
                    damping *= 10.0
                    continue
                x_new = x.copy()
                x_new[free] -= np.linalg.solve(factor.T, np.linalg.solve(factor, gradient[free]))
                x_new = np.clip(x_new, lower, upper)
                if np.abs(x_new - x).max() <= tolerance:
                    return x, value, steps, True
                f_new, jac_new = linearise(x_new)
                trial = value_at(x_new, f_new)
                if trial < value:
                    moved = True
                    break
                damping *= 8.0
            if not moved:
                return x, value, steps, True
            damping = max(damping / 10.0, 1e-12)
            fast = value - trial >= FAST * value
            step, jac_old = x_new - x, jac
            x, value, f, jac = x_new, trial, f_new, jac_new
        return x, value, max_steps, False


def _add_curvature(curvature: Floats, gauss: Floats, step: Floats, extra: Floats) -> Floats:
    """Update the curvature (m, m) by the last step, as BFGS does, or reset it to Gauss-Newton.

    The change of the gradient is taken as Gauss-Newton's share plus `extra`, (J − J_old)ᵀ r,
    which is what large residuals add and Gauss-Newton leaves out.
    """
    plain = gauss @ step
    change, image = plain + extra, curvature @ step
    along, bend = float(step @ change), float(step @ image)
    if along <= 1e-4 * float(step @ plain) or bend <= 0.0:
        return gauss
    return curvature + np.outer(change, change) / along - np.outer(image, image) / bend


class TensorMap(Map):
    """A tensor-product polynomial f(x) = Σ_k g_k Π_μ φ_{k_μ}(t_μ), φ = Tᵀ C_μ.

    T are Chebyshev polynomials in t_μ = (x_μ − centre_μ) / half_μ, C_μ (n_μ, r_μ) combines them,
    and g (r_1, …, r_m, d) is the core tensor.
    """

    def __init__(
        self, core: Floats, factors: Sequence[Floats], centre: Floats, half: Floats
    ) -> None:
        self.core, self.factors = np.ascontiguousarray(core, dtype=np.float64), list(factors)
        self.centre, self.half = centre, half
        self.inputs, self.outputs = core.ndim - 1, core.shape[-1]
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')
        for axis, factor in enumerate(self.factors):
            if factor.shape[0] > MAX_NODES:
                raise ValueError(f'An axis may have {MAX_NODES} nodes at most.')
            if factor.shape[1] != core.shape[axis]:
                raise ValueError('A factor does not fit the core tensor.')
        # Coefficients of the derivative, so that its values are T times them.
        self._slopes = [
            chebyshev.chebder(np.vstack([factor, np.zeros((1, factor.shape[1]))]))
            / self.half[axis]
            for axis, factor in enumerate(self.factors)
        ]

    def evaluate(self, x: Floats, jacobian: bool = False) -> tuple[Floats, Floats | None]:
        """Return values (s, d) and Jacobians (s, d, m), or None, at points x (s, m)."""
        scaled = (x - self.centre) / self.half
        bases = []
        for axis in range(self.inputs):
            t = chebyshev.chebvander(scaled[:, axis], self.factors[axis].shape[0] - 1)
            bases.append((t @ self.factors[axis], t @ self._slopes[axis]))
        rests = [int(np.prod(self.core.shape[axis + 1 :])) for axis in range(self.inputs)]
        first = self.core.reshape(self.core.shape[0], rests[0])
        phi, slope = bases[0]
        slots = [phi @ first] + ([slope @ first] if jacobian else [])
        for (phi, slope), rest in zip(bases[1:], rests[1:]):
            blocks = [slot.reshape(len(x), phi.shape[1], rest) for slot in slots]
            slots = [(phi[:, None] @ block)[:, 0] for block in blocks]
            if jacobian:
                slots.append((slope[:, None] @ blocks[0])[:, 0])
        return slots[0], np.stack(slots[1:], axis=-1) if jacobian else None


class ArmMap(Map):
    """An arm in two parts: `near` moves a frame, `far` moves a point inside that frame.

    `near` gives (e, w, R): two points and the frame's rotation by rows, 15 numbers; `far` gives
    h (3,). Outputs: e, e, w, w, w + R h, so 15 numbers for the five points of the pose kernel.
    Inputs: those of `near`, then those of `far`, then `idle` ones that move no point.
    """

    def __init__(self, near: TensorMap, far: TensorMap, idle: int = 0) -> None:
        if near.outputs != 15 or far.outputs != 3:
            raise ValueError('The two parts must have 15 and 3 outputs.')
        self.near, self.far, self.idle = near, far, idle
        self.inputs = near.inputs + far.inputs + idle
        self.outputs = 15
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')

    def evaluate(self, x: Floats, jacobian: bool = False) -> tuple[Floats, Floats | None]:
        """Return values (s, 15) and Jacobians (s, 15, m), or None, at points x (s, m)."""
        split, end = self.near.inputs, self.near.inputs + self.far.inputs
        a, ja = self.near.evaluate(x[:, :split], jacobian)
        h, jh = self.far.evaluate(x[:, split:end], jacobian)
        elbow, wrist, turn = a[:, :3], a[:, 3:6], a[:, 6:].reshape(-1, 3, 3)
        hand = wrist + np.einsum('sij,sj->si', turn, h)
        values = np.concatenate([elbow, elbow, wrist, wrist, hand], axis=1)
        if ja is None or jh is None:
            return values, None
        jacobians = np.zeros((len(x), 15, self.inputs))
        jacobians[:, 0:3, :split] = jacobians[:, 3:6, :split] = ja[:, :3]
        jacobians[:, 6:9, :split] = jacobians[:, 9:12, :split] = ja[:, 3:6]
        turns = ja[:, 6:].reshape(-1, 3, 3, split)
        jacobians[:, 12:, :split] = ja[:, 3:6] + np.einsum('sijm,sj->sim', turns, h)
        jacobians[:, 12:, split:end] = turn @ jh
        return values, jacobians


class ChainMap(Map):
    """The points of a serial arm of revolute joints, exactly, from its fixed transforms.

    Joint j stands at `origins[j]`, turned by `turns[j]`, in the frame before it, and turns about
    the unit vector `axes[j]`. Point k is fixed at `points[k]` in the frame after joint
    `carriers[k]` (-1 is the base). Outputs: the points in the base frame, 3 numbers each.
    """

    def __init__(
        self,
        turns: Floats,
        origins: Floats,
        axes: Floats,
        points: Floats,
        carriers: npt.NDArray[np.int32],
    ) -> None:
        self.turns, self.origins, self.axes = turns, origins, axes
        self.points, self.carriers = points, np.asarray(carriers)
        self.inputs, self.outputs = len(axes), 3 * len(points)
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')

    def evaluate(self, x: Floats, jacobian: bool = False) -> tuple[Floats, Floats | None]:
        """Return values (s, 3k) and Jacobians (s, 3k, m), or None, at points x (s, m)."""
        count = len(x)
        frames = [np.broadcast_to(np.eye(3), (count, 3, 3))]
        places, axes = [np.zeros((count, 3))], []
        for j, (turn, origin, axis) in enumerate(zip(self.turns, self.origins, self.axes)):
            fixed = frames[-1] @ turn
            places.append(places[-1] + frames[-1] @ origin)
            axes.append(fixed @ axis)
            cross = np.cross(np.eye(3), axis)
            sine, cosine = np.sin(x[:, j, None, None]), np.cos(x[:, j, None, None])
            frames.append(fixed @ (np.eye(3) + sine * cross + (1.0 - cosine) * cross @ cross))
        points = np.empty((count, len(self.points), 3))
        for k, carrier in enumerate(self.carriers):
            points[:, k] = places[carrier + 1] + frames[carrier + 1] @ self.points[k]
        values = points.reshape(count, -1)
        if not jacobian:
            return values, None
        arms = points[:, :, None] - np.stack(places[1:], axis=1)[:, None]
        slopes = np.cross(np.stack(axes, axis=1)[:, None], arms)
        slopes *= (np.arange(self.inputs) <= self.carriers[:, None])[None, :, :, None]
        return values, np.moveaxis(slopes, -1, -2).reshape(count, -1, self.inputs)


class ProjectedMap(Map):
    """A map followed by a linear one: A f(x) + b, with A (r, d) and b (r,)."""

    def __init__(self, inner: Map, matrix: Floats, offset: Floats) -> None:
        self.inner, self.matrix, self.offset = inner, matrix, offset
        self.inputs, self.outputs = inner.inputs, len(matrix)
        if matrix.shape[1] != inner.outputs or len(offset) != self.outputs:
            raise ValueError('The matrix does not fit the map.')

    def evaluate(self, x: Floats, jacobian: bool = False) -> tuple[Floats, Floats | None]:
        """Return values (s, r) and Jacobians (s, r, m), or None, at points x (s, m)."""
        values, slopes = self.inner.evaluate(x, jacobian)
        projected = values @ self.matrix.T + self.offset
        return projected, None if slopes is None else self.matrix @ slopes


class Term(NamedTuple):
    """One summand of a kernel: `weight` times a basic kernel on some columns of the input."""

    kind: str
    """'overlap' Σ min(x, y), 'gaussian' exp(−γ‖x − y‖²) or 'polynomial' (x·y + offset)^degree"""
    weight: float
    columns: npt.NDArray[np.intp]
    gamma: float = 0.0
    degree: int = 0
    offset: float = 0.0


# Numbers in one temporary array.
CHUNK = 1 << 18


def _values(term: Term, left: Floats, right: Floats) -> Floats:
    """Return the term between all rows of left (n, c) and right (m, c), its own columns."""
    if term.kind == 'polynomial':
        return np.asarray(term.weight * (left @ right.T + term.offset) ** term.degree)
    result = np.empty((len(left), len(right)))
    rows = max(1, CHUNK // max(right.size, 1))
    for start in range(0, len(left), rows):
        some = left[start : start + rows, None]
        if term.kind == 'overlap':
            np.minimum(some, right).sum(axis=2, out=result[start : start + rows])
        else:
            ((some - right) ** 2).sum(axis=2, out=result[start : start + rows])
    if term.kind == 'gaussian':
        result *= -term.gamma
        np.exp(result, out=result)
    result *= term.weight
    return result


def gram(terms: Sequence[Term], X: Floats, Y: Floats) -> Floats:
    """Return the Gram matrix (n, m) of a sum of terms between X (n, d) and Y (m, d)."""
    total = np.zeros((len(X), len(Y)))
    for term in terms:
        total += _values(term, X[:, term.columns], Y[:, term.columns])
    return total


class Evaluator:
    """f(x) = Σ_i α_i k(p_i, x) + b for many columns of α at once, made ready for many calls.

    Parameters
    ----------
    terms : sequence of Term
        The kernel is their sum.
    points : (n, d), coefficients : (n, r), offset : (r,), float64
    storage : 'float64' or 'float32'
        How the points are kept; all sums are in float64.
    """

    def __init__(
        self,
        terms: Sequence[Term],
        points: Floats,
        coefficients: Floats,
        offset: Floats,
        storage: str = 'float64',
    ) -> None:
        self.inputs, self.outputs = points.shape[1], coefficients.shape[1]
        self._terms = [(term, points[:, term.columns].astype(storage)) for term in terms]
        self._coefficients, self._offset = coefficients, offset
        histogram = np.zeros(self.inputs, dtype=bool)
        for term in terms:
            histogram[term.columns] |= term.kind == 'overlap'
        self._histogram = np.flatnonzero(histogram)

    def __call__(self, X: object) -> Floats | None:
        """Return f at X (m, d), shape (m, r), or None where X must be prepared or is no input.

        It takes C-contiguous float64 of finite numbers, none negative in a column of a
        histogram.
        """
        if not (
            isinstance(X, np.ndarray)
            and X.dtype == np.float64
            and X.ndim == 2
            and X.shape[1] == self.inputs
            and X.flags.c_contiguous
            and np.isfinite(X).all()
            and not (X[:, self._histogram] < 0).any()
        ):
            return None
        result = np.empty((len(X), self.outputs))
        rows = max(1, CHUNK // max(len(self._coefficients), 1))
        for start in range(0, len(X), rows):
            some = X[start : start + rows]
            values = [_values(term, some[:, term.columns], own) for term, own in self._terms]
            result[start : start + rows] = sum(values) @ self._coefficients + self._offset
        return result


def probe_overlaps(rounds: int) -> float:
    """Add up 32 · rounds minima of numbers in the nearest cache, for timing; return the sum."""
    few = np.linspace(0.0, 1.0, 512)
    sums = np.zeros(32)
    for i in range(rounds):
        start = 32 * (i % 16)
        sums += np.minimum(few[start : start + 32], few[i % 512])
    return float(sums.sum())


def probe_reading(data: Floats, rounds: int) -> float:
    """Read an array several times, for timing; return the sum of its whole blocks of 32."""
    total = 0.0
    for _ in range(rounds):
        total = float(data[: len(data) // 32 * 32].sum())
    return total
