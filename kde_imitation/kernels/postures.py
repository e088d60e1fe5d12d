"""Similarity of robot postures: the pose kernel over the points of the arm.

A small turn of a joint near the base moves the whole arm, the same turn of the last joint hardly
anything, so that joint angles are a poor measure of how alike two postures look. The pose kernel
compares where the points of the arm are (Bakır, Extensions to kernel dependency estimation,
section 6.2.1).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput

__all__ = ['ArmPoints', 'PoseKernel']


class ArmPoints(Protocol):
    """Knows where the points of an arm are, and how they move with the joints."""

    def link_positions(self, q: npt.ArrayLike, /) -> Floats:
        """Return the points p_i of postures, (…, n) to (…, m, 3)."""

    def position_jacobians(self, q: npt.ArrayLike, /) -> Floats:
        """Return their derivatives by the joints, (…, n) to (…, m, 3, n)."""


class PoseKernel:
    """The kernel k(q, q') = Σ λ_i p_i(q) · p_i(q') over the points p_i of an arm.

    Its feature map is finite, φ(q) = (√λ_i p_i(q)), three numbers for each point that counts: what
    is learned with this kernel can be folded into small matrices.

    Parameters
    ----------
    kinematics : ArmPoints
        For instance the module `kinematics.pa10`, or a `kinematics.chain.Chain`.
    weights : array_like, optional
        One λ_i ≥ 0 for each point, not all zero. Left out, the first two points count nothing,
        because they never move on an arm that begins with a shoulder, and the others one each.

    Examples
    --------
    >>> from kde_imitation.kinematics import pa10
    >>> PoseKernel(pa10).features([0, 0, 0, 0, 0, 0, 0]).shape
    (15,)
    """

    def __init__(self, kinematics: ArmPoints, weights: npt.ArrayLike | None = None) -> None:
        self.kinematics = kinematics
        self.weights = None if weights is None else as_floats('weights', weights, (None,))
        if self.weights is not None:
            if (self.weights < 0).any():
                raise BadInput(
                    f'weights are {self.weights.tolist()}; none may be negative, or the kernel '
                    'would not be positive semidefinite.'
                )
            if not (self.weights > 0).any():
                raise BadInput(
                    'weights are all zero, so that all postures would look the same; give at '
                    'least one point a positive weight.'
                )

    def features(self, q: npt.ArrayLike) -> Floats:
        """Return φ(q), whose dot product is the kernel.

        Parameters
        ----------
        q : array_like, shape (…, n)

        Returns
        -------
        numpy.ndarray, shape (…, f)
            f is three times the number of points with a weight above zero.
        """
        points = self.kinematics.link_positions(q)
        used, roots = self._roots(points.shape[-2])
        weighted = points[..., used, :] * roots[:, None]
        return np.asarray(weighted.reshape(*points.shape[:-2], -1))

    def feature_jacobian(self, q: npt.ArrayLike) -> Floats:
        """Return the derivatives of φ(q) by the joints, (…, n) to (…, f, n)."""
        jacobians = self.kinematics.position_jacobians(q)
        used, roots = self._roots(jacobians.shape[-3])
        weighted = jacobians[..., used, :, :] * roots[:, None, None]
        return np.asarray(weighted.reshape(*jacobians.shape[:-3], -1, jacobians.shape[-1]))

    def gram(self, Q: npt.ArrayLike, Q2: npt.ArrayLike | None = None) -> Floats:
        """Return the kernel of all pairs, (N, n) and (M, n) to (N, M); of Q with itself alone."""
        left = self._rows('Q', Q)
        right = left if Q2 is None else self._rows('Q2', Q2)
        return np.asarray(left @ right.T)

    def diagonal(self, Q: npt.ArrayLike) -> Floats:
        """Return k(q, q) of each posture, (N, n) to (N,)."""
        rows = self._rows('Q', Q)
        return np.asarray(np.einsum('nf,nf->n', rows, rows))

    def gradient(self, q: npt.ArrayLike, Q: npt.ArrayLike) -> Floats:
        """Return ∂k(q, q_j)/∂q for each posture q_j of Q.

        Parameters
        ----------
        q : array_like, shape (…, n)
        Q : array_like, shape (N, n)

        Returns
        -------
        numpy.ndarray, shape (…, N, n)
        """
        return np.asarray(self._rows('Q', Q) @ self.feature_jacobian(q))

    def _rows(self, name: str, postures: npt.ArrayLike) -> Floats:
        return self.features(as_floats(name, postures, (None, None)))

    def _roots(self, points: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return which points count, and the roots of their weights."""
        weights = self.weights
        if weights is None:
            weights = np.ones(points)
            weights[:2] = 0
            if points < 3:
                raise BadInput(
                    f'The arm has only {points} points; say with weights= which of them count.'
                )
        elif len(weights) != points:
            raise BadInput(
                f'weights has {len(weights)} values, but the arm has {points} points; give one '
                'for each.'
            )
        used = np.flatnonzero(weights)
        return used, np.sqrt(weights[used])
