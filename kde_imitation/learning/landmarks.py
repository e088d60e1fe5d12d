"""A few points that stand for many: those that a kernel finds least like one another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Kernel


def choose_landmarks(kernel: Kernel, X: npt.ArrayLike, count: int) -> npt.NDArray[np.intp]:
    """Choose points whose images span what all images span, as well as so few can.

    Each point chosen is the one furthest, in feature space, from the span of those before it:
    Cholesky's factorisation of the Gram matrix with pivoting, of which only the columns of the
    chosen points are ever computed.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array
    count : int
        At most so many; fewer where fewer span everything.

    Returns
    -------
    (m,) array of int
        In the order of choice.
    """
    rows = as_floats('X', X, (None, None))
    if count < 1:
        raise BadInput(f'count must be at least 1, not {count}.')
    count = min(int(count), len(rows))
    left = np.array(kernel.diagonal(rows), dtype=np.float64)
    enough = 1e-12 * left.max()
    factor = np.empty((len(rows), count))
    chosen: list[int] = []
    for step in range(count):
        pivot = int(left.argmax())
        if left[pivot] <= enough:
            break
        known: Floats = factor[:, :step]
        column = kernel(rows, rows[pivot : pivot + 1])[:, 0] - known @ known[pivot]
        factor[:, step] = column / np.sqrt(left[pivot])
        left -= factor[:, step] ** 2
        left[pivot] = -np.inf
        chosen.append(pivot)
    return np.array(chosen, dtype=np.intp)
