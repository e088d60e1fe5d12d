"""What is read from a picture once the arm is found: five families of numbers."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.vision.body import SIDE, Singles

AXES = np.array(
    [
        [1 / 3, 1 / 3, 1 / 3],
        [np.sqrt(1 / 2), -np.sqrt(1 / 2), 0.0],
        [np.sqrt(1 / 6), np.sqrt(1 / 6), -np.sqrt(2 / 3)],
    ]
)
"""Brightness and two colours, by rows, of red, green and blue."""

# How far skin deviates from the face, and an arm from its hand, in brightness and in colour;
# deviations of logarithms.
FACE_DEVIATIONS, HAND_DEVIATIONS = (0.35, 0.08, 0.08), (0.35, 0.12, 0.12)
FROM_FACE, FROM_HAND = (
    (AXES / np.array(deviations)[:, None]).astype(np.float32)
    for deviations in (FACE_DEVIATIONS, HAND_DEVIATIONS)
)

# Stations along each part of the arm, places across it, and how far these reach, in cells.
ALONG, ACROSS, HALF = 12, 9, 5.0
SHARES, SIDEWAYS = np.linspace(0.0, 1.0, ALONG), np.linspace(-HALF, HALF, ACROSS)
TURN = np.array([-1.0, 1.0])
# From this station of the forearm on there is a hand, and the evidence that it takes.
HAND, SURE = 5, 0.5
# Side of the blurred map of the arm, and its blur in cells.
MAP_SIDE, MAP_BLUR = 20, 12.0
# Logarithms of colours relative to the arm are cut off here.
DARKEST, BRIGHTEST = -1.5, 1.0

WEIGHTS: Mapping[str, float] = {
    'points': 0.42,
    'map': 0.18,
    'shape': 0.01,
    'shade': 0.02,
    'line': 0.05,
}
"""How much each family counts: what it adds to the exponent at its median distance."""


def families_of(evidence: Singles, colours: Singles, arm: Floats) -> dict[str, Floats]:
    """Return the families of an arm.

    Parameters
    ----------
    evidence : (100, 100) array
        Where the arm is, in the frame of the body.
    colours : (100, 100, 3) array
        Logarithms; what they are relative to does not matter.
    arm : (3, 2) array
        Shoulder, elbow and fingertips, x and y.
    """
    places = strip_along(arm).astype(np.float32).reshape(2 * ALONG, ACROSS, 2)
    x, y = np.ascontiguousarray(places[..., 0]), np.ascontiguousarray(places[..., 1])
    seen, tones = (
        np.asarray(cv2.remap(values, x, y, cv2.INTER_LINEAR), dtype=np.float32)
        for values in (evidence, colours)
    )
    seen = seen.reshape(2, ALONG, ACROSS)
    tones = tones.reshape(2, ALONG, ACROSS, 3)
    # A hand is bare whatever the sleeve: what is unlike it is cloth, which says nothing.
    gap = (tones - _hand(seen, tones)) @ FROM_HAND.T
    bare = seen * np.minimum(2.0 * np.exp(-0.5 * np.square(gap).sum(axis=-1)), 1.0)
    # Relative to the arm's own mean neither light nor skin matters, but shading does.
    mean = np.tensordot(bare, tones, 3) / (bare.sum() + 1.0)
    shade = np.clip(tones - mean, DARKEST, BRIGHTEST) * bare[..., None]
    return {
        'points': (arm[1:] - arm[0]).ravel(),
        'map': _blurred(evidence, MAP_BLUR),
        'shape': seen.ravel(),
        'shade': shade.ravel(),
        'line': (shade.sum(axis=2) / (bare.sum(axis=2)[..., None] + 1.0)).ravel(),
    }


def _hand(seen: Singles, tones: Singles) -> Singles:
    """Return the colour (3,) of the hand at the end of a strip: evidence, and colours with it."""
    weights, values = seen[1, HAND:], tones[1, HAND:]
    sure = weights > SURE
    if sure.sum() > 3:
        return np.asarray(np.median(values[sure], axis=0), dtype=np.float32)
    total = np.tensordot(weights, values, 2) / (weights.sum() + 0.5)
    return np.asarray(total, dtype=np.float32)


def strip_along(arm: Floats) -> Floats:
    """Return the places (2, 12, 9, 2) of a strip along both parts of an arm (3, 2), x and y."""
    along = arm[1:] - arm[:-1]
    length = np.sqrt(np.square(along).sum(axis=1, keepdims=True))
    # A part that points at the camera has no direction across; then the strip shrinks.
    across = along[:, ::-1] * TURN / (length + 4.0)
    result: Floats = (
        arm[:-1, None, None]
        + SHARES[:, None, None] * along[:, None, None]
        + SIDEWAYS[:, None] * across[:, None, None]
    )
    return result


def _blurred(values: Singles, blur: float) -> Floats:
    """Return a map (100, 100) blurred by so many cells and thinned out to 20 × 20: (400,)."""
    small = cv2.resize(values, (MAP_SIDE, MAP_SIDE), interpolation=cv2.INTER_AREA)
    smooth = cv2.GaussianBlur(small, (0, 0), blur * MAP_SIDE / SIDE)
    return np.asarray(smooth.ravel(), dtype=np.float64)
