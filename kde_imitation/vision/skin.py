"""Skin: one Gaussian in colour space, and where in the person's box its colours lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.vision.background import as_picture
from kde_imitation.vision.silhouette import Box, Silhouette

FEWEST_PIXELS = 8
# Variance that colours have at least: that of noise of three grey levels.
LEAST_VARIANCE = 9.0
# Standard deviation, as a share, of the brightness of arms around that of the face.
SHADING = 0.1


class SkinModel:
    """The colours of skin as one Gaussian in red, green and blue (Bakır 2006, section 6.1.2).

    Parameters
    ----------
    mean : (3,) array
    covariance : (3, 3) array
        Positive definite.
    """

    def __init__(self, mean: npt.ArrayLike, covariance: npt.ArrayLike) -> None:
        self.mean = as_floats('The mean colour of skin', mean, (3,))
        self.covariance = as_floats('The covariance of skin', covariance, (3, 3))
        values, vectors = np.linalg.eigh(self.covariance)
        if values[0] <= 0 or not np.allclose(self.covariance, self.covariance.T):
            raise BadInput('The covariance of skin must be symmetric and positive definite.')
        whiten = (vectors / np.sqrt(values)).T
        self._whiten = np.column_stack([whiten, -whiten @ self.mean])

    @classmethod
    def from_pixels(cls, pixels: npt.ArrayLike) -> SkinModel:
        """Fit to picked colours (n, 3), red, green, blue from 0 to 255."""
        colours = as_floats('The picked pixels', pixels, (None, 3))
        if len(colours) < FEWEST_PIXELS:
            raise BadInput(
                f'{len(colours)} picked pixels are too few for a colour model; pick '
                f'{FEWEST_PIXELS} or more.'
            )
        if colours.min() < 0 or colours.max() > 255:
            raise BadInput('The picked pixels must be colours from 0 to 255.')
        covariance = np.cov(colours.T) + LEAST_VARIANCE * np.eye(3)
        return cls(colours.mean(axis=0), covariance)

    @classmethod
    def from_rectangle(cls, picture: npt.ArrayLike, box: Box) -> SkinModel:
        """Fit to a rectangle of a picture that shows skin only."""
        seen = as_picture('The picture', picture)
        height, width = seen.shape[:2]
        if (
            min(box.top, box.left) < 0
            or min(box.height, box.width) < 1
            or box.top + box.height > height
            or box.left + box.width > width
        ):
            raise BadInput(f'{box} does not lie in the picture of {width} × {height} pixels.')
        return cls.from_pixels(box.cut(seen).reshape(-1, 3))

    @classmethod
    def from_faces(cls, silhouettes: Sequence[Silhouette], relit: bool = True) -> SkinModel:
        """Fit to the faces of people who stand before the camera, without any picking.

        The face is looked for above the thickest part of the body. Colours far from the median,
        as of hair, eyes and an arm before the wall, are left out in a few rounds.
        """
        colours = []
        for silhouette in silhouettes:
            place = face(silhouette)
            if place is not None:
                seen = silhouette.relit() if relit else silhouette.picture
                inside = place.cut(silhouette.mask) > 0
                colours.append(place.cut(seen)[inside])
        pixels = np.concatenate(colours).astype(np.float64) if colours else np.zeros((0, 3))
        if len(pixels) < FEWEST_PIXELS:
            raise BadInput(
                'No face was found to take the colour of skin from; pick pixels, or give '
                'pictures with a person who stands upright.'
            )
        centre = np.median(pixels, axis=0)
        kept = pixels
        for _ in range(5):
            wide = np.linalg.norm(pixels - centre, axis=1)
            kept = pixels[wide <= 2.0 * max(float(np.median(wide)), 1.0)]
            centre = np.median(kept, axis=0)
        model = cls.from_pixels(kept)
        # Arms turn away from the light more than a face does.
        shading = SHADING**2 * np.outer(model.mean, model.mean)
        return cls(model.mean, model.covariance + shading)

    def likelihood(self, picture: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return for each pixel of a picture (h, w, 3) how likely it is skin, 1 at the mean."""
        seen = as_picture('The picture', picture)
        white = cv2.transform(seen.astype(np.float32), self._whiten.astype(np.float32))
        squares = np.einsum('ijk,ijk->ij', white, white)
        return np.asarray(cv2.exp(-0.5 * squares), dtype=np.float32)


def face(silhouette: Silhouette) -> Box | None:
    """Return where the face of an upright person should be, None without a person.

    The trunk is where the silhouette is thickest. The head is the first thing met from above in
    the columns over the trunk, and the face its middle, below the hair.
    """
    if not silhouette.found:
        return None
    box = silhouette.box
    mask = np.pad(box.cut(silhouette.mask), 1)
    depth = cv2.distanceTransform(mask, cv2.DIST_L2, 3)[1:-1, 1:-1]
    upper = depth[: max(1, (2 * box.height) // 3)]
    row, column = np.unravel_index(int(upper.argmax()), upper.shape)
    radius = float(upper[row, column])
    half = max(1, round(0.3 * radius))
    left, right = max(0, int(column) - half), min(box.width, int(column) + half + 1)
    tops = box.cut(silhouette.mask)[:, left:right].argmax(axis=0)
    top = int(np.median(tops)) + round(0.5 * radius)
    height = max(1, round(0.7 * radius))
    if top + height > box.height:
        return None
    return Box(box.top + top, box.left + left, height, right - left)


def skin_histograms(
    likelihood: npt.NDArray[np.floating[Any]],
    mask: npt.NDArray[np.uint8],
    bins: int = 10,
    threshold: float | None = None,
) -> Floats:
    """Return how skin is spread over columns and over rows of a box, (2 · bins,): h_x, then h_y.

    Each half sums to one, or is zero where there is no skin.

    Parameters
    ----------
    likelihood : (h, w) array
    mask : (h, w) uint8 array
        Not 0 on the person; nothing else counts.
    bins : int
        h and w must be multiples of it.
    threshold : float, optional
        Count pixels that are likelier; without it likelihoods are added up, which changes more
        smoothly with the pose.
    """
    height, width = likelihood.shape
    if height % bins or width % bins:
        raise BadInput(f'A map of {width} × {height} cannot be cut into {bins} equal bins.')
    skin = likelihood if threshold is None else likelihood > threshold
    weights = np.where(mask > 0, skin, 0.0)
    columns = weights.sum(axis=0).reshape(bins, -1).sum(axis=1)
    rows = weights.sum(axis=1).reshape(bins, -1).sum(axis=1)
    total = float(columns.sum())
    # Less than a thousandth of the box is no skin, but the tail of other colours.
    if total < 1e-3 * likelihood.size:
        return np.zeros(2 * bins)
    result: Floats = np.concatenate([columns, rows]).astype(np.float64)
    result[:bins] /= result[:bins].sum()
    result[bins:] /= result[bins:].sum()
    return result


def as_skin(value: SkinModel | npt.ArrayLike) -> SkinModel:
    """Return a model as it is, or one fitted to picked pixels (n, 3)."""
    return value if isinstance(value, SkinModel) else SkinModel.from_pixels(value)
