"""The controller of the arm: when it may move, and when it must not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.control.braking import Braking
from kde_imitation.control.collision import SelfCollisionGuard
from kde_imitation.control.pursuit import ahead, remaining
from kde_imitation.control.settings import ControlSettings
from kde_imitation.control.tracker import Tracker
from kde_imitation.control.watch import BlockWatch, GoalWatch, JointStateWatch
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import JointLimits

__all__ = ['Answer', 'ArmController', 'Command', 'State']

# Joint states that jumped and then stayed for so long are believed, seconds.
_BELIEVED = 0.04
# A call sooner after the last one than this part of the period makes no command.
_TOO_SOON = 0.2


class State(StrEnum):
    """What the controller does with the arm."""

    DISABLED = 'disabled'
    STOPPED = 'stopped'
    HOLDING = 'holding'
    ALIGNING = 'aligning'
    FOLLOWING = 'following'


class Answer(NamedTuple):
    """What becomes of a request, and a sentence for the person who made it."""

    ok: bool
    message: str


@dataclass(frozen=True, eq=False)
class Command:
    """What to send to the arm now.

    Attributes
    ----------
    q, velocity : (n,) arrays or None
        Positions and speeds of the joints; None where nothing is to be sent.
    state : State
    reason : str
        A sentence.
    goal_stamp : float or None
        When the picture was taken that the arm follows with this command.
    tracking_error : float
        How far the arm is from its commands in its worst joint, rad; nan while not known.
    speed_scale : float
        Part of the speed limits in use.
    """

    q: Floats | None
    velocity: Floats | None
    state: State
    reason: str
    goal_stamp: float | None
    tracking_error: float
    speed_scale: float


class ArmController:
    """Turns joint states and goals into commands for the arm, one a period.

    Every time is given by the caller in seconds, of one clock; there is none inside. What comes
    in never raises an error: what cannot be used makes the arm hold, with a reason.

    Parameters
    ----------
    limits : JointLimits
    settings : ControlSettings
    guard : SelfCollisionGuard, optional
        Keeps the links apart; without it they are not watched.
    """

    def __init__(
        self,
        limits: JointLimits,
        settings: ControlSettings | None = None,
        guard: SelfCollisionGuard | None = None,
    ) -> None:
        self.limits = limits
        self.settings = settings or ControlSettings()
        self.guard = guard
        self.state = State.DISABLED
        self.reason = 'Not enabled yet.'
        self._tracker = Tracker(limits, self.settings.period, self.settings.jerk_time)
        self._joint_states = JointStateWatch(limits)
        self._goals = GoalWatch(limits)
        self._blocked = BlockWatch()
        self._now: float | None = None
        # Whether commands go to the arm; whether they pause; whether it may be elsewhere.
        self._engaged = self._silent = self._lost = False
        # What the arm did when a goal failed to come, until the next has come.
        self._paused: tuple[State, str] | None = None
        # Where a blocked arm stood when it was stopped, until the command is there too.
        self._retreat: Floats | None = None
        # Why the arm had to brake for its own links, and at which goal; which goal was checked.
        self._barred = ''
        self._barred_at = self._checked = -1
        self._sent: Floats = np.empty(0)
        self._refill()
        self._begin()

    def on_joint_states(self, q: npt.ArrayLike, stamp: float) -> None:
        """Take where the joints are, (n,) in the order of the limits, and when that was."""
        self._joint_states.receive(q, stamp, self.settings)

    def on_goal(self, path: npt.ArrayLike, stamp: float, novel: bool = False) -> None:
        """Take a goal.

        Parameters
        ----------
        path : (n,) or (k, n) array
            A posture, or a path of which the last posture is the goal.
        stamp : float
            When the picture behind it was taken.
        novel : bool
            Whether the picture is unlike all demonstrations; then the goal is not taken.
        """
        self._goals.receive(path, stamp, novel)

    def enable(self, on: bool) -> Answer:
        """Let the arm move, or bring it to rest and send no more commands."""
        if not on:
            self._turn(State.DISABLED, 'Disabled on request.')
            return Answer(True, 'The arm is brought to rest; then nothing more is sent to it.')
        if self.state not in (State.DISABLED, State.STOPPED):
            return Answer(True, f'Enabled already. {self.reason}')
        if self._now is None:
            return Answer(False, 'Not enabled: the controller has not run yet; try again.')
        trouble = self._joint_states.trouble(self._now, self.settings, settled=False)
        if trouble:
            return Answer(False, f'Not enabled: {trouble}')
        try:
            if not self._engaged or self._tracker.at_rest:
                self._restart()
        except BadInput as error:
            return Answer(False, f'Not enabled: {error}')
        self._engaged = True
        self._begin()
        self._turn(State.HOLDING, 'Enabled; about to begin.')
        return Answer(True, 'Enabled: the arm moves as soon as there is a goal.')

    def stop(self) -> Answer:
        """Bring the arm to rest as fast as its limits allow; only enabling lets it move again."""
        self._turn(State.STOPPED, 'Stopped on request; enable to go on.')
        self._retreat = None
        return Answer(True, 'The arm stops; enable it to go on.')

    def configure(self, settings: ControlSettings) -> None:
        """Change settings while running; those that are not `live` must stay as they are."""
        for parameter in ControlSettings.parameters():
            name = parameter.name
            if not parameter.live and getattr(settings, name) != getattr(self.settings, name):
                raise BadInput(f'{name} cannot change while the controller runs; restart it.')
        delay = self.settings.arm_delay
        self.settings = settings
        self._tracker.scale_goal = settings.speed_scale
        self._tracker.ramp_time = settings.ramp_time
        if settings.arm_delay != delay:
            self._refill()

    def step(self, now: float) -> Command:
        """Go on by one period, and return what to send to the arm."""
        if not np.isfinite(now):
            raise BadInput(f'now must be a time in seconds, not {now}.')
        if self._now is not None:
            passed = now - self._now
            if 0.0 <= passed < _TOO_SOON * self.settings.period:
                return self._command(send=False)
            if passed < -self.settings.joint_state_timeout:
                self._forget_time()
        self._now = now
        bad_states = self._joint_states.trouble(now, self.settings)
        self._find_arm(now, bad_states)
        error = self._tracking_error(bad_states)
        if self.state in (State.DISABLED, State.STOPPED):
            self._come_to_rest()
        else:
            self._move(now, bad_states, error)
        return self._finish(error)

    def _move(self, now: float, bad_states: str, error: float) -> None:
        """Take one step while enabled."""
        if bad_states:
            self._turn(State.HOLDING, bad_states)
            self._tracker.brake()
            return
        blocked = self._blocked.trouble(now, error, self.settings)
        times = len(self._blocked.times)
        if blocked and times >= self.settings.blocked_limit:
            self._turn(
                State.STOPPED, f'{blocked} Found {times} times; see to it, then enable again.'
            )
            self._retreat = self._joint_states.q
            self._come_to_rest()
        elif blocked:
            self._turn(State.HOLDING, blocked)
            # Not pressed on against what is in the way: the command goes back to the arm.
            assert self._joint_states.q is not None
            self._tracker.track(self._joint_states.q)
        else:
            self._check_goal()
            bad_goal = self._goals.trouble(now, self.settings)
            late = self._goals.late(now, self.settings)
            if bad_goal:
                self._turn(State.HOLDING, bad_goal)
                self._tracker.brake()
            elif late:
                before = self._paused or (self.state, self.reason)
                self._turn(State.HOLDING, late)
                self._paused = before
                self._tracker.brake()
            else:
                self._pursue()

    def _come_to_rest(self) -> None:
        """Brake, or go back from what blocked the arm."""
        if self._retreat is None:
            self._tracker.brake()
            return
        self._tracker.track(self._retreat)
        if self._tracker.at_rest:
            self._retreat = None

    def _pursue(self) -> None:
        """Take one step towards the goal."""
        tracker, path = self._tracker, self._goals.path
        assert path is not None
        way = remaining(path, tracker.q)
        if self._barred and not self._way_is_clear(way):
            self._turn(State.HOLDING, self._barred)
            tracker.brake()
            return
        self._barred = ''
        if self._paused is not None:
            self._turn(*self._paused)
        if self.state is State.HOLDING:
            self._turn(State.ALIGNING, 'Moving to the goal, slowly at first.')
            self._slow_down()
        straight = self.state is State.ALIGNING
        target = ahead(way, self.settings.lookahead)
        tracker.track(target, straight, self._guarded if self.guard else None)
        if self._barred:
            self._turn(State.HOLDING, self._barred)
        elif straight and np.abs(tracker.q - path[-1]).max() <= self.settings.align_tolerance:
            self._turn(State.FOLLOWING, 'Following the person.')

    def _guarded(self, q: Floats, braking: Braking) -> bool:
        """Ask the guard about a step, and remember its refusal."""
        assert self.guard is not None
        if self.guard.allows(self._tracker.q, q, braking):
            return True
        near = self.guard.nearest(braking.rest)
        self._barred = (
            f'On the way to the goal links {near.first} and {near.second} would come too near to '
            'each other; waiting for a goal with a free way.'
        )
        self._barred_at = self._goals.count
        return False

    def _way_is_clear(self, way: Floats) -> bool:
        """Whether a new goal frees an arm that had to brake for its own links."""
        if not self._tracker.at_rest or self._goals.count == self._barred_at:
            return False
        self._barred_at = self._goals.count
        assert self.guard is not None
        points = [self._tracker.q, *way]
        return all(self.guard.clear_line(a, b) for a, b in pairwise(points))

    def _check_goal(self) -> None:
        """Refuse a new goal in which links are too near to each other."""
        if self.guard is None or self._goals.path is None or self._goals.count == self._checked:
            return
        self._checked = self._goals.count
        goal = self._goals.path[-1]
        if not self.guard.safe(goal):
            near = self.guard.nearest(goal)
            self._goals.refuse(
                f'The goal is refused: in it links {near.first} and {near.second} are '
                f'{1e3 * near.distance:.0f} mm apart, but {1e3 * self.guard.margin:.0f} mm are '
                'asked for.'
            )

    def _find_arm(self, now: float, bad_states: str) -> None:
        """Go to where the arm is, if it was found elsewhere after its joint states failed."""
        states, settings = self._joint_states, self.settings
        if now - states.stamp > settings.silence_after + settings.joint_state_timeout:
            self._silent = True
        self._lost = self._lost or bool(bad_states)
        believed = not bad_states or states.good_for >= _BELIEVED - 1e-9
        if not (self._lost and believed and states.fresh(now, settings)):
            return
        self._lost = bool(bad_states)
        assert states.q is not None
        away = self._distance(states.q)
        try:
            if away > settings.tracking_tolerance:
                # A stopped arm is not to move, wherever it is; so nothing is sent to it.
                self._silent = self._lost = self.state is State.STOPPED
                if not self._silent:
                    self._restart()
            else:
                self._silent = False
        except BadInput as error:
            self._silent = self._lost = True
            if self.state is not State.DISABLED:
                self._turn(State.STOPPED, f'{error} Then enable again.')

    def _tracking_error(self, bad_states: str) -> float:
        """Return how far the arm is from what it was sent within its delay, rad."""
        q = self._joint_states.q
        if q is None or bad_states or not self._engaged:
            return float('nan')
        return self._distance(q)

    def _distance(self, q: Floats) -> float:
        """Return how far a posture (n,) is from all commands of the last moments, rad."""
        low, high = self._sent.min(axis=0), self._sent.max(axis=0)
        return float(np.maximum(np.maximum(low - q, q - high), 0.0).max())

    def _finish(self, error: float) -> Command:
        """Note what is sent, and say it."""
        resting = self._tracker.at_rest and self._retreat is None
        if resting and self.state is State.DISABLED:
            self._engaged = False
        moved_away = self.state is State.STOPPED and error > self.settings.tracking_tolerance
        send = self._engaged and not (resting and (self._silent or moved_away))
        self._sent[1:] = self._sent[:-1]
        self._sent[0] = self._tracker.q
        return self._command(send, error)

    def _command(self, send: bool, error: float = float('nan')) -> Command:
        tracker = self._tracker
        moving = self.state in (State.ALIGNING, State.FOLLOWING)
        return Command(
            tracker.q.copy() if send else None,
            tracker.speed.copy() if send else None,
            self.state,
            self.reason,
            self._goals.stamp if moving else None,
            error if send else float('nan'),
            tracker.scale,
        )

    def _turn(self, state: State, reason: str) -> None:
        self.state, self.reason, self._paused = state, reason, None

    def _begin(self) -> None:
        """Forget what was held against the arm before it was enabled."""
        self._blocked.forget()
        self._barred = ''
        self._barred_at = self._checked = -1
        self._lost = self._silent = False
        self._retreat = None
        self._slow_down()

    def _slow_down(self) -> None:
        """Let the speed rise anew from the scale of a start."""
        tracker, settings = self._tracker, self.settings
        tracker.ramp_time, tracker.scale_goal = settings.ramp_time, settings.speed_scale
        tracker.scale = min(settings.start_scale, settings.speed_scale)

    def _restart(self) -> None:
        """Begin at rest where the arm is."""
        assert self._joint_states.q is not None
        self._tracker.reset(self._joint_states.q)
        self._refill()
        self._barred = ''

    def _refill(self) -> None:
        """Let the commands of the last moments be the present one."""
        count = round(self.settings.arm_delay / self.settings.period) + 1
        self._sent = np.tile(self._tracker.q, (count, 1))

    def _forget_time(self) -> None:
        """Begin anew with a clock that was set back; the arm may be anywhere now."""
        self._joint_states.forget()
        self._goals.forget()
        self._blocked.forget()
        self._barred = ''
        self._lost = True
