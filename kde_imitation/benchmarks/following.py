"""The whole stack at work: movements as joint trajectories, and nodes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from kde_imitation.benchmarks.report import Table, save_picture
from kde_imitation.checks import Floats
from kde_imitation.kinematics.description import joint_limits
from kde_imitation.nodes.base import Spinner, start_ros
from kde_imitation.nodes.following import Heard, measure
from kde_imitation.nodes.main import NODES
from kde_imitation.nodes.ros import rclpy
from kde_imitation.nodes.stack import running_stack
from kde_imitation.nodes.watcher import WatcherNode

RATE = 30.0
# Pictures of the camera for each of a set: slow enough for the limits of the arm.
REPEATS = {'raise_A': 8, 'wave_A': 10}
STACK = (
    *('camera_node', 'pose_feature_node', 'kde_regression_node', 'preimage_node'),
    *('arm_controller_node', 'arm_sim_node'),
)
# Time to follow before a node is killed, until it is started again, and to follow again, seconds.
BEFORE, DEAD, AFTER = 6.0, 2.0, 8.0
# Slower than this the arm holds, radians a second.
STILL = 0.01
# Speeds are differences over so many joint states.
SPAN = 5
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
                    'arm_controller_node': {'enable_at_start': True},
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


class _Process:
    """A node as a process of its own, as `ros2 run` starts it."""

    def __init__(self, name: str) -> None:
        code = f'import sys; from kde_imitation.nodes import main; sys.exit(main.{name}())'
        words = ['--ros-args', '-p', 'enable_at_start:=true'] if 'controller' in name else []
        environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(DOMAIN),
            'OMP_NUM_THREADS': '1',
            'ROS_LOG_DIR': tempfile.gettempdir(),
        }
        self._process = subprocess.Popen(
            [sys.executable, '-c', code, *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(20)


def _killed() -> Table:
    table = Table(
        'killed',
        'A node is killed (SIGKILL) while the arm follows, and started again after 2 s',
        [
            'node',
            'speed when killed, rad/s',
            'arm holds after, s',
            'follows again after the start, s',
            'outside limits',
            'largest jump of the arm, mrad',
        ],
        notes=[
            'Holding: the arm is slower than 0.01 rad/s. Goals may be 0.5 s old before the arm '
            'brakes, joint states 0.1 s; braking from full speed takes up to 0.7 s more.',
            'A jump is the largest change between two joint states, 10 ms apart.',
        ],
    )
    with ExitStack() as ends:
        context = rclpy.Context()
        start_ros(['watch'], context, DOMAIN)
        ends.callback(lambda: rclpy.try_shutdown(context=context))
        watcher = WatcherNode(names=joint_limits().names, context=context)
        spinner = Spinner([watcher], context)
        spinner.start()
        ends.callback(spinner.stop)
        running = {name: _Process(name) for name in STACK}
        ends.callback(_end_all, running)
        _wait_until(lambda: len(watcher.commands) > 100)
        for name in track(STACK, 'Killing', transient=True):
            table.add(name, *_kill(name, running, watcher))
    assert set(STACK) <= set(NODES)
    return table


def _end_all(running: dict[str, _Process]) -> None:
    for process in running.values():
        process.end(signal.SIGKILL)


def _kill(name: str, running: dict[str, _Process], watcher: WatcherNode) -> tuple[Any, ...]:
    """Kill a node in the middle of a movement; return what the arm did."""
    time.sleep(BEFORE)
    _wait_until(lambda: _speed(watcher) > 0.2)
    speed = _speed(watcher)
    running[name].end(signal.SIGKILL)
    killed = watcher.now()
    time.sleep(DEAD)
    running[name] = _Process(name)
    started = watcher.now()
    time.sleep(AFTER)
    times, _, states = watcher.states.arrays(killed)
    gaps = np.maximum(times[SPAN:] - times[:-SPAN], 1e-2)
    speeds = np.abs(states[SPAN:] - states[:-SPAN]).max(axis=1) / gaps
    later = times[SPAN:]
    moving = later[(later > 0) & (later < DEAD) & (speeds > STILL)]
    again = later[(later > 1e-9 * (started - killed)) & (speeds > 5 * STILL)]
    q_times, _, commands = watcher.commands.arrays(killed)
    kept = q_times > -BEFORE
    outside = _outside(q_times[kept], commands[kept])
    around = times > -1.0
    jump = 1e3 * float(np.abs(np.diff(states[around], axis=0)).max())
    return (
        float(speed),
        float(moving[-1]) if len(moving) else 0.0,
        float(again[0] - 1e-9 * (started - killed)) if len(again) else None,
        outside,
        jump,
    )


def _outside(times: Floats, commands: Floats) -> int:
    """Count commands that break a limit; a stream that begins anew is judged from there on."""
    limits = joint_limits()
    far = (commands < limits.lower - 1e-9) | (commands > limits.upper + 1e-9)
    bad = np.asarray(far.any(axis=1))
    speed = np.diff(commands, axis=0) / 0.01
    joined = np.diff(times) < 0.5
    bad[1:] |= joined & (np.abs(speed) > limits.velocity * (1 + 1e-6)).any(axis=1)
    return int(bad.sum())


def _speed(watcher: WatcherNode) -> float:
    times, _, states = watcher.states.arrays(0)
    if len(times) < 6:
        return 0.0
    return float(np.abs(states[-1] - states[-6]).max() / max(times[-1] - times[-6], 1e-3))


def _wait_until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
