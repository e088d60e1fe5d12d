"""Body and arm looked for in maps, in NumPy: the twin of `_arm.pxi`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.integer[Any]]

MAX_STATIONS = 64
MAX_REFINED = 64
MAX_CELLS = 65536
# For a first look evidence is counted in multiples of 1 / SHADES and lengths of 1 / FINENESS.
SHADES = 255
FINENESS = 4096
# A move must gain more than rounding does, so that the same one is taken everywhere.
GAIN = 1e-9
# Elbow, fingertips, or both move to one of four sides.
MOVES = np.array(
    [
        [[0, 0], [dx * a, dy * a], [dx * b, dy * b]]
        for a, b in ((1, 0), (0, 1), (1, 1))
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))
    ],
    dtype=np.float64,
)


def neighbours(at: Floats, size: int) -> tuple[npt.NDArray[np.intp], Singles]:
    """Return the two cells around each place (n,), and their shares, 0 for those outside."""
    known = (at > -1.0) & (at < size)
    cell = np.floor(np.where(known, at, 0.0)).astype(np.intp)
    low = np.where(known, at, 0.0) - cell
    places = np.stack([cell, cell + 1], axis=-1)
    weights = np.stack([1.0 - low, low], axis=-1).astype(np.float32)
    outside = (places < 0) | (places >= size) | ~known[..., None]
    return np.where(outside, 0, places), np.where(outside, np.float32(0.0), weights)


def correlate(
    values: Singles, weights: Singles, x: float, y: float, rate: float, reach: int
) -> Singles:
    """Return the sums of a template times a map, up to `reach` of its cells around a place.

    Parameters
    ----------
    values : (h, w) float32 array
        Read bilinearly; zero outside.
    weights : (k, k) float32 array
    x, y : float
        Where the centre of the template is first, in cells of the map.
    rate : float
        Cells of the map to a cell of the template.
    reach : int

    Returns
    -------
    (2 · reach + 1, 2 · reach + 1) float32 array
    """
    size = len(weights)
    if size == 0 or weights.shape[1] != size or values.size == 0 or reach < 0:
        raise ValueError('A square template, a map, and a reach of zero or more are needed.')
    steps = rate * (np.arange(size + 2 * reach) - (size + 2 * reach - 1) / 2)
    columns, across = neighbours(x + steps, values.shape[1])
    rows, down = neighbours(y + steps, values.shape[0])
    lines = (values[:, columns] * across).sum(axis=2)
    around = (lines[rows] * down[:, :, None]).sum(axis=1)
    parts = np.lib.stride_tricks.sliding_window_view(around, weights.shape)
    return np.asarray(np.einsum('ijkl,kl->ij', parts, weights), dtype=np.float32)


def coverage(maps: Floats, arms: Floats, upper: Floats, fore: Floats, even: float) -> Floats:
    """Return how well each arm covers its own map.

    Each cell of length counts what the map shows on it above `even`.

    Parameters
    ----------
    maps : (n, h, w) float32 array
        Read bilinearly; zero outside.
    arms : (n, 3, 2) array
        Shoulder, elbow and fingertips, x and y in cells.
    upper, fore : (k,) and (l,) arrays
        Places where a part of the arm is read, as shares of its length.
    even : float

    Returns
    -------
    (n,) array
    """
    if len(maps) != len(arms) or arms.shape[1:] != (3, 2):
        raise ValueError('There must be one map for each arm, and an arm has shape (3, 2).')
    if len(upper) == 0 or len(fore) == 0:
        raise ValueError('Each part of an arm must be read in one place or more.')
    if maps.size == 0:
        raise ValueError('There must be one map or more, and none may be empty.')
    total: Floats = np.zeros(len(arms))
    for part, stations in enumerate((upper, fore)):
        start, along = arms[:, part], arms[:, part + 1] - arms[:, part]
        places = start[:, None] + stations[:, None] * along[:, None]
        length = np.sqrt(np.square(along).sum(axis=1))
        total += length * (_read(maps, places).mean(axis=1) - even)
    return total


def _read(maps: Floats, places: Floats) -> Floats:
    """Read maps (n, h, w) at their own places (n, k, 2), bilinearly, zero outside: (n, k)."""
    height, width = maps.shape[1:]
    x, y = np.clip(places[..., 0], -1.0, width), np.clip(places[..., 1], -1.0, height)
    left, top = np.floor(x).astype(np.intp), np.floor(y).astype(np.intp)
    right, low = x - left, y - top
    which = np.arange(len(maps))[:, None]

    def cells(row: Integers, column: Integers) -> Floats:
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        value = maps[which, np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
        return np.where(inside, value, 0.0).astype(np.float64)

    result: Floats = (cells(top, left) * (1 - right) + cells(top, left + 1) * right) * (1 - low)
    result += (cells(top + 1, left) * (1 - right) + cells(top + 1, left + 1) * right) * low
    return result


def bank(
    tried: Floats, shape: tuple[int, int], upper: Floats, fore: Floats, even: float
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.intc], npt.NDArray[np.int64]]:
    """Return where arms (m, 3, 2) read a map, and what that counts, in whole numbers.

    Returns
    -------
    cells : (m, k + l) array
        Cells along upper arm and forearm, counted row by row.
    weights : (2, m) array
        Length of a part over the number of its cells.
    base : (m,) array
        What an arm is worth where the map is `even` all over.
    """
    height, width = shape
    if not 0 < height * width <= MAX_CELLS:
        raise ValueError(f'A map must have between 1 and {MAX_CELLS} cells.')
    cells, weights, base = [], [], np.zeros(len(tried), dtype=np.int64)
    for part, stations in enumerate((upper, fore)):
        if not 1 <= len(stations) <= MAX_STATIONS:
            raise ValueError(f'A part of an arm is read in 1 to {MAX_STATIONS} places.')
        start, along = tried[:, part], tried[:, part + 1] - tried[:, part]
        places = start[:, None] + stations[:, None] * along[:, None]
        column, row = (
            np.clip(np.rint(places[..., axis]), 0, size - 1).astype(np.int64)
            for axis, size in ((0, width), (1, height))
        )
        cells.append((row * width + column).astype(np.uint16))
        length = np.sqrt(np.square(along).sum(axis=1))
        weights.append(np.rint(FINENESS * length / len(stations)).astype(np.intc))
        base += np.rint(FINENESS * SHADES * even * length).astype(np.int64)
    return np.ascontiguousarray(np.hstack(cells)), np.stack(weights), base


class ArmSearch:
    """Looks for the arm that covers a map best, among tried ones and then in small steps.

    For a first look the map is rounded to 255 shades and read at the nearest cells; sums are
    whole numbers, so that equal arms are equal and the first wins. The best `refined` arms are
    moved on, elbow, fingertips or both, as long as that helps, by each of the `steps` in turn.

    Parameters
    ----------
    tried : (m, 3, 2) array
        Shoulder, elbow and fingertips, x and y in cells.
    lengths : (2,) array
        What upper arm and forearm may measure in the map; each cell more costs its square.
    shape : (h, w)
        Of the maps.
    upper, fore : (k,) and (l,) arrays
        Places where a part of the arm is read, as shares of its length.
    even : float
        Value from which a piece of the arm is more likely there than not.
    refined : int
    steps : (s,) array
        Cells.
    rounds : int
        How often a step may be taken.
    """

    def __init__(
        self,
        tried: Floats,
        lengths: Floats,
        shape: tuple[int, int],
        upper: Floats,
        fore: Floats,
        even: float,
        refined: int,
        steps: Floats,
        rounds: int,
    ) -> None:
        self._tried, self._lengths, self._upper, self._fore, self._steps = (
            np.array(each, dtype=np.float64) for each in (tried, lengths, upper, fore, steps)
        )
        self._shape = (int(shape[0]), int(shape[1]))
        self._even, self._refined, self._rounds = float(even), int(refined), int(rounds)
        if self._tried.shape[1:] != (3, 2) or self._lengths.shape != (2,):
            raise ValueError('An arm has shape (3, 2) and two lengths.')
        if not 1 <= self._refined <= min(len(self._tried), MAX_REFINED):
            raise ValueError(
                f'Between 1 and {MAX_REFINED} of the {len(self._tried)} arms can be refined.'
            )
        self._cells, self._weights, self._base = bank(
            self._tried, self._shape, self._upper, self._fore, self._even
        )

    def find(self, values: Floats) -> tuple[Floats, float]:
        """Return the best arm (3, 2) for a map (h, w), and its value."""
        if values.shape != self._shape:
            raise ValueError(f'The map must have shape {self._shape}.')
        shades = np.floor(float(SHADES) * values.astype(np.float64) + 0.5)
        shades = np.clip(shades, 0, SHADES).astype(np.int64).ravel()[self._cells]
        count = len(self._upper)
        one, two = shades[:, :count].sum(axis=1), shades[:, count:].sum(axis=1)
        totals = self._weights[0] * one + self._weights[1] * two - self._base
        best = np.argsort(-totals, kind='stable')[: self._refined]
        found, top = self._refine(values, self._tried[best[0]])
        for i in best[1:]:
            arm, value = self._refine(values, self._tried[i])
            if value > top + GAIN:
                found, top = arm, value
        return found.copy(), top

    def _refine(self, values: Floats, arm: Floats) -> tuple[Floats, float]:
        """Return an arm (3, 2) moved uphill, and its value."""
        best = float(self._values(values, arm[None])[0])
        for step in self._steps:
            for _ in range(self._rounds):
                arms = arm + step * MOVES
                chosen, top = -1, best
                for move, value in enumerate(self._values(values, arms)):
                    if value > top + GAIN:
                        chosen, top = move, float(value)
                if chosen < 0:
                    break
                arm, best = arms[chosen], top
        return arm, best

    def _values(self, values: Floats, arms: Floats) -> Floats:
        maps = np.broadcast_to(values, (len(arms), *values.shape))
        over = np.sqrt(np.square(np.diff(arms, axis=1)).sum(axis=2)) - self._lengths
        worth = coverage(maps, arms, self._upper, self._fore, self._even)
        result: Floats = worth - np.square(np.maximum(over, 0.0)).sum(axis=1)
        return result
