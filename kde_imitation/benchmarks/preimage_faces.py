"""Pictures of one face under changing camera and light, each in two resolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import affine_transform
from skimage import data

from kde_imitation.checks import Floats

SMALL, LARGE = 30, 60
# Where the face is in scikit-image's picture of an astronaut: row and column, in pixels.
CENTRE = np.array([113.0, 224.0])
HALF = np.array([75.0, 55.0])
WINDOW = 160.0
GREY = np.array([0.2125, 0.7154, 0.0721])


def cut_out() -> Floats:
    """Return the face on black (512, 512), faded at its edge."""
    library: Any = data
    picture = library.astronaut() / 255.0 @ GREY
    places = np.moveaxis(np.indices(picture.shape), 0, -1)
    inside = 1.0 - (((places - CENTRE) / HALF) ** 2).sum(axis=-1)
    return np.asarray(picture * np.clip(4.0 * inside, 0.0, 1.0))


def faces(count: int, seed: int) -> tuple[Floats, Floats]:
    """Render pairs: (count, 900) and (count, 3600) grey values.

    Camera (turn, scale, shift, slant) and light (strength, direction) are drawn at random for
    each pair. They vary so much that 500 pictures spread over about 100 directions of feature
    space, which is what the thesis reports of its own.
    """
    rng = np.random.default_rng(seed)
    face = cut_out()
    pairs = []
    for _ in range(count):
        turn, slant = rng.uniform(-0.1, 0.1), rng.uniform(-0.075, 0.075)
        scale, shift = rng.uniform(0.95, 1.075), rng.uniform(-3, 3, 2)
        strength, side = rng.uniform(0.6, 1.2), rng.uniform(-0.5, 0.5, 2)
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        camera = scale * rotation @ np.array([[1.0, 0.0], [slant, 1.0]])
        pair = []
        for size in (SMALL, LARGE):
            matrix = WINDOW / size * camera
            offset = CENTRE + shift - matrix @ np.full(2, (size - 1) / 2)
            seen = affine_transform(face, matrix, offset, (size, size), order=1)
            v, u = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
            pair.append((strength * (1.0 + side[0] * u + side[1] * v) * seen).ravel())
        pairs.append(pair)
    small, large = zip(*pairs)
    return np.array(small), np.array(large)
