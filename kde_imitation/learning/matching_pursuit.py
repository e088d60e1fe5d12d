"""Matching pursuit on the vectors of an expansion (Bakır 2006, algorithm A4.1, 4.3.1, 4.3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from rich.progress import track
from scipy.linalg import solve_triangular

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.reduced_set_target import Indices, Target

# A candidate whose squared distance from the span of the chosen points is below this share of
# its squared norm counts as dependent on them: choosing it would only blow up the coefficients.
DEPENDENT = 1e-10
RULES = ('decrease', 'angle')


@dataclass(frozen=True)
class Pursuit:
    """Points in the order of their choice, with what gives the coefficients of every size.

    Attributes
    ----------
    order : (s,) array of int
        Places among the candidates.
    factor : (s, s) array
        Lower Cholesky factor of the Gram matrix of the chosen points. Its leading block is the
        factor of the first points.
    components : (s, r) array
        Coordinates of the w_j along the orthonormal directions that the points add.
    column_squares : (s, r) array
        ‖w_j − ŵ_j‖² for 1 to s points.
    """

    order: Indices
    factor: Floats
    components: Floats
    column_squares: Floats

    def coefficients(self, size: int) -> Floats:
        """Return the best coefficients (9) for the first points, (size, r).

        One triangular solve: Kβ = b with K = L Lᵀ and L⁻¹b = components.
        """
        return self.from_components(self.components[:size])

    def from_components(self, components: Floats) -> Floats:
        """Turn coordinates along the orthonormal directions, (size, r), into coefficients."""
        factor = self.factor[: len(components), : len(components)]
        solved: Floats = solve_triangular(factor.T, components, lower=False)
        return solved

    def directions(self, gram: Floats) -> Floats:
        """Evaluate the orthonormal directions where `gram` (q, size) compares with the points."""
        size = gram.shape[1]
        values: Floats = solve_triangular(self.factor[:size, :size], gram.T, lower=True).T
        return values


def pursue(
    target: Target,
    max_points: int | None = None,
    max_error: float = 0.0,
    rule: str = 'decrease',
    progress: bool = False,
) -> Pursuit:
    """Choose points one by one; after each, all coefficients are optimal again (back-fitting).

    The factor L of K = L Lᵀ grows by one column a step, for all candidates at once: entry i of a
    column is the part of φ(z_i) along the direction that the new point adds. So back-fitting (8)
    costs no inverse and no solve, and the distance of every candidate from the span of the chosen
    points is known. A step takes one row of kernel values and O(m (r + size)) operations.

    Parameters
    ----------
    target : Target
    max_points : int, optional
    max_error : float
        Stop at this relative error ‖w − ŵ‖/‖w‖, over all columns.
    rule : {'decrease', 'angle'}
        'decrease' takes the candidate after which Σ_j ‖w_j − ŵ_j‖² is least, all coefficients
        refitted. 'angle' is equation (6): the candidate at the least angle to what remains of w,
        Σ_j ⟨w_j − ŵ_j, φ(z)⟩² / k(z, z). (The print divides by squared norms.)
    progress : bool
        Show a bar.
    """
    if rule not in RULES:
        raise BadInput(f'rule is {rule!r}; choose from {", ".join(RULES)}.')
    m, r = target.inner.shape
    limit = m if max_points is None else min(max_points, m)
    goal = max(target.rounding, max_error**2 * target.total)
    residual = target.inner.copy()
    distance = target.diagonal.copy()
    dependent = np.maximum(DEPENDENT * distance, 1e-15 * distance.max())
    rows = np.empty((min(limit, 64), m))
    order: list[int] = []
    components = np.empty((limit, r))
    left = target.squares.copy()
    column_squares = np.empty((limit, r))

    steps: Iterable[int] = range(limit)
    if progress:
        steps = track(steps, description='reducing', transient=True)
    for size in steps:
        free = distance > dependent
        gain = np.einsum('ij,ij->i', residual, residual)
        below = distance if rule == 'decrease' else target.diagonal
        gain = np.divide(gain, below, out=np.zeros(m), where=free)
        best = int(gain.argmax())
        if gain[best] <= 0.0 or left.sum() <= goal:
            break
        if size == len(rows):
            rows = np.concatenate([rows, np.empty((min(size, limit - size), m))])
        pivot = np.sqrt(distance[best])
        row = target.kernel(target.candidates[best : best + 1], target.candidates)[0]
        row = (row - rows[:size, best] @ rows[:size]) / pivot
        rows[size] = row
        components[size] = residual[best] / pivot
        residual -= np.multiply.outer(row, components[size])
        distance -= row**2
        distance[best] = 0.0
        left = np.maximum(left - components[size] ** 2, 0.0)
        column_squares[size] = left
        order.append(best)
    if distance.min() < -1e-6 * target.diagonal.max():
        raise BadInput(
            f'{type(target.kernel).__name__} is not positive: a Gram matrix of the candidates '
            'has a negative eigenvalue. Use a positive semidefinite kernel.'
        )
    chosen = np.array(order, dtype=np.intp)
    size = len(chosen)
    return Pursuit(
        order=chosen,
        factor=np.tril(rows[:size, chosen].T),
        components=components[:size],
        column_squares=column_squares[:size],
    )


def conjugate_gradients(gram: Floats, inner: Floats, steps: int) -> Floats:
    """Solve gram β = inner approximately, by a few conjugate-gradient steps (4.3.5).

    Every step lowers ‖w_j − Σ_i β_ij φ(z_i)‖ as far as the directions so far allow. Stopped early
    it leaves out directions in which the points hardly differ, so that β stays small where the
    Gram matrix is close to singular.

    Parameters
    ----------
    gram : (s, s) array
    inner : (s, r) array
    steps : int

    Returns
    -------
    (s, r) array
    """
    beta = np.zeros_like(inner)
    residual = inner.copy()
    direction = residual.copy()
    square = (residual**2).sum(axis=0)
    smallest = np.finfo(np.float64).eps ** 2 * square
    for _ in range(steps):
        image = gram @ direction
        curvature = (direction * image).sum(axis=0)
        going = (square > smallest) & (curvature > 0)
        if not going.any():
            break
        length = np.divide(square, curvature, out=np.zeros_like(square), where=going)
        beta += length * direction
        residual -= length * image
        new = (residual**2).sum(axis=0)
        turn = np.divide(new, square, out=np.zeros_like(new), where=going)
        direction = residual + turn * direction
        square = new
    return beta
