"""How well the arm followed: what the watcher heard, as numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.imitation import Robot
from kde_imitation.kinematics.description import JointLimits
from kde_imitation.nodes.watcher import WatcherNode

__all__ = ['Heard', 'measure']

# A goal rests while its points move by no more than this, metres, for so long, seconds.
STILL, RESTING = 0.01, 1.5
# Rounding of a sum of floats, as a share of a limit.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Heard:
    """What passed over the topics; times in seconds from the first picture."""

    command_times: Floats
    command_stamps: Floats
    commands: Floats
    state_times: Floats
    states: Floats
    goal_times: Floats
    goals: Floats
    picture_times: Floats
    pictures: list[tuple[float, npt.NDArray[np.uint8]]]
    novel: int

    @classmethod
    def of(cls, watcher: WatcherNode) -> Heard:
        """Take over what a watcher kept."""
        start = watcher.picture_times[0] if watcher.picture_times else watcher.now()
        command_times, command_stamps, commands = watcher.commands.arrays(start)
        state_times, _, states = watcher.states.arrays(start)
        goal_times, _, goals = watcher.goals.arrays(start)
        return cls(
            command_times,
            command_stamps,
            commands,
            state_times,
            states,
            goal_times,
            goals,
            1e-9 * (np.array(watcher.picture_times, dtype=np.int64) - start),
            [(1e-9 * (when - start), picture) for when, picture in watcher.pictures],
            watcher.goals.empty,
        )

    def after(self, seconds: float) -> Heard:
        """Return what was heard from then on, with times counted from then."""
        commands, states = self.command_times >= seconds, self.state_times >= seconds
        goals = self.goal_times >= seconds
        return Heard(
            self.command_times[commands] - seconds,
            self.command_stamps[commands] - seconds,
            self.commands[commands],
            self.state_times[states] - seconds,
            self.states[states],
            self.goal_times[goals] - seconds,
            self.goals[goals],
            self.picture_times[self.picture_times >= seconds] - seconds,
            [(when - seconds, picture) for when, picture in self.pictures if when >= seconds],
            self.novel,
        )


def measure(heard: Heard, limits: JointLimits, robot: Robot, period: float) -> dict[str, Any]:
    """Return rates, latency, limits kept and errors at rest, as plain numbers."""
    record: dict[str, Any] = {
        'pictures': len(heard.picture_times),
        'picture_rate_hz': _rate(heard.picture_times),
        'goals': len(heard.goal_times),
        'novel_pictures': heard.novel,
        'commands': len(heard.command_times),
        'command_rate_hz': _rate(heard.command_times),
    }
    record |= _latency(heard)
    record |= _limits_kept(heard, limits, period)
    record |= _at_rest(heard, robot)
    return record


def _rate(times: Floats) -> float | None:
    return float((len(times) - 1) / (times[-1] - times[0])) if len(times) > 1 else None


def _latency(heard: Heard) -> dict[str, Any]:
    """Measure from the stamp of a picture to the first command that it caused."""
    caused = heard.command_stamps > -1e3
    stamps, first = np.unique(heard.command_stamps[caused], return_index=True)
    ages = heard.command_times[caused][first] - stamps
    if not len(ages):
        return {'latency_p50_ms': None, 'latency_p95_ms': None, 'latency_max_ms': None}
    middle, high = np.quantile(ages, [0.5, 0.95])
    return {
        'latency_p50_ms': 1e3 * float(middle),
        'latency_p95_ms': 1e3 * float(high),
        'latency_max_ms': 1e3 * float(ages.max()),
    }


def _limits_kept(heard: Heard, limits: JointLimits, period: float) -> dict[str, Any]:
    """Hold every command against position, speed and acceleration; differences are of samples."""
    q = heard.commands
    if len(q) < 3:
        return {'samples_outside_limits': None}
    speed = np.diff(q, axis=0) / period
    acceleration = np.diff(speed, axis=0) / period
    outside = np.zeros(len(q), dtype=bool)
    outside |= ((q < limits.lower - 1e-9) | (q > limits.upper + 1e-9)).any(axis=1)
    share = np.abs(speed) / limits.velocity
    push = np.abs(acceleration) / limits.acceleration
    outside[1:] |= (share > 1 + ROUNDING).any(axis=1)
    outside[2:] |= (push > 1 + ROUNDING).any(axis=1)
    return {
        'samples_outside_limits': int(outside.sum()),
        'largest_speed_share': float(share.max()),
        'largest_acceleration_share': float(push.max()),
    }


def _at_rest(heard: Heard, robot: Robot) -> dict[str, Any]:
    """Measure how far the arm is from its goal at the end of each rest of the goal."""
    none = {'rests': 0, 'rest_error_mean_mm': None, 'rest_error_max_mm': None}
    if len(heard.goal_times) < 2 or not len(heard.state_times):
        return none
    points = robot.kinematics.link_positions(heard.goals)[:, [robot.elbow, robot.wrist, -1]]
    step = np.linalg.norm(np.diff(points, axis=0), axis=2).max(axis=1)
    # Stretches of goals between two of which nothing moves; each ends where one does.
    edges = np.concatenate([[0], np.flatnonzero(step > STILL) + 1, [len(points)]])
    errors = []
    for first, end in itertools.pairwise(edges):
        last = end - 1
        if heard.goal_times[last] - heard.goal_times[first] < RESTING:
            continue
        place = int(np.searchsorted(heard.state_times, heard.goal_times[last]))
        state = heard.states[min(place, len(heard.states) - 1)]
        errors.append(1e3 * float(robot.errors(state[None], heard.goals[last][None])[0]))
    if not errors:
        return none
    return {
        'rests': len(errors),
        'rest_error_mean_mm': float(np.mean(errors)),
        'rest_error_max_mm': float(np.max(errors)),
    }
