"""A picture compared with that of the empty room, in NumPy: the twin of `_room.pxi`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Picture = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]

TERMS = 7


def median_ratios(now: Picture, before: Picture, cut_off: float) -> Floats:
    """Return the median (3,) of (now + 1) / (before + 1), both (n, 3), channel by channel.

    Values now of `cut_off` and more do not count, unless fewer than a twentieth are below.
    """
    if len(now) == 0 or now.shape != before.shape or now.shape[1:] != (3,):
        raise ValueError('Two equal numbers of colours are needed, one or more.')
    result = np.empty(3)
    for channel in range(3):
        above, below = now[:, channel] + 1.0, before[:, channel] + 1.0
        within = above < cut_off
        if 20 * within.sum() < len(now):
            within[:] = True
        result[channel] = np.median(above[within] / below[within])
    return result


def fit_light(
    terms: Floats, values: Floats, pull: Floats, rounds: int
) -> tuple[Floats, Floats, Floats]:
    """Fit values (k, c) by sums of terms (k, 7, c), so that what lies far off does not count.

    Tukey's weights, with a scale from the median deviation, `rounds` times over.

    Parameters
    ----------
    terms : (k, 7, c) array
    values : (k, c) array
    pull : (7,) array
        What draws each coefficient to zero.
    rounds : int, 1 or more

    Returns
    -------
    fitted : (k, c) array
    coefficients : (k, 7) array
    middles : (k,) array
        Medians of the fitted values.
    """
    lines, count = values.shape
    if terms.shape != (lines, TERMS, count) or count == 0:
        raise ValueError(f'The terms must have shape ({lines}, {TERMS}, {count}).')
    if len(pull) != TERMS or rounds < 1:
        raise ValueError(f'{TERMS} pulls and one round or more are needed.')
    guess: Floats = np.repeat(np.median(values, axis=1)[:, None], count, axis=1)
    for _ in range(rounds):
        wide = np.abs(values - guess)
        spread = np.maximum(1.5 * np.median(wide, axis=1), 0.01)
        weights = np.maximum(0.0, 1.0 - (wide / (3.0 * spread[:, None])) ** 2) ** 2
        moments = terms * weights[:, None]
        found: Floats = np.linalg.solve(
            moments @ terms.transpose(0, 2, 1) + np.diag(pull), moments @ values[:, :, None]
        )[:, :, 0]
        guess = (found[:, None] @ terms)[:, 0]
    return guess, found, np.median(guess, axis=1)


def unlike(
    seen: Picture,
    empty: Picture,
    shades: Singles,
    table: Singles,
    field: Singles,
    tolerances: Singles,
) -> tuple[Singles, Singles]:
    """Return what a picture deviates by from that of the empty room, and how unlike that makes it.

    Parameters
    ----------
    seen, empty : (h, w, 3) uint8 arrays
    shades : (256,) float32 array
        Logarithms of the colours of `seen`.
    table : (256, 3) float32 array
        The same that are expected for those of `empty`, channel by channel.
    field : (h, w, 3) float32 array
        Added to what is expected, which then stays within `shades`.
    tolerances : (3,) float32 array
        Deviations that are just too large: in colour, up and down in brightness.

    Returns
    -------
    rest : (h, w, 3) float32 array
    score : (h, w) float32 array
    """
    _check_sizes(seen, empty, field)
    if shades.shape != (256,) or table.shape != (256, 3):
        raise ValueError('The tables must have 256 rows.')
    expected = table[empty, np.arange(3)] + field
    rest = shades[seen] - np.clip(expected, shades[0], shades[255])
    return rest, _scores(rest, tolerances)


def scores_beyond(rest: Singles, shadow: Singles, tolerances: Singles) -> Singles:
    """Return how unlike the empty room deviations (h, w, 3) less a shadow are: (h, w)."""
    _check_sizes(rest, rest, shadow)
    return _scores(rest - shadow, tolerances)


def _scores(rest: Singles, tolerances: Singles) -> Singles:
    if len(tolerances) != 3:
        raise ValueError('There are three tolerances.')
    colour, brighter, darker = tolerances
    mean = rest.sum(axis=2) * np.float32(1 / 3)
    squares = np.square(rest - mean[:, :, None]).sum(axis=2) / (colour * colour)
    squares += np.square(mean / np.where(mean > 0, brighter, darker))
    return np.asarray(np.sqrt(squares), dtype=np.float32)


def _check_sizes(one: Any, two: Any, three: Any) -> None:
    if one.size == 0 or one.shape[2:] != (3,):
        raise ValueError('A picture must have three channels and one pixel or more.')
    if not one.shape == two.shape == three.shape:
        raise ValueError('Pictures and fields must have equal sizes.')
