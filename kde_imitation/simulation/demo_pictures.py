"""Pictures of the demonstration: a film of the arm, and a sheet of frames and curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track

from kde_imitation.checks import Floats
from kde_imitation.kinematics import pa10
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.simulation.render import Picture, Renderer

if TYPE_CHECKING:
    from kde_imitation.simulation.demo import Record


def film(arm: SimulatedArm, renderer: Renderer, postures: Floats, say: Console) -> list[Picture]:
    """Return a picture (h, w, 3) of the arm in each of the postures (n, 7)."""
    frames = []
    for q in track(postures, 'drawing', console=say, transient=True):
        arm.reset(np.clip(q, arm.chain.lower, arm.chain.upper))
        frames.append(renderer.picture())
    return frames


def draw_sheet(frames: list[Picture], record: Record, targets: Floats, path: Path) -> None:
    """Draw four frames, the hand's path, and how each joint followed its command."""
    figure = Figure(figsize=(12, 6.4), layout='constrained')
    parts: Any = figure.subfigures(2, 1, height_ratios=(1.0, 1.15))
    above, below = parts
    picked = np.linspace(0, len(frames) - 1, 4, endpoint=False).astype(int)
    for axes, number in zip(above.subplots(1, 4), picked):
        axes.imshow(frames[number])
        axes.set_axis_off()
    left, middle, right = below.subplots(1, 3, width_ratios=(1.1, 1.8, 1.0))

    hand = pa10.link_positions(record.q)[:, 6]
    wanted = pa10.link_positions(record.command)[:, 6]
    left.plot(*wanted[:, 1:].T, color='0.75', linewidth=5, label='commanded')
    left.plot(*hand[:, 1:].T, color='C0', linewidth=1, label='reached')
    left.plot(*targets[:, 1:].T, 'o', color='C3', markersize=4, label='wanted')
    left.set(xlabel='y (m)', ylabel='z (m)', title='hand, seen along x', ylim=(-0.1, 0.62))
    left.set_aspect('equal')
    left.legend(fontsize=8, loc='upper center', ncols=3, columnspacing=0.8, handlelength=1)

    names = ('s1', 's2', 's3', 'e1', 'e2', 'w1', 'w2')
    for joint, name in enumerate(names):
        middle.plot(record.t, np.degrees(record.q[:, joint]), color=f'C{joint}', label=name)
        middle.plot(record.t, np.degrees(record.command[:, joint]), 'k:', linewidth=0.8)
    middle.set(xlabel='time (s)', ylabel='degrees', title='joints, and their commands dotted')
    middle.set_ylim(np.degrees(record.q.min()) - 25, None)
    middle.legend(fontsize=8, ncols=7, loc='lower center', columnspacing=1, handlelength=1)

    right.plot(record.t, 1e3 * np.linalg.norm(hand - wanted, axis=-1), color='C0')
    right.set(xlabel='time (s)', ylabel='mm', title='hand behind its command', ylim=(0, None))
    figure.savefig(path, dpi=90)
