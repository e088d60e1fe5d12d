"""The two spherical triangles of the PA-10's inverse kinematics, and where joints meet limits.

`pa10_inverse` says what the triangles are; here they are solved, for poses, arm angles and
branches at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.kinematics.pa10 import JOINTS, Geometry

Bools = npt.NDArray[np.bool_]

TURN: Final = 2 * np.pi
# How far a joint or the wrist may be outside for rounding's sake; results are clipped afterwards.
TOLERANCE: Final = 1e-10
# The reach is known no better than this, in metres: so near to straight, the elbow is straight.
STRAIGHT: Final = 1e-13
# A middle angle with a smaller sine leaves the split between its two neighbours undetermined.
UNDETERMINED: Final = 1e-11

BRANCHES: Final = np.array([[s, e, w] for s in (1, -1) for e in (1, -1) for w in (1, -1)])
"""Signs of q2, q4 and q6, one row for each of the eight branches."""
BRANCHES.flags.writeable = False

# A joint has two values in all branches: y joints change their sign, and each such change adds
# half a turn to both neighbours.
_OTHER: Final = np.empty((8, JOINTS), dtype=bool)
_OTHER[:, 1::2] = BRANCHES < 0
_OTHER[:, 0] = _OTHER[:, 1]
_OTHER[:, 2] = _OTHER[:, 1] ^ _OTHER[:, 3]
_OTHER[:, 4] = _OTHER[:, 3] ^ _OTHER[:, 5]
_OTHER[:, 6] = _OTHER[:, 5]
TWO_SIGNS: Final = np.array([[1.0, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1]])
TWO_SHIFTS: Final = np.pi * np.array([[0.0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0, 1]])
SIGNS: Final = np.where(_OTHER, TWO_SIGNS[1], TWO_SIGNS[0])
SHIFTS: Final = np.where(_OTHER, TWO_SHIFTS[1], TWO_SHIFTS[0])
# Rows: the first values of the seven joints, then the other ones. Columns: branches.
PICK: Final = np.concatenate([~_OTHER.T, _OTHER.T]).astype(float)
# ψ turns the shoulder forward and the wrist back.
_TURN: Final = np.array([1.0, -1.0]).reshape(2, 1, 1)
# What stands in for roots that do not exist.
_EVEN: Final = np.pi * (np.arange(-27, 28, 2) / 28).reshape(2, 1, 7, 2)


@dataclass
class Problem:
    """Poses taken apart. Arrays with a first axis of 2 hold the shoulder, then the wrist.

    Each is a triangle Rz(a) Ry(b) Rz(c) = Ry(s) Rz(t) Ry(r) with t = start ± ψ.
    """

    geometry: Geometry
    distance: Floats
    elbow: Floats
    sin_s: Floats
    cos_s: Floats
    sin_r: Floats
    cos_r: Floats
    start: Floats
    before: Floats
    after: Floats

    @property
    def too_far(self) -> Bools:
        """Whether the wrist would be beyond the straight arm, shape (n,)."""
        reach = self.geometry.upper_arm + self.geometry.forearm
        return np.asarray(self.distance > reach + TOLERANCE)

    @property
    def too_near(self) -> Bools:
        """Whether the wrist would be nearer than the folded arm allows, shape (n,)."""
        gap = abs(self.geometry.upper_arm - self.geometry.forearm)
        bent = self.elbow > self.geometry.limits[3] + TOLERANCE
        return np.asarray(bent | (self.distance < gap - TOLERANCE))


def _euler(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a, b, c with Rz(a) Ry(b) Rz(c) = matrix and b ≥ 0; c is right for any a at b = 0."""
    x, y = matrix[..., 0, 2], matrix[..., 1, 2]
    a = np.arctan2(y, x)
    b = np.arctan2(np.hypot(x, y), matrix[..., 2, 2])
    cos, sin = np.cos(a), np.sin(a)
    c = np.arctan2(
        cos * matrix[..., 1, 0] - sin * matrix[..., 0, 0],
        cos * matrix[..., 1, 1] - sin * matrix[..., 0, 1],
    )
    return a, b, c


def wrist_frame(wrist: Floats) -> tuple[Floats, Floats, Floats]:
    """Return azimuth, polar angle, and U (…, 3, 3), whose z axis points to the wrist."""
    phi = np.arctan2(wrist[..., 1], wrist[..., 0])
    theta = np.arctan2(np.hypot(wrist[..., 0], wrist[..., 1]), wrist[..., 2])
    frame = np.zeros((*wrist.shape, 3))
    cos_phi, sin_phi, cos, sin = np.cos(phi), np.sin(phi), np.cos(theta), np.sin(theta)
    frame[..., 0, 0], frame[..., 0, 1], frame[..., 0, 2] = cos * cos_phi, -sin_phi, sin * cos_phi
    frame[..., 1, 0], frame[..., 1, 1], frame[..., 1, 2] = cos * sin_phi, cos_phi, sin * sin_phi
    frame[..., 2, 0], frame[..., 2, 2] = -sin, cos
    return phi, theta, frame


def take_apart(poses: Floats, geometry: Geometry, slack: float = 0.0) -> Problem:
    """Turn poses (n, 4, 4) into the two triangles of each, with the wrist nearer by `slack`."""
    upper, fore = geometry.upper_arm, geometry.forearm
    rotation = poses[:, :3, :3]
    wrist = poses[:, :3, 3] - geometry.hand * rotation[:, :, 2]
    phi, theta, frame = wrist_frame(wrist)
    phi_hand, theta_hand, gamma = _euler(frame.transpose(0, 2, 1) @ rotation)

    distance = np.sqrt(np.einsum('ni,ni->n', wrist, wrist)) - slack
    straight = np.maximum((upper + fore - distance) * (upper + fore + distance), 0)
    folded = np.maximum((distance - upper + fore) * (distance + upper - fore), 0)
    elbow = 2 * np.arctan2(np.sqrt(straight), np.sqrt(folded))
    elbow[upper + fore - distance < STRAIGHT] = 0
    alpha = np.arctan2(fore * np.sin(elbow), upper + fore * np.cos(elbow))

    s, r, start, before, after = pairs = np.zeros((5, 2, len(poses), 1))
    s[0, :, 0], s[1, :, 0] = theta, alpha - elbow
    r[0, :, 0], r[1, :, 0] = -alpha, theta_hand
    start[1, :, 0], before[0, :, 0], after[1, :, 0] = phi_hand, phi, gamma
    (sin_s, sin_r), (cos_s, cos_r) = np.sin(pairs[:2]), np.cos(pairs[:2])
    return Problem(geometry, distance, elbow, sin_s, cos_s, sin_r, cos_r, start, before, after)


def base_postures(problem: Problem, psi: Floats, near: Floats) -> Floats:
    """Return the posture of the first branch at each ψ (n, k) as (n, k, 7), angles not wrapped.

    Where a middle angle is zero only the sum of its neighbours matters: the first of them then
    takes its value from `near`, shape (n, 7).
    """
    sin_s, cos_s, sin_r, cos_r = problem.sin_s, problem.cos_s, problem.sin_r, problem.cos_r
    t = problem.start + _TURN * psi
    sin_t, cos_t = np.sin(t), np.cos(t)
    cos_s_cos_t = cos_s * cos_t
    x = cos_s_cos_t * sin_r + sin_s * cos_r
    y = sin_r * sin_t
    sin_b = np.hypot(x, y)
    a = np.arctan2(y, x)
    if (sin_b < UNDETERMINED).any():
        free = near.T[[0, 4], :, None] - problem.before
        a = np.where(sin_b < UNDETERMINED, free, a)
        sin_a, cos_a = np.sin(a), np.cos(a)
    else:
        sin_a, cos_a = y / sin_b, x / sin_b
    q = np.empty((*psi.shape, JOINTS))
    b = np.arctan2(sin_b, cos_s * cos_r - sin_s * sin_r * cos_t)
    c = np.arctan2(
        cos_a * (sin_t * cos_r) - sin_a * (cos_s_cos_t * cos_r - sin_s * sin_r),
        cos_a * cos_t + sin_a * cos_s * sin_t,
    )
    q[..., 0], q[..., 4] = a + problem.before
    q[..., 1], q[..., 5] = b
    q[..., 2], q[..., 6] = c + problem.after
    q[..., 3] = problem.elbow[:, None]
    return q


def represent(q: Floats, near: Floats, limits: Floats) -> tuple[Floats, Bools]:
    """Choose among q and q ± whole turns the value nearest to `near`, itself inside the limits.

    Returns the angles, and which are outside whatever the turn.
    """
    q = q + TURN * np.rint((near - q) / TURN)
    outside = np.abs(q) > limits + TOLERANCE
    other = q - np.copysign(TURN, q)
    outside_too = np.abs(other) > limits + TOLERANCE
    return np.where(outside & ~outside_too, other, q), outside & outside_too


def _roots(problem: Problem, near: Floats) -> Floats:
    """Return every ψ at which a joint of any branch may meet a limit or its value in `near`.

    An angle of a triangle equals A, or A and half a turn, where the cross product of its
    direction with that of A is zero: p sin t + q cos t = constant. Where there is no root, or no
    limit because the joint can turn half a turn either way, points of an even grid stand in.
    Shape (n, 28).
    """
    sin_s, cos_s, sin_r, cos_r = problem.sin_s, problem.cos_s, problem.sin_r, problem.cos_r
    limits = np.array(problem.geometry.limits)
    limits[limits >= np.pi] = np.nan

    def wanted(joints: list[int]) -> Floats:
        angles = np.empty((2, len(near), 3))
        angles[..., 0] = near.T[joints]
        angles[..., 1] = limits[joints, None]
        angles[..., 2] = -limits[joints, None]
        return angles

    a, c = wanted([0, 4]) - problem.before, wanted([2, 6]) - problem.after
    cos_b = np.cos(limits[[1, 5], None, None])
    sin_a, sin_c = np.sin(a), np.sin(c)
    p = np.concatenate([sin_r * np.cos(a), sin_s * np.cos(c), np.zeros_like(sin_s)], axis=2)
    q = [-cos_s * sin_r * sin_a, -sin_s * cos_r * sin_c, sin_s * sin_r]
    constant = [sin_s * cos_r * sin_a, cos_s * sin_r * sin_c, cos_s * cos_r - cos_b]
    size, middle = np.hypot(p, np.concatenate(q, axis=2)), np.arctan2(p, np.concatenate(q, axis=2))
    ratio = np.concatenate(constant, axis=2) / np.where(size > 1e-99, size, np.nan)
    half = np.arccos(np.clip(ratio, -1, 1))
    t = np.stack([middle - half, middle + half], axis=3)
    psi = (t - problem.start[..., None]) * _TURN[..., None]
    # Rounding must not lose the root where a joint only touches its limit.
    exists = np.abs(ratio) <= 1 + 1e-9
    psi = np.where(exists[..., None], wrapped(psi), _EVEN)
    # With s = r = 0 only the sum a + c = t matters: the limits of c are met where t says so.
    sums = (a[..., :1] + c - problem.start) * _TURN
    sums = wrapped(sums[..., None] + [0, np.pi])
    alone = (size[..., 3:6, None] < UNDETERMINED) & np.isfinite(sums)
    psi[..., 3:6, :] = np.where(alone, sums, psi[..., 3:6, :])
    return psi.transpose(1, 0, 2, 3).reshape(len(near), -1)


def wrapped(psi: Floats) -> Floats:
    """Bring angles into [−π, π)."""
    return np.asarray(psi - TURN * np.floor((psi + np.pi) / TURN))


def cuts(problem: Problem, near: Floats, pieces: int) -> Floats:
    """Return cuts and the middles between them in turn, sorted, one round: shape (n, 2 m).

    The cuts are the roots and so many even pieces. Where shoulder or wrist is singular is among
    the roots, for there an angle meets every value at once.
    """
    roots = _roots(problem, near)
    n, m = roots.shape
    cuts = np.empty((n, m + pieces))
    cuts[:, :m] = roots
    cuts[:, m:] = np.arange(pieces) * (TURN / pieces) - np.pi
    cuts.sort(axis=1)
    psi = np.empty((n, 2 * cuts.shape[1]))
    psi[:, 0::2] = cuts
    psi[:, 1:-1:2] = (cuts[:, :-1] + cuts[:, 1:]) / 2
    psi[:, -1] = (cuts[:, -1] + np.pi) / 2
    return psi
