"""The empty room, and how far a picture is from it whatever the light."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.backend import core

Picture = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]

SMALLEST_SIDE = 16
# Added to a colour before its logarithm is taken, so that noise in the dark stays small.
DARK = 8.0
SHADES = np.arange(256)[:, None]
LOGARITHMS = np.log(np.arange(256) + DARK).astype(np.float32)
# Longest side of the picture that the light is estimated on.
COARSE = 32
ROUNDS = 6
# From this colour on a camera may have cut off what was brighter.
CUT_OFF = 250.0
# Longest side of a picture that is looked at pixel by pixel; larger ones are reduced to it.
LONGEST_SIDE = 640


def as_picture(name: str, value: npt.ArrayLike) -> Picture:
    """Check a picture: uint8, (h, w, 3) in the order red, green, blue, or grey (h, w).

    Grey ones get three equal channels. `BadInput` says what else it was.
    """
    array: npt.NDArray[Any] = np.asarray(value)
    if array.dtype != np.uint8:
        raise BadInput(
            f'{name} has numbers of type {array.dtype}; a picture must be uint8, 0 to 255.'
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)):
        raise BadInput(
            f'{name} has shape {array.shape}; a picture must be (height, width, 3) in the order '
            'red, green, blue, or grey (height, width).'
        )
    if min(array.shape[:2]) < SMALLEST_SIDE:
        raise BadInput(
            f'{name} has {array.shape[1]} × {array.shape[0]} pixels; each side must have '
            f'{SMALLEST_SIDE} or more.'
        )
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], 3, axis=2)
    return np.ascontiguousarray(array)


def as_pictures(name: str, value: object) -> list[Picture]:
    """Check one picture, an array (n, h, w, 3) of them, or any series of pictures."""
    if isinstance(value, np.ndarray) and value.ndim in (2, 3):
        return [as_picture(name, value)]
    if not isinstance(value, Iterable):
        raise BadInput(f'{name} must be a picture or a series of pictures, not {value!r}.')
    return [as_picture(f'{name}[{i}]', picture) for i, picture in enumerate(value)]


@dataclass(frozen=True)
class Difference:
    """What separates a picture from the background."""

    picture: Picture
    """(h, w, 3): the picture itself, reduced where it is larger than the background compares"""
    rest: Singles
    """(h, w, 3): what the logarithms of the colours deviate by beyond what the light explains"""
    score: Singles
    """(h, w): how unlike the background a pixel is; 1 is where doubt ends"""
    gain: Singles
    """(3,): how much brighter than in the background picture the scene is, channel by channel"""


class Background:
    """The picture of the empty room, compared with others whatever the light.

    Colours are compared by their logarithms. What the light does to them is fitted to each
    picture, robustly, so that a person does not count: a gain that varies slowly over the
    picture (a polynomial of second degree, which soft shadows on walls resemble) and the curve of
    the camera (a share of the background's own logarithm). What is left is split into brightness
    and colour. Brightness may deviate further, and further down than up, because of shadows.

    Parameters
    ----------
    picture : (h, w, 3) or (h, w) uint8 array
        In the order red, green, blue.
    colour, brighter, darker : float
        Deviations of the logarithms that are just too large for the background.
    side : int
        Pictures with more pixels a side are reduced to this many, 16 to 640, before they are
        compared.
    """

    def __init__(
        self,
        picture: npt.ArrayLike,
        colour: float = 0.07,
        brighter: float = 0.12,
        darker: float = 0.18,
        side: int = LONGEST_SIDE,
    ) -> None:
        self.picture = as_picture('The background', picture)
        self.full_size = self.picture.shape[:2]
        if not SMALLEST_SIDE <= side <= LONGEST_SIDE:
            raise BadInput(
                f'side is {side}; pictures can be compared with {SMALLEST_SIDE} to {LONGEST_SIDE} '
                'pixels a side.'
            )
        self.side = int(side)
        self.picture = reduced(self.picture, self.side)
        if min(colour, brighter, darker) <= 0:
            raise BadInput('colour, brighter and darker must be above 0.')
        self.colour, self.brighter, self.darker = colour, brighter, darker
        self._tolerances = np.array([colour, brighter, darker], dtype=np.float32)
        height, width = self.picture.shape[:2]
        scale = COARSE / max(height, width)
        self._size = (max(4, round(width * scale)), max(4, round(height * scale)))
        self._coarse = _shrink(_logarithms(self.picture), self._size).reshape(-1, 3)
        self._before = self._colours(self.picture)
        x, y = np.meshgrid(np.linspace(-1, 1, self._size[0]), np.linspace(-1, 1, self._size[1]))
        light = [term.ravel() for term in (np.ones_like(x), x, y, x * x, x * y, y * y)]
        own = (self._coarse - self._coarse.mean(axis=0)).T
        # (3, 7, c): for each channel what its change is a sum of.
        self._terms = np.stack([np.stack([*light, line]) for line in own]).astype(np.float64)
        # A weak pull to no change but a gain holds what the picture does not show.
        self._pull = np.array([1e-9, *[1e-3 * x.size] * 6])
        self._carry = [_carrying(n) for n in self._size[::-1]]

    @classmethod
    def from_pictures(cls, pictures: Sequence[npt.ArrayLike], **options: Any) -> Background:
        """Take the median of pictures, as of the first frames before anyone has come.

        A person may be in some of them, if each place is empty in more than half.
        """
        checked = as_pictures('pictures', pictures)
        _require_equal_sizes(checked)
        return cls(np.median(np.stack(checked), axis=0).astype(np.uint8), **options)

    @classmethod
    def learned(cls, pictures: Sequence[npt.ArrayLike], **options: Any) -> Background:
        """Learn from a running camera, with OpenCV's mixture of Gaussians."""
        checked = as_pictures('pictures', pictures)
        _require_equal_sizes(checked)
        learner = cv2.createBackgroundSubtractorMOG2(
            history=len(checked), varThreshold=16, detectShadows=False
        )
        for picture in checked:
            learner.apply(picture)
        return cls(learner.getBackgroundImage(), **options)

    @classmethod
    def from_arrays(
        cls, picture: npt.ArrayLike, full_size: npt.ArrayLike, tolerances: npt.ArrayLike
    ) -> Background:
        """Make a background again of `picture`, `full_size` and its three tolerances."""
        colour, brighter, darker = as_floats('tolerances', tolerances, (3,))
        background = cls(picture, float(colour), float(brighter), float(darker))
        height, width = as_floats('full_size', full_size, (2,))
        background.full_size = (int(height), int(width))
        background.side = max(background.picture.shape[:2])
        return background

    def compare(self, picture: npt.ArrayLike) -> Difference:
        """Say pixel by pixel how unlike the background a picture of the same size is."""
        seen = as_picture('The picture', picture)
        if seen.shape[:2] != self.full_size:
            raise BadInput(
                f'The picture has {seen.shape[1]} × {seen.shape[0]} pixels, but the background '
                f'has {self.full_size[1]} × {self.full_size[0]}; take both with the same settings '
                'of the camera.'
            )
        if seen.shape != self.picture.shape:
            seen = _resized(seen, self.picture.shape[1::-1])
        gain = core.median_ratios(self._colours(seen), self._before, CUT_OFF)
        # What the background would be in this light, cut off where the camera cuts it off.
        table = np.log(np.minimum(SHADES * gain, 255.0) + DARK).astype(np.float32)
        lit = cv2.LUT(self.picture, table[:, None])
        change = np.asarray(cv2.subtract(_logarithms(seen), lit), dtype=np.float32)
        coarse = _shrink(change, self._size).reshape(-1, 3)
        coarse = np.ascontiguousarray(coarse.T, dtype=np.float64)
        fitted, found, lift = core.fit_light(self._terms, coarse, self._pull, ROUNDS)
        slopes = found[:, 6].astype(np.float32)
        table += LOGARITHMS[:, None] * slopes
        smooth = fitted.T.astype(np.float32) - self._coarse * slopes
        height, width = seen.shape[:2]
        smooth = cv2.resize(smooth.reshape(*self._size[::-1], 3), (width, height))
        rest, score = core.unlike(seen, self.picture, LOGARITHMS, table, smooth, self._tolerances)
        return Difference(seen, rest, score, (gain * np.exp(lift)).astype(np.float32))

    def _colours(self, picture: Picture) -> Picture:
        """Return the mean colours (c, 3) of coarse cells."""
        return _resized(picture, self._size).reshape(-1, 3)

    def refine(self, difference: Difference, inside: npt.NDArray[np.uint8]) -> Difference:
        """Take off the shadows that lie around a thing, given roughly where it is.

        What the background deviates by outside is carried on smoothly to the inside, so that
        there it takes less to be unlike the background. Only the score changes.

        Parameters
        ----------
        difference : Difference
        inside : (h, w) uint8 array
            Not 0 wherever the thing may be.
        """
        empty = _shrink((inside == 0).astype(np.float32), self._size) > 0.99
        rows, columns = self._size[::-1]
        known = np.ones((rows, columns, 4), dtype=np.float32)
        known[:, :, :3] = _shrink(difference.rest, self._size)
        known *= empty[:, :, None]
        total = np.zeros((rows, columns, 4), dtype=np.float32)
        # The wide window speaks where the narrow one reaches nothing.
        for down, across in zip(*self._carry):
            blurred = (down @ known.reshape(rows, -1)).reshape(rows, columns, 4)
            total += across @ blurred
        carried = total[:, :, :3] / (total[:, :, 3:] + np.float32(1e-9))
        shadow = cv2.resize(carried, inside.shape[::-1])
        score = core.scores_beyond(difference.rest, shadow, self._tolerances)
        return Difference(difference.picture, difference.rest, score, difference.gain)


def reduced(picture: Picture, side: int = LONGEST_SIDE) -> Picture:
    """Return a picture with at most `side` pixels a side."""
    longest = max(picture.shape[:2])
    if longest <= side:
        return picture
    height, width = (max(1, round(n * side / longest)) for n in picture.shape[:2])
    return _resized(picture, (width, height))


def _resized(picture: Picture, size: Sequence[int]) -> Picture:
    small = cv2.resize(picture, (size[0], size[1]), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


def _carrying(count: int) -> list[Singles]:
    """Return matrices (n, n) that blur n values, narrowly, and widely with little weight."""
    each = np.eye(count, dtype=np.float32)
    blurs = []
    for reach, weight in ((0.06 * COARSE, 1.0), (0.25 * COARSE, 1e-3**0.5)):
        window = 2 * round(4 * reach) + 1
        blurred = cv2.GaussianBlur(each, (1, window), reach)
        blurs.append(np.asarray(np.float32(weight) * blurred, dtype=np.float32))
    return blurs


def _logarithms(picture: Picture) -> Singles:
    return np.asarray(cv2.LUT(picture, LOGARITHMS), dtype=np.float32)


def _shrink(values: Singles, size: tuple[int, int]) -> Singles:
    small = cv2.resize(values, size, interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.float32)


def _require_equal_sizes(pictures: Sequence[Picture]) -> None:
    if not pictures:
        raise BadInput('There is no picture to take the background from; give one or more.')
    sizes = {picture.shape for picture in pictures}
    if len(sizes) > 1:
        raise BadInput(f'The pictures of the background differ in size: {sorted(sizes)}.')
