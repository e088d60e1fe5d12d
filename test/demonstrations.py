"""Small parts of the rendered demonstrations, as arrays and as folders."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kde_imitation.dataset import Dataset

ACTOR = Path(__file__).resolve().parents[1] / 'data' / 'actor'
TEACH, FREE = ACTOR / 'teach_A', ACTOR / 'free_A'


def pairs(rows: Sequence[int]):
    """Return pictures and postures of rows of teach_A."""
    data = Dataset.open(TEACH)
    return [data.image(int(data.labelled[row])) for row in rows], data.labels[list(rows)]


def pictures(numbers: Sequence[int]):
    """Return pictures of free_A."""
    data = Dataset.open(FREE)
    return [data.image(number) for number in numbers]


def copy_part(folder: Path, rows: Sequence[int], others=('background.jpg',)):
    """Make a data set of some rows of teach_A."""
    folder.mkdir(parents=True)
    header, *lines = (TEACH / 'labels.csv').read_text().splitlines()
    kept = [lines[row] for row in rows]
    for line in kept:
        shutil.copy(TEACH / line.split(',')[0], folder)
    (folder / 'labels.csv').write_text('\n'.join([header, *kept]) + '\n')
    for name in others:
        shutil.copy(TEACH / name, folder)
    return folder
