"""Inverse kinematics of the PA-10 in closed form: every posture that holds the hand in a pose.

The arm has one joint more than a pose asks for. What remains free is where the elbow is on its
circle about the line from shoulder to wrist: the arm angle ψ. ψ = 0 puts the elbow highest, and
ψ grows right-handed about the direction from shoulder to wrist. For each ψ there are eight
postures, one for each choice of signs of q2, q4 and q6: `BRANCHES`.

Let φ, θ be the azimuth and the polar angle of the wrist, and U = Rz(φ) Ry(θ). The elbow's angle
q4 follows from the triangle shoulder, elbow, wrist; α is that triangle's angle at the shoulder.
With Uᵀ R = Rz(φ') Ry(θ') Rz(γ') for the wanted rotation R,

    Rz(q1 − φ) Ry(q2) Rz(q3)  = Ry(θ) Rz(ψ) Ry(−α)
    Rz(q5) Ry(q6) Rz(q7 − γ') = Ry(α − q4) Rz(φ' − ψ) Ry(θ')

so that shoulder and wrist are the same spherical triangle with other numbers, whose middle turn t
is linear in ψ. Wherever a joint meets a limit, p sin t + q cos t = c holds with constants p, q, c.
These roots cut the circle of ψ into pieces on which a branch is inside the limits throughout or
nowhere. Testing one ψ of each piece gives the exact feasible set, as Shimizu et al. (2008) do for
this class of arms: no posture inside the limits is missed for want of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats, as_postures
from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.kinematics.pa10 import DEFAULT, JOINTS, Geometry, joint_axes, link_positions

__all__ = [
    'BRANCHES',
    'Postures',
    'Solutions',
    'arm_angle',
    'feasible_arm_angles',
    'solve',
    'solve_at',
    'solve_batch',
]

Bools = npt.NDArray[np.bool_]

TURN: Final = 2 * np.pi
# How far a joint or the wrist may be outside for rounding's sake; results are clipped afterwards.
TOLERANCE: Final = 1e-10
# The reach is known no better than this, in metres: so near to straight, the elbow is straight.
STRAIGHT: Final = 1e-13
# A middle angle with a smaller sine leaves the split between its two neighbours undetermined.
UNDETERMINED: Final = 1e-11
# The search for the best ψ: even pieces of the circle to start from beside the exact roots, how
# many of the best are refined, and how finely and how often.
PIECES: Final = 8
STARTS: Final = 4
ZOOM_POINTS: Final = 33
ZOOMS: Final = 4
# The cost of a joint outside its limits: more than any posture inside can cost.
OUTSIDE: Final = 1e30
CHUNK: Final = 256

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
_TWO_SIGNS: Final = np.array([[1.0, 1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1, 1]])
_TWO_SHIFTS: Final = np.pi * np.array([[0.0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0, 1]])
_SIGNS: Final = np.where(_OTHER, _TWO_SIGNS[1], _TWO_SIGNS[0])
_SHIFTS: Final = np.where(_OTHER, _TWO_SHIFTS[1], _TWO_SHIFTS[0])
# Rows: the first values of the seven joints, then the other ones. Columns: branches.
_PICK: Final = np.concatenate([~_OTHER.T, _OTHER.T]).astype(float)
# ψ turns the shoulder forward and the wrist back.
_TURN: Final = np.array([1.0, -1.0]).reshape(2, 1, 1)
# What stands in for roots that do not exist.
_EVEN: Final = np.pi * (np.arange(-27, 28, 2) / 28).reshape(2, 1, 7, 2)
_STEPS: Final = np.linspace(0, 1, ZOOM_POINTS)


class Postures(NamedTuple):
    """All postures at given arm angles."""

    q: Floats
    """Joint angles, shape (…, 8, 7), one row for each row of `BRANCHES`."""
    valid: Bools
    """Whether a row reaches the pose inside the limits, shape (…, 8)."""


class Solutions(NamedTuple):
    """One posture for each pose."""

    q: Floats
    """Joint angles inside the limits, shape (n, 7); NaN where none was found."""
    found: Bools
    """Whether there is one, shape (n,)."""


@dataclass
class _Problem:
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
        reach = self.geometry.upper_arm + self.geometry.forearm
        return np.asarray(self.distance > reach + TOLERANCE)

    @property
    def too_near(self) -> Bools:
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


def _frame(wrist: Floats) -> tuple[Floats, Floats, Floats]:
    """Return azimuth, polar angle, and U (…, 3, 3), whose z axis points to the wrist."""
    phi = np.arctan2(wrist[..., 1], wrist[..., 0])
    theta = np.arctan2(np.hypot(wrist[..., 0], wrist[..., 1]), wrist[..., 2])
    frame = np.zeros((*wrist.shape, 3))
    cos_phi, sin_phi, cos, sin = np.cos(phi), np.sin(phi), np.cos(theta), np.sin(theta)
    frame[..., 0, 0], frame[..., 0, 1], frame[..., 0, 2] = cos * cos_phi, -sin_phi, sin * cos_phi
    frame[..., 1, 0], frame[..., 1, 1], frame[..., 1, 2] = cos * sin_phi, cos_phi, sin * sin_phi
    frame[..., 2, 0], frame[..., 2, 2] = -sin, cos
    return phi, theta, frame


def _take_apart(poses: Floats, geometry: Geometry, slack: float = 0.0) -> _Problem:
    """Turn poses (n, 4, 4) into the two triangles of each, with the wrist nearer by `slack`."""
    upper, fore = geometry.upper_arm, geometry.forearm
    rotation = poses[:, :3, :3]
    wrist = poses[:, :3, 3] - geometry.hand * rotation[:, :, 2]
    phi, theta, frame = _frame(wrist)
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
    return _Problem(geometry, distance, elbow, sin_s, cos_s, sin_r, cos_r, start, before, after)


def _base_postures(problem: _Problem, psi: Floats, near: Floats) -> Floats:
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


def _represent(q: Floats, near: Floats, limits: Floats) -> tuple[Floats, Bools]:
    """Choose among q and q ± whole turns the value nearest to `near`, itself inside the limits.

    Returns the angles, and which are outside whatever the turn.
    """
    q = q + TURN * np.rint((near - q) / TURN)
    outside = np.abs(q) > limits + TOLERANCE
    other = q - np.copysign(TURN, q)
    outside_too = np.abs(other) > limits + TOLERANCE
    return np.where(outside & ~outside_too, other, q), outside & outside_too


def _roots(problem: _Problem, near: Floats) -> Floats:
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
    psi = np.where(exists[..., None], _wrapped(psi), _EVEN)
    # With s = r = 0 only the sum a + c = t matters: the limits of c are met where t says so.
    sums = (a[..., :1] + c - problem.start) * _TURN
    sums = _wrapped(sums[..., None] + [0, np.pi])
    alone = (size[..., 3:6, None] < UNDETERMINED) & np.isfinite(sums)
    psi[..., 3:6, :] = np.where(alone, sums, psi[..., 3:6, :])
    return psi.transpose(1, 0, 2, 3).reshape(len(near), -1)


def _wrapped(psi: Floats) -> Floats:
    """Bring angles into [−π, π)."""
    return np.asarray(psi - TURN * np.floor((psi + np.pi) / TURN))


def _cuts(problem: _Problem, near: Floats, pieces: int) -> Floats:
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


def _best(problem: _Problem, near: Floats | None) -> Solutions:
    """Search the feasible sets of all branches for the posture of least cost.

    Cuts and middles are tried in all branches; then the best few of those that are no worse than
    their neighbours on the circle are refined between these neighbours.
    """
    n = len(problem.distance)
    limits = np.array(problem.geometry.limits)
    target = np.zeros((n, JOINTS)) if near is None else np.clip(near, -limits, limits)
    rows = np.arange(n)[:, None]

    def price(q: Floats) -> tuple[Floats, Floats]:
        """Give joints (n, k, m, 7) their best values, and tell what each costs."""
        q, outside = _represent(q, target[:, None, None], limits)
        if near is None:
            cost = 1 / np.maximum(1 - np.square(q / limits), 1e-12)
        else:
            cost = np.square(q - near[:, None, None])
        return q, np.where(outside, OUTSIDE, cost)

    psi = _cuts(problem, target, PIECES)
    base = _base_postures(problem, psi, target)
    _, costs = price(base[:, :, None] * _TWO_SIGNS + _TWO_SHIFTS)
    cost = costs.reshape(*psi.shape, -1) @ _PICK
    ring = np.concatenate([cost[:, -1:], cost, cost[:, :1]], axis=1)
    lowest = (cost <= ring[:, :-2]) & (cost <= ring[:, 2:])
    ranked = np.where(lowest, cost, np.inf).reshape(n, -1)
    starts = np.argpartition(ranked, STARTS, axis=1)[:, :STARTS]
    at, branch = np.divmod(starts, len(BRANCHES))

    # The piece of a middle is feasible up to its cuts; beside a cut, a piece is if its middle is.
    around = np.concatenate([psi[:, -1:] - TURN, psi, psi[:, :1] + TURN], axis=1)
    middle = at % 2 == 1
    left, right = ring[rows, at, branch] < OUTSIDE, ring[rows, at + 2, branch] < OUTSIDE
    low = around[rows, np.where(middle | left, at, at + 1)]
    high = around[rows, np.where(middle | right, at + 2, at + 1)]

    signs, shifts = _SIGNS[branch][:, :, None], _SHIFTS[branch][:, :, None]
    q, costs = price(base[rows, at][:, :, None] * signs + shifts)
    best, least = q[:, :, 0], costs.sum(axis=-1)[:, :, 0]
    columns = np.arange(STARTS)
    for _ in range(ZOOMS):
        psi = low[..., None] + (high - low)[..., None] * _STEPS
        base = _base_postures(problem, psi.reshape(n, -1), target)
        q, costs = price(base.reshape(*psi.shape, JOINTS) * signs + shifts)
        cost = costs.sum(axis=-1)
        at = cost.argmin(axis=2)
        tried = cost[rows, columns, at]
        best = np.where((tried < least)[..., None], q[rows, columns, at], best)
        least = np.minimum(tried, least)
        low = psi[rows, columns, np.maximum(at - 1, 0)]
        high = psi[rows, columns, np.minimum(at + 1, ZOOM_POINTS - 1)]
    winner = least.argmin(axis=1)[:, None]
    found = (least[rows, winner][:, 0] < OUTSIDE) & ~problem.too_far & ~problem.too_near
    best = np.clip(best[rows, winner][:, 0], -limits, limits)
    best[~found] = np.nan
    return Solutions(best, found)


def _search(poses: Floats, near: Floats | None, geometry: Geometry) -> tuple[Solutions, _Problem]:
    """Take poses apart and solve them.

    A nearly straight elbow bends visibly for a reach that is less by a rounding error. Where it
    leaves no posture, that bend is tried, for it may bring a joint at its limit inside.
    """
    problem = _take_apart(poses, geometry)
    q, found = _best(problem, near)
    again = ~found & (problem.elbow < 1e-3) & ~problem.too_far
    if again.any():
        bent = _take_apart(poses[again], geometry, 2 * STRAIGHT)
        q[again], found[again] = _best(bent, None if near is None else near[again])
    return Solutions(q, found), problem


def _as_poses(pose: npt.ArrayLike) -> Floats:
    poses = as_floats('pose', pose)
    if poses.ndim < 2 or poses.shape[-2:] != (4, 4):
        raise BadInput(
            f'pose must end in two axes of 4, a homogeneous matrix, but has shape {poses.shape}.'
        )
    rotation = poses[..., :3, :3]
    error = np.abs(rotation @ np.swapaxes(rotation, -1, -2) - np.eye(3)).max(initial=0.0)
    if error > 1e-6:
        raise BadInput(
            f'pose must hold rotations in its upper left 3 × 3 parts, but one is {error:.2g} away '
            'from orthonormal; orthonormalise it first.'
        )
    if (np.linalg.det(rotation) < 0).any():
        raise BadInput('pose holds a reflection; its rotations must be right-handed.')
    if (poses[..., 3, :] != [0, 0, 0, 1]).any():
        raise BadInput('pose must have 0 0 0 1 as its last row; is the matrix transposed?')
    return poses


def _why(problem: _Problem) -> str:
    """Say why the one pose of a problem cannot be reached."""
    geometry = problem.geometry
    distance = problem.distance[0]
    where = f'The pose puts the wrist {distance:.4f} m from the shoulder'
    reach = geometry.upper_arm + geometry.forearm
    if problem.too_far[0]:
        return (
            f'{where}, but the straight arm reaches {reach:.4f} m: the pose is too far away. Move '
            'it nearer to the shoulder.'
        )
    if problem.too_near[0]:
        least = np.sqrt(
            geometry.upper_arm**2
            + geometry.forearm**2
            + 2 * geometry.upper_arm * geometry.forearm * np.cos(geometry.limits[3])
        )
        return (
            f'{where}, but with the elbow bent to its limit it is still {least:.4f} m away: the '
            'pose is too near. Move it away from the shoulder.'
        )
    return (
        f'{where}, which is within reach, but no posture inside the joint limits holds the hand '
        'this way, for any arm angle and any branch. Turn the hand or move the pose.'
    )


def arm_angle(q: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Floats:
    """Return the arm angle ψ of postures.

    For a straight elbow, whose circle is a point, ψ is that of a posture bent slightly to the
    positive side.

    Parameters
    ----------
    q : array_like, shape (…, 7)

    Returns
    -------
    numpy.ndarray, shape (…)
        In (−π, π].
    """
    q = as_postures('q', q, JOINTS)
    _, _, frame = _frame(link_positions(q, geometry)[..., 4, :])
    axis = np.einsum('...ij,...i->...j', frame, joint_axes(q)[..., 3, :])
    side = np.where(q[..., 3] < 0, -1.0, 1.0)
    return np.asarray(np.arctan2(-side * axis[..., 0], side * axis[..., 1]))


def solve_at(pose: npt.ArrayLike, psi: npt.ArrayLike, geometry: Geometry = DEFAULT) -> Postures:
    """Return the eight postures that hold the hand in a pose with the elbow at ψ.

    Parameters
    ----------
    pose : array_like, shape (…, 4, 4)
        Of the hand, in the shoulder frame.
    psi : array_like, shape (…)
        Arm angle. Broadcast against the poses.

    Returns
    -------
    Postures
        Angles in [−π, π]. Out of reach, no row is valid and the elbow is straight or folded.
    """
    poses, angles = _as_poses(pose), as_floats('psi', psi)
    try:
        shape = np.broadcast_shapes(poses.shape[:-2], angles.shape)
    except ValueError as error:
        raise BadInput(
            f'psi of shape {angles.shape} does not go with poses of shape {poses.shape}.'
        ) from error
    problem = _take_apart(np.broadcast_to(poses, (*shape, 4, 4)).reshape(-1, 4, 4), geometry)
    angles = np.broadcast_to(angles, shape).reshape(-1, 1)
    near = np.zeros((len(angles), JOINTS))
    limits = np.array(geometry.limits)
    base = _base_postures(problem, angles, near)
    q, outside = _represent(base * _SIGNS + _SHIFTS, near[:, None], limits)
    valid = ~(outside.any(axis=-1) | (problem.too_far | problem.too_near)[:, None])
    q = np.where(valid[..., None], np.clip(q, -limits, limits), q)
    return Postures(q.reshape(*shape, 8, JOINTS), valid.reshape(*shape, 8))


def feasible_arm_angles(pose: npt.ArrayLike, geometry: Geometry = DEFAULT) -> list[Floats]:
    """Return for each branch the exact set of ψ for which its posture is inside the limits.

    Parameters
    ----------
    pose : array_like, shape (4, 4)

    Returns
    -------
    list of 8 numpy.ndarray, each of shape (m, 2)
        Closed intervals [from, to] for each row of `BRANCHES`, disjoint and in order; `from` is in
        [−π, π), and `to` is beyond π where the interval goes across ±π. The whole circle is
        [−π, π].
    """
    problem = _take_apart(_as_poses(as_floats('pose', pose, (4, 4)))[None], geometry)
    if problem.too_far[0] or problem.too_near[0]:
        return [np.empty((0, 2)) for _ in BRANCHES]
    near = np.zeros((1, JOINTS))
    psi = _cuts(problem, near, 2)
    base = _base_postures(problem, psi, near)
    _, outside = _represent(base[0, :, None] * _SIGNS + _SHIFTS, near, np.array(geometry.limits))
    inside = np.asarray(~outside.any(axis=-1))
    return [_intervals(psi[0], inside[:, branch]) for branch in range(len(BRANCHES))]


def _intervals(psi: Floats, inside: Bools) -> Floats:
    """Join the feasible pieces of a circle; `psi` holds cuts and middles in turn."""
    cuts = np.append(psi[0::2], psi[0] + TURN)
    pieces = inside[1::2] & (np.diff(cuts) > 0)
    joined: list[list[float]] = []
    for i, feasible in enumerate(pieces):
        if feasible and joined and joined[-1][1] == cuts[i]:
            joined[-1][1] = cuts[i + 1]
        elif feasible:
            joined.append([cuts[i], cuts[i + 1]])
    if len(joined) > 1 and joined[0][0] == cuts[0] and joined[-1][1] == cuts[-1]:
        joined[-1][1] = joined.pop(0)[1] + TURN
    alone = [
        [cut, cut]
        for cut, good in zip(cuts[:-1], inside[0::2], strict=True)
        if good and not any(a <= cut <= b or a <= cut + TURN <= b for a, b in joined)
    ]
    return np.array(sorted([*joined, *alone])).reshape(-1, 2)


def solve_batch(
    poses: npt.ArrayLike, near: npt.ArrayLike | None = None, geometry: Geometry = DEFAULT
) -> Solutions:
    """Return a posture inside the limits for each pose that has one.

    Parameters
    ----------
    poses : array_like, shape (n, 4, 4)
        Of the hand, in the shoulder frame.
    near : array_like, shape (7,) or (n, 7), optional
        See `solve`.
    """
    checked = _as_poses(as_floats('poses', poses, (None, 4, 4)))
    n = len(checked)
    targets = None
    if near is not None:
        targets = as_postures('near', near, JOINTS)
        if targets.shape not in ((JOINTS,), (n, JOINTS)):
            raise BadInput(f'near must have shape (7,) or ({n}, 7), not {targets.shape}.')
        targets = np.broadcast_to(targets, (n, JOINTS))
    q, found = np.empty((n, JOINTS)), np.empty(n, dtype=bool)
    for i in range(0, n, CHUNK):
        part = slice(i, i + CHUNK)
        near_part = None if targets is None else targets[part]
        q[part], found[part] = _search(checked[part], near_part, geometry)[0]
    return Solutions(q, found)


def solve(
    pose: npt.ArrayLike, near: npt.ArrayLike | None = None, geometry: Geometry = DEFAULT
) -> Floats:
    """Return a posture inside the limits that holds the hand in a pose.

    All branches and all feasible arm angles compete. With `near`, the posture at the least
    Euclidean distance from it (radians) wins; E2 and W2, which turn past half a turn, may take
    either of their values for the same direction. Without, the posture farthest from the limits
    wins: the least sum over the joints of 1 / (1 − (q/limit)²), which grows without bound towards
    a limit (Zghal, Dubey and Euler 1990).

    Whether a posture exists is decided exactly. The best one is looked for on every piece of the
    circle of ψ between limits, none wider than an eighth of it, and refined from the four best
    starts. Where shoulder or wrist is singular, so that only the sum of two joints matters, the
    first of the two keeps the value it has in `near` (zero without).

    Parameters
    ----------
    pose : array_like, shape (4, 4)
        Of the hand, in the shoulder frame.
    near : array_like, shape (7,), optional
        Usually the posture now. It need not be inside the limits.

    Returns
    -------
    numpy.ndarray, shape (7,)

    Raises
    ------
    Unreachable
        Too far, too near, or no posture inside the limits; the message says which.
    """
    poses = _as_poses(as_floats('pose', pose, (4, 4)))[None]
    target = None if near is None else as_floats('near', near, (JOINTS,))[None]
    solutions, problem = _search(poses, target, geometry)
    if not solutions.found[0]:
        raise Unreachable(_why(problem))
    return np.asarray(solutions.q[0])
