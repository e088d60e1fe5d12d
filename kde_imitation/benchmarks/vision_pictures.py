"""The figure of the vision benchmark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from kde_imitation.checks import Floats


def draw_shift(shown: Mapping[str, tuple[Floats, Floats]], first: npt.NDArray[np.bool_]) -> Figure:
    """Draw figure 6.11: two postures while the person walks across the picture.

    Parameters
    ----------
    shown : name of the features to embedding (n, r) and Gram matrix (n, n)
    first : (n,) array of bool
        Which pictures show the first posture.
    """
    figure = Figure(figsize=(11, 3.2 * len(shown)), layout='constrained')
    grid = figure.subplots(len(shown), 2, squeeze=False)
    for (name, (points, gram)), (left, right) in zip(shown.items(), grid):
        for part, colour, label in ((first, '#1b6ca8', 'side'), (~first, '#d95f02', 'up')):
            steps = np.arange(part.sum())
            for column in range(min(points.shape[1], 3)):
                style = ('-', '--', ':')[column]
                text = label if column == 0 else None
                left.plot(steps, points[part, column], style, color=colour, label=text)
        left.set(title=f'{name}: first coordinates of the embedding', xlabel='picture')
        left.legend(frameon=False)
        distances = np.diagonal(gram)[:, None] + np.diagonal(gram) - 2 * gram
        order = np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)])
        image = right.imshow(np.sqrt(np.maximum(distances, 0))[np.ix_(order, order)], vmin=0)
        right.set(title=f'{name}: distances in feature space', xlabel='picture', ylabel='picture')
        figure.colorbar(image, ax=right)
    return figure
