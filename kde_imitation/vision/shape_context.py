"""Shape contexts: what the outline looks like from each of its points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels import _twin_vision as limits
from kde_imitation.kernels.backend import core

# Rings beyond six are empty: nothing on an outline is 4.5 mean distances away.
RINGS = 6
SECTORS = 6


def ring_radii(count: int = RINGS) -> Floats:
    """Return the inner radii exp(3k/10) − 1 of rings, (k,), in mean distances."""
    radii: Floats = np.expm1(0.3 * np.arange(count))
    return radii


def shape_contexts(edgels: npt.ArrayLike, rings: int = RINGS, sectors: int = SECTORS) -> Floats:
    """Return for each edgel the log-polar histogram of where the others are.

    Distances are divided by the mean distance of two edgels, so that size does not matter, and
    counts by their number, so that this does not matter either (Bakır 2006, section 6.1.1).

    Parameters
    ----------
    edgels : (r, 2) array, x and y
    rings : int
        Number of rings, with inner radii exp(3k/10) − 1; the last is open.
    sectors : int
        Number of angles, an even one; six have the width π/3.

    Returns
    -------
    (r, rings · sectors) array
        Each row sums to one; zeros where all edgels are in one place.
    """
    points = as_floats('edgels', edgels, (None, 2))
    if not 1 <= rings <= limits.MAX_RINGS:
        raise BadInput(f'rings is {rings}; choose from 1 to {limits.MAX_RINGS}.')
    if not 2 <= sectors <= limits.MAX_SECTORS or sectors % 2:
        raise BadInput(
            f'sectors is {sectors}; choose an even number from 2 to {limits.MAX_SECTORS}.'
        )
    contexts: Floats = core.shape_contexts(points, ring_radii(rings), sectors)
    return contexts
