"""What the commands have in common: progress, outputs that are whole, sentences about files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from kde_imitation.dataset import read_image
from kde_imitation.dataset.pictures import Image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Prediction
from kde_imitation.imitation.files import write_whole

Tell = Callable[[str, float], None]

MOVEMENT = {'auto': None, 'yes': True, 'no': False}
"""Whether pictures show one movement, by the words of the command line."""


@contextmanager
def progress_bars() -> Iterator[Tell]:
    """Give a function that shows what is being done and the share of it that is done.

    The bars go to a terminal on standard error; into a file or a pipe nothing is written.
    """
    console = Console(stderr=True)
    # Rich 13.7 ends even a bar that is not shown with an empty line.
    console.quiet = not console.is_terminal
    columns = (TextColumn('{task.description:<34}'), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=console.quiet) as bars:
        known: dict[str, TaskID] = {}

        def tell(what: str, share: float) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=1.0)
            bars.update(known[what], completed=share)

        yield tell


def wide_console() -> Console:
    """Return standard output, wide enough for tables also where it is no terminal."""
    return Console(width=max(Console().width, 80))


def require_place(path: Path) -> None:
    """Refuse an output that could not be written, before hours of work are put into it."""
    if path.is_dir():
        raise BadInput(f'{path} is a folder; name a file to write.')
    _require_folder(path.absolute().parent, path)


def require_folder(path: Path) -> None:
    """Refuse a folder of outputs that could not be made or written to."""
    _require_folder(path.absolute(), path)


def _require_folder(folder: Path, path: Path) -> None:
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise BadInput(f'{path} cannot be written: {folder} is not a folder.')
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f'{path} cannot be written: there is no permission to write in {folder}.')


def write_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    write_whole(path, text.encode())


def write_json(path: Path, record: Any) -> None:
    """Write a record as JSON, whole or not at all."""
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + '\n')


def predict_files(
    model: ImitationModel, paths: Sequence[Path], sequence: str, tell: Tell
) -> list[Prediction]:
    """Return what the model makes of picture files; an error names the file."""
    current = Path()

    def pictures() -> Iterator[Image]:
        nonlocal current
        for place, current in enumerate(paths):
            yield read_image(current)
            tell('Looking at the pictures', (place + 1) / len(paths))

    try:
        return model.predict_sequence(pictures(), MOVEMENT[sequence])
    except BadInput as error:
        if str(current) in str(error):
            raise
        raise BadInput(f'{current}: {error}') from error
