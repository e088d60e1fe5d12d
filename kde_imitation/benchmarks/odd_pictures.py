"""Pictures that a camera may deliver and that show no person, or not one whole person."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.dataset.pictures import Image
from kde_imitation.vision.silhouette import PersonFinder

Odd = Image | npt.NDArray[np.uint16]


def odd_pictures(
    pictures: list[Image], background: Image, finder: PersonFinder
) -> Iterator[tuple[str, list[Odd]]]:
    """Yield kinds of odd pictures, made from pictures with a person and the empty room.

    Parameters
    ----------
    pictures : list of (h, w, 3) uint8
    background : (h, w, 3) uint8
    finder : PersonFinder
        Tells what of a picture is the person, to move them about.
    """
    rng = np.random.default_rng(0)
    width = background.shape[1]
    count = len(pictures)
    cut = [_Cutout(picture, finder) for picture in pictures]

    def noisy(picture: Image) -> Image:
        return _bytes(picture + rng.normal(0, 3, picture.shape))

    def scaled(size: tuple[int, int]) -> list[Odd]:
        return [_resized(picture, size) for picture in pictures[:5]]

    yield 'black', [_bytes(rng.normal(2, 2, background.shape)) for _ in range(count)]
    yield 'white', [_bytes(rng.normal(253, 2, background.shape)) for _ in range(count)]
    yield (
        'noise',
        [rng.integers(0, 256, background.shape, dtype=np.uint8) for _ in range(count)],
    )
    yield 'nobody', [noisy(background) for _ in range(count)]
    yield (
        'two people',
        [
            other.paste(mine.picture, _aside(rng, width), 0)
            for mine, other in zip(cut, cut[1:] + cut[:1])
        ],
    )
    yield (
        'cut off at the side',
        [each.paste(background, each.past_edge(share, width), 0) for each, share in _shares(cut)],
    )
    yield (
        'cut off at the top',
        [
            each.paste(background, 0, -int((0.3 + 0.4 * rng.random()) * each.height))
            for each in cut
        ],
    )
    yield (
        'upside down',
        [np.ascontiguousarray(picture[::-1]) for picture in pictures],
    )
    yield 'grey', [_grey(picture) for picture in pictures]
    yield '64 × 48', scaled((64, 48))
    yield '4096 × 3072', scaled((4096, 3072))
    yield '16 bit', [picture.astype(np.uint16) * 257 for picture in pictures[:5]]


class _Cutout:
    """A person, to be pasted elsewhere."""

    def __init__(self, picture: Image, finder: PersonFinder) -> None:
        self.picture = picture
        person = finder(picture)
        mask = cv2.resize(person.mask, picture.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        self.share = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 1.0)[:, :, None]
        self.left, _, self.width, self.height = cv2.boundingRect(mask)

    def past_edge(self, share: float, width: int) -> int:
        """Return by how much to move so that a share of the person is out of the picture.

        A negative share is on the left.
        """
        if share < 0:
            return -self.left + int(share * self.width)
        return width - self.left - self.width + int(share * self.width)

    def paste(self, ground: Image, right: int, down: int) -> Image:
        """Return another picture with this person in it, moved by so many pixels."""
        matrix = np.array([[1.0, 0.0, right], [0.0, 1.0, down]])
        size = ground.shape[1::-1]
        share = cv2.warpAffine(self.share, matrix, size)[:, :, None]
        moved = cv2.warpAffine(self.picture, matrix, size)
        return _bytes(moved * share + ground * (1.0 - share))


def _shares(cut: list[_Cutout]) -> Iterator[tuple[_Cutout, float]]:
    """Yield each person with how much of them is out of the picture, left and right in turn."""
    shares = np.linspace(0.25, 0.6, len(cut))
    for i, (each, share) in enumerate(zip(cut, shares)):
        yield each, float(share) if i % 2 else -float(share)


def _aside(rng: np.random.Generator, width: int) -> int:
    """Return how far the second person stands from where they stood, in pixels."""
    return int(rng.choice([-1, 1]) * rng.uniform(0.2, 0.32) * width)


def _bytes(values: npt.NDArray[np.floating]) -> Image:
    return np.asarray(np.clip(np.rint(values), 0, 255), dtype=np.uint8)


def _grey(picture: Image) -> Image:
    return np.repeat(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)[:, :, None], 3, axis=2)


def _resized(picture: Image, size: tuple[int, int]) -> Image:
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
