"""Pictures of the pre-image experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.benchmarks.report import save_picture
from kde_imitation.checks import Floats


def draw_gallery(
    columns: Mapping[str, Floats], title: str, pictures: Path, name: str, least: float = 0.0
) -> None:
    """Draw square pictures, one column a method: each (rows, size²); `least` is drawn black."""
    rows = min(len(values) for values in columns.values())
    figure = Figure(figsize=(1.35 * len(columns), 1.35 * rows + 0.9), layout='constrained')
    figure.suptitle(title)
    panels = figure.subplots(rows, len(columns), squeeze=False)
    for column, (head, values) in enumerate(columns.items()):
        size = int(np.sqrt(values.shape[1]))
        panels[0, column].set_title(head, fontsize=8)
        for row in range(rows):
            panels[row, column].imshow(
                values[row].reshape(size, size), cmap='gray', vmin=least, vmax=1.0
            )
            panels[row, column].axis('off')
    save_picture(figure, pictures, name)


def draw_paths(
    shown: Floats, straight: Floats, corrected: Floats, waypoints: Floats, *, pictures: Path
) -> None:
    """Draw figure 6.5: training postures, straight and corrected path, all as features (k, 2)."""
    figure = Figure(figsize=(6.4, 3.2), layout='constrained')
    axes = figure.add_subplot()
    axes.plot(*shown.T, '.', color='0.6', label='training postures')
    axes.plot(*straight.T, '--', color='C3', label='straight in joint space')
    axes.plot(*corrected.T, color='C0', label='corrected')
    axes.plot(*waypoints.T, 'o', color='C0', markersize=5)
    axes.set(xlabel='first feature (m)', ylabel='second feature (m)', aspect='equal')
    axes.set_title('A path that keeps to the demonstrated postures')
    axes.legend(loc='best')
    save_picture(figure, pictures, 'preimage_path.png')
