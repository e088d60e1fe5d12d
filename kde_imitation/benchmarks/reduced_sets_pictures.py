"""Pictures of the reduced-set experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.benchmarks.report import save_picture
from kde_imitation.checks import Floats
from kde_imitation.kernels.base import Expansion


def draw_clouds(rows: Floats, pictures: Path) -> None:
    """Draw figure 4.1: rows of (training points, support vectors, pursuit, ℓ0)."""
    figure = Figure(figsize=(6, 4), layout='constrained')
    axes = figure.add_subplot()
    axes.plot(rows[:, 0], rows[:, 1], 'o-', label='support vector machine')
    axes.plot(rows[:, 0], rows[:, 2], 's-', label='matching pursuit')
    axes.plot(rows[:, 0], rows[:, 3], 'x--', label='ℓ0')
    axes.set(xlabel='training points', ylabel='expansion points', yscale='log')
    axes.set_title('Two clouds in ten dimensions, linear kernel')
    axes.legend()
    save_picture(figure, pictures, 'reduced_sets_clouds.png')


def draw_waveform(curves: dict[str, Floats], full: float, pictures: Path) -> None:
    """Draw figure 4.3: for each method rows of sizes, objectives and training errors in %."""
    figure = Figure(figsize=(9, 4), layout='constrained')
    left, right = figure.subplots(1, 2)
    for marker, (name, (sizes, errors, train)) in zip('os^', curves.items()):
        left.plot(sizes, train, f'{marker}-', markersize=3, label=name)
        right.plot(sizes, errors, f'{marker}-', markersize=3, label=name)
    left.axhline(full, color='0.5', linestyle=':', label='full machine')
    left.set(xlabel='points', ylabel='training error, %')
    right.set(xlabel='points', ylabel='‖f − f̂‖²', yscale='log')
    figure.suptitle('Waveform: a support vector machine compressed')
    left.legend()
    right.legend()
    save_picture(figure, pictures, 'reduced_sets_waveform.png')


def draw_ridge(curves: dict[str, tuple[int, float, Floats]], pictures: Path) -> None:
    """Draw figure 4.5: per data set its size, the full error, rows of (points, errors)."""
    figure = Figure(figsize=(9, 7), layout='constrained')
    panels = figure.subplots(2, -(-len(curves) // 2)).flat
    for axes, (name, (count, goal, rows)) in zip(panels, curves.items()):
        share = 100 * rows[:, 0] / count
        axes.plot(share, rows[:, 1], 'o-', markersize=3, label='pursuit')
        axes.plot(share, rows[:, 2], 's-', markersize=3, label='refitted on values')
        axes.axhline(goal, color='0.5', linestyle=':', label=f'all {count} points')
        axes.set(xlabel='points kept, %', ylabel='test error', title=name, xscale='log')
        axes.legend()
    save_picture(figure, pictures, 'reduced_sets_ridge.png')


def draw_pca(axis: Floats, X: Floats, pair: tuple[Expansion, Expansion], pictures: Path) -> None:
    """Draw figure 4.6: both coordinates on a grid, from all points and from the reduced set."""
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    limit = float(np.abs(pair[0](grid)).max())
    figure = Figure(figsize=(8, 7.4), layout='constrained')
    panels = figure.subplots(2, 2)
    for row, expansion in zip(panels, pair):
        values = expansion(grid).reshape(len(axis), len(axis), 2)
        for j, axes in enumerate(row):
            shown = axes.pcolormesh(
                axis, axis, values[:, :, j], cmap='RdBu', vmin=-limit, vmax=limit
            )
            axes.plot(*expansion.points.T, '.', color='k', markersize=3)
            axes.set_title(f'direction {j + 1}, {len(expansion)} points')
            axes.set_aspect('equal')
    figure.colorbar(shown, ax=panels, shrink=0.7, label='coordinate')
    save_picture(figure, pictures, 'reduced_sets_pca.png')


def draw_pca_losses(rows: Floats, pictures: Path) -> None:
    """Draw figure 4.7: rows of (points, squared loss of the coordinates)."""
    figure = Figure(figsize=(6, 4), layout='constrained')
    axes = figure.add_subplot()
    axes.plot(rows[:, 0], rows[:, 1] / rows[:, 1].max(), '.-')
    axes.set(xlabel='points kept', ylabel='squared loss / its maximum', yscale='log')
    axes.set_title('Coordinates of 300 points from fewer')
    save_picture(figure, pictures, 'reduced_sets_pca_losses.png')


def draw_growth(rows: Floats, pictures: Path) -> None:
    """Draw rows of (points, then seconds and error of three methods)."""
    figure = Figure(figsize=(6, 4), layout='constrained')
    axes = figure.add_subplot()
    names = ('pursuit', 'pursuit, chunks of 1000', 'ℓ1, chunks of 1000')
    for marker, column, name in zip('os^', (1, 3, 5), names):
        axes.loglog(rows[:, 0], rows[:, column], f'{marker}-', label=name)
    axes.set(xlabel='points', ylabel='seconds')
    axes.set_title('To 200 points, seven columns')
    axes.legend()
    save_picture(figure, pictures, 'reduced_sets_growth.png')
