"""The demonstration: all nodes in one process, a clip of a person, and the simulated arm."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from kde_imitation import __version__
from kde_imitation.errors import BadInput
from kde_imitation.imitation import Robot
from kde_imitation.kernels.backend import describe
from kde_imitation.nodes.bag import BagNode
from kde_imitation.nodes.base import Spinner
from kde_imitation.nodes.following import Heard, measure
from kde_imitation.nodes.stack import Stack, running_stack
from kde_imitation.nodes.watcher import WatcherNode

__all__ = ['run']


def run(
    seconds: float = 20.0,
    report: Path | None = None,
    output: Path = Path('out'),
    headless: bool = False,
    source: str = 'demo',
    model: str = 'demo',
    record: Path | None = None,
    console: Console | None = None,
) -> int:
    """Run all nodes for so many seconds, then write report and pictures; return 0.

    Parameters
    ----------
    seconds : float
    report : Path, optional
        JSON file for the measurements.
    output : Path
        Folder for the pictures.
    headless : bool
        No window.
    source, model : str
        What the camera shows and what was learned: the bundled ones, or a file, folder, camera.
    record : Path, optional
        Folder for a recording of all topics.
    """
    if not 1 <= seconds <= 3600:
        raise BadInput(f'seconds must be from 1 to 3600, not {seconds:g}.')
    say = console or Console(soft_wrap=True)
    # Traffic of a demonstration stays on this machine unless the user wants otherwise.
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    parameters: dict[str, dict[str, Any]] = {
        '*': {'model': model},
        'camera_node': {'source': source, 'frame_rate': 30.0, 'loop': True},
        # There is no wall in the scene, and a person's arm reaches beyond the shoulder's plane.
        'arm_controller_node': {'enable_at_start': True, 'keep_off_mount': False},
    }
    with ExitStack() as ends:
        stack = ends.enter_context(running_stack(parameters))
        watcher = WatcherNode(names=stack.controller.names, context=stack.context)
        listeners: list[Any] = [watcher]
        if record is not None:
            listeners.append(BagNode(folder=record, context=stack.context))
        spinner = Spinner(listeners, stack.context)
        spinner.start()
        ends.callback(spinner.stop)
        window = _window(stack, headless, say)
        before = _cpu_seconds()
        began = time.perf_counter()
        _show(stack, watcher, seconds, window, say)
        wall = time.perf_counter() - began
        shares = _cpu_shares(before, _cpu_seconds(), wall)
        heard = Heard.of(watcher)
        limits = stack.controller.controller.limits
        period = stack.controller.controller.settings.period
        robot = stack.preimage.model.robot
        dropped = {node.get_name(): node.report.dropped for node in stack.nodes}
    result: dict[str, Any] = {
        'version': __version__,
        'backend': describe(),
        'seconds': wall,
        **measure(heard, limits, robot, period),
        'dropped': dropped,
        'cpu_shares': shares,
        'cpu_total': sum(shares.values()),
    }
    result['pictures_written'] = _draw(heard, robot, output, say)
    _tell(result, say)
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')
        say.print(f'Report: {report}')
    return 0


def _show(stack: Stack, watcher: WatcherNode, seconds: float, window: Any, say: Console) -> None:
    """Wait, with a line that says how it goes."""
    end = time.perf_counter() + seconds
    seen = since = 0
    with Live(console=say, refresh_per_second=4, transient=True) as live:
        while (left := end - time.perf_counter()) > 0:
            time.sleep(min(0.02 if window is not None else 0.25, left))
            if window is not None:
                window.sync()
            command = stack.controller.command
            ages = stack.controller.report.percentiles()
            now = time.monotonic_ns()
            if now - since > 1e9:
                rate = (len(watcher.commands) - seen) / max(1e-9 * (now - since), 1e-9)
                seen, since = len(watcher.commands), now
            if command is not None and ages:
                live.update(
                    f'{command.state.value:<10} {rate:5.1f} commands/s   latency '
                    f'{1e3 * ages["p50"]:4.1f} / {1e3 * ages["p95"]:4.1f} ms (p50 / p95)   '
                    f'behind {1e3 * command.tracking_error:5.1f} mrad   {left:4.0f} s left'
                )


def _window(stack: Stack, headless: bool, say: Console) -> Any:
    """Open MuJoCo's window where there is a screen."""
    if headless:
        return None
    if not (os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')):
        say.print('There is no screen, so no window is opened; pictures are written all the same.')
        return None
    import mujoco.viewer

    return mujoco.viewer.launch_passive(stack.arm.arm.model, stack.arm.arm.data)


def _cpu_seconds() -> dict[str, float]:
    """Return the processor time of each node's threads so far; 'other' is all the rest."""
    ticks = os.sysconf('SC_CLK_TCK')
    spent: dict[str, float] = {}
    for thread in threading.enumerate():
        name = thread.name.removesuffix(' worker')
        if not name.endswith('_node'):
            continue
        path = Path(f'/proc/self/task/{thread.native_id}/stat')
        try:
            fields = path.read_text().rpartition(')')[2].split()
        except OSError:
            # A thread that has just ended, or a system without /proc.
            continue
        spent[name] = spent.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / ticks
    total = time.process_time()
    spent['other'] = max(total - sum(spent.values()), 0.0)
    return spent


def _cpu_shares(
    before: dict[str, float], after: dict[str, float], wall: float
) -> dict[str, float]:
    """Return the share of one core that each node took."""
    return {name: (after[name] - before.get(name, 0.0)) / wall for name in sorted(after)}


def _draw(heard: Heard, robot: Robot, output: Path, say: Console) -> list[str]:
    from kde_imitation.nodes.demo_pictures import draw

    return draw(heard, robot, output, say)


def _tell(result: dict[str, Any], say: Console) -> None:
    def number(name: str, form: str = '.1f') -> str:
        value = result[name]
        return '-' if value is None else format(value, form)

    say.print(
        f'{result["pictures"]} pictures at {number("picture_rate_hz")} a second, '
        f'{result["novel_pictures"]} of them novel; {number("command_rate_hz")} commands a '
        f'second, {result["samples_outside_limits"]} outside the limits.'
    )
    say.print(
        f'From picture to command {number("latency_p50_ms")} ms (median), '
        f'{number("latency_p95_ms")} ms (95 %); at rest the arm is within '
        f'{number("rest_error_max_mm")} mm of its goal ({result["rests"]} rests); '
        f'{100 * result["cpu_total"]:.0f} % of one core.'
    )
