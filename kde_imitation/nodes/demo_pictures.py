"""Pictures of the demonstration: person and arm side by side, and a sheet of curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track

from kde_imitation.imitation import Robot
from kde_imitation.kinematics import description
from kde_imitation.nodes.following import Heard
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.simulation.render import Camera, Renderer, write_animation

__all__ = ['draw']

FRAMES = 10
MOST_FRAMES = 150
SIDE = 320, 240
# Seen from where the camera saw the person.
VIEW = Camera((0.0, 0.15, 1.3), 2.6, 180.0, -4.0)

Picture = npt.NDArray[np.uint8]


def draw(heard: Heard, robot: Robot, output: Path, say: Console) -> list[str]:
    """Write an animation and a sheet; return their names."""
    if not heard.pictures or not len(heard.states) or robot.header['arm'] != 'pa10':
        return []
    output.mkdir(parents=True, exist_ok=True)
    arm = SimulatedArm(description.urdf(mount='wall'))
    chosen = heard.pictures[:: max(1, -(-len(heard.pictures) // MOST_FRAMES))]
    with Renderer(arm, *SIDE, VIEW) as renderer:
        say.print(renderer.describe())
        frames = []
        for when, picture in track(chosen, 'drawing', console=say, transient=True):
            place = min(int(np.searchsorted(heard.state_times, when)), len(heard.states) - 1)
            arm.reset(np.clip(heard.states[place], arm.chain.lower, arm.chain.upper))
            small = cv2.resize(picture, SIDE, interpolation=cv2.INTER_AREA)
            frames.append(np.hstack([small, renderer.picture()]).astype(np.uint8))
    write_animation(output / 'demo.gif', frames, FRAMES)
    _sheet(heard, frames, [when for when, _ in chosen], robot).savefig(output / 'demo.png', dpi=90)
    names = [str(output / name) for name in ('demo.gif', 'demo.png')]
    say.print(f'Pictures: {" and ".join(names)}')
    return names


def _sheet(heard: Heard, frames: list[Picture], times: list[float], robot: Robot) -> Figure:
    """Draw four moments, and how the joints followed their goals."""
    figure = Figure(figsize=(13, 5.2), layout='constrained')
    parts: Any = figure.subfigures(2, 1, height_ratios=(0.6, 1.1))
    above, below = parts
    picked = np.linspace(0, len(frames) - 1, 6).astype(int)[1:-1]
    axes: Any
    for axes, number in zip(above.subplots(1, 4), picked):
        axes.imshow(frames[number])
        axes.set_title(f'{times[number]:.1f} s', fontsize=9)
        axes.set_axis_off()
    left, right = below.subplots(1, 2, width_ratios=(2.2, 1.0))
    for joint in range(4):
        colour = f'C{joint}'
        name = robot.names[joint]
        left.plot(heard.state_times, np.degrees(heard.states[:, joint]), colour, label=name)
        left.plot(heard.goal_times, np.degrees(heard.goals[:, joint]), ':', color=colour)
    left.set(xlabel='time (s)', ylabel='degrees', title='joints, and their goals dotted')
    left.legend(ncols=4, fontsize=8, loc='upper right')
    caused = heard.command_stamps > -1e3
    stamps, first = np.unique(heard.command_stamps[caused], return_index=True)
    ages = 1e3 * (heard.command_times[caused][first] - stamps)
    right.hist(ages, bins=40, color='0.6')
    right.set(xlabel='ms', ylabel='pictures', title='from picture to first command')
    return figure
