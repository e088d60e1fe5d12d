"""What a reduced set has to approximate, expressed by kernel values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion, Kernel

Indices = npt.NDArray[np.integer[Any]]

# Kernel values held at once while inner products are summed up: 32 MiB.
BLOCK = 1 << 22


@dataclass(frozen=True)
class Target:
    """The vectors w_j = Σ_i α_ij φ(x_i), as seen from m candidate points.

    Attributes
    ----------
    kernel : Kernel
    candidates : (m, d) array
        The points z from which a reduced set is chosen.
    inner : (m, r) array
        ⟨w_j, φ(z)⟩.
    diagonal : (m,) array
        k(z, z).
    squares : (r,) array
        ‖w_j‖².
    mean_inner : (m,) array
        ⟨mean of φ over the expansion points, φ(z)⟩.
    mean_values : (r,) array
        Mean of ⟨w_j, φ(x)⟩ over the expansion points.
    rounding : float
        What rounding may add to or take from Σ_j ‖w_j‖².
    """

    kernel: Kernel
    candidates: Floats
    inner: Floats
    diagonal: Floats
    squares: Floats
    mean_inner: Floats
    mean_values: Floats
    rounding: float

    @property
    def total(self) -> float:
        """Σ_j ‖w_j‖²."""
        return float(self.squares.sum())

    def subset(self, chosen: Indices) -> Target:
        """Return the same vectors seen from some of the candidates only."""
        return replace(
            self,
            candidates=self.candidates[chosen],
            inner=self.inner[chosen],
            diagonal=self.diagonal[chosen],
            mean_inner=self.mean_inner[chosen],
        )


def _inner_products(expansion: Expansion, columns: Floats, X: Floats) -> Floats:
    """Return Σ_i columns_ij k(x_i, x), block by block, so that no whole Gram matrix is held."""
    step = max(BLOCK // max(len(expansion), 1), 1)
    parts = [
        expansion.kernel.expand(expansion.points, columns, X[i : i + step])
        for i in range(0, len(X), step)
    ]
    return np.concatenate(parts)


def make_target(expansion: Expansion, candidates: npt.ArrayLike | None = None) -> Target:
    """Compute once all that the methods of this room need to know about an expansion.

    Time is n (n + m) kernel values for n expansion points and m further candidates.
    """
    points, coefficients = expansion.points, expansion.coefficients
    n, r = coefficients.shape
    if n == 0 or r == 0:
        raise BadInput(
            f'The expansion has {n} points and {r} columns; there is nothing to reduce.'
        )
    own = candidates is None
    places = points
    if candidates is not None:
        places = as_floats('candidates', candidates, (None, points.shape[1]))
    if len(places) == 0:
        raise BadInput('candidates holds no point; give at least one, or None for the own points.')
    columns = np.concatenate([coefficients, np.full((n, 1), 1.0 / n)], axis=1)
    try:
        expansion.kernel(points[:1])
    except NotImplementedError as error:
        raise BadInput(
            f'{type(expansion.kernel).__name__} cannot compare the expansion points with each '
            'other, which a reduced set needs; use a kernel that is computed from points.'
        ) from error
    at_points = _inner_products(expansion, columns, points)
    at_places = at_points if own else _inner_products(expansion, columns, places)
    norms = expansion.kernel.diagonal(points)
    diagonal = norms if own else expansion.kernel.diagonal(places)
    squares = (coefficients * at_points[:, :r]).sum(axis=0)
    energy = float((coefficients**2 * norms[:, None]).sum())
    rounding = 4.0 * np.finfo(np.float64).eps * (energy + float(np.abs(squares).sum()))
    if norms.min() < 0 or diagonal.min() < 0 or squares.min() < -np.sqrt(n) * rounding:
        raise BadInput(
            f'{type(expansion.kernel).__name__} is not positive: the squared norm of a column is '
            f'{squares.min():.3g} and the least k(x, x) {min(norms.min(), diagonal.min()):.3g}. '
            'Use a positive semidefinite kernel.'
        )
    if squares.sum() <= rounding:
        raise BadInput(
            'The expansion is zero in feature space (all coefficients vanish or cancel), so '
            'there is nothing to reduce.'
        )
    return Target(
        kernel=expansion.kernel,
        candidates=places,
        inner=at_places[:, :r],
        diagonal=diagonal,
        squares=np.maximum(squares, 0.0),
        mean_inner=at_places[:, r],
        mean_values=at_points[:, :r].mean(axis=0),
        rounding=rounding,
    )
