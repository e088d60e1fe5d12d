"""How well placed a posture is: distance from limits and singularities, energy of a motion.

These are the measures by which Bakır asks whether a robot should imitate (Extensions to kernel
dependency estimation, TU Berlin 2006, section 5.5). Every function takes the arm first and any
batch of postures, shape (…, n). A `kinematics.chain.Chain` serves as arm, or any object with the
same attributes.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats, as_postures
from kde_imitation.errors import BadInput

__all__ = [
    'Arm',
    'HasJacobian',
    'HasLimits',
    'HasMassMatrix',
    'condition_number',
    'joint_limit_distance',
    'joint_limit_vector',
    'kinetic_energy',
    'smallest_singular_value',
]

Task = Literal['pose', 'position']


class HasLimits(Protocol):
    """Knows the range of each joint, shape (n,); infinite for a joint without stops."""

    lower: Floats
    upper: Floats


class HasJacobian(Protocol):
    """Knows how its tip moves."""

    def jacobian(self, q: npt.ArrayLike, /) -> Floats:
        """Return the tip's Jacobian (…, 6, n), velocity above angular velocity."""


class HasMassMatrix(Protocol):
    """Knows its inertia."""

    def mass_matrix(self, q: npt.ArrayLike, /) -> Floats:
        """Return the inertia in joint space, (…, n, n)."""


class Arm(HasLimits, HasJacobian, HasMassMatrix, Protocol):
    """An arm to which every measure applies."""


def joint_limit_vector(arm: HasLimits, q: npt.ArrayLike) -> Floats:
    """Return where each joint stands in its range: −½ at the lower limit, ½ at the upper one.

    That is e_q of equation (11). As printed, (q − Δ/2)/Δ with Δ the width of the range, it is
    zero in the middle only if the range begins at zero; here the middle itself is taken off:
    (q − (lower + upper)/2)/Δ. A joint without stops is always in the middle.

    Returns
    -------
    numpy.ndarray, shape (…, n)
    """
    lower, upper = np.asarray(arm.lower, dtype=float), np.asarray(arm.upper, dtype=float)
    postures = as_postures('q', q, len(lower))
    bounded = np.isfinite(lower) & np.isfinite(upper)
    if not (lower < upper).all():
        raise BadInput(
            f'The arm has lower limits {lower.tolist()} and upper limits {upper.tolist()}; each '
            'lower limit must be less than the upper one.'
        )
    middle = np.where(bounded, lower, 0) / 2 + np.where(bounded, upper, 0) / 2
    width = np.where(bounded, upper, np.inf) - np.where(bounded, lower, 0)
    return np.asarray((postures - middle) / width)


def joint_limit_distance(arm: HasLimits, q: npt.ArrayLike) -> Floats:
    """Return the length of the joint-limit vector: how far the posture is from mid-range.

    It is 0 where every joint is in the middle, and ½√n where every joint is at a limit: the
    smaller, the farther from the limits. Shape (…).
    """
    return np.asarray(np.linalg.norm(joint_limit_vector(arm, q), axis=-1))


def smallest_singular_value(arm: HasJacobian, q: npt.ArrayLike, task: Task = 'pose') -> Floats:
    """Return the smallest singular value of the Jacobian: zero where the arm is singular.

    It is the least speed of the tip, over all directions, that unit joint speed can give.

    Parameters
    ----------
    arm : HasJacobian
    q : array_like, shape (…, n)
    task : 'pose' or 'position'
        Whether all six rows count, metres and radians alike, or only the three of velocity.

    Returns
    -------
    numpy.ndarray, shape (…)
    """
    return np.asarray(_singular_values(arm, q, task)[..., -1])


def condition_number(arm: HasJacobian, q: npt.ArrayLike, task: Task = 'pose') -> Floats:
    """Return the largest over the smallest singular value of the Jacobian, shape (…).

    One means that the tip moves equally easily in every direction. At a singularity it is
    infinite, or as large as rounding lets it be.
    """
    values = _singular_values(arm, q, task)
    with np.errstate(divide='ignore'):
        return np.asarray(values[..., 0] / values[..., -1])


def _singular_values(arm: HasJacobian, q: npt.ArrayLike, task: Task) -> Floats:
    if task not in ('pose', 'position'):
        raise BadInput(f"task is {task!r}; use 'pose' or 'position'.")
    jacobian = arm.jacobian(as_floats('q', q))
    rows = jacobian[..., :3, :] if task == 'position' else jacobian
    return np.asarray(np.linalg.svd(rows, compute_uv=False))


def kinetic_energy(arm: HasMassMatrix, q: npt.ArrayLike, velocity: npt.ArrayLike) -> Floats:
    """Return the energy of the moving links, ½ vᵀ D(q) v, in joules.

    Parameters
    ----------
    arm : HasMassMatrix
    q, velocity : array_like, shape (…, n)
        Postures and joint speeds (rad/s), broadcast against each other.

    Returns
    -------
    numpy.ndarray, shape (…)
    """
    inertia = arm.mass_matrix(as_floats('q', q))
    speed = as_postures('velocity', velocity, inertia.shape[-1])
    try:
        return np.asarray(np.einsum('...i,...ij,...j->...', speed, inertia, speed) / 2)
    except ValueError as error:
        raise BadInput(
            f'velocity of shape {speed.shape} does not go with q of shape {np.shape(q)}.'
        ) from error
