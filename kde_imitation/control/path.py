"""Smooth joint paths through postures, slow enough for the joints' limits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import JointLimits


class SmoothPath:
    """A twice differentiable path through postures, at rest at both ends.

    A cubic spline through the postures is stretched in time until its greatest speed and
    acceleration, which a cubic has in closed form, take the given share of the limits.

    Parameters
    ----------
    postures : (n, joints) array, n ≥ 2
    limits : JointLimits
    share : float
        Part of the speed and acceleration limits to use, above 0 and at most 1.

    Attributes
    ----------
    times : (n,) array, when each posture is passed, from 0
    duration : float
    """

    def __init__(self, postures: npt.ArrayLike, limits: JointLimits, share: float = 0.5) -> None:
        points = as_floats('postures', postures, (None, len(limits.names)))
        if len(points) < 2:
            raise BadInput(f'A path needs at least 2 postures, not {len(points)}.')
        if not 0 < share <= 1:
            raise BadInput(f'share must be above 0 and at most 1, not {share}.')
        steps = np.abs(np.diff(points, axis=0))
        if not steps.any(axis=1).all():
            at = int(np.argmin(steps.any(axis=1)))
            raise BadInput(f'Postures {at} and {at + 1} of the path are equal; leave one out.')
        # A joint that starts and stops in a segment needs about this long for it.
        slowest = np.maximum(steps / limits.velocity, np.sqrt(steps / limits.acceleration))
        times = np.concatenate([[0.0], np.cumsum(slowest.max(axis=1))])
        rough = CubicSpline(times, points, bc_type='clamped')
        speed, acceleration = _greatest(rough)
        stretch = max(
            float((speed / limits.velocity).max()) / share,
            float(np.sqrt((acceleration / limits.acceleration).max() / share)),
        )
        self.times = times * stretch
        self.duration = float(self.times[-1])
        self._spline = CubicSpline(self.times, points, bc_type='clamped')
        self._check_positions(limits)

    def _check_positions(self, limits: JointLimits) -> None:
        extremes = _positions_at_extremes(self._spline)
        low, high = extremes.min(axis=0), extremes.max(axis=0)
        outside = (low < limits.lower) | (high > limits.upper)
        if outside.any():
            joint = int(np.argmax(outside))
            raise BadInput(
                f'Between its postures the path takes joint {limits.names[joint]} to '
                f'{low[joint]:.3f} … {high[joint]:.3f} rad, beyond its limits '
                f'{limits.lower[joint]:.3f} … {limits.upper[joint]:.3f}; add postures in between '
                'or keep them further from the limits.'
            )

    def position(self, t: npt.ArrayLike) -> Floats:
        """Return postures (…, joints) at times t (…), held before the start and after the end."""
        return np.asarray(self._spline(np.clip(t, 0.0, self.duration)))

    def velocity(self, t: npt.ArrayLike) -> Floats:
        """Return joint speeds (…, joints) at times t (…)."""
        return np.asarray(self._spline(np.clip(t, 0.0, self.duration), 1))

    def acceleration(self, t: npt.ArrayLike) -> Floats:
        """Return joint accelerations (…, joints) at times t (…) from 0 to the duration."""
        return np.asarray(self._spline(np.clip(t, 0.0, self.duration), 2))


def _greatest(spline: CubicSpline) -> tuple[Floats, Floats]:
    """Return the greatest speed and acceleration of each joint, both (joints,).

    Between knots the acceleration is linear, so that it is greatest at a knot; the speed is a
    parabola, greatest at a knot or where the acceleration passes zero.
    """
    knots = spline.x
    acceleration = spline(knots, 2)
    speed = np.abs(spline(knots, 1)).max(axis=0)
    first, last = acceleration[:-1], acceleration[1:]
    crosses = first * last < 0
    fraction = np.where(crosses, first / np.where(crosses, first - last, 1.0), 0.0)
    # v at the peak: v0 + area under the falling line up to where it meets zero.
    peak = spline(knots[:-1], 1) + 0.5 * first * fraction * np.diff(knots)[:, None]
    return np.maximum(speed, np.abs(peak).max(axis=0)), np.abs(acceleration).max(axis=0)


def _positions_at_extremes(spline: CubicSpline) -> Floats:
    """Return postures (m, joints) among which are the extremes of every joint."""
    turning = spline.derivative().roots(extrapolate=False)
    times = np.concatenate([spline.x, *[roots[np.isfinite(roots)] for roots in turning]])
    return np.asarray(spline(times))
