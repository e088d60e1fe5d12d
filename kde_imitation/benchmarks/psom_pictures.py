"""Pictures of the PSOM+ experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.benchmarks.report import save_picture
from kde_imitation.checks import Floats
from kde_imitation.kinematics.psom import Psom


def draw_noise(rows: Floats, pictures: Path) -> None:
    """Draw figure 3.9: rows of (λ, mean error, its deviation, shift of the nodes)."""
    weights, mean, deviation, moved = rows.T
    places = np.arange(len(rows))
    figure = Figure(figsize=(6.4, 4), layout='constrained')
    axes = figure.add_subplot()
    axes.errorbar(
        places, mean, deviation, fmt='o', capsize=4, color='C0', label='error of the map'
    )
    axes.plot(places, moved, 's--', color='C1', label='shift of the nodes')
    axes.set_xticks(places, [f'{w:g}' for w in weights])
    axes.set(xlabel='smoothing λ', ylabel='mm', ylim=(0, None))
    axes.set_title('PA-10 wrist learned from nodes with 10 mm of noise')
    axes.legend()
    save_picture(figure, pictures, 'psom_noise.png')


def draw_fish_bowl(y: Floats, annealed: Psom, fixed: Psom, pictures: Path) -> None:
    """Draw figures 3.10 and 3.11: the data and both manifolds, seen from the side and below."""
    fine = np.linspace(-1, 1, 41)
    grid = np.stack(np.meshgrid(fine, fine, indexing='ij'), axis=-1)
    figure = Figure(figsize=(9, 8), layout='constrained')
    views = ((15, 30, 'from the side'), (-70, 30, 'from below'))
    for row, (elevation, azimuth, view) in enumerate(views):
        for column, (name, psom) in enumerate((('annealed', annealed), ('fixed λ', fixed))):
            axes = figure.add_subplot(2, 2, 2 * row + column + 1, projection='3d')
            axes.scatter(*y.T, s=2, color='0.5')
            axes.plot_wireframe(*np.moveaxis(psom.predict(grid), -1, 0), linewidth=0.5, color='C0')
            axes.view_init(elevation, azimuth)
            axes.set_box_aspect((1, 1, 0.85))
            axes.set_title(f'{name}, {view}')
    save_picture(figure, pictures, 'psom_fish_bowl.png')
