"""Inverse kinematics of the PA-10: share solved and time per pose, closed form against iteration.

Each pose is the hand's pose at a posture drawn evenly inside the joint limits, so that a solution
exists. The iterative solvers start from another such posture and have one try each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import pinocchio as pin
from matplotlib.figure import Figure
from scipy.optimize import least_squares

from kde_imitation.benchmarks.report import Table, legend_below, save_picture
from kde_imitation.checks import Floats
from kde_imitation.errors import Unreachable
from kde_imitation.kinematics import pa10, pa10_inverse
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import urdf

SEED = 20051215
POSES = 10_000
SLOW_POSES = 300
BATCH = 250
# A pose counts as solved inside the limits and this close, in metres and in radians.
CLOSE = 1e-5

Solver = Callable[[int], Floats | None]


class _Poses:
    """The poses to solve, the postures to start from, and the solvers."""

    def __init__(self, count: int = POSES) -> None:
        rng = np.random.default_rng(SEED)
        shape = (count, pa10.JOINTS)
        self.truth = rng.uniform(pa10.LOWER, pa10.UPPER, shape)
        self.start = rng.uniform(pa10.LOWER, pa10.UPPER, shape)
        self.poses = pa10.forward(self.truth)

    @cached_property
    def chain(self) -> Chain:
        return Chain.from_urdf(urdf(), tip='flange')

    def closed_form(self, i: int) -> Floats | None:
        try:
            return pa10_inverse.solve(self.poses[i])
        except Unreachable:
            return None

    def closed_form_near(self, i: int) -> Floats | None:
        try:
            return pa10_inverse.solve(self.poses[i], near=self.start[i])
        except Unreachable:
            return None

    def least_squares(self, i: int) -> Floats:
        """Minimise the distance of all twelve numbers of the pose, inside the limits."""
        goal = self.poses[i, :3]

        def residual(q: Floats) -> Floats:
            return np.asarray((pa10.forward(q)[:3] - goal).T.ravel())

        def derivative(q: Floats) -> Floats:
            jacobian = pa10.jacobian(q)
            turned = np.cross(jacobian[None, 3:], pa10.forward(q)[:3, :3].T[:, :, None], axis=1)
            return np.concatenate([turned.reshape(9, -1), jacobian[:3]])

        bounds = (pa10.LOWER, pa10.UPPER)
        found = least_squares(residual, self.start[i], derivative, bounds, xtol=1e-12, ftol=1e-12)
        return np.asarray(found.x)

    def clik(self, i: int, steps: int = 1000, damping: float = 1e-2) -> Floats:
        """Iterate damped least-squares steps on the pose error, clamped to the limits.

        Of damping 1e-12 to 1e-2 and steps of 0.1 to 1 these solve most.
        """
        model = self.chain.model
        data = model.createData()
        frame = model.getFrameId(self.chain.tip)
        pin.framesForwardKinematics(model, data, self.truth[i])
        goal = pin.SE3(data.oMf[frame])
        q = self.start[i].copy()
        identity = damping * np.eye(6)
        for _ in range(steps):
            pin.framesForwardKinematics(model, data, q)
            away = data.oMf[frame].actInv(goal)
            error = pin.log6(away).vector
            if np.linalg.norm(error) < CLOSE / 10:
                break
            jacobian = -pin.Jlog6(away.inverse()) @ pin.computeFrameJacobian(model, data, q, frame)
            step = -jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + identity, error)
            q = np.clip(q + step, pa10.LOWER, pa10.UPPER)
        return np.asarray(q)


def pose_errors(q: Floats, poses: Floats) -> tuple[Floats, Floats]:
    """Return the hand's distance from its pose, metres and radians, each of shape (n,)."""
    reached = pa10.forward(q)
    distance = np.linalg.norm(reached[:, :3, 3] - poses[:, :3, 3], axis=-1)
    chord = np.linalg.norm(reached[:, :3, :3] - poses[:, :3, :3], axis=(-2, -1))
    # For a turn by an angle, the Frobenius norm of the difference is 2 √2 sin(angle / 2).
    return distance, 2 * np.arcsin(np.minimum(chord / np.sqrt(8), 1))


def _solved(q: Floats, poses: Floats) -> Floats:
    """Return 1 where a posture is inside the limits and close to its pose, else 0."""
    distance, angle = pose_errors(np.nan_to_num(q), poses)
    inside = ((q >= pa10.LOWER) & (q <= pa10.UPPER)).all(axis=-1)
    return np.asarray(inside & (distance < CLOSE) & (angle < CLOSE), dtype=float)


def _timed(solvers: dict[str, Solver], count: int) -> dict[str, tuple[Floats, Floats]]:
    """Run the solvers in turn on the first poses; return postures and milliseconds of each."""
    results: dict[str, tuple[Floats, Floats]] = {
        name: (np.full((count, pa10.JOINTS), np.nan), np.empty(count)) for name in solvers
    }
    for i in range(count):
        for name, solver in solvers.items():
            begin = time.perf_counter()
            q = solver(i)
            results[name][1][i] = 1e3 * (time.perf_counter() - begin)
            if q is not None:
                results[name][0][i] = q
    return results


def _in_batches(poses: _Poses) -> tuple[Floats, Floats]:
    """Solve all poses, some at a time; return postures, and milliseconds per pose of each time."""
    parts = [slice(i, i + BATCH) for i in range(0, len(poses.poses), BATCH)]
    q, elapsed = np.empty_like(poses.truth), []
    for part in parts:
        begin = time.perf_counter()
        q[part] = pa10_inverse.solve_batch(poses.poses[part]).q
        elapsed.append(1e3 * (time.perf_counter() - begin) / len(poses.poses[part]))
    return q, np.array(elapsed)


def _peers(poses: _Poses) -> Table:
    """Compare with solvers that iterate, on few poses, interleaved."""
    count = min(SLOW_POSES, len(poses.poses))
    table = Table(
        'inverse_kinematics',
        f'Inverse kinematics of the PA-10, the same {count} random reachable poses for all',
        ['solver', 'poses', 'solved %', 'mean ms', 'median ms', 'p95 ms'],
        notes=[
            f'Solved: inside the limits, within {CLOSE:g} m and {CLOSE:g} rad. Iterative solvers '
            'have one try from a random posture, the damped one at most 1000 steps.',
            'Each pose goes to every solver in turn. Times are of one call from Python.',
        ],
    )
    solvers: dict[str, Solver] = {
        'closed form': poses.closed_form,
        'closed form, nearest to a posture': poses.closed_form_near,
        'SciPy least_squares, bounds, exact Jacobian': poses.least_squares,
        'Pinocchio, damped steps, clamped': poses.clik,
    }
    for name, (q, elapsed) in _timed(solvers, count).items():
        solved = 100 * _solved(q, poses.poses[:count]).mean()
        table.add(name, count, solved, *_times(elapsed))
    return table


def _closed_form(poses: _Poses) -> Table:
    """Measure the closed form on all poses."""
    count = len(poses.poses)
    table = Table(
        'inverse_kinematics_closed_form',
        f'The closed form on {count} random reachable poses',
        ['way', 'solved %', 'not found', 'worst m', 'worst rad', 'mean ms', 'median ms', 'p95 ms'],
    )
    solvers: dict[str, Solver] = {
        'one pose a call': poses.closed_form,
        'one, nearest to a posture': poses.closed_form_near,
    }
    results = _timed(solvers, count)
    results[f'{BATCH} poses a call'] = _in_batches(poses)
    for name, (q, elapsed) in results.items():
        found = np.isfinite(q).all(axis=-1)
        distance, angle = pose_errors(q[found], poses.poses[found])
        solved = 100 * _solved(q, poses.poses).mean()
        lost = int((~found).sum())
        table.add(name, solved, lost, distance.max(), angle.max(), *_times(elapsed))
    return table


def _times(elapsed: Floats) -> tuple[float, float, float]:
    return (
        float(elapsed.mean()),
        float(np.median(elapsed)),
        float(np.percentile(elapsed, 95)),
    )


def _draw(poses: _Poses, folder: Path) -> None:
    """Draw the joints of one branch over the arm angle, with its feasible set."""
    branch = 0
    sets = (pa10_inverse.feasible_arm_angles(pose)[branch] for pose in poses.poses)
    index, intervals = next((i, s) for i, s in enumerate(sets) if len(s) > 1)
    psi = np.linspace(-np.pi, np.pi, 721)
    q = pa10_inverse.solve_at(poses.poses[index], psi).q[:, branch]
    figure = Figure(figsize=(8, 4.5), layout='constrained')
    axes = figure.subplots()
    for low, high in intervals:
        for turn in (0, -360):
            axes.axvspan(*(np.degrees([low, high]) + turn), color='tab:green', alpha=0.15, lw=0)
    for joint in range(pa10.JOINTS):
        share = np.degrees(q[:, joint])
        share[1:][np.abs(np.diff(share)) > 180] = np.nan
        axes.plot(np.degrees(psi), share / np.degrees(pa10.LIMITS[joint]), label=f'q{joint + 1}')
    axes.axhline(1, color='k', lw=0.8)
    axes.axhline(-1, color='k', lw=0.8)
    axes.set(xlabel='arm angle ψ / deg', ylabel='joint angle / its limit', xlim=(-180, 180))
    axes.set_title('One pose, one branch: inside all limits where shaded')
    legend_below(figure, ncols=7, fontsize='small')
    save_picture(figure, folder, 'arm_angle.png')


def run(pictures: Path | None = None) -> list[Table]:
    """Return the tables, and draw `arm_angle.png` into the folder `pictures` if given."""
    poses = _Poses()
    if pictures is not None:
        _draw(poses, pictures)
    return [_peers(poses), _closed_form(poses)]
