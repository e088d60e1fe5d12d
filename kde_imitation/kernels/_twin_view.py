"""The part of a picture around an arm, in NumPy: the twin of `_view.pxi`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.kernels._twin_arm import neighbours

Floats = npt.NDArray[np.floating[Any]]
Singles = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]


def sample_colours(
    picture: Picture,
    mask: Singles,
    x: float,
    y: float,
    rate: float,
    side: int,
    factors: Singles,
    added: float,
) -> tuple[Singles, Singles]:
    """Sample a square of a picture and of a mask, bilinearly, zero outside of them.

    Parameters
    ----------
    picture : (h, w, 3) uint8 array
    mask : (h, w) float32 array
    x, y, rate : float
        Place of the first sample, and the distance to the next, in pixels.
    side : int
        Samples a side.
    factors : (3,) float32 array
        What the colours are multiplied by, channel by channel.
    added : float
        Added to them then.

    Returns
    -------
    colours : (side, side, 3) float32 array
    covered : (side, side) float32 array
    """
    height, width = mask.shape
    if picture.shape != (height, width, 3):
        raise ValueError('The picture must have three channels and the size of the mask.')
    if mask.size == 0 or side < 1 or factors.shape != (3,):
        raise ValueError('One pixel, one sample and three factors are needed at least.')
    columns, across = neighbours(x + rate * np.arange(side), width)
    rows, down = neighbours(y + rate * np.arange(side), height)
    both = np.concatenate([picture, mask[:, :, None]], axis=2, dtype=np.float32)
    lines = (both[rows] * down[:, :, None, None]).sum(axis=1)
    values = (lines[:, columns] * across[:, :, None]).sum(axis=2)
    colours = values[:, :, :3] * factors + np.float32(added)
    return np.ascontiguousarray(colours), np.ascontiguousarray(values[:, :, 3])


def slice_of(head: Sequence[int], height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, bottom, left and right of a part of a map, inside the map."""
    top, bottom, left, right = (max(int(edge), 0) for edge in head)
    return top, min(bottom, height), left, min(right, width)


def relative_to_face(
    colours: Singles, mask: Singles, head: Sequence[int], whiten: Singles
) -> Singles:
    """Take the median colour of a face off all colours, in place.

    Parameters
    ----------
    colours : (h, w, 3) float32 array
    mask : (h, w) float32 array
    head : four int
        Top, bottom, left and right of the face; of it the places with a mask above 0.9 count, and
        if there are none, all places with one above a half.
    whiten : (3, 3) float32 array

    Returns
    -------
    (h, w) float32 array
        −½ |whiten · colour|² of the colours that are left.
    """
    if colours.shape != (*mask.shape, 3):
        raise ValueError('There must be three channels, and the mask must have the same size.')
    if mask.size == 0 or whiten.shape != (3, 3):
        raise ValueError('One colour and a matrix (3, 3) are needed.')
    top, bottom, left, right = slice_of(head, *mask.shape)
    chosen = colours[top:bottom, left:right][mask[top:bottom, left:right] > np.float32(0.9)]
    if len(chosen) == 0:
        chosen = colours[mask > np.float32(0.5)]
    if len(chosen):
        colours -= np.median(chosen.astype(np.float64), axis=0).astype(np.float32)
    return np.asarray(-0.5 * np.square(colours @ whiten.T).sum(axis=2), dtype=np.float32)


def beside_body(mask: Singles, skin: Singles, body: Singles, usual: Singles) -> Singles:
    """Return where there is something beside the body, or skin before it where usually is none.

    All are (h, w) float32 arrays of shares; `body` and `usual` are the mask and the skin that are
    there whatever the arm does.
    """
    if not mask.shape == skin.shape == body.shape == usual.shape or mask.size == 0:
        raise ValueError('The four maps must have the same size.')
    before = np.clip(skin - usual, 0.0, 1.0) * body
    return np.asarray(np.minimum(np.maximum(mask - body, 0.0) + before, 1.0))
