"""The PSOM+ itself: fit it, evaluate it, search it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import TensorMap
from kde_imitation.kernels.backend import core
from kde_imitation.kinematics.psom.axes import check_axes, check_bounds
from kde_imitation.kinematics.psom.fit import SampleFit, fill_nodes
from kde_imitation.kinematics.psom.roughness import Roughness, along

# Directions weaker than this, relative to the strongest, are rounding and are not evaluated.
RANK_TOLERANCE = 1e-14


@dataclass(frozen=True)
class BestMatch:
    """The answer of a best-match search, for one target or a batch of them.

    Attributes
    ----------
    x : (…, q) array, the grid coordinates found
    y : (…, d) array, the point of the manifold there
    distance : (…) array, Σ p_i (f_i(x) − y_i)² of equation 3.7
    steps : (…) int array
    converged : (…) bool array
    """

    x: Floats
    y: Floats
    distance: Floats
    steps: npt.NDArray[np.int32]
    converged: npt.NDArray[np.bool_]


class Psom:
    """A smooth map from grid coordinates to data, R^q → R^d.

    Make one with `from_grid` or `from_samples`.

    Attributes
    ----------
    axes : list of (n_μ,) arrays
    values : (n_1, …, n_q, d) array
        The weights w_g at the nodes, after smoothing and filling.
    bounds : (q, 2) array
        The box the map is meant for; best matches stay inside.
    smoothing : float or (n_1, …, n_q) array
        The λ that was used, whether given or chosen.

    Examples
    --------
    >>> import numpy as np
    >>> axis = chebyshev_axis(-1, 1, 8)
    >>> psom = Psom.from_grid([axis], np.sin(axis)[:, None])
    >>> bool(abs(psom.predict([0.5])[0] - np.sin(0.5)) < 1e-7)
    True
    >>> psom.best_match([np.sin(0.5)]).round(6)
    array([0.5])
    """

    def __init__(
        self,
        axes: Sequence[npt.ArrayLike],
        values: npt.ArrayLike,
        *,
        bounds: npt.ArrayLike | None = None,
        smoothing: float | Floats = 0.0,
    ) -> None:
        self.axes = check_axes(axes)
        self.bounds = check_bounds(self.axes, bounds)
        self.values = as_floats('values', values, _grid_shape(self.axes))
        self.smoothing = smoothing

    @classmethod
    def from_grid(
        cls,
        axes: Sequence[npt.ArrayLike],
        values: npt.ArrayLike,
        smoothing: float | npt.ArrayLike | Literal['cv'] = 0.0,
        missing: npt.ArrayLike | None = None,
        *,
        noise: float | None = None,
        bounds: npt.ArrayLike | None = None,
    ) -> Psom:
        """Learn from values measured at the nodes of a grid.

        Parameters
        ----------
        axes : sequence of (n_μ,) arrays
            Rising node positions, one array a dimension.
        values : (n_1, …, n_q, d) array
            What was measured at each node; at missing nodes anything, even NaN.
        smoothing : float, (n_1, …, n_q) array, or 'cv'
            λ ≥ 0, one for all nodes or one for each (∞ for a missing one); 'cv' chooses it by
            leave-one-out cross-validation.
        missing : (n_1, …, n_q) boolean array, optional
            True where nothing was measured.
        noise : float, optional
            Standard deviation of the noise, from which λ is chosen; instead of `smoothing`.
        bounds : (q, 2) array, optional
            The box the map is meant for; by default the interval each axis stands for.
        """
        checked = check_axes(axes)
        box = check_bounds(checked, bounds)
        raw = _numbers('values', values)
        grid = tuple(len(axis) for axis in checked)
        if raw.shape[:-1] != grid or raw.ndim != len(grid) + 1:
            wanted = ', '.join(str(n) for n in grid)
            raise BadInput(
                f'values must have shape ({wanted}, d) to fit the axes, not {raw.shape}.'
            )
        gaps = _missing(missing, grid)
        raw = as_floats('values', np.where(gaps[..., None], 0.0, raw))
        roughness = Roughness(checked, box)
        rule = _rule(smoothing, noise)
        if rule is not None:
            known = np.argwhere(~gaps)
            x = np.stack([axis[known[:, i]] for i, axis in enumerate(checked)], axis=-1)
            samples = SampleFit(roughness, x, raw[~gaps])
            chosen = samples.choose(rule)
            return cls(checked, samples.smooth(chosen), bounds=box, smoothing=chosen)
        trust = _per_node(smoothing, grid)
        fitted = fill_nodes(roughness, raw, np.where(gaps, np.inf, trust))
        given = float(trust.flat[0]) if np.ndim(smoothing) == 0 else trust
        return cls(checked, fitted, bounds=box, smoothing=given)

    @classmethod
    def from_samples(
        cls,
        axes: Sequence[npt.ArrayLike],
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        smoothing: float | Literal['cv'] = 0.0,
        *,
        noise: float | None = None,
        bounds: npt.ArrayLike | None = None,
    ) -> Psom:
        """Learn from samples that lie anywhere in the grid.

        Parameters
        ----------
        axes : sequence of (n_μ,) arrays
        x : (s, q) array
        y : (s, d) array
        smoothing : float or 'cv'
            λ ≥ 0; with 0 the map passes through the samples where the grid can tell them apart;
            'cv' chooses λ by leave-one-out cross-validation.
        noise : float, optional
            Standard deviation of the noise, from which λ is chosen; instead of `smoothing`.
        bounds : (q, 2) array, optional
        """
        checked = check_axes(axes)
        box = check_bounds(checked, bounds)
        inputs = as_floats('x', x, (None, len(checked)))
        outputs = as_floats('y', y, (len(inputs), None))
        outside = ((inputs < box[:, 0] - 1e-9) | (inputs > box[:, 1] + 1e-9)).any(axis=1)
        if outside.any():
            raise BadInput(
                f'Sample {int(np.argmax(outside))} at {inputs[np.argmax(outside)]} lies outside '
                'the grid; widen the axes or leave it out.'
            )
        fit = SampleFit(Roughness(checked, box), inputs, outputs)
        rule = _rule(smoothing, noise)
        if rule is not None:
            chosen = fit.choose(rule)
        else:
            chosen = float(_per_node(smoothing, ()))
            if np.isinf(chosen):
                raise BadInput('smoothing must be finite; use a large number for a linear map.')
        values = fit.smooth(chosen) if chosen > 0 else fit.exact()
        return cls(checked, values, bounds=box, smoothing=chosen)

    @cached_property
    def map(self) -> TensorMap:
        """The compiled map (or its NumPy twin) that evaluates this PSOM.

        Lagrange products become Chebyshev products, and directions that carry nothing are left
        out: the kinematics of a joint is made of 1, cos and sin, so of its eight polynomials
        only three combinations matter, and the work falls with their product.
        """
        tensor, factors = self.values, []
        centre, half = self.bounds.mean(axis=1), 0.5 * np.diff(self.bounds, axis=1)[:, 0]
        for i, axis in enumerate(self.axes):
            vandermonde = chebyshev.chebvander((axis - centre[i]) / half[i], len(axis) - 1)
            tensor = along(np.linalg.inv(vandermonde), tensor, i)
        for i in range(len(self.axes)):
            unfolded = np.moveaxis(tensor, i, 0).reshape(tensor.shape[i], -1)
            left, strengths, _ = np.linalg.svd(unfolded, full_matrices=False)
            rank = max(int((strengths > RANK_TOLERANCE * strengths[0]).sum()), 1)
            if rank < tensor.shape[i]:
                factors.append(np.ascontiguousarray(left[:, :rank]))
                tensor = along(factors[-1].T, tensor, i)
            else:
                factors.append(np.eye(tensor.shape[i]))
        compiled: TensorMap = core.TensorMap(np.ascontiguousarray(tensor), factors, centre, half)
        return compiled

    @property
    def inputs(self) -> int:
        """Number of grid dimensions q."""
        return len(self.axes)

    @property
    def outputs(self) -> int:
        """Number of data dimensions d."""
        return int(self.values.shape[-1])

    def roughness(self) -> Floats:
        """Return R of each output, shape (d,)."""
        return Roughness(self.axes, self.bounds).value(self.values)

    def _points(self, name: str, x: npt.ArrayLike, size: int) -> Floats:
        points = as_floats(name, x)
        if points.ndim == 0 or points.shape[-1] != size:
            raise BadInput(f'{name} must end in an axis of {size} values, not {points.shape}.')
        return points

    def predict(self, x: npt.ArrayLike, local: int | None = None) -> Floats:
        """Evaluate the map: x (…, q) to (…, d).

        Parameters
        ----------
        x : (…, q) array
            Outside `bounds` the polynomials still have values, but they mean little.
        local : int, optional
            Interpolate on this many nodes a dimension nearest to each point (the local PSOM)
            instead of on all of them.
        """
        points = self._points('x', x, self.inputs)
        flat = points.reshape(-1, self.inputs)
        values = self.map.evaluate(flat)[0] if local is None else self._local(flat, local)
        return values.reshape(*points.shape[:-1], self.outputs)

    def jacobian(self, x: npt.ArrayLike) -> Floats:
        """Return the exact derivatives ∂f_i/∂x_j: x (…, q) to (…, d, q)."""
        points = self._points('x', x, self.inputs)
        _, slopes = self.map.evaluate(points.reshape(-1, self.inputs), True)
        assert slopes is not None
        return slopes.reshape(*points.shape[:-1], self.outputs, self.inputs)

    def _local(self, x: Floats, nodes: int) -> Floats:
        smallest = min(len(axis) for axis in self.axes)
        if nodes < 2 or nodes > smallest:
            raise BadInput(f'local must be from 2 to {smallest} nodes, not {nodes}.')
        bases, picks = [], []
        for i, axis in enumerate(self.axes):
            nearest = np.abs(x[:, i, None] - axis).argmin(axis=1)
            first = np.clip(nearest - nodes // 2, 0, len(axis) - nodes)
            pick = first[:, None] + np.arange(nodes)
            at = axis[pick]
            apart = at[:, :, None] - at[:, None, :] + np.eye(nodes)
            ratio = (x[:, i, None, None] - at[:, None, :]) / apart
            ratio[:, np.arange(nodes), np.arange(nodes)] = 1.0
            bases.append(ratio.prod(axis=2))
            picks.append(pick)
        result = np.empty((len(x), self.outputs))
        at_once = max(1, 2_000_000 // (nodes**self.inputs * self.outputs))
        for start in range(0, len(x), at_once):
            part = slice(start, start + at_once)
            index = tuple(
                pick[part].reshape(-1, *(nodes if k == i else 1 for k in range(self.inputs)))
                for i, pick in enumerate(picks)
            )
            block = self.values[index]
            for basis in bases:
                count = len(block)
                block = (basis[part][:, None] @ block.reshape(count, nodes, -1))[:, 0]
            result[part] = block
        return result

    @overload
    def best_match(
        self,
        y: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        *,
        max_steps: int = 200,
        tolerance: float = 1e-12,
        full: Literal[False] = False,
    ) -> Floats: ...

    @overload
    def best_match(
        self,
        y: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        *,
        max_steps: int = 200,
        tolerance: float = 1e-12,
        full: Literal[True],
    ) -> BestMatch: ...

    def best_match(
        self,
        y: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        *,
        max_steps: int = 200,
        tolerance: float = 1e-12,
        full: bool = False,
    ) -> Floats | BestMatch:
        """Find the grid coordinates whose image is nearest to y, inside the bounds (3.6, 3.7).

        Parameters
        ----------
        y : (…, d) array
            Targets. Components with weight zero may hold anything finite.
        weights : (d,) array, optional
            p_i ≥ 0 of each component, by default all one: which components are asked for makes
            it forward, inverse or mixed kinematics.
        start : (…, q) or (q,) array, optional
            Where to begin; by default at the best matching node.
        full : bool
            Return a `BestMatch` with the distance and convergence, not only x.

        Returns
        -------
        (…, q) array, or BestMatch
        """
        targets = self._points('y', y, self.outputs)
        lead = targets.shape[:-1]
        flat = np.ascontiguousarray(targets.reshape(-1, self.outputs))
        p = (
            np.ones(self.outputs)
            if weights is None
            else as_floats('weights', weights, (self.outputs,))
        )
        if (p < 0).any() or not (p > 0).any():
            raise BadInput('weights must be zero or positive, and one of them positive.')
        if max_steps < 1:
            raise BadInput(f'max_steps must be at least 1, not {max_steps}.')
        lower, upper = (np.ascontiguousarray(side) for side in self.bounds.T)
        if start is None:
            begin = self._best_nodes(flat, p)
        else:
            begin = self._points('start', start, self.inputs)
            slack = 1e-9 * (upper - lower)
            if ((begin < lower - slack) | (begin > upper + slack)).any():
                raise BadInput(
                    f'start lies outside the grid, whose bounds are {lower} to {upper}; '
                    'clip it to them or begin elsewhere.'
                )
            begin = np.broadcast_to(np.clip(begin, lower, upper), (*lead, self.inputs))
        begin = np.ascontiguousarray(begin.reshape(-1, self.inputs))
        pull = np.zeros(self.inputs)
        x, distance, steps, converged = self.map.best_match(
            flat, p, begin, lower, upper, pull, max_steps, tolerance
        )
        if not full:
            return np.asarray(x.reshape(*lead, self.inputs))
        return BestMatch(
            x.reshape(*lead, self.inputs),
            self.predict(x).reshape(*lead, self.outputs),
            distance.reshape(lead),
            steps.reshape(lead),
            converged.reshape(lead),
        )

    def _best_nodes(self, targets: Floats, weights: Floats) -> Floats:
        """Return the coordinates (s, q) of the node nearest to each target."""
        root = np.sqrt(weights)
        nodes = self.values.reshape(-1, self.outputs) * root
        squares = (nodes**2).sum(axis=1)
        best = np.empty(len(targets), dtype=np.intp)
        at_once = max(1, 20_000_000 // len(nodes))
        for first in range(0, len(targets), at_once):
            part = slice(first, first + at_once)
            best[part] = (squares - 2.0 * (targets[part] * root) @ nodes.T).argmin(axis=1)
        index = np.unravel_index(best, self.values.shape[:-1])
        return np.stack([axis[i] for axis, i in zip(self.axes, index)], axis=-1)


def _grid_shape(axes: Sequence[Floats]) -> tuple[int | None, ...]:
    return (*(len(axis) for axis in axes), None)


def _numbers(name: str, value: npt.ArrayLike) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f'{name} must be an array of numbers: {error}.') from error


def _missing(missing: npt.ArrayLike | None, grid: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    if missing is None:
        return np.zeros(grid, dtype=bool)
    gaps = np.asarray(missing)
    if gaps.dtype != bool or gaps.shape != grid:
        raise BadInput(
            f'missing must be a boolean array of shape {grid}, not {gaps.dtype} of {gaps.shape}.'
        )
    if gaps.all():
        raise BadInput('Every node is missing; at least a few must be known.')
    return gaps


def _rule(smoothing: object, noise: float | None) -> Literal['cv'] | float | None:
    """Return how λ is to be chosen, or None when it was given."""
    if noise is not None:
        if isinstance(smoothing, str) or np.ndim(smoothing) > 0 or smoothing != 0.0:  # type: ignore[arg-type]
            raise BadInput('Give smoothing or noise, not both.')
        if not np.isfinite(noise) or noise <= 0:
            raise BadInput(f'noise must be a positive standard deviation, not {noise}.')
        return float(noise)
    if isinstance(smoothing, str):
        if smoothing != 'cv':
            raise BadInput(f"smoothing must be a number, an array or 'cv', not {smoothing!r}.")
        return 'cv'
    return None


def _per_node(smoothing: object, grid: tuple[int, ...]) -> Floats:
    values = _numbers('smoothing', smoothing)  # type: ignore[arg-type]
    if values.ndim and values.shape != grid:
        raise BadInput(f'smoothing must be one number or have shape {grid}, not {values.shape}.')
    if np.isnan(values).any() or (values < 0).any():
        raise BadInput('smoothing must be zero or positive.')
    return np.broadcast_to(values, grid)
