"""The picture of the empty room, from several that show nothing moving."""

from __future__ import annotations

import numpy as np

from kde_imitation.teaching.looking import STEADY, Grey, changed, is_flat
from kde_imitation.vision.background import Picture

__all__ = ['RoomWatch']

# Pictures are taken so far apart, seconds.
_SPACING = 0.1


class RoomWatch:
    """Gathers pictures of the empty room, anew whenever something moves.

    Parameters
    ----------
    count : int
        The background is the median of so many.

    Attributes
    ----------
    trouble : str
        Why it began anew, if it did.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.begin()

    def begin(self) -> None:
        """Forget what was gathered."""
        self._seen: list[tuple[Picture, Grey]] = []
        self._time = -np.inf
        self.trouble = ''

    def add(self, picture: Picture, glance: Grey, now: float) -> Picture | None:
        """Take a picture (h, w, 3); return the background once there are enough."""
        if now - self._time < 0.9 * _SPACING:
            return None
        self._time = now
        trouble = self._trouble(picture, glance)
        if trouble:
            self._seen, self.trouble = [], trouble
            return None
        self._seen.append((picture, glance))
        if len(self._seen) < self._count:
            return None
        middle = np.median([each for each, _ in self._seen], axis=0)
        return np.asarray(np.rint(middle), dtype=np.uint8)

    def _trouble(self, picture: Picture, glance: Grey) -> str:
        if is_flat(picture):
            return 'The picture is all one shade; is the lens covered?'
        for _, each in (*self._seen[:1], *self._seen[-1:]):
            if each.shape != glance.shape or changed(glance, each) > STEADY:
                return 'Something moves in the picture.'
        return ''
