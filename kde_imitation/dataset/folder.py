"""The folder of demonstrations: its tables, and its pictures one at a time."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from kde_imitation.checks import Floats
from kde_imitation.dataset.pictures import Image, read_bytes, read_image
from kde_imitation.errors import BadInput

Size = tuple[int, int]

LABELS, BACKGROUND, SKIN = 'labels.csv', 'background.jpg', 'skin.csv'
_FRAME = re.compile(r'[0-9]+\.jpg')


def check_size(path: Path, image: Image, size: Size | None) -> None:
    """Refuse a picture of another size than the folder has."""
    height, width = image.shape[:2]
    if size is not None and (height, width) != size:
        raise BadInput(
            f'{path} is {width} × {height} pixels, but the first picture of the folder is '
            f'{size[1]} × {size[0]}; all must have one size.'
        )


def read_table(
    path: Path, data: bytes, columns: Sequence[str]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and of every row its line and its cells in the order of `columns`."""
    try:
        text = data.decode('utf-8-sig')
        reader = csv.reader(io.StringIO(text, newline=''), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f'{path} is not a table of comma-separated values: {error}.') from error
    header = [cell.strip() for cell in lines[0][1]] if lines else []
    if any(header.count(column) != 1 for column in columns):
        raise BadInput(
            f'{path} must name the columns {",".join(columns)} in its first line, each once, '
            f'but that reads "{",".join(header)}".'
        )
    places = [header.index(column) for column in columns]
    for line, cells in lines[1:]:
        if len(cells) != len(header):
            raise BadInput(
                f'{path}, line {line}, has {len(cells)} values where the header names '
                f'{len(header)}; complete the row or delete it.'
            )
    return header, [(line, [cells[i].strip() for i in places]) for line, cells in lines[1:]]


def joint_columns(joints: int) -> list[str]:
    """Return the names q1, q2, … of the columns with joint values."""
    if joints < 1:
        raise BadInput(f'joints must be at least 1, not {joints}.')
    return [f'q{i}' for i in range(1, joints + 1)]


def read_labels(
    path: Path, frames: Sequence[str], joints: int, data: bytes
) -> tuple[list[str], Floats]:
    """Return the labelled frames in the order of the rows, and their postures (n, joints)."""
    columns = joint_columns(joints)
    header, rows = read_table(path, data, ['frame', *columns])
    for name in header:
        if re.fullmatch(r'q[0-9]+', name) and name not in columns:
            raise BadInput(
                f'{path} has a column {name}, but the arm has {joints} joints; '
                'give the number of joints, or take the column out.'
            )
    known, seen = set(frames), dict[str, int]()
    postures = np.empty((len(rows), joints))
    for row, (line, (frame, *cells)) in enumerate(rows):
        if frame not in known:
            raise BadInput(
                f'{path}, line {line}, names the picture "{frame}", which is not in the folder; '
                'bring it back or delete the row.'
            )
        if frame in seen:
            raise BadInput(
                f'{path}, line {line}, labels {frame} again after line {seen[frame]}; '
                'keep one of the two rows.'
            )
        seen[frame] = line
        for joint, cell in enumerate(cells):
            postures[row, joint] = finite_cell(path, line, columns[joint], cell)
    return list(seen), postures


def finite_cell(path: Path, line: int, column: str, cell: str) -> float:
    """Return a cell of a table as a number; an error names the file and the line."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadInput(f'{path}, line {line}: {column} is "{cell}", but must be a finite number.')
    return value


def read_skin(path: Path) -> Image:
    """Return the picked pixels of `skin.csv`, (k, 3)."""
    _, rows = read_table(path, read_bytes(path), ['r', 'g', 'b'])
    if not rows:
        raise BadInput(f'{path} holds no pixels; add rows of r,g,b or delete the file.')
    pixels = np.empty((len(rows), 3), np.uint8)
    for row, (line, cells) in enumerate(rows):
        for channel, cell in enumerate(cells):
            value = finite_cell(path, line, 'rgb'[channel], cell)
            if not (0 <= value <= 255 and value.is_integer()):
                raise BadInput(
                    f'{path}, line {line}: {"rgb"[channel]} is {cell}, but must be a whole number '
                    'from 0 to 255.'
                )
            pixels[row, channel] = int(value)
    return pixels


def number_of(frame: str) -> int:
    """Return the number in the name of a picture."""
    return int(frame.removesuffix('.jpg'))


def frames_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the numbered pictures, by number."""
    try:
        names = [name for name in os.listdir(folder) if _FRAME.fullmatch(name)]
    except OSError as error:
        raise BadInput(f'{folder} cannot be read as a folder: {error.strerror}.') from error
    return tuple(sorted(names, key=lambda name: (number_of(name), name)))


@dataclass(frozen=True, eq=False)
class Dataset:
    """A folder of demonstrations, checked; its pictures are read when they are asked for.

    Attributes
    ----------
    folder : Path
    frames : tuple of str
        File names of the pictures, by number.
    labelled : ndarray of int, (n_labelled,)
        Which frames have a posture, in the order of the rows of `labels.csv`: that order, not the
        numbers, says which are the first N.
    labels : ndarray, (n_labelled, joints)
        Their postures in radians.
    size : (int, int)
        Height and width of every picture.
    background : ndarray of uint8, (height, width, 3), or None
        The scene without the person, RGB.
    skin : ndarray of uint8, (k, 3), or None
        Picked pixels of skin, RGB.
    """

    folder: Path
    frames: tuple[str, ...]
    labelled: npt.NDArray[np.intp]
    labels: Floats
    size: Size
    background: Image | None
    skin: Image | None

    @classmethod
    def open(cls, folder: str | os.PathLike[str], joints: int = 7) -> Dataset:
        """Check everything in a folder but the pictures, of which only the first is read."""
        folder = Path(folder)
        frames = frames_in(folder)
        if not frames:
            raise BadInput(f'{folder} holds no pictures; they must be named 0000.jpg, 0001.jpg, …')
        names: list[str] = []
        labels: Floats = np.empty((0, len(joint_columns(joints))))
        if (folder / LABELS).exists():
            names, labels = read_labels(
                folder / LABELS, frames, joints, read_bytes(folder / LABELS)
            )
        index = {name: i for i, name in enumerate(frames)}
        labelled = np.array([index[name] for name in names], np.intp)
        size = read_image(folder / frames[0]).shape[:2]
        background = skin = None
        if (folder / BACKGROUND).exists():
            background = read_image(folder / BACKGROUND)
            check_size(folder / BACKGROUND, background, size)
        if (folder / SKIN).exists():
            skin = read_skin(folder / SKIN)
        for array in (labelled, labels, background, skin):
            if array is not None:
                array.setflags(write=False)
        return cls(folder, frames, labelled, labels, size, background, skin)

    def __len__(self) -> int:
        return len(self.frames)

    def image(self, index: int) -> Image:
        """Read one picture, (height, width, 3), RGB."""
        if not 0 <= index < len(self):
            raise BadInput(
                f'{self.folder} holds the pictures 0 to {len(self) - 1}; there is no {index}.'
            )
        path = self.folder / self.frames[index]
        image = read_image(path)
        check_size(path, image, self.size)
        return image

    def check(self, progress: bool = False) -> None:
        """Read every picture once, to meet a damaged one now and not in the middle of training."""
        for _ in self.samples(progress):
            pass

    def __iter__(self) -> Iterator[tuple[Image, Floats | None]]:
        return self.samples()

    def samples(self, progress: bool = False) -> Iterator[tuple[Image, Floats | None]]:
        """Yield every picture with its posture (joints,), or with None where it has no label."""
        row = {int(index): i for i, index in enumerate(self.labelled)}
        for index in self._shown(range(len(self)), progress):
            yield self.image(index), self.labels[row[index]] if index in row else None

    def pairs(
        self, limit: int | None = None, progress: bool = False
    ) -> Iterator[tuple[Image, Floats]]:
        """Yield picture and posture of the first `limit` rows of `labels.csv`, or of all."""
        n = len(self.labelled)
        if limit is not None and not 1 <= limit <= n:
            raise BadInput(
                f'{self.folder} has {n} labelled pictures; the number of pairs must be between 1 '
                f'and that, not {limit}.'
            )
        rows = range(n if limit is None else limit)
        return (
            (self.image(self.labelled[i]), self.labels[i]) for i in self._shown(rows, progress)
        )

    def unpaired(self, progress: bool = False) -> Iterator[Image]:
        """Yield the pictures without a label, by number."""
        indices = np.setdiff1d(np.arange(len(self)), self.labelled).tolist()
        return (self.image(index) for index in self._shown(indices, progress))

    def _shown(self, indices: Sequence[int], progress: bool) -> Iterator[int]:
        if progress:
            what = f'Reading {self.folder.name}'
            yield from track(indices, what, console=Console(stderr=True))
        else:
            yield from indices
