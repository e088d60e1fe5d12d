"""Whether what comes in may be acted upon; if not, a sentence that says why."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.control.settings import ControlSettings
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import JointLimits

__all__ = ['BlockWatch', 'GoalWatch', 'JointStateWatch']

# Times blocked are counted over so many seconds.
_WINDOW = 30.0
# The usual interval between goals is known from so many, and is that of the last so many.
_KNOWN, _REMEMBERED = 5, 15

_AHEAD = (
    'are stamped {:.2f} s ahead of the clock; set use_sim_time alike in all nodes, or synchronise '
    'the clocks of the machines.'
)


class JointStateWatch:
    """The newest joint states, and since when they have been good without a break.

    Attributes
    ----------
    q : (n,) array or None
    stamp : float
        Of the newest good joint states, minus infinity before the first.
    """

    def __init__(self, limits: JointLimits) -> None:
        self._limits = limits
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a reset of the clock."""
        self.q: Floats | None = None
        self.stamp = -np.inf
        self._since: float | None = None
        self._fault = 'No joint states have arrived; start the arm or its driver.'

    def receive(self, q: npt.ArrayLike, stamp: float, settings: ControlSettings) -> None:
        """Take joint states, unless they are older than others or cannot be used."""
        try:
            posture = as_floats('The joint states', q, (len(self._limits.names),))
            stamp = float(as_floats('The stamp of the joint states', stamp, ()))
        except BadInput as error:
            self._fault, self._since = str(error), None
            return
        if stamp <= self.stamp:
            return
        if self.q is not None:
            late = stamp - self.stamp
            moved = np.abs(posture - self.q)
            reach = 1.5 * self._limits.velocity * late + settings.jump_slack
            if late > settings.joint_state_timeout:
                self._fault = f'Joint states were missing for {late:.2f} s.'
                self._since = stamp
            elif (moved > reach).any():
                joint = int(np.argmax(moved - reach))
                self._fault = (
                    f'Joint {self._limits.names[joint]} jumped by {moved[joint]:.3f} rad in '
                    f'{1e3 * late:.0f} ms, faster than it can move.'
                )
                self._since = stamp
        else:
            self._fault = 'Joint states have only just begun.'
        if self._since is None:
            self._since = stamp
        self.q, self.stamp = posture, stamp

    def fresh(self, now: float, settings: ControlSettings) -> bool:
        """Whether the newest joint states are neither too old nor from the future."""
        return abs(now - self.stamp) <= settings.joint_state_timeout

    @property
    def good_for(self) -> float:
        """Seconds for which they have come without a fault."""
        return 0.0 if self._since is None else self.stamp - self._since

    def trouble(self, now: float, settings: ControlSettings, settled: bool = True) -> str:
        """Say why they may not be acted upon; nothing if they may.

        Parameters
        ----------
        now : float
        settings : ControlSettings
        settled : bool
            Ask that they have been good for the settling time.
        """
        if self.q is None:
            return self._fault
        early = self.stamp - now
        if early > settings.joint_state_timeout:
            # Others with right stamps must not be thought old.
            self.forget()
            self._fault = 'The joint states ' + _AHEAD.format(early)
            return self._fault
        if not self.fresh(now, settings):
            return (
                f'Joint states are older than {settings.joint_state_timeout:g} s; is the arm or '
                'its driver still running?'
            )
        if self._since is None:
            return self._fault
        if settled and self.good_for < settings.settle_time - 1e-9:
            return f'{self._fault} Waiting until they have been good for a moment.'
        return ''


class GoalWatch:
    """The newest goal that may be followed, and what speaks against it.

    Attributes
    ----------
    path : (k, n) array or None
        Postures to pass, the last one the goal, inside the position limits.
    stamp : float
        When the picture behind it was taken.
    count : int
        Of goals taken so far: a change says that there is a new one.
    """

    def __init__(self, limits: JointLimits) -> None:
        self._limits = limits
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a reset of the clock."""
        self.path: Floats | None = None
        self.stamp = self._newest = -np.inf
        self._novel = 0
        self._fault = ''
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)
        self._interval = np.inf
        # The stamp that was the newest when it was last looked at, and when it first was.
        self._known_stamp = self._known_at = -np.inf

    def receive(self, path: npt.ArrayLike, stamp: float, novel: bool) -> None:
        """Take a goal (n,) or a path (k, n) to it, unless it is older than another."""
        n = len(self._limits.names)
        try:
            stamp = float(as_floats('The stamp of the goal', stamp, ()))
            if stamp < self._newest:
                return
            self._note(stamp)
            if novel:
                self._novel += 1
                return
            points = as_floats('The goal', path)
            if points.ndim not in (1, 2) or points.shape[-1] != n or points.size == 0:
                raise BadInput(
                    f'The goal must be one posture of {n} joints or a path of some, but has shape '
                    f'{points.shape}.'
                )
        except BadInput as error:
            self._fault = str(error)
            return
        self.path = np.clip(np.atleast_2d(points), self._limits.lower, self._limits.upper)
        self.stamp, self._novel, self._fault = stamp, 0, ''
        self.count += 1

    def _note(self, stamp: float) -> None:
        """Learn from the stamp of a message how often goals come."""
        if stamp > self._newest > -np.inf:
            self._intervals.append(stamp - self._newest)
            if len(self._intervals) >= _KNOWN:
                self._interval = float(np.median(self._intervals))
        self._newest = stamp

    def refuse(self, reason: str) -> None:
        """Follow no goal until another comes."""
        self._fault = reason

    def trouble(self, now: float, settings: ControlSettings) -> str:
        """Say why the goal may not be followed; nothing if it may."""
        early = self._newest - now
        if early > settings.goal_timeout:
            self.forget()
            self._fault = 'The goals ' + _AHEAD.format(early)
        if self._fault:
            return self._fault
        if np.isneginf(self._newest):
            return 'No goal has arrived; is there a picture with a person in it?'
        if now - self._newest > settings.goal_timeout:
            return f'The goal is older than {settings.goal_timeout:g} s; are pictures coming?'
        if self._novel >= settings.novel_limit:
            return 'The picture is unlike all demonstrations.'
        if self.path is None or now - self.stamp > settings.goal_timeout:
            return 'No picture like the demonstrations has come yet.'
        return ''

    def late(self, now: float, settings: ControlSettings) -> str:
        """Say that the next goal has not come when it should have; asked in every period.

        It is the coming that counts, not the stamp: a slow machine's goals are old, yet regular.
        """
        if self._newest != self._known_stamp:
            self._known_stamp, self._known_at = self._newest, now
        if now - self._known_at <= settings.goal_gap * self._interval:
            return ''
        return (
            f'Goals came every {1e3 * self._interval:.0f} ms, but now one is missing; waiting for '
            'the next.'
        )


class BlockWatch:
    """Whether the arm follows its commands, and how often of late it did not.

    Attributes
    ----------
    times : deque of float
        When it was found blocked within the last 30 s.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as an arm that follows."""
        self.times: deque[float] = deque()
        self._free_since: float | None = -np.inf

    def trouble(self, now: float, error: float, settings: ControlSettings) -> str:
        """Say that the arm does not follow, or did not until a moment ago; nothing if it does.

        Parameters
        ----------
        now : float
        error : float
            How far the arm is from its commands in its worst joint, rad.
        settings : ControlSettings
        """
        if error > settings.tracking_tolerance:
            if self._free_since is not None:
                self.times.append(now)
            self._free_since = None
        elif self._free_since is None and error < 0.5 * settings.tracking_tolerance:
            self._free_since = now
        while self.times and now - self.times[0] > _WINDOW:
            self.times.popleft()
        if self._free_since is None or now - self._free_since < settings.settle_time:
            return 'The arm does not follow its commands: blocked, or its drives are off.'
        return ''
