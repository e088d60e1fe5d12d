"""Figures of the following benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from kde_imitation.checks import Floats
from kde_imitation.nodes.following import Heard

JOINTS = 4


def draw_movement(
    name: str, heard: Heard, times: Floats, labels: Floats, names: Sequence[str]
) -> Figure:
    """Draw the joints of the arm next to the truth, as figures 6.12 and 6.13.

    Parameters
    ----------
    name : str
    heard : Heard
    times : (n,) array
        When each picture of the set is shown first, seconds.
    labels : (n, joints) array
    names : joint names
    """
    figure = Figure(figsize=(11, 6.5), layout='constrained')
    for joint, axes in enumerate(figure.subplots(2, 2, sharex=True).flat):
        axes.step(
            times, np.degrees(labels[:, joint]), 'k', where='post', linewidth=1.2, label='truth'
        )
        axes.plot(
            heard.goal_times,
            np.degrees(heard.goals[:, joint]),
            '.',
            markersize=2,
            color='#d95f02',
            label='goal',
        )
        axes.plot(
            heard.state_times, np.degrees(heard.states[:, joint]), color='#1b6ca8', label='arm'
        )
        axes.set_title(names[joint], fontsize=10)
        axes.set_ylabel('degrees')
        axes.grid(color='0.92')
    axes.set_xlabel('time (s)')
    figure.suptitle(f'{name}: what the person shows, what is understood, what the arm does')
    figure.axes[0].legend(fontsize=8, frameon=False)
    return figure
