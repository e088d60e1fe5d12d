"""Where the arm is in the frame of the body: shoulder, elbow and fingertips in the picture."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import scipy  # which loads a part of itself when it is first used

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin_arm import ArmSearch
from kde_imitation.kernels.backend import core
from kde_imitation.vision.body import SIDE, Singles

# Places along upper arm and forearm where evidence is read, as shares of their lengths.
UPPER_STATIONS = np.linspace(0.25, 1.0, 10)
FORE_STATIONS = np.linspace(0.08, 1.0, 14)
# Evidence from which a piece of arm is more likely there than not.
EVEN = 0.5
# A part of the arm may look this much longer than it was in the demonstrations.
STRETCH = 1.08
# The best so many of the tried arms are moved further, in steps of so many cells.
REFINED = 3
STEPS = (2.0, 1.0, 0.5)
ROUNDS = 4


class ArmGeometry:
    """How an arm of two parts looks in the frame of the body.

    Parameters
    ----------
    shoulder : (2,) array
        x and y in cells.
    lengths : (2,) array
        Upper arm, and forearm with hand, in cells.
    view : (2, 3) array
        Orthonormal rows: the robot's axes as x and y of the picture.
    """

    def __init__(
        self, shoulder: npt.ArrayLike, lengths: npt.ArrayLike, view: npt.ArrayLike
    ) -> None:
        self.shoulder = as_floats('The shoulder', shoulder, (2,))
        self.lengths = as_floats('The lengths of the arm', lengths, (2,))
        self.view = as_floats('The view', view, (2, 3))
        if (self.lengths <= 0).any():
            raise BadInput(f'The arm would have the lengths {self.lengths.tolist()} in cells.')

    def project(self, directions: npt.ArrayLike) -> Floats:
        """Return shoulder, elbow and fingertips (n, 3, 2) for directions (n, 2, 3).

        Directions are unit vectors along upper arm and forearm, in the robot's frame.
        """
        parts = as_floats('directions', directions, (None, 2, 3)) @ self.view.T
        parts = parts * self.lengths[:, None]
        zero = np.zeros((len(parts), 1, 2))
        points: Floats = np.concatenate([zero, np.cumsum(parts, axis=1)], axis=1)
        return self.shoulder + points

    @classmethod
    def fit(cls, evidence: Singles, directions: npt.ArrayLike) -> ArmGeometry:
        """Find shoulder, lengths and view with which known arms cover the evidence best.

        Parameters
        ----------
        evidence : (n, 100, 100) array
        directions : (n, 2, 3) array
        """
        parts = as_floats('directions', directions, (len(evidence), 2, 3))
        maps = np.ascontiguousarray(evidence, dtype=np.float32)
        arms = np.empty((len(parts), 3, 2))

        def cost(numbers: Floats, turn: Floats) -> float:
            lengths = np.maximum(numbers[2:4], 1.0)
            seen = parts @ (cv2.Rodrigues(numbers[4:])[0] @ turn)[:2].T
            arms[:, 0] = numbers[:2]
            np.add(numbers[:2], lengths[0] * seen[:, 0], out=arms[:, 1])
            np.add(arms[:, 1], lengths[1] * seen[:, 1], out=arms[:, 2])
            return -float(coverage(maps, arms).mean())

        middle = (SIDE - 1) / 2
        starts = []
        for turn in scipy.spatial.transform.Rotation.create_group('O').as_matrix():
            for x, y, length in (
                (middle + dx, middle + dy, length)
                for dx in (-8.0, 0.0, 8.0)
                for dy in (-8.0, 0.0, 8.0)
                for length in (14.0, 20.0)
            ):
                numbers = np.array([x, y, length, length, 0.0, 0.0, 0.0])
                starts.append((cost(numbers, turn), numbers, turn))
        starts.sort(key=lambda start: start[0])
        found = []
        for _, numbers, turn in starts[:4]:
            simplex = numbers + np.vstack([np.zeros(7), np.diag([4.0] * 4 + [0.2] * 3)])
            options = {'initial_simplex': simplex, 'maxiter': 600, 'xatol': 1e-2, 'fatol': 1e-4}
            result = scipy.optimize.minimize(
                cost, numbers, (turn,), method='Nelder-Mead', options=options
            )
            found.append((float(result.fun), result.x, turn))
        _, numbers, turn = min(found, key=lambda end: end[0])
        rotation = cv2.Rodrigues(numbers[4:])[0] @ turn
        return cls(numbers[:2], np.maximum(numbers[2:4], 1.0), rotation[:2])


def coverage(evidence: Singles, arms: Floats) -> Floats:
    """Return how well each arm (n, 3, 2) covers its own evidence (n, 100, 100): shape (n,).

    Each cell of length counts what the evidence on it is above one half.
    """
    return np.asarray(core.coverage(evidence, arms, UPPER_STATIONS, FORE_STATIONS, EVEN))


def arm_search(tried: npt.ArrayLike, lengths: npt.ArrayLike) -> ArmSearch:
    """Return a search that begins with the best of the arms `tried` (m, 3, 2).

    Its `find(evidence)` returns the arm (3, 2) that covers evidence (100, 100) best, and by how
    much; `lengths` (2,) are those of `ArmGeometry`.
    """
    arms = as_floats('The tried arms', tried, (None, 3, 2))
    if len(arms) < REFINED:
        raise BadInput(f'There are {len(arms)} arms to try; give {REFINED} or more.')
    longest = STRETCH * as_floats('The lengths of the arm', lengths, (2,))
    search: ArmSearch = core.ArmSearch(
        arms,
        longest,
        (SIDE, SIDE),
        UPPER_STATIONS,
        FORE_STATIONS,
        EVEN,
        REFINED,
        np.array(STEPS),
        ROUNDS,
    )
    return search
