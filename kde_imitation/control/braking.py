"""The shortest jerk-limited way to rest, in closed form: what is left when all else fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kde_imitation.checks import Floats

__all__ = ['Braking']


@dataclass(frozen=True)
class Braking:
    """Joints on their way to rest, each as fast as its limits of acceleration and jerk allow.

    A joint turns its acceleration against its motion with full jerk, holds it at the limit if
    there is time for that, and lets it go with full jerk, so that speed and acceleration end at
    zero together. Joints are independent of each other.

    Attributes
    ----------
    times : (4, n) array
        When each of the three phases begins, and when the joint rests, seconds.
    states : (4, 3, n) array
        Position, speed and acceleration at these times.
    jerks : (3, n) array
    """

    times: Floats
    states: Floats
    jerks: Floats

    @classmethod
    def from_state(
        cls, q: Floats, speed: Floats, acceleration: Floats, most: Floats, jerk: Floats
    ) -> Braking:
        """Plan it from a state, all arrays (n,).

        Parameters
        ----------
        q, speed, acceleration : (n,) arrays
        most, jerk : (n,) arrays
            Largest acceleration and jerk. A present acceleration beyond `most` is brought down.
        """
        # Where the speed ends if the acceleration is only let go; its sign is to be braked.
        drift = speed + acceleration * np.abs(acceleration) / (2.0 * jerk)
        side = np.where(drift < 0.0, -1.0, 1.0)
        v, a = side * speed, side * acceleration
        peak = np.sqrt(np.maximum(jerk * v + 0.5 * a * a, 0.0))
        # Rounding must not ask for less than the present braking.
        peak = np.maximum(np.minimum(peak, most), -a)
        plateau = np.maximum((v + (0.5 * a * a - peak * peak) / jerk), 0.0)
        hold = np.divide(plateau, peak, out=np.zeros_like(peak), where=peak > 0.0)
        spans = np.stack([(a + peak) / jerk, hold, peak / jerk])
        jerks = np.stack([-side * jerk, np.zeros_like(jerk), side * jerk])
        states = np.empty((4, 3, len(q)))
        states[0] = q, speed, acceleration
        for i in range(3):
            states[i + 1] = _advance(states[i], jerks[i], spans[i])
        states[3, 1:] = 0.0
        times = np.concatenate([np.zeros((1, len(q))), np.cumsum(spans, axis=0)])
        return cls(times, states, jerks)

    @property
    def duration(self) -> float:
        """When the last joint rests, seconds."""
        return float(self.times[3].max())

    @property
    def rest(self) -> Floats:
        """Where the joints come to rest, (n,)."""
        return np.asarray(self.states[3, 0])

    def at(self, t: float) -> tuple[Floats, Floats, Floats]:
        """Return position, speed and acceleration after t seconds, each (n,)."""
        if t >= self.duration:
            return self.rest.copy(), *np.zeros((2, self.times.shape[1]))
        phase = np.minimum((t >= self.times[1:]).sum(axis=0), 3)
        joint = np.arange(self.times.shape[1])
        start = self.states[phase, :, joint].T
        jerk = np.where(phase < 3, self.jerks[np.minimum(phase, 2), joint], 0.0)
        q, speed, acceleration = _advance(start, jerk, t - self.times[phase, joint])
        return q, speed, acceleration

    def positions(self, t: Floats) -> Floats:
        """Return the positions (k, n) after times (k,)."""
        late = np.asarray(t)[:, None] - self.times[:, None]
        phase = np.clip((late[1:] >= 0.0).sum(axis=0), 0, 2)
        joint = np.arange(self.times.shape[1])
        q, speed, acceleration = np.moveaxis(self.states[phase, :, joint], -1, 0)
        # Nothing moves on after the last phase.
        most = self.times[phase + 1, joint] - self.times[phase, joint]
        span = np.minimum(late[phase, np.arange(len(t))[:, None], joint], most)
        jerk = self.jerks[phase, joint]
        return np.asarray(q + span * (speed + span * (acceleration / 2.0 + span * jerk / 6.0)))

    def extremes(self) -> tuple[Floats, Floats]:
        """Return the least and the greatest position of each joint on the way, (n,) each."""
        q, speed, acceleration = self.states[0]
        # The one place to turn round on the way is in the first phase, where the speed is zero:
        # from then on the speed keeps the sign that is braked.
        jerk = self.jerks[0]
        turns = speed * jerk > 0.0
        root = np.sqrt(np.maximum(acceleration**2 - 2.0 * jerk * speed, 0.0))
        t = np.where(turns, 2.0 * np.abs(speed), 0.0) / np.where(
            turns, np.abs(acceleration) + root, 1.0
        )
        turning = _advance(self.states[0], jerk, t)[0]
        ends = np.stack([q, self.rest, np.where(turns, turning, q)])
        return ends.min(axis=0), ends.max(axis=0)


def _advance(state: Floats, jerk: Floats, t: Floats | float) -> Floats:
    """Return (3, n) position, speed, acceleration after t seconds of constant jerk."""
    q, speed, acceleration = state
    bent, after = t * jerk, np.empty_like(state)
    after[0] = q + t * (speed + t * (acceleration / 2.0 + bent / 6.0))
    after[1] = speed + t * (acceleration + bent / 2.0)
    after[2] = acceleration + bent
    return after
