"""A simulated arm that goes to postures, for teach-ins without a real one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.control import Tracker
from kde_imitation.errors import Unreachable
from kde_imitation.kinematics.description import JointLimits
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.teaching.route import Router

__all__ = ['ShownArm']

PERIOD = 0.01


class ShownArm:
    """Moves a simulated arm to postures, jerk-limited and without touching itself.

    Parameters
    ----------
    arm : SimulatedArm
    limits : JointLimits
    router : Router
        Its home is where the arm begins.
    """

    def __init__(self, arm: SimulatedArm, limits: JointLimits, router: Router) -> None:
        self.arm, self._router = arm, router
        arm.reset(router.home)
        self._tracker = Tracker(limits, PERIOD, q=router.home)
        self._goal: Floats = router.home
        self._way: list[Floats] = []

    @property
    def q(self) -> Floats:
        """Where the arm is, (n,)."""
        return self.arm.q

    @property
    def time(self) -> float:
        """Simulated seconds since the beginning."""
        return self.arm.time

    def go_to(self, goal: npt.ArrayLike) -> None:
        """Set out for a posture (n,); `Unreachable` if there is no free way."""
        wanted = np.asarray(goal, dtype=np.float64)
        if np.array_equal(wanted, self._goal):
            return
        route = self._router.route(self._tracker.q, wanted)
        if route is None:
            fault = self._router.fault(wanted) or 'there is no free way'
            raise Unreachable(f'The arm cannot get to this posture: {fault}.')
        self._goal, self._way = wanted, list(route[1:])

    def step(self) -> None:
        """Move for `PERIOD` seconds."""
        if self._way:
            self._tracker.track(self._way[0], straight=True)
            if self._tracker.at_rest and np.abs(self._tracker.q - self._way[0]).max() < 1e-6:
                self._way.pop(0)
        self.arm.step(self._tracker.q)
