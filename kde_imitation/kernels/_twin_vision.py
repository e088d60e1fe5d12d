"""Shape contexts and their code words in NumPy: the twin of `_vision.pxi`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]

MAX_RINGS = 32
MAX_SECTORS = 64
# Histograms are compared in whole multiples of 1 / GRAIN, so that equal distances are equal.
GRAIN = 32768.0


def shape_contexts(points: Floats, rings: Floats, sectors: int) -> Floats:
    """Return the log-polar histogram of all other points around each point, row by row.

    Parameters
    ----------
    points : (r, 2) array, x and y
    rings : (k,) array
        Inner radii of the rings in units of the mean distance between two points, rising from 0;
        the last ring has no outer radius.
    sectors : int, even
        Number of equal angles, counted from the x axis towards the y axis.

    Returns
    -------
    (r, k · sectors) array
        Ring by ring; each row sums to one. Zeros if there are fewer than two different points.
    """
    count, half = len(points), sectors // 2
    if len(rings) > MAX_RINGS or sectors > MAX_SECTORS:
        raise ValueError(f'At most {MAX_RINGS} rings and {MAX_SECTORS} sectors are possible.')
    width = len(rings) * sectors
    step = points[None] - points[:, None]
    dx, dy = step[..., 0], step[..., 1]
    squares = dx * dx + dy * dy
    total = float(np.sqrt(squares).sum())
    if total == 0.0:
        return np.zeros((count, width))
    mean = total / (count * (count - 1))
    ring = np.searchsorted((rings * mean) ** 2, squares, side='right') - 1
    # Directions below the x axis are mirrored at the centre, and their sectors follow.
    below = (dy < 0) | ((dy == 0) & (dx < 0))
    sign = np.where(below, -1.0, 1.0)
    angles = np.arange(half) * (2.0 * np.pi / sectors)
    passed = np.cos(angles) * (sign * dy)[..., None] >= np.sin(angles) * (sign * dx)[..., None]
    bins = ring * sectors + passed.sum(axis=-1) - 1 + half * below
    places = (np.arange(count)[:, None] * width + bins)[~np.eye(count, dtype=bool)]
    counts = np.bincount(places, minlength=count * width).reshape(count, width)
    contexts: Floats = counts / (count - 1)
    return contexts


class Coder:
    """Compares histograms with code words by d(x, w) = ½ Σ |x − w|, total variation.

    Entries are rounded to multiples of 2⁻¹⁵ first, so that equal distances are equal and the
    first word wins them, whatever the order of summation.

    Parameters
    ----------
    words : (w, b) array
        Not negative, each row with a sum of one at most.
    """

    def __init__(self, words: Floats) -> None:
        self.words = np.array(words, dtype=np.float64)
        self._whole = self._rounded(self.words)
        self._masses = self._whole.sum(axis=1)

    @staticmethod
    def _rounded(histograms: Floats) -> Integers:
        whole: Integers = np.floor(histograms * GRAIN + 0.5).astype(np.int64)
        return whole

    def _distances(self, histograms: Floats) -> Integers:
        """Return 2 · GRAIN · d, shape (n, w)."""
        if histograms.shape[1] != self.words.shape[1]:
            raise ValueError(f'The histograms must have {self.words.shape[1]} bins.')
        whole = self._rounded(histograms)
        overlap = np.minimum(whole[:, None], self._whole).sum(axis=2)
        distances: Integers = whole.sum(axis=1)[:, None] + self._masses - 2 * overlap
        return distances

    def nearest(self, histograms: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the number of the nearest word, the first of equals, and d, both (n,)."""
        distances = self._distances(histograms)
        return distances.argmin(axis=1), distances.min(axis=1) / (2.0 * GRAIN)

    def shares(self, histograms: Floats, softness: float) -> Floats:
        """Return the share (w,) of each word in histograms (n, b); zeros for none of them.

        A histogram goes to its nearest word, at distance d, and to words up to `softness`
        further in proportion 1 − (d_j − d) / softness. With 0 it goes to the nearest alone.
        """
        count = len(histograms)
        if count == 0:
            return np.zeros(len(self.words))
        distances = self._distances(histograms)
        if softness <= 0.0:
            return np.bincount(distances.argmin(axis=1), minlength=len(self.words)) / count
        extra = distances - distances.min(axis=1, keepdims=True)
        weights = np.maximum(0.0, 2.0 * GRAIN * softness - extra)
        shares: Floats = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
        return shares
