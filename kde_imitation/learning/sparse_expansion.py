"""Sparse coefficients by penalties: ℓ1, group ℓ1 and ℓ0 (Bakır 2006, 4.2 and 4.3.3).

All work on the quadratic ‖w − Σ_i β_i φ(z_i)‖² = βᵀKβ − 2 βᵀb + ‖w‖², known by the Gram matrix K
of the candidates and b = ⟨w, φ(z)⟩.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.linalg import cho_factor, cho_solve

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.reduced_set_target import Indices, Target

# Penalties are tried between the one that leaves no point and these shares of it.
L1_LEAST, L0_LEAST = 1e-3, 1e-12
# Re-weighting steps for one penalty; the thesis finds 10 to 20 enough.
L0_STEPS = 20
# A point whose weight falls below this share of the largest is dropped.
PRUNE = 1e-4


def _sizes(rows: Floats, grouped: bool) -> Floats:
    """Return the norms of which the penalty is the sum: of whole rows, or of single entries."""
    size: Floats = np.linalg.norm(rows, axis=1, keepdims=True) if grouped else np.abs(rows)
    return size


def _shrink(rows: Floats, threshold: Floats, grouped: bool) -> Floats:
    size = _sizes(rows, grouped)
    share = np.divide(threshold, size, out=np.ones_like(size), where=size > threshold)
    return np.asarray(rows * (1.0 - share))


def optimality_gap(
    gram: Floats, inner: Floats, beta: Floats, penalty: float, weights: Floats, grouped: bool
) -> float:
    """Return how far β is from the optimum of (3), as a share of the penalty.

    At the optimum the gradient 2 (b − Kβ)_i is γ c_i times the direction of β_i where β_i is not
    zero, and at most γ c_i long where it is.
    """
    bound = 0.5 * penalty * weights[:, None]
    gradient = inner - gram @ beta
    size = _sizes(beta, grouped)
    active = size > 0
    direction = np.divide(beta, size, out=np.zeros_like(beta), where=active)
    off = _sizes(gradient - bound * direction, grouped)
    gap = np.where(active, off, np.maximum(off - bound, 0.0))
    return float((gap / bound).max())


def _proximal(
    gram: Floats,
    inner: Floats,
    start: Floats,
    penalty: float,
    weights: Floats,
    grouped: bool,
    tolerance: float,
    max_steps: int,
) -> Floats:
    """Accelerated proximal gradient (FISTA), restarted whenever its momentum points uphill."""
    # The largest row sum bounds the largest eigenvalue.
    step = 1.0 / float(np.abs(gram).sum(axis=1).max())
    threshold = 0.5 * step * penalty * weights[:, None]
    beta, ahead, momentum = start, start, 1.0
    for count in range(1, max_steps + 1):
        new = _shrink(ahead + step * (inner - gram @ ahead), threshold, grouped)
        move = new - beta
        if np.vdot(ahead - new, move) > 0.0:
            momentum = 1.0
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / grown * move
        beta, momentum = new, grown
        if count % 10 == 0 and (
            optimality_gap(gram, inner, beta, penalty, weights, grouped) <= tolerance
        ):
            break
    return beta


def sparse_coefficients(
    gram: Floats,
    inner: Floats,
    penalty: float,
    weights: Floats | None = None,
    grouped: bool = True,
    start: Floats | None = None,
    tolerance: float = 1e-3,
    max_steps: int = 20_000,
) -> Floats:
    """Minimise ‖w − Σ_i β_i φ(z_i)‖² + γ Σ_i c_i ‖β_i‖, equation (3).

    Only a working set is solved for; candidates that break optimality join it until none does.

    Parameters
    ----------
    gram : (m, m) array
    inner : (m, r) array
    penalty : float > 0
        γ.
    weights : (m,) array, optional
        c; all one if not given.
    grouped : bool
        One Euclidean norm ‖β_i‖ a point over all columns, so that columns share their points (the
        aim of equation 4, which bounds the largest entry instead). Otherwise every entry has its
        own absolute value. For one column the two are the same.
    start : (m, r) array, optional
    tolerance : float
        On `optimality_gap`.
    max_steps : int
        For each working set.

    Returns
    -------
    (m, r) array
    """
    if not penalty > 0:
        raise BadInput(f'penalty must be positive, not {penalty}.')
    c = np.ones(len(inner)) if weights is None else weights
    if not (c > 0).all():
        raise BadInput('weights must all be positive.')
    bound = 0.5 * penalty * c
    beta = np.zeros_like(inner) if start is None else start.copy()
    working = np.flatnonzero(beta.any(axis=1))
    while True:
        gradient = inner - gram[:, working] @ beta[working]
        excess = _sizes(gradient, grouped).max(axis=1) / bound - 1.0
        excess[working] = 0.0
        worst = np.argsort(-excess)[: max(50, len(working))]
        new = worst[excess[worst] > tolerance]
        if len(new) == 0 and (
            len(working) == 0
            or optimality_gap(
                gram[np.ix_(working, working)],
                inner[working],
                beta[working],
                penalty,
                c[working],
                grouped,
            )
            <= tolerance
        ):
            return beta
        working = np.union1d(working, new)
        solved = _proximal(
            gram[np.ix_(working, working)],
            inner[working],
            beta[working],
            penalty,
            c[working],
            grouped,
            tolerance,
            max_steps,
        )
        beta[:] = 0.0
        beta[working] = solved
        if len(new) == 0:
            return beta


def _jump(size: int) -> float:
    """Return by how much the next size on a path may differ before a smaller step is tried."""
    return 2.0 + 0.15 * size


def _bar(shown: bool) -> Progress:
    """Return a bar that leaves nothing behind, not even the empty line of Rich 13.7."""
    return Progress(transient=True, disable=not shown, console=Console(quiet=not shown))


def l1_supports(
    target: Target, max_points: int | None = None, progress: bool = False
) -> Iterator[Indices]:
    """Yield the points that group ℓ1 keeps, for penalties from large to small.

    Stops with the first set larger than `max_points`, which is not yielded.
    """
    gram = target.kernel(target.candidates)
    limit = len(gram) if max_points is None else max_points
    largest = 2.0 * float(_sizes(target.inner, True).max())
    beta = np.zeros_like(target.inner)
    size, penalty, step = 0, largest, 0.05
    with _bar(progress) as bar:
        task = bar.add_task('ℓ1 path', total=limit)
        while penalty > L1_LEAST * largest:
            trial = penalty * np.exp(-step)
            solved = sparse_coefficients(gram, target.inner, trial, start=beta)
            support = np.flatnonzero(solved.any(axis=1))
            growth = len(support) - size
            if growth > _jump(size) and step > 1e-4:
                step *= 0.5
                continue
            if len(support) > limit:
                return
            yield support
            beta, penalty, size = solved, trial, len(support)
            if growth < 0.5 * _jump(size):
                step = min(1.5 * step, 0.2)
            bar.update(task, completed=size)


def reweighted(
    gram: Floats, inner: Floats, penalty: float, steps: int = L0_STEPS
) -> tuple[Indices, Floats]:
    """Minimise ‖w − Σ_i β_i φ(z_i)‖² + γ Σ_i ln(ε + |β_i|) by re-weighting (26, A4.2, A4.3).

    Each step solves the quadratic problem in β' = β / v, (VKV + γ I) β' = V b, and takes
    v = Σ_j |β^(j)| from the result; points with v close to zero are dropped. (In print V K V
    stands under the name S and is not the matrix to invert; γ = 0 there is the lossless case.)

    Returns
    -------
    support : (s,) array of int, beta : (s, r) array
        Empty if the penalty is so large that no point survives.
    """
    if not penalty > 0:
        raise BadInput(f'penalty must be positive, not {penalty}.')
    scale = float(np.abs(inner).sum(axis=1).max() / np.diagonal(gram).max())
    support = np.arange(len(gram))
    v = np.full(len(gram), scale)
    beta = inner
    for _ in range(steps):
        system = v[:, None] * gram[np.ix_(support, support)] * v
        # A Gram matrix may have eigenvalues a little below zero by rounding.
        smallest = 8.0 * np.finfo(np.float64).eps * float(np.trace(system))
        system.flat[:: len(v) + 1] += max(penalty, smallest)
        factor = cho_factor(system, lower=True, overwrite_a=True)
        beta = v[:, None] * cho_solve(factor, v[:, None] * inner[support])
        new = np.abs(beta).sum(axis=1)
        kept = new > PRUNE * max(float(new.max()), 1e-8 * scale)
        change = np.abs(new - v).max()
        support, v, beta = support[kept], new[kept], beta[kept]
        if len(v) == 0 or (kept.all() and change <= 1e-3 * v.max()):
            break
    return support, beta


def l0_supports(
    target: Target, max_points: int | None = None, progress: bool = False
) -> Iterator[Indices]:
    """Yield the points that ℓ0 keeps, for penalties from small to large.

    Each penalty starts from the points that the one before has kept, so that the sets are nested
    and the problems shrink. With `max_points` the first penalty is one that leaves at least twice
    as many.
    """
    gram = target.kernel(target.candidates)
    # A single point survives while Σ_j |⟨w_j, φ(z)⟩|² ≥ 4 k(z, z) γ.
    reach = np.abs(target.inner).sum(axis=1) ** 2
    positive = target.diagonal > 0
    largest = float((reach[positive] / (4.0 * target.diagonal[positive])).max())
    penalty = L0_LEAST * largest
    support: Indices = np.arange(len(gram))
    if max_points is not None:
        penalty = largest
        while penalty > L0_LEAST * largest:
            penalty /= 16.0
            kept, _ = reweighted(gram, target.inner, penalty)
            if len(kept) >= 2 * max_points:
                support = kept
                break
    with _bar(progress) as bar:
        task = bar.add_task('ℓ0 path', total=len(support))
        ratio = np.sqrt(2.0)
        while penalty < 2.0 * largest and len(support) > 1:
            part = gram[np.ix_(support, support)]
            kept, _ = reweighted(part, target.inner[support], penalty * ratio)
            fall = len(support) - len(kept)
            if fall > _jump(len(support)) and ratio > 1.01:
                ratio = np.sqrt(ratio)
                continue
            penalty *= ratio
            if len(kept) == 0:
                return
            if fall < 0.5 * _jump(len(support)):
                ratio = min(ratio**2, 4.0)
            support = support[kept]
            bar.update(task, completed=len(gram) - len(support))
            if max_points is None or len(support) <= max_points:
                yield support
