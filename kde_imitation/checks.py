"""Checks at the doors of the library: arrays in the right shape, finite, with clear sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput

Floats = npt.NDArray[np.floating[Any]]
Shape = Sequence[int | None]


def _describe(shape: Shape) -> str:
    sizes = ['any' if size is None else str(size) for size in shape]
    return f'({", ".join(sizes)}{"," if len(sizes) == 1 else ""})'


def as_floats(
    name: str, value: npt.ArrayLike, shape: Sequence[int | None] | None = None
) -> Floats:
    """Turn `value` into a C-contiguous array of finite float64, or say what is wrong with it.

    Parameters
    ----------
    name : str
        What the user calls it; the error message begins with it.
    value : array_like
    shape : sequence of int or None, optional
        The wanted shape, None where any size will do.
    """
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f'{name} must be an array of numbers: {error}.') from error
    # ascontiguousarray makes a scalar one-dimensional; give it its shape back.
    array = array.reshape(np.shape(value))
    sizes: tuple[int, ...] = array.shape
    if shape is not None and (
        array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, sizes))
    ):
        raise BadInput(f'{name} must have shape {_describe(shape)}, not {_describe(array.shape)}.')
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise BadInput(
            f'{name} holds {array[where]} at index {where}; every value must be finite.'
        )
    return array


def as_postures(name: str, value: npt.ArrayLike, joints: int) -> Floats:
    """Check joint values: any leading shape, the last axis one value per joint."""
    array = as_floats(name, value)
    if array.ndim == 0 or array.shape[-1] != joints:
        raise BadInput(
            f'{name} must end in an axis of {joints} joint values, but has shape '
            f'{_describe(array.shape)}.'
        )
    return array
