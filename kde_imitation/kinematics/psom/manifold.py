"""Unsupervised learning: fit a PSOM+ to points alone, without their grid coordinates (3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.psom.axes import check_axes, check_bounds
from kde_imitation.kinematics.psom.fit import SampleFit
from kde_imitation.kinematics.psom.model import Psom
from kde_imitation.kinematics.psom.roughness import Roughness


@dataclass(frozen=True)
class ManifoldFit:
    """A fitted manifold.

    Attributes
    ----------
    psom : Psom
    x : (s, q) array, the coordinates of each point on the manifold
    errors : (steps,) array, the mean squared distance after each step
    """

    psom: Psom
    x: Floats
    errors: Floats


def annealing(start: float = 10.0, factor: float = 0.8, steps: int = 30) -> Floats:
    """Return the falling schedule λ_k = start · factor^k, k = 1 … steps."""
    if not (start > 0 and 0 < factor <= 1 and steps >= 1):
        raise BadInput('annealing needs start > 0, 0 < factor ≤ 1 and at least one step.')
    return start * factor ** np.arange(1, steps + 1)


def fit_manifold(
    y: npt.ArrayLike, axes: Sequence[npt.ArrayLike], smoothing: npt.ArrayLike | None = None
) -> ManifoldFit:
    """Fit a PSOM+ to points by turns of projecting them onto it and adapting it to them.

    It begins as the plane of the first q principal components, scaled to hold all projections.

    Parameters
    ----------
    y : (s, d) array
    axes : sequence of q arrays, nodes in [−1, 1]
    smoothing : (steps,) array, optional
        λ of each turn, by default `annealing()`: a large λ first, so that the map unfolds
        slowly and does not crease.
    """
    points = as_floats('y', y, (None, None))
    nodes = check_axes(axes)
    box = check_bounds(nodes, np.tile([-1.0, 1.0], (len(nodes), 1)))
    schedule = as_floats('smoothing', annealing() if smoothing is None else smoothing, (None,))
    if not (schedule > 0).all():
        raise BadInput('smoothing must be positive in every turn.')
    q = len(nodes)
    if len(points) < q + 1 or points.shape[1] < q:
        raise BadInput(
            f'{len(points)} points of {points.shape[1]} numbers cannot fix a manifold of {q} '
            'dimensions; give more points, or fewer axes.'
        )
    mean = points.mean(axis=0)
    directions = np.linalg.svd(points - mean, full_matrices=False)[2][:q]
    reach = np.abs((points - mean) @ directions.T).max(axis=0)
    if (reach <= 1e-12 * max(float(reach[0]), 1e-300)).any():
        raise BadInput(f'The points do not spread in {q} directions; use fewer axes.')
    grid = np.stack(np.meshgrid(*nodes, indexing='ij'), axis=-1)
    psom = Psom(nodes, mean + (grid * reach) @ directions, bounds=box)
    roughness = Roughness(nodes, box)
    x, _ = _project(psom, points, None)
    errors = []
    for weight in schedule:
        values = SampleFit(roughness, x, points).smooth(float(weight))
        psom = Psom(nodes, values, bounds=box, smoothing=float(weight))
        x, error = _project(psom, points, x)
        errors.append(error)
    return ManifoldFit(psom, x, np.array(errors))


def _project(psom: Psom, points: Floats, x: Floats | None) -> tuple[Floats, float]:
    """Project points (s, d) onto the manifold: their coordinates and the mean squared distance.

    The search begins at the best node and, where they are known, at the coordinates of the turn
    before; the nearer answer counts, so that a point does not stay behind in a fold.
    """
    found = psom.best_match(points, full=True)
    if x is None:
        return found.x, float(found.distance.mean())
    again = psom.best_match(points, start=x, full=True)
    nearer = again.distance <= found.distance
    both = np.where(nearer[:, None], again.x, found.x)
    return both, float(np.minimum(again.distance, found.distance).mean())
