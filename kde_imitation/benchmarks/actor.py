"""The rendered people of `data/actor`, for the benchmarks."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.dataset import Dataset
from kde_imitation.dataset.pictures import Image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Settings
from kde_imitation.resources import share_folder

VARIABLE = 'KDE_IMITATION_DATA'


def actor_folder() -> Path:
    """Return the folder of the rendered people: `KDE_IMITATION_DATA`, or `data/actor`."""
    places = [
        Path(os.environ[VARIABLE]) if VARIABLE in os.environ else None,
        Path('data/actor'),
        share_folder() / 'data' / 'actor',
    ]
    for place in places:
        if place is not None and (place / 'teach_A').is_dir():
            return place
    raise BadInput(
        f'The rendered people are not here; run from the source tree, or set {VARIABLE} to the '
        'folder that holds teach_A.'
    )


@cache
def data_of(name: str) -> Dataset:
    """Return a set as it lies on the disk."""
    return Dataset.open(actor_folder() / name)


@cache
def pictures_of(name: str) -> list[Image]:
    """Return all pictures of a set: the labelled ones in the order of their rows, or all."""
    data = data_of(name)
    rows = data.labelled if len(data.labelled) else np.arange(len(data))
    return [data.image(int(row)) for row in rows]


def labels_of(name: str) -> Floats:
    """Return the postures (n, 7) of a set."""
    return data_of(name).labels


def train_on(
    rows: slice, settings: Settings | None = None, unpaired: bool = True
) -> ImitationModel:
    """Train on rows of teach_A, with the pictures of free_A beside them."""
    data = data_of('teach_A')
    if data.background is None:
        raise BadInput(f'{data.folder} has no background.jpg.')
    return ImitationModel.train(
        pictures_of('teach_A')[rows],
        data.labels[rows],
        data.background,
        unpaired=pictures_of('free_A') if unpaired else (),
        skin=data.skin,
        settings=settings,
    )
