"""Which posture comes next, which are stored or left out, and the way back."""

from __future__ import annotations

import numpy as np

from kde_imitation.checks import Floats

__all__ = ['SAME', 'Plan']

# A label within this of a posture, radians of the worst joint, belongs to it.
SAME = 0.1


class Plan:
    """The postures of a session in their order.

    Parameters
    ----------
    postures : (k, n) array or None
        None if the arm is guided by hand, so that nobody knows them before.
    wanted : int
        How many pairs there are to be, if nobody knows the postures.
    labels : (m, n) array
        Of the pairs that are stored already. Each belongs to the nearest posture that is not taken
        by another, unless it is far from all.

    Attributes
    ----------
    index : int
        The present posture, from 0.
    """

    def __init__(self, postures: Floats | None, wanted: int, labels: Floats) -> None:
        self.postures = postures
        self.total = wanted if postures is None else len(postures)
        self.index = 0
        self._stored: set[int] = set()
        self._skipped: set[int] = set()
        self._history: list[tuple[str, int]] = []
        for row, label in enumerate(labels):
            self.index = self._owner(label, row)
            self.store()

    def _owner(self, label: Floats, row: int) -> int:
        """Return the posture that a label belongs to; one beyond all for a label of none."""
        if self.postures is None:
            return row
        off = np.abs(self.postures - label).max(axis=1)
        off[[index for index in self._stored if index < len(off)]] = np.inf
        index = int(np.argmin(off))
        return index if off[index] <= SAME else self.total + row

    @property
    def goal(self) -> Floats | None:
        """The present posture (n,), if it is known before."""
        return None if self.postures is None else self.postures[self.index]

    def advance(self) -> bool:
        """Go to the first posture that is neither stored nor left out; False if there is none."""
        if self.postures is None:
            self.index = len(self._stored)
            return self.index < self.total
        left = set(range(self.total)) - self._stored - self._skipped
        self.index = min(left, default=self.index)
        return bool(left)

    def store(self) -> None:
        """Note that the present posture is stored."""
        self._stored.add(self.index)
        self._history.append(('stored', self.index))

    def skip(self) -> None:
        """Leave the present posture out."""
        if self.postures is not None:
            self._skipped.add(self.index)
            self._history.append(('skipped', self.index))

    @property
    def last(self) -> str:
        """What was done last: 'stored', 'skipped' or, if nothing was, ''."""
        return self._history[-1][0] if self._history else ''

    def undo(self) -> None:
        """Take back what was done last, and go to its posture."""
        _, index = self._history.pop()
        self._stored.discard(index)
        self._skipped.discard(index)
        if index < self.total:
            self.index = index
        else:
            self.advance()

    def __str__(self) -> str:
        return f'Posture {min(self.index, self.total - 1) + 1} of {self.total}'
