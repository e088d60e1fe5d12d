"""Paths that stay where demonstrations were (Bakır 2006, 6.2.2).

A straight line in joint space between two demonstrated postures may pass through postures that
nobody showed. The path is bent towards what was shown: where it strays furthest from every
training posture in feature space, the nearest of these becomes a point to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.learning.preimage import Flags, Ints, nearest

__all__ = ['CorrectedPath', 'correct_path']


@dataclass(frozen=True)
class CorrectedPath:
    """A path of straight pieces in joint space.

    Attributes
    ----------
    waypoints : (k, n) array
        From the first posture to the last.
    distances : (k − 1,) array
        How far each piece strays from the training postures in feature space, at its worst.
    inserted : (k − 2,) array of int
        Which training postures lie between.
    straight : float
        How far the straight path strayed.
    within : bool
        Whether every piece is within the threshold.
    """

    waypoints: Floats
    distances: Floats
    inserted: Ints
    straight: float
    within: bool


@dataclass(frozen=True)
class _Piece:
    """Points on a straight piece: their features (k, f), nearest training posture, distance."""

    shown: Floats
    neighbour: Ints
    distance: Floats

    @property
    def worst(self) -> float:
        return float(self.distance.max())


def correct_path(
    q0: npt.ArrayLike,
    q1: npt.ArrayLike,
    features: Callable[[Floats], Floats],
    training_postures: npt.ArrayLike,
    threshold: float,
    *,
    max_insertions: int = 50,
    spacing: float = 0.05,
) -> CorrectedPath:
    """Bend the straight path from q0 to q1 until it keeps to the training postures.

    As in the thesis, the posture nearest to the worst point of the path is inserted there. Where
    that posture is on the path already the next worst point has its turn, and where this holds
    for all points that stray, the nearest posture not yet used. An insertion is kept only if its
    two pieces stray no further than the one they replace, and no posture is tried twice: the
    procedure ends, and never with a worse path than the straight one. It may end with a path that
    strays further than the threshold; `within` says so.

    Parameters
    ----------
    q0, q1 : (n,) arrays
    features : callable
        Postures (k, n) to features (k, f), in which distances are taken: `KernelPCA.transform`
        on a pose kernel, or `PoseKernel.features`.
    training_postures : (N, n) array
    threshold : float > 0
        In the unit of the features.
    max_insertions : int ≥ 0
    spacing : float > 0
        Points are checked on each piece at most so far apart, in radians of the joint that moves
        most.
    """
    begin = as_floats('q0', q0, (None,))
    end = as_floats('q1', q1, begin.shape)
    training = as_floats('training_postures', training_postures, (None, len(begin)))
    if len(training) == 0:
        raise BadInput('training_postures is empty; there is nothing to keep to.')
    for name, value in (('threshold', threshold), ('spacing', spacing)):
        if not (np.isfinite(value) and value > 0):
            raise BadInput(f'{name} must be positive, not {value}.')
    if max_insertions < 0:
        raise BadInput(f'max_insertions must not be negative, but is {max_insertions}.')
    known = as_floats('features(training_postures)', features(training), (len(training), None))

    def piece(a: Floats, b: Floats) -> _Piece:
        count = int(np.ceil(np.abs(b - a).max() / spacing)) + 1
        share = np.linspace(0.0, 1.0, max(count, 2))[:, None]
        shown = np.asarray(features(a + share * (b - a)))
        neighbour = nearest(shown, known)[:, 0]
        return _Piece(shown, neighbour, np.linalg.norm(shown - known[neighbour], axis=1))

    waypoints, inserted = [begin, end], list[int]()
    tried = (training == begin).all(axis=1) | (training == end).all(axis=1)
    pieces = [piece(begin, end)]
    straight = pieces[0].worst
    while len(inserted) < max_insertions and not tried.all():
        choice = _nearest_to_worst(pieces, tried, threshold)
        last_resort = choice is None
        if choice is None:
            choice = _next_to_worst(pieces, tried, threshold, known)
        if choice is None:
            break
        place, index = choice
        tried[index] = True
        through = training[index]
        new = [piece(waypoints[place], through), piece(through, waypoints[place + 1])]
        if max(part.worst for part in new) <= pieces[place].worst:
            inserted.insert(place, index)
            waypoints.insert(place + 1, through)
            pieces[place : place + 1] = new
        elif last_resort:
            break
    distances = np.array([part.worst for part in pieces])
    return CorrectedPath(
        np.array(waypoints),
        distances,
        np.array(inserted, dtype=np.intp),
        straight,
        bool((distances <= threshold).all()),
    )


def _nearest_to_worst(
    pieces: list[_Piece], tried: Flags, threshold: float
) -> tuple[int, int] | None:
    """Return the piece of the worst point whose nearest posture is untried, and that posture."""
    worst, answer = threshold, None
    for place, part in enumerate(pieces):
        open_ = np.where(tried[part.neighbour], 0.0, part.distance)
        index = int(open_.argmax())
        if open_[index] > worst:
            worst, answer = float(open_[index]), (place, int(part.neighbour[index]))
    return answer


def _next_to_worst(
    pieces: list[_Piece], tried: Flags, threshold: float, known: Floats
) -> tuple[int, int] | None:
    """Return the piece of the worst point of all, and the untried posture nearest to it."""
    place = int(np.argmax([part.worst for part in pieces]))
    part = pieces[place]
    if part.worst <= threshold:
        return None
    left = np.flatnonzero(~tried)
    point = part.shown[part.distance.argmax()]
    return place, int(left[np.linalg.norm(known[left] - point, axis=1).argmin()])
