"""Figures of the training report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.benchmarks.report import legend_below
from kde_imitation.checks import Floats
from kde_imitation.imitation.validation import Curve, Spectra, Study, mean_and_error

OURS, OTHER = '#1b6ca8', '#8a8f98'


def _axes(figure: Figure, rows: int, columns: int) -> Any:
    grid: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.spines[['top', 'right']].set_visible(False)
        axes.grid(True, axis='y', color='0.9', linewidth=0.8)
        axes.set_axisbelow(True)
    return grid


def draw_spectra(spectra: Spectra) -> Figure:
    """Draw figures 6.7 to 6.9: cumulative variance of postures, pictures and demonstrations."""
    figure = Figure(figsize=(12, 3.5), layout='constrained')
    panels = (
        (spectra.outputs, 'postures, pose kernel (as fig. 6.7)'),
        (spectra.inputs, 'all pictures, input kernel (as fig. 6.8)'),
        (spectra.pairs, 'demonstrations among them (as fig. 6.9)'),
    )
    for axes, (shares, title) in zip(_axes(figure, 1, 3).flat, panels):
        count = Spectra.needed(shares)
        numbers = np.arange(1, len(shares) + 1)
        shown = min(len(shares), max(3 * count, 12))
        axes.fill_between(numbers[:shown], shares[:shown], color=OURS, alpha=0.12, linewidth=0)
        mark = 'o' if shown <= 40 else None
        axes.plot(numbers[:shown], shares[:shown], color=OURS, marker=mark, markersize=4)
        axes.axhline(0.95, color='0.45', linestyle='--', linewidth=1)
        axes.plot(count, shares[count - 1], 'o', color='#d95f02', markersize=7)
        axes.annotate(
            f'{count} of {len(shares)} directions\nhold 95 %',
            (count, shares[count - 1]),
            xytext=(0.97, 0.12),
            textcoords='axes fraction',
            ha='right',
            fontsize=9,
            arrowprops={'arrowstyle': '-', 'color': '0.6'},
        )
        axes.set(xlabel='directions', ylabel='share of the variance', ylim=(0, 1.02))
        axes.set_title(title, fontsize=10)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def draw_choices(table: Sequence[Sequence[float]], chosen: tuple[float, float, int]) -> Figure:
    """Draw the error of every scale, ridge and rank that cross-validation tried.

    Parameters
    ----------
    table : rows of scale, ridge, rank, error in mm
    chosen : scale, ridge and rank of the model
    """
    rows = np.asarray(table, dtype=np.float64)
    figure = Figure(figsize=(12, 3.5), layout='constrained')
    ranks = np.unique(rows[:, 2])
    scales = np.unique(rows[:, 0])
    grid = _axes(figure, 1, len(ranks))[0]
    marks = 'osv^D*'
    for axes, rank in zip(grid, ranks):
        for place, scale in enumerate(scales):
            part = rows[(rows[:, 2] == rank) & (rows[:, 0] == scale)]
            part = part[np.argsort(part[:, 1])]
            shade = (place + 1) / len(scales)
            (line,) = axes.semilogx(part[:, 1], part[:, 3], color=OURS, alpha=0.3 + 0.7 * shade)
            line.set(marker=marks[place % len(marks)], markersize=5, label=f'scale {scale:g}')
        if rank == chosen[2]:
            place = int(np.argmin(np.abs(rows[:, :3] - np.asarray(chosen)).sum(axis=1)))
            axes.plot(
                *rows[place, [1, 3]],
                'o',
                color='#d95f02',
                markersize=10,
                label='chosen',
                markerfacecolor='none',
                markeredgewidth=2,
            )
        axes.set(xlabel='ridge λ', ylim=_around(rows[:, 3]))
        axes.set_title(f'rank {rank:g}', fontsize=10)
    grid[0].set_ylabel('error in feature space (mm)')
    handles = {str(line.get_label()): line for axes in grid for line in axes.lines}
    legend_below(
        figure,
        list(handles.values()),
        list(handles),
        ncols=len(handles),
        fontsize=9,
        frameon=False,
    )
    return figure


def _around(values: Floats) -> tuple[float, float]:
    """Return limits that show the good part of errors."""
    low, high = float(values.min()), float(np.quantile(values, 0.9))
    room = 0.08 * max(high - low, 0.02 * low)
    return low - room, high + 3 * room


def draw_peers(study: Study, chance: float) -> Figure:
    """Draw errors by fold for MRS and its peers, with mean and standard error."""
    figure = Figure(figsize=(9, 0.55 * len(study.peers) + 1.3), layout='constrained')
    axes = _axes(figure, 1, 1)[0, 0]
    axes.grid(False)
    axes.grid(True, axis='x', color='0.9', linewidth=0.8)
    names = list(study.peers)
    for place, name in enumerate(names):
        values = study.peers[name]
        mean, error = mean_and_error(values)
        colour = OURS if place == 0 else OTHER
        axes.plot(values, np.full(len(values), place), 'o', color=colour, alpha=0.35, markersize=6)
        axes.errorbar(
            mean, place, xerr=error, fmt='D', color=colour, capsize=5, markersize=7, linewidth=2
        )
        axes.text(
            1.01, place, f'{mean:.0f} ± {error:.0f} mm', transform=axes.get_yaxis_transform(),
            va='center', fontsize=9,
        )  # fmt: skip
    axes.axvline(chance, color='0.6', linestyle=':', linewidth=1.2)
    axes.text(chance, -0.75, 'mean posture ', ha='right', fontsize=8, color='0.4')
    axes.set(yticks=range(len(names)), ylim=(len(names) - 0.5, -0.95))
    axes.set_yticklabels(names)
    axes.set_xlim(0, chance * 1.03)
    axes.set_xlabel('error of held-out demonstrations (mm): folds, mean ± standard error')
    return figure


def _band(axes: Any, sizes: Sequence[int], errors: Floats, colour: str, label: str) -> None:
    numbers = np.array([mean_and_error(row) for row in errors])
    mean, deviation = numbers.T
    axes.plot(sizes, mean, 'o-', color=colour, label=label, markersize=5)
    axes.fill_between(
        sizes, mean - deviation, mean + deviation, color=colour, alpha=0.15, linewidth=0
    )


def draw_curve(curve: Curve) -> Figure:
    """Draw the error against the number of demonstrations."""
    figure = Figure(figsize=(7.5, 3.8), layout='constrained')
    axes = _axes(figure, 1, 1)[0, 0]
    for colour, (name, errors) in zip((OURS, OTHER), curve.errors.items()):
        _band(axes, curve.sizes, errors, colour, name)
    axes.set_xscale('log')
    axes.set_xticks(curve.sizes, [str(size) for size in curve.sizes])
    axes.minorticks_off()
    axes.set(xlabel='demonstrations learned from', ylabel='error (mm)')
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure


def draw_reduction(
    curve: Curve, path: Sequence[Sequence[float]], used: int, total: int, fitted: float
) -> Figure:
    """Draw size against error of the reduced set: of the function, and of the postures.

    Parameters
    ----------
    curve : errors of postures in folds
    path : rows of size and relative error in feature space, for the model itself
    used, total : points of the model, and of the full expansion
    fitted : relative error of the embeddings that the model has with the points it uses
    """
    figure = Figure(figsize=(12, 3.7), layout='constrained')
    left, right = _axes(figure, 1, 2)[0]
    sizes, errors = np.asarray(path, dtype=np.float64).T
    left.semilogy(sizes, np.maximum(errors, 1e-9), color=OURS)
    left.axvline(used, color='#d95f02', linewidth=1.2)
    left.text(
        used, 0.97, f' {used} of {total} points', transform=left.get_xaxis_transform(), va='top',
        fontsize=9, color='#d95f02',
    )  # fmt: skip
    left.plot(used, fitted, 'o', color='#d95f02', label='embeddings of the pictures')
    left.set(xlabel='points in the expansion', ylabel='relative error')
    left.set_ylim(bottom=min(fitted, 1e-3) / 3 if fitted > 0 else 1e-6)
    left.set_title('the function, in feature space', fontsize=10)
    left.legend(frameon=False, fontsize=9)
    _band(right, curve.sizes, curve.errors['reduced'], OURS, 'reduced set')
    full = mean_and_error(curve.errors['full'][0])[0]
    right.axhline(full, color='0.45', linestyle='--', linewidth=1, label='all points')
    right.set(xlabel='points in the expansion', ylabel='error of postures (mm)')
    right.set_title('held-out postures', fontsize=10)
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=9)
    return figure


def draw_errors(errors: Floats) -> Figure:
    """Draw how the errors (n,) of the held-out demonstrations are spread."""
    figure = Figure(figsize=(7.5, 3.2), layout='constrained')
    axes = _axes(figure, 1, 1)[0, 0]
    axes.hist(errors, bins=min(max(len(errors) // 3, 8), 30), color=OURS, alpha=0.8)
    for value, label, style in (
        (float(errors.mean()), 'mean', '-'),
        (float(np.median(errors)), 'median', '--'),
    ):
        axes.axvline(value, color='#d95f02', linestyle=style, label=f'{label} {value:.0f} mm')
    axes.set(xlabel='error (mm)', ylabel='held-out demonstrations')
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    return figure
