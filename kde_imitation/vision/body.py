"""Where the body stands: a template of what does not move with the arm, and a frame tied to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.backend import core
from kde_imitation.vision.background import Picture
from kde_imitation.vision.silhouette import Mask

Singles = npt.NDArray[np.float32]

# Cells of the body's frame to half the thickness of the trunk.
CELLS_A_RADIUS = 12.8
# Side of the square window around the arm's reach, in cells.
SIDE = 100
# The template has coarser cells, and covers the body from the head to the thighs.
COARSE = 2
TEMPLATE_SIDE = 44
# The template is looked for so many coarse cells around the thickest part of the body.
REACH = 14
# Where it is known roughly, it is looked for so many around that; so many for size alone.
NEAR, CLOSE = 6, 3
ROUNDS = 6
# Below this fit holes are closed.
DOUBTFUL = 0.72
# Holes and bays up to twice this share of the silhouette's size, the root of its area, are closed.
CLOSED = 0.26
# Share of the silhouettes from which a place counts as body, and value in all of them up to which
# it counts as background.
ALWAYS, NEVER = 0.8, 0.5
# Other sizes than that of the person who taught, as factors; each step is 6 %.
STEP = 0.06
SIZES = np.exp(STEP * np.arange(-9, 10))
# At first only each third of them.
SKIPPED = 3
# Sizes this near to one, by their logarithm, are the noise of the estimate; twice as far they are
# believed.
NOISE = 0.05


@dataclass(frozen=True)
class Place:
    """Where a body is in a picture, and how large."""

    x: float
    y: float
    """centre of the template, pixels from the outer corner of the picture"""
    cell: float
    """pixels to a cell"""
    fit: float
    """share of the template that the silhouette agrees with; 1 is all of it"""


class BodyTemplate:
    """The part of a silhouette that stays when the arm moves, and where pictures show it.

    Silhouettes are laid over each other until they agree best (each in turn against the mean of
    all). Where nearly all of them show the body, or nearly none, the template has weight; where
    the arm comes and goes it has none. Position and size found with it hardly depend on the arm.

    Parameters
    ----------
    share, ever : (44, 44) arrays
        In which share of the silhouettes a place belongs to the person, and whether in any; two
        cells to each value.
    cell : float
        Pixels to a cell for a person of the size that was learned.
    window : (2,) array
        Centre of the window around the arm, x and y in cells from the centre of the template.
    bias : float
        Logarithm of the size that is found for the person who was learned from.
    """

    def __init__(
        self,
        share: npt.ArrayLike,
        ever: npt.ArrayLike,
        cell: float,
        window: npt.ArrayLike,
        bias: float = 0.0,
    ) -> None:
        self.share = as_floats('The body template', share, (TEMPLATE_SIDE, TEMPLATE_SIDE))
        certain = 2.0 * self.share - 1.0
        # All places together tell best where the body is; the arm pulls them little.
        self._weights: Singles = (np.sign(certain) * certain**2).astype(np.float32)
        self.ever = as_floats('The reach of the person', ever, (TEMPLATE_SIDE, TEMPLATE_SIDE))
        # Size is a finer thing: only places count where the arm never is.
        inside = np.maximum(self.share - ALWAYS, 0.0) / (1.0 - ALWAYS)
        near = cv2.dilate(self.ever, np.ones((3, 3)))
        self._sure: Singles = (inside - np.maximum(1.0 - near / NEVER, 0.0)).astype(np.float32)
        half = (TEMPLATE_SIDE // 2, TEMPLATE_SIDE // 2)
        self._rough: Singles = 4 * cv2.resize(self._sure, half, interpolation=cv2.INTER_AREA)
        self._best = float(np.maximum(self._weights, 0).sum())
        self.cell = float(cell)
        self.bias = float(bias)
        self.window = as_floats('The window of the arm', window, (2,))
        usual = 0.01 <= self.cell <= 100 and abs(self.bias) <= 1
        if self._best <= 0 or not usual or np.abs(self.window).max() > 2 * SIDE:
            raise BadInput('The body template shows no body.')

    @classmethod
    def learn(cls, masks: Sequence[Mask]) -> BodyTemplate:
        """Learn from silhouettes of one person of about one size, in many postures of the arm."""
        if not masks:
            raise BadInput('There are no silhouettes to learn the body from.')
        thick = [_thickest(mask) for mask in masks]
        cell = float(np.median([radius for _, _, radius in thick])) / CELLS_A_RADIUS
        step = COARSE * cell
        places = [Place(x, y, cell, 1.0) for x, y, _ in thick]
        small = [_averaged(mask, step) for mask in masks]
        blurred = (cv2.GaussianBlur(mask.astype(np.float32), (0, 0), step / 2) for mask in masks)
        soft = [_averaged(mask, step) for mask in blurred]

        def aligned(side: int) -> Singles:
            windows = [
                _sample(*each, place.x, place.y, step, side) for each, place in zip(soft, places)
            ]
            return np.stack(windows)

        for _ in range(ROUNDS):
            shown = aligned(TEMPLATE_SIDE)
            template = cls(shown.mean(axis=0), shown.max(axis=0), cell, np.zeros(2))
            places = [template._near(*each, place) for each, place in zip(small, places)]
        wide = aligned(2 * SIDE // COARSE)
        moving = wide.var(axis=0)
        rest = (np.arange(len(moving)) - (len(moving) - 1) / 2) * COARSE
        total = max(float(moving.sum()), 1e-9)
        centre = [(moving.sum(axis=0) @ rest) / total, (moving.sum(axis=1) @ rest) / total]
        template.window = np.round(np.array(centre))
        deviations = [template._deviation(mask, *each)[0] for mask, each in zip(masks, small)]
        template.bias = float(np.median(deviations))
        return template

    def locate(self, mask: Mask) -> Place:
        """Return where a silhouette (h, w) shows the body; `fit` tells how well.

        If it fits badly there may be holes where a shirt looks like the wall behind it; then they
        are closed, and it is tried again.
        """
        place = self._locate(mask)
        if place.fit < DOUBTFUL:
            again = self._locate(_closed(mask))
            return again if again.fit > place.fit else place
        return place

    def _locate(self, mask: Mask) -> Place:
        small, shrink = _averaged(mask, COARSE * self.cell)
        deviation, x, y = self._deviation(mask, small, shrink)
        deviation -= self.bias
        trust = min(max((abs(deviation) - NOISE) / NOISE, 0.0), 1.0)
        size = math.exp(deviation * trust)
        # The second time the top of the parabola is in its middle, where it is exact.
        for reach in (NEAR, CLOSE):
            match = self._match(self._weights, small, shrink, x, y, size, reach)
            place = self._place(match, x, y, size)
            x, y = place.x, place.y
        return place

    def _deviation(self, mask: Mask, small: Singles, shrink: float) -> tuple[float, float, float]:
        """Return the logarithm of the size at which the template fits best, and where that is.

        Sizes some steps apart are tried with coarser cells, then those around the best.
        """
        x, y, _ = _thickest(mask)
        coarse, coarse_shrink = _averaged(mask, 2 * COARSE * self.cell)
        rough = np.empty(len(SIZES[::SKIPPED]))
        place = Place(x, y, self.cell, 0.0)
        for i, size in enumerate(2 * SIZES[::SKIPPED]):
            match = self._match(self._rough, coarse, coarse_shrink, x, y, size, REACH // 2)
            rough[i] = match.max()
            if rough[i] >= rough[: i + 1].max():
                place = self._place(match, x, y, size)
        scores = np.full(len(SIZES), -np.inf)

        def score(i: int) -> None:
            if 0 <= i < len(SIZES) and scores[i] == -np.inf:
                match = self._match(self._sure, small, shrink, place.x, place.y, SIZES[i], CLOSE)
                scores[i] = match.max()

        best = int(rough.argmax())
        best, before = round(SKIPPED * (best + _peak(rough, best))), -1
        score(best)
        while best != before:
            score(best - 1)
            score(best + 1)
            before, best = best, int(scores.argmax())
        return math.log(SIZES[best]) + STEP * _peak(scores, best), place.x, place.y

    def crop(self, array: npt.NDArray[Any], place: Place) -> Singles:
        """Return the window around the arm, (100, 100) or (100, 100, c), of a picture or mask.

        Cells outside of the picture are zero.
        """
        x = place.x + self.window[0] * place.cell
        y = place.y + self.window[1] * place.cell
        return _window(array, x, y, place.cell, SIDE)

    def colours(
        self, picture: Picture, mask: Mask, place: Place, factors: Singles, added: float
    ) -> tuple[Singles, Singles]:
        """Return the window around the arm of a picture (100, 100, 3), and of a mask (100, 100).

        Colours are multiplied by factors (3,), channel by channel, and something is added to them.
        """
        small, shrink = _averaged(mask, place.cell)
        if small.shape != mask.shape:
            picture = np.asarray(
                cv2.resize(picture, small.shape[::-1], interpolation=cv2.INTER_AREA),
                dtype=np.uint8,
            )
        rate = place.cell / shrink
        x = (place.x + self.window[0] * place.cell) / shrink - rate * (SIDE - 1) / 2 - 0.5
        y = (place.y + self.window[1] * place.cell) / shrink - rate * (SIDE - 1) / 2 - 0.5
        colours, covered = core.sample_colours(picture, small, x, y, rate, SIDE, factors, added)
        return colours, covered

    def _near(self, small: Singles, shrink: float, place: Place) -> Place:
        """Return where an averaged silhouette of the size learned shows the body."""
        match = self._match(self._weights, small, shrink, place.x, place.y, 1.0, REACH)
        return self._place(match, place.x, place.y, 1.0)

    def _match(
        self,
        weights: Singles,
        small: Singles,
        shrink: float,
        x: float,
        y: float,
        size: float,
        reach: int,
    ) -> Singles:
        """Return how well a template fits up to `reach` of its cells around (x, y)."""
        rate = COARSE * self.cell * size / shrink
        if reach < REACH:
            match = core.correlate(small, weights, x / shrink - 0.5, y / shrink - 0.5, rate, reach)
            return np.asarray(match)
        # Wide around, Fourier transforms are faster.
        side = len(weights) + 2 * reach
        around = _sample(small, shrink, x, y, rate * shrink, side)
        return np.asarray(cv2.matchTemplate(around, weights, cv2.TM_CCORR), dtype=np.float32)

    def _place(self, match: Singles, x: float, y: float, size: float) -> Place:
        reach = len(match) // 2
        row, column = divmod(int(match.argmax()), match.shape[1])
        step = COARSE * self.cell * size
        return Place(
            x + step * (column + _peak(match[row], column) - reach),
            y + step * (row + _peak(match[:, column], row) - reach),
            self.cell * size,
            float(match[row, column]) / self._best,
        )


def _peak(values: npt.NDArray[Any], index: int) -> float:
    """Return how far beside an index the top of the parabola through it and its neighbours is."""
    if not 0 < index < len(values) - 1:
        return 0.0
    before, at, after = values[index - 1 : index + 2].tolist()
    bend = before - 2.0 * at + after
    return min(max(0.5 * (before - after) / bend, -0.5), 0.5) if bend < 0 else 0.0


def _closed(mask: Mask) -> Mask:
    """Return a mask without its holes and bays."""
    radius = max(1, round(CLOSED * math.sqrt(cv2.countNonZero(mask))))
    window = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    framed = cv2.copyMakeBorder(mask, radius, radius, radius, radius, cv2.BORDER_REPLICATE)
    closed = cv2.morphologyEx(framed, cv2.MORPH_CLOSE, window)
    return np.ascontiguousarray(closed[radius:-radius, radius:-radius], dtype=np.uint8)


def _thickest(mask: Mask) -> tuple[float, float, float]:
    """Return the thickest part of a silhouette: x, y, radius in pixels."""
    shrink = max(1, max(mask.shape) // 80)
    height, width = mask.shape
    size = (max(1, width // shrink), max(1, height // shrink))
    small = cv2.resize(mask * np.uint8(255), size, interpolation=cv2.INTER_AREA)
    _, inside = cv2.threshold(small, 127, 1, cv2.THRESH_BINARY)
    framed = cv2.copyMakeBorder(inside, 1, 1, 1, 1, cv2.BORDER_REPLICATE)
    depth = cv2.distanceTransform(framed, cv2.DIST_L2, 5)[1:-1, 1:-1]
    smooth = cv2.GaussianBlur(depth, (0, 0), 1.0)
    row, column = divmod(int(smooth.argmax()), smooth.shape[1])
    scale_x, scale_y = width / size[0], height / size[1]
    radius = float(depth.max()) * (scale_x + scale_y) / 2
    return (column + 0.5) * scale_x, (row + 0.5) * scale_y, radius


def _averaged(array: npt.NDArray[Any], step: float) -> tuple[Singles, float]:
    """Average a picture over squares of about `step` pixels; return it and how far it shrank."""
    if step < 1.5:
        return np.asarray(array, dtype=np.float32), 1.0
    height, width = array.shape[:2]
    size = (max(1, round(width / step)), max(1, round(height / step)))
    if array.dtype == np.uint8 and array.ndim == 2:
        array = array.astype(np.float32)
    small = cv2.resize(array, size, interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.float32), width / size[0]


def _sample(array: Singles, shrink: float, x: float, y: float, step: float, side: int) -> Singles:
    """Sample side² values, `step` pixels apart, around a point; zero outside of the picture."""
    rate = step / shrink
    edge_x = x / shrink - rate * (side - 1) / 2 - 0.5
    edge_y = y / shrink - rate * (side - 1) / 2 - 0.5
    matrix = np.array([[rate, 0.0, edge_x], [0.0, rate, edge_y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(array, matrix, (side, side), flags=flags, borderValue=0))


def _window(array: npt.NDArray[Any], x: float, y: float, step: float, side: int) -> Singles:
    """Sample a square of side² values, `step` pixels apart, around a point of a picture."""
    small, shrink = _averaged(array, step)
    return _sample(small, shrink, x, y, step, side)
