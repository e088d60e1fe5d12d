"""Edgels: points on the person's outline, placed on the edges of the picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.vision.silhouette import Mask, Silhouette

# Side of the working image (Bakır 2006, section 6.3.1).
WORKING_SIDE = 100
SMOOTHING = 3.0
# Brightness that any part of the person has at least, of 1, so that black cloth has an edge too.
LIFT = 0.25
# Edgels are looked for so many pixels to either side of the outline.
NEAR = 2


@dataclass(frozen=True)
class WorkingImage:
    """The person's box, scaled to 100 × 100."""

    picture: npt.NDArray[np.uint8]
    """(100, 100, 3)"""
    mask: Mask
    """(100, 100): 1 on the person"""
    open_sides: tuple[bool, bool, bool, bool]
    """where the frame of the picture cuts the person off: top, bottom, left, right"""


def working_image(silhouette: Silhouette, relit: bool = True) -> WorkingImage:
    """Scale the person's box to 100 × 100, in the light of the background or as it was seen."""
    if not silhouette.found:
        raise BadInput(f'There is no person to scale: {silhouette.reason}')
    box = silhouette.box
    size = (WORKING_SIDE, WORKING_SIDE)
    seen = silhouette.relit() if relit else silhouette.picture
    picture = cv2.resize(box.cut(seen), size, interpolation=cv2.INTER_AREA)
    share = cv2.resize(
        box.cut(silhouette.mask) * np.uint8(255), size, interpolation=cv2.INTER_AREA
    )
    height, width = silhouette.mask.shape
    cut_off = (
        box.top == 0,
        box.top + box.height == height,
        box.left == 0,
        box.left + box.width == width,
    )
    return WorkingImage(
        np.asarray(picture, dtype=np.uint8), (share > 127).astype(np.uint8), cut_off
    )


def edge_map(image: WorkingImage) -> npt.NDArray[np.float32]:
    """Return the strength of edges (104, 104) of the person before an even black ground.

    Smoothed with a Gaussian of 5 × 5 pixels, then Sobel's derivatives. There are two pixels more
    on each side than in the working image, so that an outline at its frame is an edge as well.
    """
    grey = cv2.cvtColor(image.picture, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255.0
    person = (LIFT + (1.0 - LIFT) * grey) * image.mask
    framed = cv2.copyMakeBorder(person, NEAR, NEAR, NEAR, NEAR, cv2.BORDER_CONSTANT, value=0)
    smooth = cv2.GaussianBlur(framed, (5, 5), SMOOTHING, borderType=cv2.BORDER_CONSTANT)
    across = cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=0.25, borderType=cv2.BORDER_REPLICATE)
    down = cv2.Sobel(smooth, cv2.CV_32F, 0, 1, scale=0.25, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(cv2.magnitude(across, down), dtype=np.float32)


def edgels(image: WorkingImage, count: int = 100) -> Floats:
    """Return at most `count` points (r, 2), x and y, evenly spread along the person's outline.

    The outline of the mask is walked in equal steps. Each stop moves to the centre of the edge
    strength around it, which places it between pixels: what the pose changes by little then
    changes them by little. Stops where the frame of the picture cuts the person off are no edges
    and left out, as are stops without an edge. The same picture always gives the same points.
    """
    if count < 3:
        raise BadInput(f'count is {count}; take 3 edgels or more.')
    stops = _walk(image.mask, count, image.open_sides)
    if len(stops) == 0:
        return np.zeros((0, 2))
    strength = edge_map(image)
    columns, rows = (np.rint(stops) + NEAR).astype(np.intp).T
    offsets = np.arange(-NEAR, NEAR + 1)
    window = strength[
        (rows[:, None, None] + offsets[:, None]), (columns[:, None, None] + offsets)
    ].astype(np.float64)
    # Squared, so that the ridge outweighs its feet.
    weights = window**2
    total = weights.sum(axis=(1, 2))
    kept = window.max(axis=(1, 2)) > 0.25 * LIFT / 2
    weights, total = weights[kept], total[kept]
    shift_x = (weights * offsets).sum(axis=(1, 2)) / total
    shift_y = (weights * offsets[:, None]).sum(axis=(1, 2)) / total
    found: Floats = np.column_stack([columns[kept] - NEAR + shift_x, rows[kept] - NEAR + shift_y])
    return found


def _walk(
    mask: Mask, count: int, open_sides: tuple[bool, bool, bool, bool]
) -> npt.NDArray[np.floating[Any]]:
    """Return at most `count` points (r, 2) at equal steps along all outlines of a mask."""
    outlines, _ = cv2.findContours(mask, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    top, bottom, left, right = open_sides
    starts, steps, lengths = [], [], []
    for outline in outlines:
        points = outline[:, 0].astype(np.float64)
        step = np.roll(points, -1, axis=0) - points
        length = np.hypot(step[:, 0], step[:, 1])
        x, y = points.T
        last = WORKING_SIDE - 1
        no_edge = (
            (top & (y == 0)) | (bottom & (y == last)) | (left & (x == 0)) | (right & (x == last))
        )
        length[no_edge] = 0.0
        starts.append(points)
        steps.append(step)
        lengths.append(length)
    ends = np.cumsum(np.concatenate([*lengths, np.zeros(1)]))
    total = ends[-1]
    if total == 0:
        return np.zeros((0, 2))
    walked = (np.arange(count) + 0.5) * (total / count)
    index = np.searchsorted(ends, walked, side='right')
    length = np.concatenate(lengths)[index]
    along = (walked - (ends[index] - length)) / length
    place: npt.NDArray[np.floating[Any]] = (
        np.concatenate(starts)[index] + along[:, None] * np.concatenate(steps)[index]
    )
    return place
