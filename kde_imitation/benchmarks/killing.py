"""All nodes as processes, of which one is killed while the arm follows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.errors import KdeImitationError
from kde_imitation.kinematics.description import joint_limits
from kde_imitation.nodes.base import Spinner, start_ros
from kde_imitation.nodes.main import NODES
from kde_imitation.nodes.ros import rclpy
from kde_imitation.nodes.watcher import WatcherNode

__all__ = ['Killed', 'kill', 'process_stack']

# From the camera to the arm; teach-in and viewer are no part of following.
STACK = tuple(name for name in NODES if name not in ('teach_node', 'viewer_node'))
# Slower than this the arm stands, radians a second.
STILL = 0.01
# Faster than this it is in motion, and may be killed.
MOVING = 0.2
# Nearer than this it is at its goal, radians.
NEAR = 0.1
# Speeds are differences over so many joint states.
SPAN = 5
# Commands further apart are two streams, seconds.
APART = 0.5
# Stamps before this are none, seconds before the kill.
LONG_AGO = 1e6


class Killed(NamedTuple):
    """What the arm did when a node was killed; times in seconds, None for never.

    `holds` and `stands` count from the kill, `again` and `arrived` from the start of the new
    process.
    """

    speed: float
    holds: float | None
    stands: float | None
    again: float | None
    arrived: float | None
    outside: int
    jump: float


class NodeProcess:
    """A node as a process of its own, as `ros2 run` starts it."""

    def __init__(self, name: str, domain: int) -> None:
        code = f'import sys; from kde_imitation.nodes import main; sys.exit(main.{name}())'
        words = (
            ['--ros-args', '-p', 'enable_at_start:=true', '-p', 'keep_off_mount:=false']
            if name == 'arm_controller_node'
            else []
        )
        environment = {
            **os.environ,
            'ROS_DOMAIN_ID': str(domain),
            'OMP_NUM_THREADS': '1',
            'ROS_LOG_DIR': tempfile.gettempdir(),
        }
        self._domain, self._name = domain, name
        self._process = subprocess.Popen(
            [sys.executable, '-c', code, *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)

    def again(self) -> NodeProcess:
        """Start another in its place."""
        return NodeProcess(self._name, self._domain)


@contextmanager
def process_stack(domain: int) -> Iterator[tuple[dict[str, NodeProcess], WatcherNode]]:
    """Run all nodes on the bundled clip, each as a process, with a node that watches them.

    Parameters
    ----------
    domain : int
        Of DDS.
    """
    with ExitStack() as ends:
        context = rclpy.Context()
        start_ros(['watch'], context, domain)
        ends.callback(lambda: rclpy.try_shutdown(context=context))
        watcher = WatcherNode(names=joint_limits().names, context=context)
        spinner = Spinner([watcher], context)
        spinner.start()
        ends.callback(spinner.stop)
        running = {name: NodeProcess(name, domain) for name in STACK}
        ends.callback(_kill_all, running)
        _wait_until(lambda: len(watcher.commands) > 100, 'commands')
        yield running, watcher


def _kill_all(running: dict[str, NodeProcess]) -> None:
    for process in running.values():
        process.kill()


def kill(
    name: str,
    running: dict[str, NodeProcess],
    watcher: WatcherNode,
    before: float,
    dead: float,
    after: float,
) -> Killed:
    """Kill a node in the middle of a movement, start it again, and return what the arm did.

    Parameters
    ----------
    name : str
    running, watcher
        As `process_stack` gives them; the new process takes its place among the running.
    before, dead, after : float
        Seconds to follow first, until the new start, and to follow again.
    """
    time.sleep(before)
    _wait_until(lambda: _speed(watcher) > MOVING, 'a movement of the arm')
    speed = _speed(watcher)
    killed = watcher.now()
    running[name].kill()
    time.sleep(dead)
    started = 1e-9 * (watcher.now() - killed)
    running[name] = running[name].again()
    time.sleep(after)

    times, stamps, commands = watcher.commands.arrays(killed)
    # A command that follows no picture has no stamp, which is long ago.
    by_picture = stamps > -LONG_AGO
    state_times, _, states = watcher.states.arrays(killed)
    at, speeds = _speeds(state_times, states)
    goal_times, _, goals = watcher.goals.arrays(killed)
    newest = np.maximum(np.searchsorted(goal_times, state_times) - 1, 0)
    near = np.abs(states - goals[newest]).max(axis=1) < NEAR
    holds = _first(times[(times > 0.0) & ~by_picture])
    if name == 'arm_controller_node':
        # Without commands the arm is held by its own servos.
        holds = float(times[times < started].max(initial=0.0))
    again = _first(times[(times > started) & by_picture])
    arrived = None if again is None else _first(state_times[(state_times > again) & near])
    around = state_times > -1.0
    steps = np.abs(np.diff(states[around], axis=0)).max(axis=1)
    together = np.diff(state_times[around]) < APART
    recent = times > -before
    return Killed(
        float(speed),
        holds,
        _first(at[(at > 0.0) & (at < started) & (speeds < STILL)]),
        None if again is None else again - started,
        None if arrived is None else arrived - started,
        _outside(times[recent], commands[recent]),
        1e3 * float(steps[together].max()),
    )


def _first(times: Floats) -> float | None:
    return float(times[0]) if len(times) else None


def _speeds(times: Floats, states: Floats) -> tuple[Floats, Floats]:
    """Return times (n,), and how fast the fastest joint (n,) moved in the moments before."""
    gaps = np.maximum(times[SPAN:] - times[:-SPAN], 1e-2)
    return times[SPAN:], np.abs(states[SPAN:] - states[:-SPAN]).max(axis=1) / gaps


def _outside(times: Floats, commands: Floats) -> int:
    """Count commands that break a limit; a stream that begins anew is judged from there on."""
    limits = joint_limits()
    far = (commands < limits.lower - 1e-9) | (commands > limits.upper + 1e-9)
    bad = np.asarray(far.any(axis=1))
    speed = np.diff(commands, axis=0) / 0.01
    joined = np.diff(times) < APART
    bad[1:] |= joined & (np.abs(speed) > limits.velocity * (1 + 1e-6)).any(axis=1)
    return int(bad.sum())


def _speed(watcher: WatcherNode) -> float:
    times, _, states = watcher.states.arrays(0, SPAN + 1)
    return float(_speeds(times, states)[1][0]) if len(times) > SPAN else 0.0


def _wait_until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise KdeImitationError(f'The nodes ran for {seconds:g} s without {what}.')
        time.sleep(0.01)
