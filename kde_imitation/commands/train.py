"""`kde_imitation train`: from folders of demonstrations to a model file and a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kde_imitation.benchmarks.report import Table, print_table
from kde_imitation.commands.report import Demonstrations, write_report
from kde_imitation.commands.shared import (
    Tell,
    progress_bars,
    require_folder,
    require_place,
    wide_console,
)
from kde_imitation.dataset import Dataset
from kde_imitation.dataset.pictures import Image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Robot, Settings

# Backgrounds whose pixels differ by more than this on average show different rooms.
SAME_ROOM = 12.0


@dataclass(frozen=True)
class Gathered:
    """Everything that training takes from the data sets."""

    demonstrations: Demonstrations
    background: Image
    skin: Image | None
    notes: list[str]


def gather(
    folders: Sequence[Path],
    pairs: int | None,
    joints: int,
    tell: Tell = lambda what, share: None,
) -> Gathered:
    """Read the first rows of several data sets, and all pictures that have no row.

    Parameters
    ----------
    folders : paths
        In this order their rows are counted.
    pairs : int, optional
        So many rows; all unless told. Pictures of rows beyond these are left out.
    joints : int
        Values in a posture.
    tell : callable
        Shows progress.
    """
    places = [folder.resolve() for folder in folders]
    for place, folder in enumerate(folders):
        if places.index(places[place]) != place:
            raise BadInput(f'{folder} is given twice; name every data set once.')
    sets = [Dataset.open(folder, joints=joints) for folder in folders]
    first = sets[0]
    for data in sets[1:]:
        if data.size != first.size:
            raise BadInput(
                f'The pictures of {data.folder} have {data.size[1]} × {data.size[0]} pixels, but '
                f'those of {first.folder} have {first.size[1]} × {first.size[0]}; all data sets '
                'must come from the same camera with the same settings.'
            )
    labelled = sum(len(data.labelled) for data in sets)
    wanted = labelled if pairs is None else pairs
    if not labelled:
        raise BadInput(
            f'{", ".join(str(folder) for folder in folders)}: no labelled pictures; at least one '
            'data set must have a labels.csv with rows.'
        )
    if not 1 <= wanted <= labelled:
        raise BadInput(
            f'{wanted} pairs are wanted, but the data sets hold {labelled} labelled pictures; '
            f'choose from 1 to {labelled}.'
        )
    background, notes = _background(sets)
    images: list[Image] = []
    unpaired: list[Image] = []
    names, postures = [], []
    total = wanted + sum(len(data) - len(data.labelled) for data in sets)
    for data in sets:
        count = min(wanted - len(images), len(data.labelled))
        rows = data.labelled[:count].tolist()
        postures.append(data.labels[:count])
        for index in rows:
            images.append(data.image(index))
            names.append(f'{data.folder.name}/{data.frames[index]}')
            tell('Reading the pictures', (len(images) + len(unpaired)) / total)
        for picture in data.unpaired():
            unpaired.append(picture)
            tell('Reading the pictures', (len(images) + len(unpaired)) / total)
    pixels = [data.skin for data in sets if data.skin is not None]
    given = Demonstrations(images, np.concatenate(postures), names, unpaired)
    return Gathered(given, background, np.concatenate(pixels) if pixels else None, notes)


def _background(sets: Sequence[Dataset]) -> tuple[Image, list[str]]:
    """Return the first background, and say where another data set shows another room."""
    having = [data for data in sets if data.background is not None]
    if not having:
        raise BadInput(
            f'None of the data sets has a background.jpg; take a picture of the empty scene with '
            f'the same camera and save it as {sets[0].folder / "background.jpg"}.'
        )
    used = having[0].background
    assert used is not None
    notes = []
    for data in having[1:]:
        assert data.background is not None
        gap = np.abs(data.background.astype(np.int16) - used).mean()
        if gap > SAME_ROOM:
            notes.append(
                f'The background of {data.folder} differs from that of {having[0].folder}, which '
                'is the one that is used.'
            )
    return used, notes


def run(
    folders: Sequence[Path],
    output: Path,
    pairs: int | None = None,
    features: str = 'arm',
    report: Path | None = None,
    robot: Robot | None = None,
) -> int:
    """Train a model, save it, and write a report unless `report` is None."""
    require_place(output)
    if report is not None:
        require_folder(report)
    console = wide_console()
    settings = Settings(features=features)
    arm = Robot.pa10() if robot is None else robot
    with progress_bars() as tell:
        gathered = gather(folders, pairs, arm.joints, tell)
        given = gathered.demonstrations
        start = time.perf_counter()
        model = ImitationModel.train(
            given.images,
            given.postures,
            gathered.background,
            unpaired=given.unpaired,
            skin=gathered.skin,
            robot=arm,
            settings=settings,
            progress=tell,
        )
        seconds = time.perf_counter() - start
        model.save(output)
    for note in gathered.notes:
        console.print(note, soft_wrap=True)
    facts = _facts(model.summary, len(given.images) + len(given.unpaired), output, seconds)
    table = Table('train', f'The model {output}', ['', 'value'])
    for name, value in facts:
        table.add(name, value)
    print_table(table, console)
    if report is not None:
        start = time.perf_counter()
        with progress_bars() as tell:
            page = write_report(model, given, report, facts, settings, tell)
        seconds = time.perf_counter() - start
        console.print(f'Report in {seconds:.1f} s: {page}', soft_wrap=True)
    return 0


def _facts(
    summary: dict[str, Any], frames: int, output: Path, seconds: float
) -> list[tuple[str, str]]:
    size = output.stat().st_size
    return [
        ('pairs', str(summary['pairs'])),
        ('frames', str(frames)),
        ('features', str(summary['features'])),
        ('chosen scale', f'{summary["scale"]:g}'),
        ('chosen ridge', f'{summary["ridge"]:g}'),
        ('chosen rank', str(summary['rank'])),
        ('fold error (feature space)', f'{summary["fold_error_mm"]:.1f} mm'),
        ('points before and after compression', f'{summary["points_full"]} → {summary["points"]}'),
        ('error of compression', f'{100 * summary["compression_error"]:.2g} %'),
        ('size of the file', f'{size / 2**20:.2f} MiB'),
        ('training', f'{seconds:.1f} s'),
    ]


def default_report(output: Path) -> Path:
    """Return the folder of the report beside a model file."""
    return output.with_name(f'{output.stem}_report')


def robot_of(
    urdf: Path | None, tip: str | None, elbow: str | None, wrist: str | None, base: str | None
) -> Robot | None:
    """Return the arm that the options describe, or None for the PA-10."""
    named = {'--tip': tip, '--elbow': elbow, '--wrist': wrist}
    if urdf is None:
        extra = [name for name, value in {**named, '--base': base}.items() if value is not None]
        if extra:
            raise BadInput(
                f'{", ".join(extra)} belong to an arm of your own; give --urdf as well.'
            )
        return None
    missing = [name for name, value in named.items() if value is None]
    if tip is None or elbow is None or wrist is None:
        raise BadInput(f'--urdf needs {", ".join(missing)} as well.')
    return Robot.from_urdf(urdf, tip=tip, elbow=elbow, wrist=wrist, base=base)
