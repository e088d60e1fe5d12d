"""Axes of a grid: where the nodes lie, and which interval they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import MAX_INPUTS, MAX_NODES


def _interval(lower: float, upper: float, n: int) -> None:
    if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
        raise BadInput(f'An axis needs lower < upper, not {lower} and {upper}.')
    if n < 2 or n > MAX_NODES:
        raise BadInput(f'An axis needs 2 to {MAX_NODES} nodes, not {n}.')


def regular_axis(lower: float, upper: float, n: int) -> Floats:
    """Return n equally spaced nodes from `lower` to `upper` (3.9)."""
    _interval(lower, upper, n)
    return np.linspace(lower, upper, n)


def chebyshev_axis(lower: float, upper: float, n: int) -> Floats:
    """Return the zeros of the n-th Chebyshev polynomial, moved to `[lower, upper]` (3.10).

    They lie inside the interval; interpolation on them does not swing near its ends.
    """
    _interval(lower, upper, n)
    turn = np.pi * (np.arange(1, n + 1) - 0.5) / n
    return lower + 0.5 * (1.0 - np.cos(turn)) * (upper - lower)


def interval_of(nodes: Floats) -> tuple[float, float]:
    """Return the interval that an axis stands for.

    Four or more nodes spaced as Chebyshev zeros stand for the interval they are the zeros on,
    which reaches a little beyond them; any others for the interval from first to last.
    """
    first, last, n = float(nodes[0]), float(nodes[-1]), len(nodes)
    reach = (last - first) / np.cos(np.pi / (2 * n))
    middle = 0.5 * (first + last)
    lower, upper = middle - 0.5 * reach, middle + 0.5 * reach
    if n >= 4 and np.allclose(nodes, chebyshev_axis(lower, upper, n), rtol=0, atol=1e-9 * reach):
        return lower, upper
    return first, last


def check_axes(axes: Sequence[npt.ArrayLike]) -> list[Floats]:
    """Return the axes as arrays, or say which one cannot serve."""
    if len(axes) < 1 or len(axes) > MAX_INPUTS:
        raise BadInput(f'A grid needs 1 to {MAX_INPUTS} axes, not {len(axes)}.')
    checked = []
    for number, axis in enumerate(axes):
        nodes = as_floats(f'Axis {number}', axis, (None,))
        if len(nodes) < 2 or len(nodes) > MAX_NODES:
            raise BadInput(f'Axis {number} needs 2 to {MAX_NODES} nodes, not {len(nodes)}.')
        steps = np.diff(nodes)
        if not (steps > 0).all():
            at = int(np.argmin(steps))
            raise BadInput(
                f'Axis {number} must rise from node to node, but node {at} is at {nodes[at]} and '
                f'node {at + 1} at {nodes[at + 1]}; sort the nodes and remove equal ones.'
            )
        checked.append(nodes)
    return checked


def check_bounds(axes: Sequence[Floats], bounds: npt.ArrayLike | None) -> Floats:
    """Return the box that the grid stands for, shape (q, 2)."""
    if bounds is None:
        return np.array([interval_of(axis) for axis in axes])
    box = as_floats('bounds', bounds, (len(axes), 2))
    for number, ((lower, upper), axis) in enumerate(zip(box, axes)):
        if not lower < upper or lower > axis[0] or upper < axis[-1]:
            raise BadInput(
                f'bounds of axis {number} are {lower} to {upper}; they must hold all its nodes, '
                f'{axis[0]} to {axis[-1]}.'
            )
    return box
