"""Similarity of robot postures: the pose kernel over the points of the arm.

A small turn of a joint near the base moves the whole arm, the same turn of the last joint hardly
anything, so that joint angles are a poor measure of how alike two postures look. The pose kernel
compares where the points of the arm are (Bakır, Extensions to kernel dependency estimation, TU
Berlin 2006, section 6.2.1).
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Evaluate, Kernel

__all__ = ['ArmPoints', 'PoseKernel']


class ArmPoints(Protocol):
    """Knows where the points of an arm are, and how they move with the joints."""

    def link_positions(self, q: npt.ArrayLike, /) -> Floats:
        """Return the points p_i of postures, (…, n) to (…, m, 3)."""

    def position_jacobians(self, q: npt.ArrayLike, /) -> Floats:
        """Return their derivatives by the joints, (…, n) to (…, m, 3, n)."""


class PoseKernel(Kernel):
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
        self.weights = weights
        self._checked_weights()

    def _checked_weights(self) -> Floats | None:
        if self.weights is None:
            return None
        weights = as_floats('weights', self.weights, (None,))
        if (weights < 0).any():
            raise BadInput(
                f'weights are {weights.tolist()}; none may be negative, or the kernel would not '
                'be positive semidefinite.'
            )
        if not (weights > 0).any():
            raise BadInput(
                'weights are all zero, so that all postures would look the same; give at least '
                'one point a positive weight.'
            )
        return weights

    def __sklearn_clone__(self) -> PoseKernel:
        """Return a new kernel of the same arm: the arm is not copied, a module cannot be."""
        return PoseKernel(self.kinematics, self.weights)

    def __getstate__(self) -> dict[str, Any]:
        """Name the arm where it is a module, which cannot be pickled."""
        arm: object = self.kinematics
        if isinstance(arm, ModuleType):
            return {**self.__dict__, 'kinematics': (arm.__name__,)}
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Look a named arm up again."""
        arm = state['kinematics']
        if isinstance(arm, tuple):
            state = {**state, 'kinematics': importlib.import_module(arm[0])}
        self.__dict__.update(state)

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
        used, roots = self.root_weights(points.shape[-2])
        weighted = points[..., used, :] * roots[:, None]
        return np.asarray(weighted.reshape(*points.shape[:-2], 3 * len(used)))

    def feature_jacobian(self, q: npt.ArrayLike) -> Floats:
        """Return the derivatives of φ(q) by the joints, (…, n) to (…, f, n)."""
        jacobians = self.kinematics.position_jacobians(q)
        used, roots = self.root_weights(jacobians.shape[-3])
        weighted = jacobians[..., used, :, :] * roots[:, None, None]
        return np.asarray(
            weighted.reshape(*jacobians.shape[:-3], 3 * len(used), jacobians.shape[-1])
        )

    def gram(self, Q: npt.ArrayLike, Q2: npt.ArrayLike | None = None) -> Floats:
        """Return the kernel of all pairs, (N, n) and (M, n) to (N, M); of Q with itself alone."""
        left = self._rows('Q', Q)
        return self._gram(left, left if Q2 is None else self._rows('Q2', Q2))

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        left = self.features(X)
        return np.asarray(left @ (left if Y is X else self.features(Y)).T)

    def _diagonal(self, X: Floats) -> Floats:
        rows = self.features(X)
        return np.asarray(np.einsum('nf,nf->n', rows, rows))

    def _expand(self, points: Floats, coefficients: Floats, X: Floats) -> Floats:
        return np.asarray(self.features(X) @ (self.features(points).T @ coefficients))

    def _evaluator(
        self, points: Floats, coefficients: Floats, offset: Floats, storage: str
    ) -> Evaluate:
        """Fold points and coefficients into one matrix (f, r); then n does not matter."""
        matrix = self.features(points).T @ coefficients
        columns = points.shape[1]

        def evaluate(X: npt.ArrayLike) -> Floats:
            return np.asarray(self.features(self._rows('X', X, columns)) @ matrix + offset)

        return evaluate

    def gradient(self, x: npt.ArrayLike, points: npt.ArrayLike) -> Floats:
        """Return ∂k(x, q_j)/∂x for each posture q_j of `points`.

        Parameters
        ----------
        x : array_like, shape (…, n)
        points : array_like, shape (N, n)

        Returns
        -------
        numpy.ndarray, shape (…, N, n)
        """
        centres = self._rows('points', points)
        return np.asarray(self.features(centres) @ self.feature_jacobian(x))

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        return self.gradient(x, points)

    def root_weights(self, points: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return which points count, and the roots of their weights."""
        weights = self._checked_weights()
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
