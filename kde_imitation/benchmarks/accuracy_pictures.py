"""The figure of the accuracy benchmark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.checks import Floats

COLOURS = ('#9ecae1', '#4292c6', '#084594')


def draw_accuracy(found: Mapping[str, Mapping[int, Floats]]) -> Figure:
    """Draw the errors of each set, a box for each number of demonstrations.

    Parameters
    ----------
    found : set to number of demonstrations to errors (n,) in mm
    """
    figure = Figure(figsize=(11, 4), layout='constrained')
    axes = figure.subplots()
    sizes = list(next(iter(found.values())))
    for place, size in enumerate(sizes):
        boxes = axes.boxplot(
            [errors[size] for errors in found.values()],
            positions=np.arange(len(found)) + 0.26 * (place - (len(sizes) - 1) / 2),
            widths=0.22,
            patch_artist=True,
            showmeans=True,
            meanprops={'marker': 'D', 'markerfacecolor': 'white', 'markeredgecolor': 'black'},
            medianprops={'color': 'black'},
            flierprops={'marker': '.', 'markersize': 3},
        )
        for box in boxes['boxes']:
            box.set_facecolor(COLOURS[place % len(COLOURS)])
        axes.plot([], [], 's', color=COLOURS[place % len(COLOURS)], label=f'{size} pairs')
    axes.set_xticks(np.arange(len(found)), list(found))
    axes.set_ylabel('error (mm); diamond: mean')
    axes.set_ylim(0, None)
    axes.grid(axis='y', color='0.9')
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    return figure
