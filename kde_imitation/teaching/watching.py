"""The newest pictures and joint values, and how long they have been at rest."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.teaching.looking import Grey, glance
from kde_imitation.vision.background import Picture, as_picture

__all__ = ['ArmWatch', 'PictureWatch']


class ArmWatch:
    """Where the arm is, and whether it rests.

    Parameters
    ----------
    joints : int
    """

    def __init__(self, joints: int) -> None:
        self._joints = joints
        self._past: deque[tuple[float, Floats]] = deque()
        self.q: Floats | None = None
        self.time = -np.inf

    def receive(self, q: npt.ArrayLike, now: float, keep: float) -> None:
        """Take joint values (n,); those of the last `keep` seconds are remembered."""
        self.q, self.time = as_floats('The joint values', q, (self._joints,)), now
        if self._past and now < self._past[-1][0]:
            self._past.clear()
        self._past.append((now, self.q))
        while len(self._past) > 1 and self._past[1][0] <= now - keep:
            self._past.popleft()

    def fresh(self, now: float, timeout: float) -> bool:
        """Whether joint values came in lately."""
        return self.q is not None and now - self.time <= timeout

    def rests(self, seconds: float, speed: float) -> bool:
        """Whether no joint has moved faster, on average, for so many seconds."""
        if self.q is None or self.time - self._past[0][0] < 0.9 * seconds:
            return False
        values = np.stack([q for _, q in self._past])
        return bool(np.ptp(values, axis=0).max() <= max(speed * seconds, 1e-4))


class PictureWatch:
    """The newest picture, and glances at those a moment before."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, Grey]] = deque()
        self.picture: Picture | None = None
        self.time = -np.inf

    def receive(self, picture: npt.ArrayLike, now: float, keep: float) -> None:
        """Take a picture (h, w, 3); glances of the last `keep` seconds are remembered."""
        seen = as_picture('The picture', picture)
        if self._past and (
            now < self._past[-1][0]
            or (self.picture is not None and seen.shape != self.picture.shape)
        ):
            self._past.clear()
        self.picture, self.time = seen, now
        self._past.append((now, glance(seen)))
        while len(self._past) > 1 and self._past[1][0] <= now - keep:
            self._past.popleft()

    def fresh(self, now: float, timeout: float) -> bool:
        """Whether a picture came in lately."""
        return self.picture is not None and now - self.time <= timeout

    @property
    def now(self) -> Grey:
        """A glance at the newest picture."""
        return self._past[-1][1]

    def before(self, seconds: float) -> Grey | None:
        """Return a glance at least so many seconds older, if there is one."""
        for time, seen in self._past:
            if self.time - time >= 0.9 * seconds and (time < self.time or seconds == 0.0):
                return seen
        return None
