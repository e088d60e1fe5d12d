"""The training report: one page with its figures inside, and the figures and numbers beside it."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from kde_imitation import __version__
from kde_imitation.checks import Floats
from kde_imitation.commands import figures
from kde_imitation.commands.frames import Frame, as_png, draw_frames, view_of
from kde_imitation.commands.shared import Tell, write_json, write_text
from kde_imitation.imitation import ImitationModel, Settings
from kde_imitation.imitation.files import write_whole
from kde_imitation.imitation.validation import Spectra, Study, mean_and_error, study

PAGE, NUMBERS = 'report.html', 'numbers.json'
SHOWN = 6

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #20242a; background: #f5f6f8; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 0 0 .4rem; }
section { background: #fff; border-radius: 10px; padding: 1.2rem 1.4rem; margin-top: 1.2rem;
  box-shadow: 0 1px 3px rgba(20, 30, 50, .12); overflow-x: auto; }
img { max-width: 100%; display: block; margin: .6rem auto; }
table { border-collapse: collapse; margin: .4rem 0; } td, th { padding: .25rem .9rem .25rem 0; }
th { text-align: left; font-weight: 600; } td.n { text-align: right; font-variant-numeric:
  tabular-nums; } tr + tr td { border-top: 1px solid #e6e8ec; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin-top: 1rem; }
.tile { background: #fff; border-radius: 10px; padding: .7rem 1.1rem; min-width: 8.5rem;
  box-shadow: 0 1px 3px rgba(20, 30, 50, .12); }
.tile b { display: block; font-size: 1.45rem; } .tile span, .quiet { color: #5b636e; }
"""


@dataclass(frozen=True)
class Demonstrations:
    """What a model was trained on."""

    images: Sequence[npt.ArrayLike]
    postures: Floats
    """(n, joints)"""
    names: Sequence[str]
    """where each picture comes from"""
    unpaired: Sequence[npt.ArrayLike]


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    text: str
    name: str
    """of the figure's file, without ending"""
    figure: Figure
    table: Sequence[Sequence[object]] = ()


def write_report(
    model: ImitationModel,
    given: Demonstrations,
    folder: Path,
    facts: Sequence[tuple[str, str]] = (),
    settings: Settings | None = None,
    tell: Tell = lambda what, share: None,
) -> Path:
    """Measure a model by cross-validation on its demonstrations, and write the page.

    Parameters
    ----------
    model : ImitationModel
    given : Demonstrations
    folder : Path
        Gets `report.html`, its figures as PNG files, and `numbers.json`.
    facts : pairs of name and value
        Shown in the table on top.
    settings : Settings, optional
        As in training.
    tell : callable
        Shows progress.

    Returns
    -------
    Path
        The page.
    """
    used = Settings() if settings is None else settings
    seen, total = [], len(given.images) + len(given.unpaired)
    vectors = np.empty((total, model.vector_size))
    for place, image in enumerate((*given.images, *given.unpaired)):
        found = model.look(image)
        vectors[place] = found.vector
        if place < len(given.images):
            seen.append(found)
        tell('Looking again for the report', (place + 1) / total)
    shown = np.asarray(vectors.any(axis=1))
    inputs, _ = model.features.split(vectors)
    count = len(given.images)
    kept = np.flatnonzero(shown[:count]).tolist()
    summary = model.summary
    result = study(
        inputs[kept],
        given.postures[kept],
        inputs[count:][shown[count:]],
        model.features.kernel(),
        model.robot,
        used,
        float(summary['ridge']),
        int(summary['rank']),
        tell,
    )
    frames = [
        Frame(
            f'{given.names[row]}: {result.errors[place]:.0f} mm',
            seen[row],
            result.predicted[place],
            given.postures[row],
        )
        for place, row in enumerate(kept)
    ]
    sections = make_sections(model, result, frames, given.postures[kept])
    pictures = {}
    for place, section in enumerate(sections):
        pictures[section.name] = as_png(section.figure)
        tell('Drawing the report', (place + 1) / len(sections))
    for name, data in pictures.items():
        write_whole(folder / f'{name}.png', data)
    names = [given.names[row] for row in kept]
    write_json(folder / NUMBERS, {'frames': names, **result.numbers()})
    page = folder / PAGE
    write_text(page, make_page(result, facts, sections, pictures))
    return page


def make_sections(
    model: ImitationModel, result: Study, frames: Sequence[Frame], postures: Floats
) -> list[Section]:
    """Return the parts of the page with their figures and texts."""
    summary, robot = model.summary, model.robot
    mean_posture = np.broadcast_to(postures.mean(axis=0), postures.shape)
    chance = 1000 * float(robot.errors(mean_posture, postures).mean())
    folds = len(result.folds)
    needed = [Spectra.needed(getattr(result.spectra, k)) for k in ('outputs', 'inputs', 'pairs')]
    curve, reduction = result.demonstrations, result.reduction
    peers = [
        (name, *(f'{value:.0f}' for value in values), _spread(values))
        for name, values in result.peers.items()
    ]
    first, last = (curve.errors['MRS'][i].mean() for i in (0, -1))
    order = np.argsort(result.errors)
    sections = [
        Section(
            'Errors by fold, MRS and its peers',
            f'The demonstrations are cut into {folds} folds. Kernel PCA, regression and pre-image '
            'learn from all but one fold and are judged on it; every method chooses its own rank '
            'and ridge within what it may see. Error is the mean distance of elbow, wrist and '
            'hand. The way from a picture to its features is shared by all folds: it was fitted '
            'to all demonstrations. All methods but nearest neighbour get the same input '
            'coordinates and the same constrained pre-image. Demonstrations that were chosen to '
            'span a range leave a gap where one is left out, so that new pictures may well be '
            'easier than these: kde_imitation evaluate measures that.',
            'peers',
            figures.draw_peers(result, chance),
            [('method', *(f'fold {i + 1}' for i in range(folds)), 'mean ± s.e. (mm)'), *peers],
        ),
        Section(
            'How the errors are spread',
            f'Held-out demonstrations, MRS: half of them are off by less than '
            f'{np.median(result.errors):.0f} mm.',
            'errors',
            figures.draw_errors(result.errors),
        ),
        Section(
            'Error against the number of demonstrations',
            f'With the first rows of each fold only: {first:.0f} mm from {curve.sizes[0]} '
            f'demonstrations, {last:.0f} mm from {curve.sizes[-1]}. Where the curve still falls, '
            'more demonstrations will help. The held-out ones are the same for all sizes; bands '
            'are standard errors.',
            'demonstrations',
            figures.draw_curve(curve),
        ),
        Section(
            'Spectra',
            f'Cumulative variance in feature space. {needed[0]} directions hold 95 % of what the '
            f'postures do, {needed[1]} of what all pictures show, {needed[2]} of what the '
            'demonstrations show. Were the last number close to that of the demonstrations, these '
            'would have little in common to learn from.',
            'spectra',
            figures.draw_spectra(result.spectra),
        ),
        Section(
            'What cross-validation chose',
            'Every kernel scale, ridge and rank that was tried, by the error of coordinates in '
            'feature space, in millimetres a point. The choice is marked.',
            'choices',
            figures.draw_choices(
                summary['fold_errors'], (summary['scale'], summary['ridge'], summary['rank'])
            ),
        ),
        Section(
            'Size against error of the reduced set',
            f'The model keeps {summary["points"]} of {summary["points_full"]} expansion points; '
            f'its embeddings of the pictures differ from the full ones by '
            f'{100 * summary["compression_error"]:.2g} %. Right: what that does to held-out '
            f'postures, {mean_and_error(reduction.errors["full"][0])[0]:.0f} mm with all points.',
            'reduction',
            figures.draw_reduction(
                reduction,
                summary['compression'],
                summary['points'],
                summary['points_full'],
                summary['compression_error'],
            ),
        ),
    ]
    for title, name, rows, text in (
        ('Worst frames', 'worst', order[::-1][:SHOWN], 'The largest errors'),
        ('Best frames', 'best', order[:SHOWN], 'The smallest errors'),
    ):
        sections.append(
            Section(
                title,
                f'{text} among the held-out demonstrations: each was predicted by a regression '
                'that had not seen it. Outline and arm in the picture are what was found there.',
                name,
                draw_frames([frames[i] for i in rows], robot, view_of(model)),
            )
        )
    return sections


def make_page(
    result: Study,
    facts: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    pictures: dict[str, bytes],
) -> str:
    """Return the page, complete in itself."""
    mean, error = mean_and_error(result.peers['MRS'])
    nearest = mean_and_error(result.peers['nearest neighbour'])[0]
    tiles = (
        (f'{mean:.0f} ± {error:.0f} mm', 'held-out error'),
        (f'{np.median(result.errors):.0f} mm', 'median'),
        (f'{nearest:.0f} mm', 'nearest neighbour'),
        (str(len(result.errors)), 'demonstrations'),
    )
    parts: list[str] = []
    for value, label in tiles:
        parts.append(f'<div class="tile"><b>{_text(value)}</b><span>{_text(label)}</span></div>')
    body = [f'<div class="tiles">{"".join(parts)}</div>']
    if facts:
        body.append(f'<section><h2>The model</h2>{_table([("", ""), *facts])}</section>')
    for section in sections:
        code = base64.b64encode(pictures[section.name]).decode()
        title = _text(section.title)
        image = f'<img alt="{title}" src="data:image/png;base64,{code}">'
        table = _table(section.table) if section.table else ''
        body.append(
            f'<section><h2>{title}</h2><p>{_text(section.text)}</p>{image}{table}</section>'
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Training report</title><style>{STYLE}</style></head><body><main>'
        '<h1>Training report</h1>'
        f'<div class="quiet">kde_imitation {_text(__version__)}; all errors on demonstrations '
        'that the regression had not seen</div>' + '\n'.join(body) + '</main></body></html>\n'
    )


def _table(rows: Sequence[Sequence[object]]) -> str:
    head, *rest = rows
    lines = []
    if any(head):
        lines.append('<tr>' + ''.join(f'<th>{_text(cell)}</th>' for cell in head) + '</tr>')
    for first, *cells in rest:
        numbers = ''.join(f'<td class="n">{_text(cell)}</td>' for cell in cells)
        lines.append(f'<tr><td>{_text(first)}</td>{numbers}</tr>')
    return f'<table>{"".join(lines)}</table>'


def _spread(values: Floats) -> str:
    mean, error = mean_and_error(values)
    return f'{mean:.1f} ± {error:.1f}'


def _text(value: Any) -> str:
    return html.escape(str(value))
