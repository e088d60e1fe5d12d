"""The Mitsubishi PA-10 (seven joints) in closed form: points, hand pose and exact derivatives.

The arm is a spherical shoulder (S1 S2 S3), an elbow (E1) and a spherical wrist (E2 W1 W2). At
the zero posture it stands straight along z of the shoulder frame, and the joint axes are
z y z y z y z. All frames are parallel there, so that the hand turns by

    R(q) = Rz(q1) Ry(q2) Rz(q3) Ry(q4) Rz(q5) Ry(q6) Rz(q7).

Points are those of the modified Denavit-Hartenberg matrices A_1 .. A_7 that Bakır prints
(Extensions to kernel dependency estimation, TU Berlin 2006, appendix X.1): p_i is the origin of
frame i, which lies on the axis of joint i. So p1 = p2 is the shoulder, p3 = p4 the elbow, p5 = p6
the wrist and p7 the hand. Frames 1, 3, 5 and 7 of those matrices are parallel to ours always.
The third row of the printed A_1 is a misprint for `0 0 1 0`: as printed it is no rotation.

Lengths are metres, angles radians. The origin is the shoulder, 0.315 m above the foot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats, as_postures
from kde_imitation.errors import BadInput

__all__ = [
    'DEFAULT',
    'JOINTS',
    'LENGTHS_A',
    'LENGTHS_B',
    'LIMITS',
    'LOWER',
    'UPPER',
    'Geometry',
    'forward',
    'jacobian',
    'joint_axes',
    'link_positions',
    'position_jacobians',
]

JOINTS: Final = 7

# Position limits as OpenRAVE states them; the first four are those of the PSOM+ experiments.
LIMITS: Final = tuple(float(np.radians(d)) for d in (177, 91, 174, 137, 255, 165, 255))
"""Each joint turns from minus to plus this many radians."""

LOWER: Final = -np.array(LIMITS)
UPPER: Final = np.array(LIMITS)
LOWER.flags.writeable = UPPER.flags.writeable = False


@dataclass(frozen=True)
class Geometry:
    """The measures of a PA-10.

    Parameters
    ----------
    upper_arm, forearm, hand : float
        Shoulder to elbow, elbow to wrist, wrist to flange, in metres.
    limits : tuple of 7 floats
        Joint i turns from `-limits[i]` to `limits[i]` radians.
    """

    upper_arm: float
    forearm: float
    hand: float
    limits: tuple[float, ...] = LIMITS

    def __post_init__(self) -> None:
        lengths = as_floats('the lengths', [self.upper_arm, self.forearm, self.hand])
        if lengths[0] <= 0 or lengths[1] <= 0 or lengths[2] < 0:
            raise BadInput(
                f'The lengths of upper arm, forearm and hand are {lengths.tolist()} m; the first '
                'two must be positive and the hand must not be negative.'
            )
        limits = as_floats('the limits', self.limits, (JOINTS,))
        if (limits <= 0).any():
            raise BadInput(f'The limits are {limits.tolist()} rad; each must be positive.')
        if limits[3] > np.pi or (limits >= 2 * np.pi).any():
            raise BadInput(
                f'The limits are {limits.tolist()} rad; the elbow (the fourth) turns at most half '
                'a turn either way, and every other joint less than a whole one.'
            )


LENGTHS_A: Final = Geometry(0.450, 0.480, 0.070)
"""The shorter forearm and hand that some laboratories give for their arm."""

LENGTHS_B: Final = Geometry(0.450, 0.500, 0.080)
"""The lengths of appendix X.1, and of the manufacturer's data."""

DEFAULT: Final = LENGTHS_B


def _axes(q: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the joint axes (7, …, 3), and x and y of the hand (…, 3); z is the last axis."""
    cos = np.moveaxis(np.cos(q), -1, 0)[..., None]
    sin = np.moveaxis(np.sin(q), -1, 0)[..., None]
    axes = np.empty((JOINTS, *q.shape[:-1], 3))
    x, y, z = np.eye(3)
    for j in range(0, JOINTS - 1, 2):
        axes[j] = z
        x, y = cos[j] * x + sin[j] * y, cos[j] * y - sin[j] * x
        axes[j + 1] = y
        x, z = cos[j + 1] * x - sin[j + 1] * z, sin[j + 1] * x + cos[j + 1] * z
    axes[-1] = z
    return axes, cos[-1] * x + sin[-1] * y, cos[-1] * y - sin[-1] * x


def _points(axes: Floats, geometry: Geometry) -> Floats:
    """Return p1 .. p7, shape (7, …, 3): each segment lies along the axis of a z joint."""
    points = np.zeros_like(axes)
    points[2] = points[3] = geometry.upper_arm * axes[2]
    points[4] = points[5] = points[3] + geometry.forearm * axes[4]
    points[6] = points[5] + geometry.hand * axes[6]
    return points


def link_positions(q: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Floats:
    """Return the points p1 .. p7 of the arm.

    Parameters
    ----------
    q : array_like, shape (…, 7)
        Joint angles.

    Returns
    -------
    numpy.ndarray, shape (…, 7, 3)
        Metres, in the shoulder frame.
    """
    axes, _, _ = _axes(as_postures('q', q, JOINTS))
    return np.moveaxis(_points(axes, geometry), 0, -2).copy()


def joint_axes(q: npt.ArrayLike) -> Floats:
    """Return the unit vectors that the joints turn about; the axis of joint i goes through p_i.

    Returns
    -------
    numpy.ndarray, shape (…, 7, 3)
        In the shoulder frame.
    """
    axes, _, _ = _axes(as_postures('q', q, JOINTS))
    return np.moveaxis(axes, 0, -2).copy()


def position_jacobians(q: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Floats:
    """Return the derivatives of the points p1 .. p7 by the joint angles.

    Joint j turns point i about the axis through p_j: the derivative is axis_j × (p_i − p_j) for
    the points beyond the joint, and zero for the others.

    Returns
    -------
    numpy.ndarray, shape (…, 7, 3, 7)
        Entry [i, :, j] is the derivative of p_i by q_j, metres per radian.
    """
    axes, _, _ = _axes(as_postures('q', q, JOINTS))
    points = _points(axes, geometry)
    arms = points[:, None] - points[None, :]
    beyond = np.tri(JOINTS, k=-1).reshape(JOINTS, JOINTS, *[1] * (axes.ndim - 1))
    return np.moveaxis(np.cross(axes[None], arms) * beyond, (0, 1), (-3, -1)).copy()


def forward(q: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Floats:
    """Return the pose of the hand (the flange) in the shoulder frame.

    Returns
    -------
    numpy.ndarray, shape (…, 4, 4)
        Homogeneous; the rotation is R(q) of the module's text, the identity at zero.
    """
    axes, x, y = _axes(as_postures('q', q, JOINTS))
    pose = np.zeros((*axes.shape[1:-1], 4, 4))
    pose[..., :3, 0] = x
    pose[..., :3, 1] = y
    pose[..., :3, 2] = axes[6]
    pose[..., :3, 3] = _points(axes, geometry)[6]
    pose[..., 3, 3] = 1
    return pose


def jacobian(q: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Floats:
    """Return the Jacobian of the hand in the shoulder frame.

    Returns
    -------
    numpy.ndarray, shape (…, 6, 7)
        Rows 0 to 2: velocity of p7, metres per radian; rows 3 to 5: angular velocity.
    """
    axes, _, _ = _axes(as_postures('q', q, JOINTS))
    points = _points(axes, geometry)
    linear = np.cross(axes, points[6] - points)
    return np.moveaxis(np.concatenate([linear, axes], axis=-1), 0, -1).copy()
