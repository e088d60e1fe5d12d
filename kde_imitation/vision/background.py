"""The empty room, and how far a picture is from it whatever the light."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput

Picture = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]

SMALLEST_SIDE = 16
# Added to a colour before its logarithm is taken, so that noise in the dark stays small.
DARK = 8.0
LOGARITHMS = np.log(np.arange(256) + DARK).astype(np.float32)
# Longest side of the picture that the light is estimated on.
COARSE = 32
ROUNDS = 6
# From this colour on a camera may have cut off what was brighter.
CUT_OFF = 250.0
# Two colour axes and the mean, by rows.
ACROSS = np.array(
    [
        [np.sqrt(1 / 2), -np.sqrt(1 / 2), 0.0],
        [np.sqrt(1 / 6), np.sqrt(1 / 6), -np.sqrt(2 / 3)],
        [1 / 3, 1 / 3, 1 / 3],
    ],
    dtype=np.float32,
)
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
    """(h, w, 3): the picture itself, reduced where it has more than 640 pixels a side"""
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
    """

    def __init__(
        self,
        picture: npt.ArrayLike,
        colour: float = 0.07,
        brighter: float = 0.12,
        darker: float = 0.18,
    ) -> None:
        self.picture = as_picture('The background', picture)
        self._shape = self.picture.shape
        self.picture = reduced(self.picture)
        if min(colour, brighter, darker) <= 0:
            raise BadInput('colour, brighter and darker must be above 0.')
        self.colour, self.brighter, self.darker = colour, brighter, darker
        self._logarithms = _logarithms(self.picture)
        height, width = self.picture.shape[:2]
        scale = COARSE / max(height, width)
        self._size = (max(4, round(width * scale)), max(4, round(height * scale)))
        self._coarse = _shrink(self._logarithms, self._size).reshape(-1, 3)
        x, y = np.meshgrid(np.linspace(-1, 1, self._size[0]), np.linspace(-1, 1, self._size[1]))
        light = [term.ravel() for term in (np.ones_like(x), x, y, x * x, x * y, y * y)]
        own = (self._coarse - self._coarse.mean(axis=0)).T
        # (3, 7, c): for each channel what its change is a sum of.
        self._terms = np.stack([np.stack([*light, line]) for line in own]).astype(np.float64)
        # A weak pull to no change but a gain holds what the picture does not show.
        self._pull = np.diag([1e-9, *[1e-3 * x.size] * 6])

    @classmethod
    def from_pictures(cls, pictures: Sequence[npt.ArrayLike], **options: float) -> Background:
        """Take the median of pictures, as of the first frames before anyone has come.

        A person may be in some of them, if each place is empty in more than half.
        """
        checked = as_pictures('pictures', pictures)
        _require_equal_sizes(checked)
        return cls(np.median(np.stack(checked), axis=0).astype(np.uint8), **options)

    @classmethod
    def learned(cls, pictures: Sequence[npt.ArrayLike], **options: float) -> Background:
        """Learn from a running camera, with OpenCV's mixture of Gaussians."""
        checked = as_pictures('pictures', pictures)
        _require_equal_sizes(checked)
        learner = cv2.createBackgroundSubtractorMOG2(
            history=len(checked), varThreshold=16, detectShadows=False
        )
        for picture in checked:
            learner.apply(picture)
        return cls(learner.getBackgroundImage(), **options)

    def compare(self, picture: npt.ArrayLike) -> Difference:
        """Say pixel by pixel how unlike the background a picture of the same size is."""
        seen = as_picture('The picture', picture)
        if seen.shape != self._shape:
            raise BadInput(
                f'The picture has {seen.shape[1]} × {seen.shape[0]} pixels, but the background '
                f'has {self._shape[1]} × {self._shape[0]}; take both with the same settings of '
                'the camera.'
            )
        seen = reduced(seen)
        gain = self._guess_gain(seen)
        # What the background would be in this light, cut off where the camera cuts it off.
        shades = np.arange(256)[:, None, None] * gain[None, None]
        table = np.log(np.minimum(shades, 255.0) + DARK).astype(np.float32)
        rest = _logarithms(seen)
        lit = np.asarray(cv2.LUT(self.picture, table), dtype=np.float32)
        coarse = _shrink(rest, self._size) - _shrink(lit, self._size)
        field, slopes = self._fit_light(coarse.reshape(-1, 3))
        table += LOGARITHMS[:, None, None] * slopes
        height, width = seen.shape[:2]
        smooth = cv2.resize(
            field.reshape(*self._size[::-1], 3), (width, height), interpolation=cv2.INTER_LINEAR
        )
        expected = cv2.add(cv2.LUT(self.picture, table), smooth)
        np.minimum(expected, LOGARITHMS[255], out=expected)
        np.maximum(expected, LOGARITHMS[0], out=expected)
        rest -= expected
        lift = np.median(field + self._coarse * slopes, axis=0)
        return Difference(seen, rest, self._score(rest), (gain * np.exp(lift)).astype(np.float32))

    def _guess_gain(self, seen: Picture) -> npt.NDArray[np.float64]:
        """Return the median ratio (3,) to the background, where the picture is not cut off."""
        now, before = (
            cv2.resize(picture, self._size, interpolation=cv2.INTER_AREA).reshape(-1, 3) + 1.0
            for picture in (seen, self.picture)
        )
        gain = np.empty(3)
        for channel in range(3):
            within = now[:, channel] < CUT_OFF
            if within.mean() < 0.05:
                within[:] = True
            gain[channel] = np.median(now[within, channel] / before[within, channel])
        return gain

    def refine(self, difference: Difference, inside: npt.NDArray[np.uint8]) -> Difference:
        """Take off the shadows that lie around a thing, given roughly where it is.

        What the background deviates by outside is carried on smoothly to the inside, so that
        there it takes less to be unlike the background.

        Parameters
        ----------
        difference : Difference
        inside : (h, w) uint8 array
            Not 0 wherever the thing may be.
        """
        outside = (_shrink((inside == 0).astype(np.float32), self._size) > 0.99).astype(np.float32)
        known = _shrink(difference.rest, self._size) * outside[:, :, None]
        near, far = (0.06 * COARSE, 0.25 * COARSE)
        # The wide window speaks where the narrow one reaches nothing.
        total, weight = (
            cv2.GaussianBlur(values, (0, 0), near) + 1e-3 * cv2.GaussianBlur(values, (0, 0), far)
            for values in (known, outside)
        )
        height, width = inside.shape
        shadow = cv2.resize(total / (weight[:, :, None] + 1e-9), (width, height))
        rest = difference.rest - shadow
        return Difference(difference.picture, rest, self._score(rest), difference.gain)

    def _score(self, rest: Singles) -> Singles:
        # Σ_c (e_c − ē)² is the squared length in two axes across the grey one.
        parts = cv2.transform(rest, ACROSS / np.float32(self.colour))
        one, two, brightness = cv2.split(parts)
        brightness *= np.where(
            brightness > 0,
            np.float32(self.colour / self.brighter),
            np.float32(self.colour / self.darker),
        )
        score = cv2.magnitude(cv2.magnitude(one, two), brightness)
        return np.asarray(score, dtype=np.float32)

    def _fit_light(self, coarse: Singles) -> tuple[Singles, Singles]:
        """Fit the change (c, 3) of the logarithms: the smooth part (c, 3), the slopes (3,)."""
        values = coarse.T.astype(np.float64)
        guess = np.median(values, axis=1)[:, None]
        for _ in range(ROUNDS):
            wide = np.abs(values - guess)
            spread = np.maximum(1.5 * np.median(wide, axis=1), 0.01)
            weights = np.maximum(0.0, 1.0 - (wide / (3.0 * spread[:, None])) ** 2) ** 2
            moments = self._terms * weights[:, None]
            found = np.linalg.solve(
                moments @ self._terms.transpose(0, 2, 1) + self._pull, moments @ values[:, :, None]
            )[:, :, 0]
            guess = (found[:, None] @ self._terms)[:, 0]
        slopes = found[:, 6].astype(np.float32)
        return guess.T.astype(np.float32) - self._coarse * slopes, slopes


def reduced(picture: Picture) -> Picture:
    """Return a picture with at most 640 pixels a side."""
    longest = max(picture.shape[:2])
    if longest <= LONGEST_SIDE:
        return picture
    height, width = (max(1, round(n * LONGEST_SIDE / longest)) for n in picture.shape[:2])
    small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8)


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
