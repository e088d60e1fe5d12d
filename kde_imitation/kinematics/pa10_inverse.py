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

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats, as_postures
from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.kinematics.pa10 import DEFAULT, JOINTS, Geometry, joint_axes, link_positions
from kde_imitation.kinematics.pa10_triangles import (
    BRANCHES,
    PICK,
    SHIFTS,
    SIGNS,
    STRAIGHT,
    TURN,
    TWO_SHIFTS,
    TWO_SIGNS,
    Bools,
    Problem,
    base_postures,
    cuts,
    represent,
    take_apart,
    wrist_frame,
)

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

# The search for the best ψ: even pieces of the circle to start from beside the exact roots, how
# many of the best are refined, and how finely and how often.
PIECES: Final = 8
STARTS: Final = 4
ZOOM_POINTS: Final = 33
ZOOMS: Final = 4
# The cost of a joint outside its limits: more than any posture inside can cost.
OUTSIDE: Final = 1e30
CHUNK: Final = 256
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


def _best(problem: Problem, near: Floats | None) -> Solutions:
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
        q, outside = represent(q, target[:, None, None], limits)
        if near is None:
            cost = 1 / np.maximum(1 - np.square(q / limits), 1e-12)
        else:
            cost = np.square(q - near[:, None, None])
        return q, np.where(outside, OUTSIDE, cost)

    psi = cuts(problem, target, PIECES)
    base = base_postures(problem, psi, target)
    _, costs = price(base[:, :, None] * TWO_SIGNS + TWO_SHIFTS)
    cost = costs.reshape(*psi.shape, -1) @ PICK
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

    signs, shifts = SIGNS[branch][:, :, None], SHIFTS[branch][:, :, None]
    q, costs = price(base[rows, at][:, :, None] * signs + shifts)
    best, least = q[:, :, 0], costs.sum(axis=-1)[:, :, 0]
    columns = np.arange(STARTS)
    for _ in range(ZOOMS):
        psi = low[..., None] + (high - low)[..., None] * _STEPS
        base = base_postures(problem, psi.reshape(n, -1), target)
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


def _search(poses: Floats, near: Floats | None, geometry: Geometry) -> tuple[Solutions, Problem]:
    """Take poses apart and solve them.

    A nearly straight elbow bends visibly for a reach that is less by a rounding error. Where it
    leaves no posture, that bend is tried, for it may bring a joint at its limit inside.
    """
    problem = take_apart(poses, geometry)
    q, found = _best(problem, near)
    again = ~found & (problem.elbow < 1e-3) & ~problem.too_far
    if again.any():
        bent = take_apart(poses[again], geometry, 2 * STRAIGHT)
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


def _why(problem: Problem) -> str:
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
    _, _, frame = wrist_frame(link_positions(q, geometry)[..., 4, :])
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
    problem = take_apart(np.broadcast_to(poses, (*shape, 4, 4)).reshape(-1, 4, 4), geometry)
    angles = np.broadcast_to(angles, shape).reshape(-1, 1)
    near = np.zeros((len(angles), JOINTS))
    limits = np.array(geometry.limits)
    base = base_postures(problem, angles, near)
    q, outside = represent(base * SIGNS + SHIFTS, near[:, None], limits)
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
    problem = take_apart(_as_poses(as_floats('pose', pose, (4, 4)))[None], geometry)
    if problem.too_far[0] or problem.too_near[0]:
        return [np.empty((0, 2)) for _ in BRANCHES]
    near = np.zeros((1, JOINTS))
    psi = cuts(problem, near, 2)
    base = base_postures(problem, psi, near)
    _, outside = represent(base[0, :, None] * SIGNS + SHIFTS, near, np.array(geometry.limits))
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
