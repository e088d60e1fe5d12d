"""Where the person is: the largest thing before the background that is large enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput
from kde_imitation.vision.background import Background, Difference, Picture

Mask = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# Standard deviation of colours, below which a picture shows nothing.
FLAT = 2.0


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels: rows top to top + height, columns left to left + width."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the part of a picture, or of a map of its size, that lies in the box."""
        return array[self.top : self.top + self.height, self.left : self.left + self.width]


@dataclass(frozen=True)
class Silhouette:
    """What of a picture is a person; where there is none `found` is False and `reason` says so."""

    found: bool
    picture: Picture
    """(h, w, 3): the picture, reduced where it is large"""
    mask: Mask
    """(h, w): 1 on the person, 0 elsewhere"""
    box: Box
    """bounds of the person; all zeros if there is none"""
    gain: npt.NDArray[np.float32] = field(repr=False)
    """(3,): the light, channel by channel, relative to that of the background picture"""
    reason: str = ''
    others: float = 0.0
    """size of the largest other thing before the background, as a share of the person"""

    def relit(self) -> Picture:
        """Return the picture (h, w, 3) in the light of the background picture."""
        table = np.clip(np.arange(256)[:, None] / self.gain, 0, 255).astype(np.uint8)
        return np.asarray(cv2.LUT(self.picture, table[:, None]), dtype=np.uint8)


class PersonFinder:
    """Separates the person from a known background.

    Pixels unlike the background are joined over small gaps, and the largest piece is taken if it
    has the size of a person. Small holes in it are closed; larger ones, as between a bent arm and
    the body, are background seen through it.

    Parameters
    ----------
    background : Background
    threshold : float
        Scores of the background above it count.
    smallest, largest : float
        Share of the picture that a person may cover.
    hole : float
        Holes smaller than this share of the person are closed, and so are larger ones that differ
        from the background a little on average.
    edge : float
        Share of the threshold that will do once the shadows around the person are known.
    gap, piece : float
        Other pieces belong to the person as well if they are no further away than this share of
        its size and no smaller than this share of its area.
    """

    def __init__(
        self,
        background: Background,
        threshold: float = 1.0,
        smallest: float = 0.01,
        largest: float = 0.7,
        hole: float = 0.004,
        edge: float = 0.6,
        gap: float = 0.05,
        piece: float = 0.02,
    ) -> None:
        if not 0.0 < smallest < largest <= 1.0:
            raise BadInput(
                f'smallest is {smallest} and largest {largest}; shares of the picture must rise '
                'from above 0 to 1 at most.'
            )
        self.background, self.threshold = background, threshold
        self.smallest, self.largest, self.hole = smallest, largest, hole
        self.edge, self.gap, self.piece = edge, gap, piece

    def __call__(self, picture: npt.ArrayLike) -> Silhouette:
        """Find the person in a picture of the background's size; see `Silhouette.found`."""
        difference = self.background.compare(picture)
        if _spread(difference.picture[::4]) < FLAT:
            return self._nobody(difference, 'The picture is all one shade; is the lens covered?')
        different = difference.score > self.threshold
        rough = self._pieces(different)
        if isinstance(rough, str):
            return self._nobody(difference, rough)
        around = _surroundings(rough)
        difference = self.background.refine(difference, around)
        different = difference.score > self.threshold
        within = difference.score > self.edge * self.threshold
        mask = self._pieces(different | (within & around.view(bool)))
        if isinstance(mask, str):
            return self._nobody(difference, mask)
        left, top, width, height = cv2.boundingRect(mask)
        box = Box(top, left, height, width)
        self._close_holes(box.cut(mask), box.cut(difference.score))
        others = self._largest_other(different, mask)
        return Silhouette(True, difference.picture, mask, box, difference.gain, others=others)

    def _largest_other(self, different: Flags, mask: Mask) -> float:
        """Return the area of the largest thing that is not the person, relative to the person."""
        left = _voted(different & (mask == 0), 5)
        if not cv2.countNonZero(left):
            return 0.0
        _, _, stats = _parts(left)
        return float(stats[1:, cv2.CC_STAT_AREA].max()) / float(mask.sum())

    def _nobody(self, difference: Difference, reason: str) -> Silhouette:
        nothing = np.zeros(difference.score.shape, dtype=np.uint8)
        place = Box(0, 0, 0, 0)
        return Silhouette(False, difference.picture, nothing, place, difference.gain, reason)

    def _pieces(self, different: Flags) -> Mask | str:
        """Return the mask of the largest piece and of those beside it, or why there is none."""
        # Gaps of a hundredth of the picture are joined, single pixels are noise.
        reach = 2 * max(1, round(max(different.shape) / 160)) + 1
        window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
        voted = cv2.medianBlur(different.view(np.uint8), 3)
        solid = np.asarray(cv2.morphologyEx(voted, cv2.MORPH_CLOSE, window), dtype=np.uint8)
        count, labels, stats = _parts(solid)
        if count < 2:
            return 'Nothing differs from the background.'
        best = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
        left, top, width, height, area = (int(n) for n in stats[best])
        share = area / solid.size
        if share < self.smallest:
            return (
                f'The largest thing before the background covers {100 * share:.1f} % of the '
                f'picture; a person would cover {100 * self.smallest:.1f} % or more.'
            )
        if share > self.largest:
            return (
                f'{100 * share:.0f} % of the picture differ from the background; is it still '
                'the picture of this room?'
            )
        # A head above a shirt of the wall's colour, a hand beyond a sleeve.
        margin = self.gap * max(height, width)
        mask = labels == best
        for other in 1 + np.flatnonzero(stats[1:, cv2.CC_STAT_AREA] > self.piece * area):
            x, y, wide, high, _ = (int(n) for n in stats[other])
            beside = left - margin - wide < x < left + width + margin
            if other != best and beside and top - margin - high < y < top + height + margin:
                mask |= labels == other
        return np.asarray(mask.view(np.uint8))

    def _close_holes(self, mask: Mask, score: npt.NDArray[np.floating[Any]]) -> None:
        """Fill the holes of the mask in place, unless they show the background."""
        area = cv2.countNonZero(mask)
        framed = np.ones((mask.shape[0] + 2, mask.shape[1] + 2), dtype=np.uint8)
        framed[1:-1, 1:-1] -= mask
        count, labels, stats = _parts(framed, connectivity=4)
        for label in range(2, count):
            left, top, width, height, size = (int(n) for n in stats[label])
            # The frame is one pixel wide.
            box = Box(top - 1, left - 1, height, width)
            part = Box(top, left, height, width).cut(labels) == label
            mean = cv2.mean(box.cut(score), part.view(np.uint8))[0]
            if size < self.hole * area or mean > 0.3 * self.threshold:
                box.cut(mask)[part] = 1


def _spread(picture: Picture) -> float:
    """Return the standard deviation of all numbers of a picture."""
    means, deviations = (each.ravel().tolist() for each in cv2.meanStdDev(picture))
    mean = sum(means) / 3
    return math.sqrt(sum(d * d + (m - mean) ** 2 for m, d in zip(means, deviations)) / 3)


def _parts(mask: Mask, connectivity: int = 8) -> tuple[int, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return how many pieces there are with what is 0, their labels (h, w), and their sizes."""
    # Only in pictures as large as this there may be more pieces than 16 bits can count.
    kind = cv2.CV_16U if mask.size < 2**16 else cv2.CV_32S
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        mask, connectivity=connectivity, ltype=kind
    )
    return count, np.asarray(labels), np.asarray(stats)


def _voted(flags: Flags, side: int) -> Mask:
    """Return where more than half of a window around a pixel is set."""
    count = cv2.boxFilter(
        flags.view(np.uint8), -1, (side, side), normalize=False, borderType=cv2.BORDER_REPLICATE
    )
    return np.asarray(cv2.threshold(count, side * side // 2, 1, cv2.THRESH_BINARY)[1])


def _surroundings(mask: Mask) -> Mask:
    """Return a mask with its bays filled and a little widened.

    It holds a shirt of the wall's colour between the arms, but not the wall below an arm.
    """
    radius = max(2, round(0.12 * cv2.boundingRect(mask)[3]))
    small = 4.0 / radius
    # A wide window costs less on a small picture.
    size = [max(1, round(small * n)) for n in mask.shape[::-1]]
    coarse = cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
    coarse = cv2.copyMakeBorder(coarse, 9, 9, 9, 9, cv2.BORDER_CONSTANT, value=0)
    window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (9, 9))
    closed = cv2.morphologyEx(coarse, cv2.MORPH_CLOSE, window)[9:-9, 9:-9]
    closed = cv2.resize(closed, mask.shape[::-1], interpolation=cv2.INTER_NEAREST)
    reach = 2 * max(1, round(max(mask.shape) / 80)) + 1
    widened = cv2.dilate(cv2.max(closed, mask), np.ones((reach, reach), dtype=np.uint8))
    return np.asarray(widened, dtype=np.uint8)
