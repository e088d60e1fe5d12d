"""Following a moving goal without ever leaving the limits of the joints."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.control.braking import Braking
from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kinematics.description import JointLimits

__all__ = ['START_TOLERANCE', 'Tracker']

START_TOLERANCE = 0.01
"""An arm this far beyond a position limit, radians, is taken to be at it: servos are not exact."""

# Part of the limits that is planned with, so that rounding stays inside them.
_SHARE = 0.999
_ROUNDING = 1e-9
# Goals keep so far from the limits, radians, that the last digits of a plan to them do not matter.
_INSET = 1e-6
_REST = 1e-5

Allow = Callable[[Floats, Braking], bool]


class Tracker:
    """Joint commands at a fixed period that follow a goal as fast as the limits allow.

    Ruckig plans the shortest jerk-limited motion from the present command to the goal, anew
    whenever the goal moves. A step of it is taken only if the joints could still come to rest
    inside their position limits afterwards; otherwise, and whenever Ruckig finds no plan, they
    brake. So every command can be followed by a stop that keeps to the limits, and so do the
    differences of the commands: (q₁ − q₀) / period is within the speed limits and
    (q₂ − 2 q₁ + q₀) / period² within the acceleration limits.

    Parameters
    ----------
    limits : JointLimits
        Of any number of joints; positions may be unlimited, speeds and accelerations not.
    period : float
        Seconds between two commands.
    jerk_time : float
        Seconds in which a joint reaches its acceleration limit. No source gives the jerk that a
        PA-10 bears; a tenth of a second is gentle for an arm of its size.
    ramp_time : float
        Seconds in which the speed scale can rise from 0 to 1, or fall.
    q : (n,) array, optional
        Where to begin; as near to zero as the limits allow unless told.

    Attributes
    ----------
    q, speed, acceleration : (n,) arrays
        The present command, rad, rad/s, rad/s².
    scale : float
        Part of the speed limits in use now.
    scale_goal : float
        Where `scale` is going; set it at any time.
    """

    def __init__(
        self,
        limits: JointLimits,
        period: float = 0.01,
        jerk_time: float = 0.1,
        ramp_time: float = 2.0,
        q: npt.ArrayLike | None = None,
    ) -> None:
        for name, value in (
            ('period', period),
            ('jerk_time', jerk_time),
            ('ramp_time', ramp_time),
        ):
            if not (np.isfinite(value) and value > 0):
                raise BadInput(f'{name} must be a positive number of seconds, not {value}.')
        _check(limits)
        self.limits, self.period, self.ramp_time = limits, period, ramp_time
        self._most = _SHARE * limits.acceleration
        self._jerk = self._most / jerk_time
        self._ruckig = _load_ruckig()
        n = len(limits.names)
        self._planner = self._ruckig.Ruckig(n, period)
        self._input, self._output = (
            kind(n) for kind in (self._ruckig.InputParameter, self._ruckig.OutputParameter)
        )
        self._input.max_acceleration = self._most.tolist()
        self._input.max_jerk = self._jerk.tolist()
        self.scale = self.scale_goal = 1.0
        self.reset(np.clip(np.zeros(n), limits.lower, limits.upper) if q is None else q)

    def reset(self, q: npt.ArrayLike) -> None:
        """Begin anew at rest in a posture (n,), which may be `START_TOLERANCE` beyond a limit."""
        start = as_floats('q', q, (len(self.limits.names),))
        beyond = np.maximum(self.limits.lower - start, start - self.limits.upper)
        if beyond.max() > START_TOLERANCE:
            joint = int(np.argmax(beyond))
            raise BadInput(
                f'Joint {self.limits.names[joint]} is at {start[joint]:.3f} rad, beyond its '
                f'limits {self.limits.lower[joint]:.3f} to {self.limits.upper[joint]:.3f}; move '
                'it back by hand or with its own tools.'
            )
        self.q: Floats = np.clip(start, self.limits.lower, self.limits.upper)
        self.speed: Floats = np.zeros(len(start))
        self.acceleration: Floats = np.zeros(len(start))
        self._before = self.q
        self._plan_braking()

    @property
    def at_rest(self) -> bool:
        """Whether the command does not move, but for the last digits of a plan."""
        return bool(np.abs(self.speed).max() < _REST and np.abs(self.acceleration).max() < _REST)

    @property
    def braking(self) -> Braking:
        """How the joints would come to rest from here."""
        return self._braking

    def track(
        self, goal: npt.ArrayLike, straight: bool = False, allow: Allow | None = None
    ) -> bool:
        """Go on by one period towards a goal (n,); return False if the joints had to brake.

        Parameters
        ----------
        goal : (n,) array
            Where to come to rest; values beyond the limits are taken as the limits.
        straight : bool
            Let the joints arrive together and not each as soon as it can; from rest, and with a
            steady scale, that is on a straight line.
        allow : callable, optional
            Asked before a step is taken with the next posture (n,) and the `Braking` from there;
            False refuses it.
        """
        wanted = as_floats('goal', goal, self.q.shape)
        self._ramp()
        state = self._propose(wanted, straight)
        if state is not None:
            braking = Braking.from_state(*state, self._most, self._jerk)
            if self._keeps_limits(state, braking) and (allow is None or allow(state[0], braking)):
                self._take(state, braking)
                return True
        self.brake()
        return False

    def brake(self) -> None:
        """Go on by one period of the shortest stop."""
        state = self._braking.at(self.period)
        # It was inside the limits up to rounding when it was planned.
        q = np.clip(state[0], self.limits.lower, self.limits.upper)
        self._take((q, *state[1:]), None)

    def _ramp(self) -> None:
        change = self.period / self.ramp_time
        self.scale = min(max(self.scale_goal, self.scale - change), self.scale + change)

    def _propose(self, goal: Floats, straight: bool) -> tuple[Floats, Floats, Floats] | None:
        """Return the next state (q, speed, acceleration) of the plan, or None without a plan."""
        given, limits = self._input, self.limits
        near, far = limits.lower + _INSET, limits.upper - _INSET
        given.target_position = np.clip(goal, near, far).tolist()
        given.current_position = self.q.tolist()
        given.current_velocity = self.speed.tolist()
        given.current_acceleration = self.acceleration.tolist()
        given.max_velocity = (_SHARE * self.scale * limits.velocity).tolist()
        kinds = self._ruckig.Synchronization
        given.synchronization = kinds.Phase if straight else kinds.No
        try:
            result = self._planner.update(given, self._output)
        except (RuntimeError, ValueError, self._ruckig.RuckigError):
            return None
        if result not in (self._ruckig.Result.Working, self._ruckig.Result.Finished):
            return None
        new = self._output
        return (
            np.array(new.new_position),
            np.array(new.new_velocity),
            np.array(new.new_acceleration),
        )

    def _keeps_limits(self, state: tuple[Floats, Floats, Floats], braking: Braking) -> bool:
        """Whether a step to this state, and every stop after it, is inside the limits."""
        q, speed, acceleration = state
        limits, period = self.limits, self.period
        low, high = braking.extremes()
        moved = q - self.q
        bent = moved - (self.q - self._before)
        # Written so that a value that is not a number fails.
        return bool(
            (low >= limits.lower).all()
            and (high <= limits.upper).all()
            and (np.abs(speed) <= limits.velocity).all()
            and (np.abs(acceleration) <= self._most + _ROUNDING).all()
            and (np.abs(moved) <= limits.velocity * period).all()
            and (np.abs(bent) <= limits.acceleration * period**2).all()
        )

    def _take(self, state: tuple[Floats, Floats, Floats], braking: Braking | None) -> None:
        self._before = self.q
        self.q, self.speed, self.acceleration = state
        if braking is None:
            self._plan_braking()
        else:
            self._braking = braking

    def _plan_braking(self) -> None:
        self._braking = Braking.from_state(
            self.q, self.speed, self.acceleration, self._most, self._jerk
        )


def _check(limits: JointLimits) -> None:
    n = len(limits.names)
    if n == 0:
        raise BadInput('The limits name no joint.')
    for name in ('lower', 'upper', 'velocity', 'acceleration'):
        values = np.asarray(getattr(limits, name))
        if values.shape != (n,) or np.isnan(values).any():
            raise BadInput(f'limits.{name} must hold {n} numbers, one a joint, not {values}.')
    for name in ('velocity', 'acceleration'):
        values = getattr(limits, name)
        if not (np.isfinite(values) & (values > 0)).all():
            joint = int(np.argmin(np.isfinite(values) & (values > 0)))
            raise BadInput(
                f'The {name} limit of joint {limits.names[joint]} is {values[joint]}; give it a '
                'positive number.'
            )
    narrow = ~(limits.upper - limits.lower > 4 * _INSET)
    if narrow.any():
        joint = int(np.argmax(narrow))
        raise BadInput(
            f'Joint {limits.names[joint]} has no room between its limits '
            f'{limits.lower[joint]} and {limits.upper[joint]}.'
        )


def _load_ruckig() -> Any:
    try:
        return importlib.import_module('ruckig')
    except ModuleNotFoundError as error:
        raise MissingExtra(
            'Moving the arm needs Ruckig; install it with pip install "kde_imitation[control]".'
        ) from error
