"""Which postures the arm may take, and how it gets from one to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.control import SelfCollisionGuard
from kde_imitation.control.collision import MountingPlane
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain

__all__ = ['Router']

# On a line, postures are looked at so far apart, radians of the joint that moves most.
_SPACING = 0.1
# The first two joints of an arm are near its base in every posture.
_NEAR_BASE = 2


class Router:
    """Finds ways between postures: straight ones, or by way of a home posture.

    The arm must touch neither itself nor what it is mounted on, the wall or the floor: a
    `control.collision.MountingPlane`.

    Parameters
    ----------
    chain : Chain
    home : (n,) array
        A posture from which others are likely to be reached.
    guard : SelfCollisionGuard, optional
        Without it, links may touch each other.
    clearance : float
        How far joints and hand stay from the plane, metres; 0 for an arm that may reach behind
        its base. A guard that keeps off the mount keeps the links' shapes off it as well.
    """

    def __init__(
        self,
        chain: Chain,
        home: npt.ArrayLike,
        guard: SelfCollisionGuard | None = None,
        clearance: float = 0.1,
    ) -> None:
        if not (np.isfinite(clearance) and clearance >= 0.0):
            raise BadInput(f'clearance is {clearance} m; it must be 0 or more.')
        self.chain, self.guard, self.clearance = chain, guard, clearance
        self.home = as_floats('home', home, (len(chain.names),))
        fault = self.fault(self.home)
        if fault:
            raise BadInput(f'The home posture cannot be taken: {fault}.')

    def fault(self, q: npt.ArrayLike) -> str:
        """Say why a posture (n,) cannot be taken, in half a sentence; nothing if it can."""
        posture = as_floats('posture', q, self.home.shape)
        height = float(self._heights(posture[None])[0])
        if height < self.clearance:
            return (
                f'the arm would be {1e3 * height:.0f} mm from the plane that it is mounted on, '
                f'nearer than {1e3 * self.clearance:.0f} mm'
            )
        if self.guard is not None and not self.guard.safe(posture):
            near = self.guard.nearest(posture)
            return (
                f'its links {near.first} and {near.second} would be {1e3 * near.distance:.0f} mm '
                f'apart, less than {1e3 * self.guard.margin:.0f} mm'
            )
        return ''

    def route(self, start: npt.ArrayLike, goal: npt.ArrayLike) -> Floats | None:
        """Return the postures (k, n) to pass in straight lines, start and goal among them.

        None if neither the straight way nor the one by the home posture is free.
        """
        a, b = (as_floats('posture', q, self.home.shape) for q in (start, goal))
        if self._free(a, b):
            return np.stack([a, b])
        if self._free(a, self.home) and self._free(self.home, b):
            return np.stack([a, self.home, b])
        return None

    def _heights(self, postures: Floats) -> Floats:
        """Return how far the arm is from the plane in postures (k, n), metres (k,)."""
        if not self.clearance or len(self.chain.names) <= _NEAR_BASE:
            return np.full(len(postures), np.inf)
        points = self.chain.link_positions(postures)[:, _NEAR_BASE:]
        return np.asarray(MountingPlane.heights(points).min(axis=1))

    def _free(self, a: Floats, b: Floats) -> bool:
        count = int(np.ceil(np.abs(b - a).max() / _SPACING)) + 1
        share = np.linspace(0.0, 1.0, count + 1)[:, None]
        heights = self._heights(a + share * (b - a))
        # From a start that is too near already, it may lead away.
        if (heights < np.minimum(self.clearance, np.maximum.accumulate(heights) - 1e-6)).any():
            return False
        return self.guard is None or self.guard.clear_line(a, b)
