"""Heading along a path of straight pieces in joint space."""

from __future__ import annotations

import numpy as np

from kde_imitation.checks import Floats

__all__ = ['ahead', 'remaining']


def remaining(path: Floats, q: Floats) -> Floats:
    """Return the part of a path (k, n) that lies ahead of a posture (n,).

    It begins with the point of the path that is nearest to the posture, the later one where two
    are equally near. A path of one or two points has nothing to pass on the way: what remains of
    it is its end.
    """
    if len(path) < 3:
        return path[-1:]
    start, piece = path[:-1], np.diff(path, axis=0)
    length = (piece**2).sum(axis=1)
    along = ((q - start) * piece).sum(axis=1) / np.where(length > 0.0, length, 1.0)
    foot = start + np.clip(along, 0.0, 1.0)[:, None] * piece
    distance = ((foot - q) ** 2).sum(axis=1)
    index = len(distance) - 1 - int(np.argmin(distance[::-1]))
    return np.vstack([foot[index], path[index + 1 :]])


def ahead(path: Floats, distance: float) -> Floats:
    """Return the point (n,) so far along a path (k, n), or its end where it is shorter.

    Distance is counted in the joint that moves most.
    """
    steps = np.abs(np.diff(path, axis=0)).max(axis=1)
    gone = np.concatenate([[0.0], np.cumsum(steps)])
    if distance >= gone[-1]:
        return np.asarray(path[-1])
    index = int(np.searchsorted(gone, distance, side='right')) - 1
    share = (distance - gone[index]) / steps[index]
    return np.asarray(path[index] + share * (path[index + 1] - path[index]))
