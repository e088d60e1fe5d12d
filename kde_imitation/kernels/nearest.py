"""Which of many known points are nearest."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats

__all__ = ['nearest']


def nearest(wanted: Floats, known: Floats, count: int = 1) -> npt.NDArray[np.integer[Any]]:
    """Return which rows of `known` (n, r) are nearest to each of `wanted` (m, r): (m, count).

    The nearest comes first.
    """
    squares = (known**2).sum(axis=1) - 2.0 * wanted @ known.T
    if count == 1:
        return np.asarray(squares.argmin(axis=1)[:, None])
    if count < len(known):
        some = np.argpartition(squares, count - 1, axis=1)[:, :count]
    else:
        some = np.tile(np.arange(len(known)), (len(wanted), 1))
    order = np.take_along_axis(squares, some, axis=1).argsort(axis=1)
    return np.take_along_axis(some, order, axis=1)
