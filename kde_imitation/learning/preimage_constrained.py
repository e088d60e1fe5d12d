"""Pre-images that a robot can take: inside its limits and near its state (Bakır 2006, 6.2.2).

The pose kernel has a finite feature map, φ(q) = (√λ_i p_i(q)), so that kernel PCA on it is an
ordinary one in a few dimensions: coordinates are A f(q) + b with one small matrix, f the points of
the arm. Equation (7) is then a least-squares problem of as many variables as the arm has joints,
with an exact Jacobian, and is solved in microseconds.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import Map
from kde_imitation.kernels.backend import core
from kde_imitation.kernels.postures import PoseKernel
from kde_imitation.learning.preimage import Flags, Ints, PreImage, PreImages, nearest

__all__ = ['ConstrainedPreImage']


class ConstrainedPreImage(PreImage):
    """The posture q inside its limits of least ‖Vᵀφ(q) − Ψ‖² + λ‖q − q0‖² (equation 7).

    q0 is the `start` of `solve`, the robot's present state; the nearest example if left out. The
    search is Levenberg and Marquardt's with bounds. It makes a bounded number of steps, and what
    it returns is inside the limits whether it converged or not. A start outside of the limits is
    moved to them first.

    Parameters
    ----------
    map : Map
        Postures (s, n) to the last points of the arm that the basis' pose kernel compares, three
        numbers each: `LearnedArm.map`, or a chain map. It may be another model of the arm than the
        kernel's own.
    lower, upper : (n,) arrays
        Joint limits.
    pull : float ≥ 0, or (n,) array
        λ, in the unit of the features squared (square metres) a square radian.
    weights : (r,) array, optional
        How much each coordinate counts; one each if left out, as in (7).
    max_steps : int ≥ 1
    tolerance : float > 0
        Stop when the projected gradient, or the step in radians, is smaller.

    Attributes
    ----------
    matrix_ : (r, f) array, offset_ : (r,) array
        A and b: coordinates are A f(q) + b with f(q) the map's values.
    projected_ : ProjectedMap
        Postures to coordinates, compiled.
    """

    def __init__(
        self,
        map: Map,
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        pull: npt.ArrayLike = 0.0,
        weights: npt.ArrayLike | None = None,
        max_steps: int = 100,
        tolerance: float = 1e-6,
    ) -> None:
        self.map = map
        self.lower = lower
        self.upper = upper
        self.pull = pull
        self.weights = weights
        self.max_steps = max_steps
        self.tolerance = tolerance

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; a map never changes, so that both share it."""
        return type(self)(**self.get_params(deep=False))

    def _prepare(self) -> None:
        joints = self.examples_.shape[1]
        if self.map.inputs != joints:
            raise BadInput(
                f'The map takes {self.map.inputs} joints, but the postures of the basis have '
                f'{joints}.'
            )
        self._low = as_floats('lower', self.lower, (joints,))
        self._high = as_floats('upper', self.upper, (joints,))
        if (self._low > self._high).any():
            joint = int(np.argmax(self._low > self._high))
            raise BadInput(
                f'The limits of joint {joint} are empty: from {self._low[joint]} to '
                f'{self._high[joint]}.'
            )
        pull = self.pull if np.ndim(self.pull) else np.full(joints, self.pull)
        self._pull = as_floats('pull', pull, (joints,))
        rank = self.coordinates_.shape[1]
        weights = np.ones(rank) if self.weights is None else self.weights
        self._weights = as_floats('weights', weights, (rank,))
        for name, values in (('pull', self._pull), ('weights', self._weights)):
            if (values < 0).any():
                raise BadInput(f'{name} is {values.tolist()}; no value may be negative.')
        if not (isinstance(self.max_steps, (int, np.integer)) and self.max_steps >= 1):
            raise BadInput(f'max_steps must be at least 1, not {self.max_steps!r}.')
        if not (np.isfinite(self.tolerance) and self.tolerance > 0):
            raise BadInput(f'tolerance must be positive, not {self.tolerance}.')
        self._fold()

    def _fold(self) -> None:
        """Turn the expansion Σ_i γ_i k(q_i, ·) into one matrix on the values of the map."""
        kernel = self._kernel
        if not isinstance(kernel, PoseKernel):
            raise BadInput(
                f'The basis has a {type(kernel).__name__} kernel; constrained pre-images need the '
                'pose kernel, whose feature map is finite.'
            )
        expansion = self.basis_.expansion_
        features = kernel.features(expansion.points)
        spread = self._spread(kernel, expansion.points[:1])
        directions = expansion.coefficients.T @ features
        self.matrix_ = np.ascontiguousarray(directions @ spread)
        self.offset_ = np.array(expansion.offset)
        self.projected_ = core.ProjectedMap(self.map, self.matrix_, self.offset_)
        self._measure = partial(_distance, self.map, spread, features.mean(axis=0), directions)

    def _spread(self, kernel: PoseKernel, posture: Floats) -> Floats:
        """Return the matrix (f, o) that makes the kernel's features of the map's values."""
        points = kernel.kinematics.link_positions(posture).shape[-2]
        used, roots = kernel.root_weights(points)
        given = self.map.outputs // 3
        first = points - given
        if used[0] < first or first < 0 or 3 * given != self.map.outputs:
            raise BadInput(
                f'The map gives {self.map.outputs} numbers, the last {given} points of the arm, '
                f'but the pose kernel compares points {used.tolist()} of {points}; use a map '
                'that gives these, or change the weights of the kernel.'
            )
        spread = np.zeros((len(used), 3, given, 3))
        for row, (point, root) in enumerate(zip(used, roots)):
            spread[row, :, point - first, :] = root * np.eye(3)
        return spread.reshape(3 * len(used), 3 * given)

    def solve(self, coordinates: npt.ArrayLike, start: npt.ArrayLike | None = None) -> PreImages:
        """Find a posture for each row of coordinates.

        Parameters
        ----------
        coordinates : (m, r) array
        start : (m, n) or (n,) array, optional
            q0; the example whose coordinates are nearest if left out.
        """
        quick = self._solve_quickly(coordinates, start)
        return super().solve(coordinates, start) if quick is None else quick

    def _solve_quickly(self, coordinates: object, start: object) -> PreImages | None:
        """Solve for arrays that need no conversion; None leaves all others to the checks.

        The checks would take as long as the search for a single goal. What is not finite shows in
        two sums.
        """
        if not (
            hasattr(self, 'projected_')
            and isinstance(coordinates, np.ndarray)
            and isinstance(start, np.ndarray)
            and coordinates.shape == (len(start), self.projected_.outputs)
            and start.shape == (len(coordinates), self.projected_.inputs)
            and len(start) > 0
            and coordinates.dtype == start.dtype == np.float64
            and coordinates.flags.c_contiguous
            and math.isfinite(coordinates.sum())
            and math.isfinite(start.sum())
        ):
            return None
        x, steps, converged = self._search(coordinates, start)
        return PreImages(x, steps, converged, partial(self._measure, x, coordinates))

    def _search(self, coordinates: Floats, start: Floats) -> tuple[Floats, Ints, Flags]:
        """Return q (m, n), steps (m,) and whether it converged (m,)."""
        x, _, steps, converged = self.projected_.best_match(
            coordinates,
            self._weights,
            np.minimum(np.maximum(start, self._low), self._high),
            self._low,
            self._high,
            self._pull,
            self.max_steps,
            self.tolerance,
        )
        return x, steps, converged

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        if start is None:
            start = self.examples_[nearest(coordinates, self.coordinates_)[:, 0]]
        return self._search(coordinates, start)

    def approach(
        self,
        coordinates: npt.ArrayLike,
        start: npt.ArrayLike,
        *,
        max_postures: int = 100,
        least_move: float = 1e-3,
    ) -> Floats:
        """Solve (7) again and again, each time from the last answer: a way to the goal.

        Parameters
        ----------
        coordinates : (r,) array
            Of the goal.
        start : (n,) array
        max_postures : int
            Bound on the length of the way.
        least_move : float
            Stop when no joint moves further than this, in radians.

        Returns
        -------
        (k, n) array
            Postures from the start, moved inside the limits, to where the pull lets it come to
            rest: the greater the pull, the smaller the steps.
        """
        wanted = self._wanted(np.atleast_2d(coordinates))
        begin = self._starts(start, 1)
        if len(wanted) != 1 or begin is None:
            raise BadInput('approach takes the coordinates (r,) of one goal, and one start (n,).')
        way = [np.clip(begin, self._low, self._high)]
        for _ in range(max_postures - 1):
            way.append(self._solve(wanted, way[-1])[0])
            if np.abs(way[-1] - way[-2]).max() <= least_move:
                break
        return np.concatenate(way)


def _distance(
    arm: Map, spread: Floats, mean: Floats, directions: Floats, q: Floats, coordinates: Floats
) -> Floats:
    """Return ‖φ(q) − Ψ‖ (m,) with the map's points; Ψ is a vector as long as φ(q)."""
    gap = arm.evaluate(q)[0] @ spread.T - (mean + coordinates @ directions)
    return np.asarray(np.linalg.norm(gap, axis=1))
