"""Pictures of one movement: neighbours in time are neighbours in posture.

One picture leaves open whether an arm points a little towards the camera or away from it; those
before and after often know. Points of a movement are smoothed by penalised least squares, with the
weight of the penalty chosen by generalised cross-validation on the points themselves, and with
points far from the smooth path counting less (D. Garcia, Robust smoothing of gridded data,
Computational Statistics & Data Analysis 54, 2010).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy  # which loads a part of itself when it is first used

from kde_imitation.checks import Floats

FEWEST = 5
# Correlation of neighbours from which pictures count as one movement.
MOVEMENT = 0.7
# Rounds of reweighting, and of filling in where there is no point.
ROUNDS, FILLS = 3, 100
# The penalty is looked for between these powers of ten.
POWERS = (-4.0, 4.0)


def is_movement(points: Floats, familiar: npt.NDArray[np.bool_]) -> bool:
    """Say whether points (m, r) follow each other smoothly enough to be one movement."""
    both = familiar[:-1] & familiar[1:]
    if both.sum() < FEWEST:
        return False
    centred = points - points[familiar].mean(axis=0)
    spread = float(np.square(centred[familiar]).sum(axis=1).mean())
    step = float(np.square(np.diff(points, axis=0)[both]).sum(axis=1).mean())
    # Independent points are on average 2 · spread apart, squared.
    return spread > 0 and 1.0 - step / (2.0 * spread) > MOVEMENT


def smooth(points: Floats, familiar: npt.NDArray[np.bool_]) -> Floats:
    """Return points (m, r) of a movement, each drawn to what its neighbours say.

    Parameters
    ----------
    points : (m, r) array
    familiar : (m,) array of bool
        Where it is False the point says nothing, and its neighbours speak for it.
    """
    count = len(points)
    if count < FEWEST or familiar.sum() < FEWEST:
        return points
    # Eigenvalues of the squared second differences, in the basis of cosines.
    penalties = (2.0 - 2.0 * np.cos(np.pi * np.arange(count) / count)) ** 2
    given = familiar.astype(np.float64)
    weights = given
    path = np.where(familiar[:, None], points, points[familiar].mean(axis=0))
    for _ in range(ROUNDS):
        path, shrink = _fit(points, weights, path, penalties)
        gap = np.linalg.norm(points - path, axis=1)
        # What is left over of a point that the smoother follows tells less of its error.
        leverage = float(shrink.mean())
        scale = 1.4826 * float(np.median(gap[familiar])) * np.sqrt(max(1.0 - leverage, 1e-6))
        ratio = gap / max(4.685 * scale, 1e-12)
        weights = given * np.where(ratio < 1.0, (1.0 - ratio**2) ** 2, 0.0)
        if weights.sum() < FEWEST:
            break
    return path


def _fit(
    points: Floats, weights: Floats, path: Floats, penalties: Floats
) -> tuple[Floats, Floats]:
    """Return the smooth path (m, r) for weighted points, and how much of each cosine it keeps."""
    total = max(float(weights.sum()), 1.0)

    def shares(power: float) -> Floats:
        return np.asarray(1.0 / (1.0 + 10.0**power * penalties))

    filled = weights[:, None] * (points - path) + path
    for _ in range(FILLS):
        cosines = scipy.fft.dct(filled, axis=0, norm='ortho')

        def score(power: float, cosines: Floats = cosines) -> float:
            keep = shares(power)
            rest = float(np.square((1.0 - keep)[:, None] * cosines).sum())
            return rest / (1.0 - float(keep.mean())) ** 2

        best = scipy.optimize.minimize_scalar(
            score, bounds=POWERS, method='bounded', options={'xatol': 0.05}
        )
        keep = shares(float(best.x))
        path = np.asarray(scipy.fft.idct(keep[:, None] * cosines, axis=0, norm='ortho'))
        moved = weights[:, None] * (points - path) + path
        if np.linalg.norm(moved - filled) <= 1e-4 * np.linalg.norm(filled) * total / len(points):
            break
        filled = moved
    return path, keep
