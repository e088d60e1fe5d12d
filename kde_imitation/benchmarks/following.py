"""The whole stack at work: movements as joint trajectories, and nodes that are killed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from kde_imitation.benchmarks.actor import actor_folder, labels_of
from kde_imitation.benchmarks.following_pictures import draw_movement
from kde_imitation.benchmarks.killing import kill, process_stack
from kde_imitation.benchmarks.report import Table, save_picture
from kde_imitation.kinematics.description import joint_limits
from kde_imitation.nodes.base import Spinner
from kde_imitation.nodes.following import Heard, measure
from kde_imitation.nodes.stack import running_stack
from kde_imitation.nodes.watcher import WatcherNode

RATE = 30.0
# Pictures of the camera for each of a set: slow enough for the limits of the arm.
REPEATS = {'raise_A': 8, 'wave_A': 10}
DOMAIN = 87


def run(pictures: Path | None) -> Iterator[Table]:
    """Yield the tables; draw figures 6.12 and 6.13 into `pictures` if given."""
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    yield _movements(pictures)
    yield _killed()


# --- figures 6.12 and 6.13 ---


def _movements(pictures: Path | None) -> Table:
    table = Table(
        'movements',
        'A movement through all nodes, as figures 6.12 and 6.13',
        [
            'set',
            'goal to truth, mm',
            'arm to goal, mm',
            'command rate, Hz',
            'latency p50 / p95, ms',
            'outside limits',
        ],
        notes=[
            'Mean distances over elbow, wrist and hand; the model is the one of the package.',
            'The arm lags behind a goal that moves: its shoulder turns at 1 rad/s at most.',
        ],
    )
    for name, repeats in track(REPEATS.items(), 'Following', transient=True):
        heard, robot, period = _follow(name, repeats)
        record = measure(heard, joint_limits(), robot, period)
        shown = np.clip((heard.goal_times * RATE / repeats).astype(int), 0, None)
        labels = labels_of(name)
        kept = shown < len(labels)
        true = labels[shown[kept]]
        to_truth = 1e3 * robot.errors(heard.goals[kept], true).mean()
        places = np.searchsorted(heard.state_times, heard.goal_times[kept])
        states = heard.states[np.minimum(places, len(heard.states) - 1)]
        to_goal = 1e3 * robot.errors(states, heard.goals[kept]).mean()
        table.add(
            name,
            float(to_truth),
            float(to_goal),
            record['command_rate_hz'],
            f'{record["latency_p50_ms"]:.1f} / {record["latency_p95_ms"]:.1f}',
            record['samples_outside_limits'],
        )
        if pictures is not None:
            truth_times = np.arange(len(labels)) * repeats / RATE
            figure = draw_movement(name, heard, truth_times, labels, robot.names)
            save_picture(figure, pictures, f'following_{name}.png')
    return table


def _follow(name: str, repeats: int) -> tuple[Heard, Any, float]:
    """Show a set to the stack, from the moment the arm is where it begins."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        frames = sorted((actor_folder() / name).glob('[0-9]*.jpg'))
        for frame in frames:
            (Path(folder) / frame.name).symlink_to(frame.resolve())
        order = [frame.name for frame in frames for _ in range(repeats)]
        # The first picture waits until the arm has come to it.
        wait = 5.0
        shown = [frames[0].name] * int(wait * RATE) + order
        (Path(folder) / 'playlist.txt').write_text('\n'.join(shown))
        start = labels_of(name)[0]
        stack = ends.enter_context(
            running_stack(
                {
                    'camera_node': {'source': folder, 'frame_rate': RATE, 'loop': False},
                    'arm_sim_node': {'start': tuple(float(value) for value in start)},
                    'arm_controller_node': {'enable_at_start': True, 'keep_off_mount': False},
                },
                domain_id=DOMAIN,
            )
        )
        watcher = WatcherNode(names=stack.controller.names, context=stack.context)
        spinner = Spinner([watcher], stack.context)
        spinner.start()
        ends.callback(spinner.stop)
        time.sleep(len(shown) / RATE + 1.0)
        heard = Heard.of(watcher)
        robot = stack.preimage.model.robot
        period = stack.controller.controller.settings.period
    return heard.after(wait), robot, period


# --- nodes that are killed ---


def _killed() -> Table:
    table = Table(
        'killed',
        'A node is killed (SIGKILL) while the arm follows, and started again after 2 s',
        [
            'node',
            'speed when killed, rad/s',
            'holds after, s',
            'arm stands after, s',
            'moves by pictures again after the start, s',
            'at the goal again after the start, s',
            'outside limits',
            'largest jump of the arm, mrad',
        ],
        notes=[
            'Holding: the commands are no longer those of a picture, and brake. Standing: the arm '
            'is slower than 0.01 rad/s; braking from full speed takes up to 0.7 s.',
            'At the goal: no joint is further than 0.1 rad from it, while the person moves on.',
            'A jump is the largest change between two joint states, 10 ms apart. A simulated arm '
            'that is started again stands in its start posture, which is no jump.',
        ],
    )
    with process_stack(DOMAIN) as (running, watcher):
        for name in track(list(running), 'Killing', transient=True):
            table.add(name, *kill(name, running, watcher, before=6.0, dead=2.0, after=8.0))
    return table
