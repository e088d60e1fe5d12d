"""Tables of measurements: printed for people, written as JSON for machines."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table as RichTable

from kde_imitation import __version__
from kde_imitation.kernels.backend import describe

Cell = str | float | int | bool | None


@dataclass
class Table:
    """One table of results."""

    name: str
    title: str
    columns: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row; NumPy numbers become plain ones."""
        self.rows.append([c.item() if isinstance(c, np.generic) else c for c in cells])


def _show(cell: Cell) -> str:
    if cell is None:
        return '-'
    if isinstance(cell, float):
        return f'{cell:.3g}' if abs(cell) < 1e-2 or abs(cell) >= 1e5 else f'{cell:.4g}'
    return str(cell)


def print_table(table: Table, console: Console) -> None:
    """Print one table with its notes."""
    shown = RichTable(title=table.title, title_justify='left')
    for i, column in enumerate(table.columns):
        shown.add_column(column, justify='left' if i == 0 else 'right')
    for row in table.rows:
        shown.add_row(*[_show(cell) for cell in row])
    console.print(shown)
    for note in table.notes:
        console.print(f'  {note}')
    console.print()


def write_json(tables: Sequence[Table], path: Path) -> None:
    """Write all tables, and what they were measured on."""
    record: dict[str, Any] = {
        'version': __version__,
        'backend': describe(),
        'python': platform.python_version(),
        'machine': platform.machine(),
        'cores': os.cpu_count(),
        'tables': [asdict(table) for table in tables],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + '\n')


def save_picture(figure: Figure, pictures: Path, name: str) -> None:
    """Write a figure into the folder of pictures, which is made if it is missing."""
    pictures.mkdir(parents=True, exist_ok=True)
    figure.savefig(pictures / name, dpi=110)


def legend_below(figure: Figure, *entries: Any, **options: Any) -> None:
    """Put a legend under all axes of a figure, and let these share the room above it.

    Arguments are those of `Figure.legend`. Its own places outside the axes came with Matplotlib
    3.7; this needs 3.6.
    """
    legend = figure.legend(*entries, loc='lower center', **options)
    top = legend.get_window_extent().y1 / figure.bbox.height
    figure.set_layout_engine('constrained', rect=(0.0, top, 1.0, 1.0 - top))


def timings(calls: dict[str, Callable[[], object]], repeats: int = 200) -> dict[str, np.ndarray]:
    """Time several calls in one run, interleaved, so that their ratios can be trusted.

    Returns
    -------
    dict of str to numpy.ndarray
        Seconds of each repeat, shape (repeats,), after a tenth of them as warm-up.
    """
    warm_up = max(repeats // 10, 1)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + warm_up):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}
