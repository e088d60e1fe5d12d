"""Moving on the Stiefel manifold: matrices with orthonormal columns (Bakır 2006, section 2.4.1).

A point is V (n, r) with VᵀV = I, a tangent at V is Δ (n, r) with VᵀΔ skew. Lengths and angles are
those of the canonical metric ⟨Δ, Δ'⟩ = tr Δᵀ(I − ½VVᵀ)Δ', under which the gradient is the one of
equation 32. The thesis moves with an n × n exponential (A2.1); the same geodesic needs only one
of 2r × 2r (Edelman, Arias and Smith 1998, theorem 2.1), so that n may be thousands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput

Point = tuple[Floats, ...]
Loss = Callable[[Point], tuple[float, Point]]


def as_stiefel(name: str, V: npt.ArrayLike, tolerance: float = 1e-8) -> Floats:
    """Check that the columns of V (n, r) are orthonormal."""
    point = as_floats(name, V, (None, None))
    if point.shape[1] > point.shape[0]:
        raise BadInput(f'{name} has shape {point.shape}: more columns than can be orthonormal.')
    if np.abs(point.T @ point - np.eye(point.shape[1])).max() > tolerance:
        raise BadInput(f'The columns of {name} are not orthonormal; use scipy.linalg.qr first.')
    return point


def random_point(n: int, r: int, random: np.random.Generator) -> Floats:
    """Draw uniformly from all (n, r) matrices with orthonormal columns (A2.5)."""
    Q, R = np.linalg.qr(random.normal(size=(n, r)))
    return np.asarray(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0))


def tangent(V: Floats, D: Floats) -> Floats:
    """Return the tangent at V nearest to D (n, r)."""
    inside = V.T @ D
    return np.asarray(D - V @ (0.5 * (inside + inside.T)))


def gradient(V: Floats, G: Floats) -> Floats:
    """Turn the free gradient G (n, r) of a function into its gradient on the manifold (32)."""
    return np.asarray(G - V @ (G.T @ V))


def inner(V: Floats, D1: Floats, D2: Floats) -> float:
    """Return the canonical inner product of two tangents at V."""
    return float(np.vdot(D1, D2) - 0.5 * np.vdot(V.T @ D1, V.T @ D2))


def random_tangent(V: Floats, scale: float, random: np.random.Generator) -> Floats:
    """Draw a tangent at V, normally distributed alike in all directions (A2.6).

    The algorithm of the thesis fills all of an n × n skew matrix; its block that does not touch V
    is left out here, because it turns only what is orthogonal to V. As the draw is isotropic in
    the canonical metric, going there and coming back along the geodesic are equally likely.
    """
    n, r = V.shape
    A = np.tril(random.normal(0, scale, (r, r)), -1)
    B = random.normal(0, scale, (n, r))
    return np.asarray(V @ (A - A.T) + B - V @ (V.T @ B))


def step_exactly_orthonormal(V: Floats) -> Floats:
    """Remove the rounding of VᵀV − I, squaring it away (one step towards the polar factor)."""
    return np.asarray(1.5 * V - 0.5 * V @ (V.T @ V))


class Geodesic:
    """The shortest curve from V in direction D, at any parameter t.

    With A = VᵀD and the thin decomposition Q R of what D has outside of V,

        V(t) = [V, Q] exp(t [[A, −Rᵀ], [R, 0]]) [I; 0].

    Parameters
    ----------
    V : (n, r) array with orthonormal columns
    D : (n, r) array, a tangent at V
    """

    def __init__(self, V: Floats, D: Floats) -> None:
        n, r = V.shape
        A = V.T @ D
        A = 0.5 * (A - A.T)
        outside = D - V @ (V.T @ D)
        outside -= V @ (V.T @ outside)
        Q, s, Z = np.linalg.svd(outside, full_matrices=False)
        used = min(n - r, int((s > 1e-14 * max(float(s.max(initial=0)), 1e-300)).sum()))
        R = s[:used, None] * Z[:used]
        block = np.zeros((r + used, r + used))
        block[:r, :r], block[r:, :r], block[:r, r:] = A, R, -R.T
        self._frame = np.concatenate([V, Q[:, :used]], axis=1)
        # i times a skew matrix is Hermitian: one decomposition serves every t.
        self._speed, self._turn = np.linalg.eigh(1j * block)
        self._r = r
        self._start = V

    def _combine(self, weights: npt.NDArray[np.complex128]) -> Floats:
        inside = ((self._turn * weights) @ self._turn[: self._r].conj().T).real
        return np.asarray(self._frame @ inside)

    def at(self, t: float) -> Floats:
        """Return V(t)."""
        if t == 0.0:
            return self._start
        return step_exactly_orthonormal(self._combine(np.exp(-1j * t * self._speed)))

    def velocity(self, t: float) -> Floats:
        """Return V'(t), the direction carried along the curve."""
        return self._combine(-1j * self._speed * np.exp(-1j * t * self._speed))


def pi_stiefel(V: npt.ArrayLike, G: npt.ArrayLike, t: float) -> Floats:
    """Move V along the geodesic of the free gradient G by t; descend with t < 0 (A2.1)."""
    point = as_stiefel('V', V)
    free = as_floats('G', G, point.shape)
    return Geodesic(point, gradient(point, free)).at(t)


class _Line:
    """The flat counterpart of a geodesic, for unconstrained factors."""

    def __init__(self, S: Floats, D: Floats) -> None:
        self._start, self._direction = S, D

    def at(self, t: float) -> Floats:
        return np.asarray(self._start + t * self._direction)

    def velocity(self, t: float) -> Floats:
        return self._direction


@dataclass
class Descent:
    """What `descend` found."""

    point: Point
    values: Floats
    """The loss at the start and after each step."""
    converged: bool

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return len(self.values) - 1


def descend(
    loss: Loss,
    start: Sequence[Floats],
    curved: Sequence[bool],
    max_steps: int = 500,
    tolerance: float = 1e-7,
    flat: float = 1e-13,
    memory: int = 10,
) -> Descent:
    """Minimise a smooth loss over a product of Stiefel manifolds and flat spaces.

    Limited-memory quasi-Newton directions, geodesic steps, and a line search with the weak Wolfe
    conditions. Where algorithm A2.2 searches three step lengths along plain gradients, the
    directions here learn the scales of the factors from the last `memory` steps, and one length
    is searched.

    Parameters
    ----------
    loss : callable
        Gets the factors, returns the loss and its free gradients.
    start : sequence of arrays
        The factors.
    curved : sequence of bool
        True for a factor with orthonormal columns, False for an unconstrained one.
    max_steps : int
    tolerance : float
        Stop when the gradient is this much smaller than it was at the start.
    flat : float
        Stop when ten steps together lower the loss by less than this share of it.
    memory : int
        The number of steps that shape the next direction; 0 is steepest descent.
    """
    point: Point = tuple(start)

    def dot(a: Point, b: Point) -> float:
        return sum(
            inner(V, x, y) if bent else float(np.vdot(x, y))
            for V, x, y, bent in zip(point, a, b, curved)
        )

    def on_manifold(free: Point) -> Point:
        return tuple(gradient(V, G) if bent else G for V, G, bent in zip(point, free, curved))

    def carry(D: Point) -> Point:
        return tuple(tangent(V, d) if bent else d for V, d, bent in zip(point, D, curved))

    value, free = loss(point)
    values = [value]
    slope = on_manifold(free)
    first = np.sqrt(dot(slope, slope))
    pairs: deque[tuple[Point, Point]] = deque(maxlen=max(memory, 1))
    converged = first == 0.0
    length = 1.0 / max(first, 1e-300)
    while not converged and len(values) <= max_steps:
        direction = _quasi_newton(slope, list(pairs), dot)
        descent = dot(direction, slope)
        if not descent < 0:
            pairs.clear()
            direction = tuple(-g for g in slope)
            descent = dot(direction, slope)
        curves = [
            Geodesic(V, D) if bent else _Line(V, D) for V, D, bent in zip(point, direction, curved)
        ]
        found = _wolfe(loss, curves, value, descent, 1.0 if pairs else length)
        if found is None:
            if not pairs:
                break
            pairs.clear()
            length = 1e-3 / max(float(np.sqrt(dot(slope, slope))), 1e-300)
            continue
        t, value, free, point = found
        before = carry(slope)
        slope = on_manifold(free)
        moved = tuple(t * c.velocity(t) for c in curves)
        if memory:
            kept = [(carry(s), carry(y)) for s, y in pairs]
            pairs.clear()
            pairs.extend(kept)
            change = tuple(a - b for a, b in zip(slope, before))
            if dot(moved, change) > 1e-14 * np.sqrt(dot(moved, moved) * dot(change, change)):
                pairs.append((moved, change))
        else:
            length = 2.0 * t
        values.append(value)
        steepness = np.sqrt(dot(slope, slope))
        converged = bool(
            steepness <= tolerance * first
            or (len(values) > 10 and values[-11] - value <= flat * abs(value))
        )
    return Descent(point, np.array(values), bool(converged))


def _quasi_newton(
    slope: Point, pairs: list[tuple[Point, Point]], dot: Callable[[Point, Point], float]
) -> Point:
    """Return minus the inverse curvature times the slope, from the (step, change) pairs."""
    direction = tuple(-g for g in slope)
    if not pairs:
        return direction
    shares = []
    for step, change in reversed(pairs):
        curvature = dot(step, change)
        share = dot(step, direction) / curvature
        direction = tuple(d - share * y for d, y in zip(direction, change))
        shares.append((share, curvature))
    step, change = pairs[-1]
    size = dot(step, change) / dot(change, change)
    direction = tuple(size * d for d in direction)
    for (step, change), (share, curvature) in zip(pairs, reversed(shares)):
        back = share - dot(change, direction) / curvature
        direction = tuple(d + back * s for d, s in zip(direction, step))
    return direction


def _wolfe(
    loss: Loss,
    curves: Sequence[Geodesic | _Line],
    value: float,
    descent: float,
    first: float,
) -> tuple[float, float, Point, Point] | None:
    """Find a step that lowers the loss and flattens the slope; None if rounding forbids it."""
    low, high, t = 0.0, np.inf, first
    slack = 4 * np.finfo(float).eps * abs(value)
    best = None
    for _ in range(40):
        point = tuple(c.at(t) for c in curves)
        new, free = loss(point)
        if not new <= value + 1e-4 * t * descent + slack:
            high = t
        else:
            best = (t, new, free, point)
            along = sum(float(np.vdot(G, c.velocity(t))) for G, c in zip(free, curves))
            if along >= 0.9 * descent:
                return best
            low = t
        t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * t
        if np.isfinite(high) and high - low <= 1e-12 * high:
            break
    return best if best is not None and best[1] < value else None
