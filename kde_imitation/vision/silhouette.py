"""Where the person is: the largest thing before the background that is large enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput
from kde_imitation.vision.background import Background, Difference, Picture

Mask = npt.NDArray[np.uint8]

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
        if difference.picture[::4, ::4].std() < FLAT:
            return self._nobody(difference, 'The picture is all one shade; is the lens covered?')
        rough = self._pieces(difference.score, self.threshold)
        if isinstance(rough, str):
            return self._nobody(difference, rough)
        around = _surroundings(rough)
        difference = self.background.refine(difference, around)
        scores = np.where(around, difference.score / self.edge, difference.score)
        mask = self._pieces(scores, self.threshold)
        if isinstance(mask, str):
            return self._nobody(difference, mask)
        left, top, width, height = cv2.boundingRect(mask)
        box = Box(top, left, height, width)
        self._close_holes(box.cut(mask), box.cut(difference.score))
        return Silhouette(True, difference.picture, mask, box, difference.gain)

    def _nobody(self, difference: Difference, reason: str) -> Silhouette:
        nothing = np.zeros(difference.score.shape, dtype=np.uint8)
        place = Box(0, 0, 0, 0)
        return Silhouette(False, difference.picture, nothing, place, difference.gain, reason)

    def _pieces(self, score: npt.NDArray[np.floating[Any]], threshold: float) -> Mask | str:
        """Return the mask of the largest piece and of those beside it, or why there is none."""
        # Gaps of a hundredth of the picture are joined, single pixels are noise.
        reach = 2 * max(1, round(max(score.shape) / 160)) + 1
        window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
        solid = cv2.medianBlur((score > threshold).astype(np.uint8), 3)
        solid = cv2.morphologyEx(solid, cv2.MORPH_CLOSE, window)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=8)
        if count < 2:
            return 'Nothing differs from the background.'
        best = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
        left, top, width, height, area = (int(n) for n in stats[best])
        share = area / score.size
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
        start, end = stats[:, :2], stats[:, :2] + stats[:, 2:4]
        beside = (
            (start[:, 0] < left + width + margin)
            & (end[:, 0] > left - margin)
            & (start[:, 1] < top + height + margin)
            & (end[:, 1] > top - margin)
            & (stats[:, cv2.CC_STAT_AREA] > self.piece * area)
        )
        beside[0] = False
        return np.asarray(beside.astype(np.uint8)[labels], dtype=np.uint8)

    def _close_holes(self, mask: Mask, score: npt.NDArray[np.floating[Any]]) -> None:
        """Fill the holes of the mask in place, unless they show the background."""
        area = int(mask.sum())
        framed = np.pad(1 - mask, 1, constant_values=1)
        count, labels, stats, _ = cv2.connectedComponentsWithStats(framed, connectivity=4)
        inner = labels[1:-1, 1:-1]
        for label in range(2, count):
            part = inner == label
            small = stats[label, cv2.CC_STAT_AREA] < self.hole * area
            if small or score[part].mean() > 0.3 * self.threshold:
                mask[part] = 1


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
