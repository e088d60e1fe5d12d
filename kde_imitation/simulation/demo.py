"""The demonstration: a simulated PA-10 follows a path found with its learned kinematics."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from kde_imitation import __version__
from kde_imitation.checks import Floats
from kde_imitation.control.path import SmoothPath
from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.kernels.backend import describe
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.description import JointLimits, joint_limits
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.simulation.arm import SimulatedArm

RATE = 100
FRAMES = 10
POSTURES = 10
READY = np.radians([0.0, 40.0, 0.0, 70.0, 0.0, 40.0, 0.0])


@dataclass
class Record:
    """What was commanded and what happened, a row a command: time (n,), the rest (n, 7)."""

    t: Floats
    command: Floats
    q: Floats
    speed: Floats
    torque: Floats


@dataclass
class Report:
    """What the demonstration measured; lengths in millimetres, angles in milliradians."""

    version: str
    backend: str
    seconds: float
    wall_seconds: float
    command_rate: float
    postures: int
    model_error_mean: float
    posture_error_max: float
    tracking_rms_mrad: float
    tracking_max_mrad: float
    hand_error_rms_mm: float
    hand_error_max_mm: float
    torque_share_max: float
    samples_outside_limits: int
    pictures: list[str]


def hand_targets(count: int = POSTURES) -> Floats:
    """Return hand positions (count, 3) on a tilted figure of eight, metres, shoulder frame."""
    turn = 2 * np.pi * np.arange(count) / count
    sideways, up = 0.42 * np.sin(turn), 0.20 * np.sin(2 * turn)
    return np.stack([0.58 - 0.10 * np.cos(turn), sideways, 0.18 + up], axis=-1)


def solve_postures(arm: LearnedArm, targets: Floats) -> Floats:
    """Find a posture (count, 7) for each hand position, each from the one before.

    A light pull towards the start keeps the free seventh of the arm's motions quiet; a last
    search without it meets the position.
    """
    only_hand = np.array([0.0] * 6 + [1.0])
    q, found = READY, []
    for number, target in enumerate(targets):
        wanted = np.zeros((7, 3))
        wanted[6] = target
        near = arm.best_match(wanted, only_hand, q, pull=1e-3)
        match = arm.best_match(wanted, only_hand, near.x)
        if match.distance > 1e-12:
            raise Unreachable(
                f'Hand position {number} at {np.round(target, 3)} m was missed by '
                f'{1e3 * np.sqrt(match.distance):.2f} mm; it lies outside the reach.'
            )
        q = match.x
        found.append(q)
    return np.array(found)


def run(
    seconds: float = 20.0,
    report: Path | None = None,
    output: Path = Path('out'),
    headless: bool = False,
    console: Console | None = None,
) -> int:
    """Run the demonstration and write its pictures and report; return 0."""
    if not 1 <= seconds <= 3600:
        raise BadInput(f'seconds must be from 1 to 3600, not {seconds:g}.')
    say = console or Console(soft_wrap=True)
    began = time.perf_counter()
    learned = LearnedArm.of_pa10()
    model_error = _model_error(learned)
    say.print(
        f'Learned the PA-10 from {learned.near.values[..., 0].size} + '
        f'{learned.far.values[..., 0].size} postures in {time.perf_counter() - began:.2f} s; '
        f'its hand is off by {model_error:.2f} mm on average.'
    )
    targets = hand_targets()
    postures = solve_postures(learned, targets)
    limits = joint_limits()
    path = SmoothPath(np.vstack([postures, postures[:1]]), limits)
    reached = np.linalg.norm(pa10.link_positions(postures)[:, 6] - targets, axis=-1)
    say.print(
        f'Solved {len(postures)} postures with it, at most {1e3 * reached.max():.2f} mm from the '
        f'wanted hand positions; one round takes {path.duration:.1f} s.'
    )
    arm = SimulatedArm()
    record, wall = _follow(arm, path, seconds, _window(arm, headless, say), say)
    result = _measure(record, limits, wall, model_error, float(1e3 * reached.max()))
    result.pictures = _draw(arm, path, record, targets, output, say)
    say.print(
        f'Followed for {result.seconds:.1f} s: joints within {result.tracking_max_mrad:.2f} mrad, '
        f'hand within {result.hand_error_max_mm:.2f} mm (rms {result.hand_error_rms_mm:.2f}); '
        f'{result.samples_outside_limits} samples outside the limits.'
    )
    if report:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(asdict(result), indent=1) + '\n', encoding='utf-8')
        say.print(f'Report: {report}')
    return 0


def _model_error(learned: LearnedArm) -> float:
    """Return the mean error of the learned hand position over the whole range, mm."""
    q = np.random.default_rng(0).uniform(pa10.LOWER, pa10.UPPER, (2000, pa10.JOINTS))
    difference = learned.link_positions(q) - pa10.link_positions(q)
    return float(1e3 * np.linalg.norm(difference[:, 6], axis=-1).mean())


def _follow(
    arm: SimulatedArm, path: SmoothPath, seconds: float, window: object | None, say: Console
) -> tuple[Record, float]:
    """Send the path at 100 Hz, round after round."""
    t = np.arange(1, round(seconds * RATE) + 1) / RATE
    commands = path.position(t % path.duration)
    rows = np.empty((3, len(t), commands.shape[1]))
    arm.reset(path.position(0.0))
    began = time.perf_counter()
    columns = (TextColumn('following'), BarColumn(), TextColumn('{task.fields[error]}'))
    with Progress(*columns, TimeRemainingColumn(), console=say, transient=True) as progress:
        task = progress.add_task('following', total=len(t), error='')
        for i, command in enumerate(commands):
            arm.step(command, 1000 // RATE)
            rows[:, i] = arm.q, arm.qd, arm.torque
            if i % 20 == 0:
                error = 1e3 * np.abs(arm.q - command).max()
                progress.update(task, completed=i, error=f'error {error:.2f} mrad')
            if window is not None:
                window.sync()  # type: ignore[attr-defined]
                time.sleep(max(0.0, began + t[i] - time.perf_counter()))
    wall = time.perf_counter() - began
    return Record(t, commands, *rows), wall


def _window(arm: SimulatedArm, headless: bool, say: Console) -> object | None:
    """Open MuJoCo's window where there is a screen."""
    if headless:
        return None
    if not (os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')):
        say.print('There is no screen, so no window is opened; pictures are written all the same.')
        return None
    import mujoco.viewer

    window: object = mujoco.viewer.launch_passive(arm.model, arm.data)
    return window


def _draw(
    arm: SimulatedArm,
    path: SmoothPath,
    record: Record,
    targets: Floats,
    output: Path,
    say: Console,
) -> list[str]:
    """Write an animation of one round and a sheet of pictures and curves; return their names."""
    from kde_imitation.simulation.demo_pictures import draw_sheet, film
    from kde_imitation.simulation.render import Camera, Renderer, write_animation

    output.mkdir(parents=True, exist_ok=True)
    with Renderer(arm, 480, 400, Camera((0.2, 0.0, 0.6), 2.0)) as renderer:
        say.print(renderer.describe())
        one_round = record.q[: int(path.duration * RATE)]
        frames = film(arm, renderer, one_round[:: RATE // FRAMES], say)
        write_animation(output / 'demo.gif', frames, FRAMES)
    draw_sheet(frames, record, targets, output / 'demo.png')
    names = [str(output / name) for name in ('demo.gif', 'demo.png')]
    say.print(f'Pictures: {" and ".join(names)}')
    return names


def _measure(
    record: Record, limits: JointLimits, wall: float, model_error: float, posture_error: float
) -> Report:
    error = record.q - record.command
    hand = np.linalg.norm(
        pa10.link_positions(record.q)[:, 6] - pa10.link_positions(record.command)[:, 6], axis=-1
    )
    steps = np.diff(record.command, axis=0) * RATE
    outside = (
        (record.command < limits.lower)
        | (record.command > limits.upper)
        | (record.q < limits.lower)
        | (record.q > limits.upper)
    )
    outside[1:] |= np.abs(steps) > limits.velocity
    outside[2:] |= np.abs(np.diff(steps, axis=0)) * RATE > limits.acceleration
    return Report(
        version=__version__,
        backend=describe(),
        seconds=float(record.t[-1]),
        wall_seconds=wall,
        command_rate=float(RATE),
        postures=POSTURES,
        model_error_mean=model_error,
        posture_error_max=posture_error,
        tracking_rms_mrad=float(1e3 * np.sqrt(np.mean(error**2))),
        tracking_max_mrad=float(1e3 * np.abs(error).max()),
        hand_error_rms_mm=float(1e3 * np.sqrt(np.mean(hand**2))),
        hand_error_max_mm=float(1e3 * hand.max()),
        torque_share_max=float((np.abs(record.torque) / limits.effort).max()),
        samples_outside_limits=int(outside.any(axis=1).sum()),
        pictures=[],
    )
