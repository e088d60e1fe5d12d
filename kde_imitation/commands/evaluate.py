"""`kde_imitation evaluate`: how far predicted postures are from the true ones of a data set."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from kde_imitation.benchmarks.report import Table, print_table
from kde_imitation.checks import Floats
from kde_imitation.commands.frames import Frame, as_png, draw_frames, view_of
from kde_imitation.commands.shared import (
    predict_files,
    progress_bars,
    require_folder,
    require_place,
    wide_console,
    write_json,
)
from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Prediction
from kde_imitation.imitation.files import write_whole
from kde_imitation.imitation.validation import bootstrap_interval

POINTS = ('elbow', 'wrist', 'hand')
SHOWN = 6


def measure(model: ImitationModel, found: list[Prediction], true: Floats) -> dict[str, Any]:
    """Compare predictions with postures (n, joints): plain numbers, lengths in millimetres."""
    distances = 1000 * model.robot.distances(np.stack([each.q for each in found]), true)
    errors = distances.mean(axis=1)
    mean_posture = np.broadcast_to(model.goal.postures.mean(axis=0), true.shape)
    novel = np.array([each.novel for each in found])
    low, high = bootstrap_interval(errors)
    return {
        'frames': len(errors),
        'mean_mm': float(errors.mean()),
        'interval_95_mm': [low, high],
        'median_mm': float(np.median(errors)),
        'p95_mm': float(np.quantile(errors, 0.95)),
        'points_mm': dict(zip(POINTS, distances.mean(axis=0).tolist())),
        'novel_rate': float(novel.mean()),
        'mean_mm_of_familiar': float(errors[~novel].mean()) if not novel.all() else None,
        'chance_mm': 1000 * float(model.robot.errors(mean_posture, true).mean()),
        'per_frame': [
            {
                'error_mm': float(error),
                **{f'{name}_mm': float(value) for name, value in zip(POINTS, parts)},
                'novelty': each.novelty if math.isfinite(each.novelty) else None,
                'novel': each.novel,
                'reason': each.reason,
            }
            for error, parts, each in zip(errors, distances, found)
        ],
    }


def run(
    model_file: Path,
    folder: Path,
    json: Path | None = None,
    pictures: Path | None = None,
    sequence: str = 'auto',
) -> int:
    """Measure a model on the labelled pictures of a data set; print a table, write the numbers."""
    if json is not None:
        require_place(json)
    if pictures is not None:
        require_folder(pictures)
    model = ImitationModel.load(model_file)
    data = Dataset.open(folder, joints=model.joints)
    if not len(data.labelled):
        raise BadInput(f'{folder} has no labelled pictures; evaluate needs a labels.csv.')
    true = model.robot.postures(f'{folder}: labels', data.labels)
    # A movement goes by the numbers of its pictures, whatever the order of the rows.
    order = np.argsort(data.labelled)
    places = data.labelled[order].tolist()
    names = [data.frames[place] for place in places]
    with progress_bars() as tell:
        found = predict_files(model, [folder / name for name in names], sequence, tell)
    record = measure(model, found, true[order])
    for name, each in zip(names, record['per_frame']):
        each['frame'] = name
    print_table(summary_table(record, folder), wide_console())
    if json is not None:
        write_json(json, {'model': str(model_file), 'dataset': str(folder), **record})
    if pictures is not None:
        _draw(model, data, places, found, true[order], record, pictures)
    return 0


def summary_table(record: dict[str, Any], folder: Path) -> Table:
    """Return the numbers of `measure` as a table."""
    table = Table('evaluate', f'{folder}: {record["frames"]} labelled pictures', ['', 'value'])
    low, high = record['interval_95_mm']
    points = record['points_mm']
    table.add('mean error', f'{record["mean_mm"]:.1f} mm')
    table.add('95 % interval of the mean', f'{low:.1f} to {high:.1f} mm')
    table.add('median error', f'{record["median_mm"]:.1f} mm')
    table.add('95 % of the errors are below', f'{record["p95_mm"]:.1f} mm')
    table.add('elbow, wrist, hand', ', '.join(f'{points[name]:.1f}' for name in POINTS) + ' mm')
    table.add('pictures called novel', f'{100 * record["novel_rate"]:.1f} %')
    if record['novel_rate'] > 0 and record['mean_mm_of_familiar'] is not None:
        table.add('mean error of the others', f'{record["mean_mm_of_familiar"]:.1f} mm')
    table.add('chance (mean posture)', f'{record["chance_mm"]:.1f} mm')
    return table


def _draw(
    model: ImitationModel,
    data: Dataset,
    places: list[int],
    found: list[Prediction],
    true: Floats,
    record: dict[str, Any],
    pictures: Path,
) -> None:
    """Draw the worst and the best frames."""
    errors = np.array([each['error_mm'] for each in record['per_frame']])
    order = np.argsort(errors)
    for kind, rows in (('worst', order[::-1][:SHOWN]), ('best', order[:SHOWN])):
        frames = [
            Frame(
                f'{data.frames[places[i]]}: {errors[i]:.0f} mm'
                + (', novel' if found[i].novel else ''),
                model.look(data.image(places[i])),
                found[i].q,
                true[i],
            )
            for i in rows
        ]
        figure = draw_frames(frames, model.robot, view_of(model))
        write_whole(pictures / f'{kind}.png', as_png(figure))
