"""Pictures of the regression experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kde_imitation.benchmarks.report import legend_below, save_picture
from kde_imitation.checks import Floats


def draw_convergence(curves: dict[str, dict[str, Floats]], pictures: Path) -> None:
    """Draw figure 2.2: the loss against the step, for each kind of inputs."""
    figure = Figure(figsize=(10, 4), layout='constrained')
    for i, (inputs, methods) in enumerate(curves.items()):
        axes = figure.add_subplot(1, len(curves), i + 1)
        for name, losses in methods.items():
            axes.semilogy(np.maximum(losses, 1e-16), label=name)
        axes.set(xlabel='step', title=f'{inputs} inputs', ylim=(1e-16, 3))
        if i == 0:
            axes.set_ylabel('loss / ‖Y‖², median of problems')
            axes.legend(fontsize=8)
    save_picture(figure, pictures, 'regression_convergence.png')


def draw_grids(grids: dict[float, Floats], pictures: Path) -> None:
    """Draw figure 2.4: triangles where PLS is ahead, squares where MRS is, filled if sure."""
    figure = Figure(figsize=(11, 6.4), layout='constrained')
    marks = {
        2: ('s', 'C0', 'C0', 'MRS ahead'),
        1: ('s', 'none', 'C0', 'MRS ahead, not significant'),
        0: ('x', '0.5', '0.5', 'equal'),
        -1: ('^', 'none', 'C3', 'PLS ahead, not significant'),
        -2: ('^', 'C3', 'C3', 'PLS ahead'),
    }
    shown: dict[str, Line2D] = {}
    for i, (noise, ahead) in enumerate(grids.items()):
        axes = figure.add_subplot(1, len(grids), i + 1)
        for value, (mark, face, edge, label) in marks.items():
            k, r = np.nonzero(ahead == value)
            if len(k) == 0:
                continue
            (drawn,) = axes.plot(
                k + 1, r + 1, mark, markersize=7, markerfacecolor=face, markeredgecolor=edge
            )
            shown.setdefault(label, drawn)
        axes.set(
            xlabel='κ (strong collinearity left)',
            ylabel='rank',
            title=f'noise σ² = {noise:g}',
            xticks=range(1, ahead.shape[0] + 1),
            yticks=range(1, ahead.shape[1] + 1),
        )
    legend_below(figure, list(shown.values()), list(shown), ncols=len(shown))
    save_picture(figure, pictures, 'regression_pls_mrs.png')


def draw_relative(relative: Floats, pictures: Path) -> None:
    """Draw figure 2.5: the gain of MRS over PLS at rank 12 and at rank 20."""
    figure = Figure(figsize=(9, 3.6), layout='constrained')
    for i, rank in enumerate((12, 20)):
        axes = figure.add_subplot(1, 2, i + 1)
        axes.bar(np.arange(1, len(relative) + 1), relative[:, rank - 1], color='C0')
        axes.axhline(0, color='0.3', linewidth=0.8)
        axes.set(xlabel='κ', title=f'rank {rank}', xticks=range(1, len(relative) + 1))
        # One scale for both: at rank 20 there is only rounding to see.
        axes.set_ylim(-0.7, 0.7)
        if i == 0:
            axes.set_ylabel('(E(PLS) − E(MRS)) / E(max)')
    save_picture(figure, pictures, 'regression_relative.png')


def draw_outliers(
    t: npt.NDArray[np.int_], errors: Floats, names: Sequence[str], pictures: Path
) -> None:
    """Draw figure 2.7: error (t, method) against the distance of two outliers."""
    figure = Figure(figsize=(6.4, 4), layout='constrained')
    axes = figure.add_subplot()
    for column, (name, line) in enumerate(zip(names, ('o-', 's--', 'v:', 'D-', '^--'))):
        axes.plot(t, errors[:, column], line, label=name, markersize=5)
    axes.set(xlabel='outliers moved by t', ylabel='test error / largest', ylim=(0, None))
    axes.legend()
    save_picture(figure, pictures, 'regression_outliers.png')
