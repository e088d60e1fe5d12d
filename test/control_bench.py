"""A controller on the bench, for its tests: an arm and a source of goals that can be disturbed."""

import numpy as np

from kde_imitation.control import ArmController, ControlSettings
from kde_imitation.kinematics.description import joint_limits

PA10 = joint_limits()
PERIOD = 0.01
READY = np.radians([0.0, 40.0, 0.0, 70.0, 0.0, 40.0, 0.0])
GOAL = READY + np.array([0.5, -0.4, 0.3, 0.5, -0.6, 0.2, 0.4])


class Bench:
    """A controller, an arm that does as it is told after a delay, and a source of goals."""

    def __init__(self, q=READY, delay=1, guard=None, **changes):
        self.controller = ArmController(PA10, ControlSettings(**changes), guard)
        self.t, self.q, self.goal = 100.0, np.array(q), GOAL
        self.states, self.goals, self.novel, self.blocked = True, True, False, False
        self.sent, self.log = [self.q] * delay, []

    def step(self):
        self.t += PERIOD
        if self.states:
            self.controller.on_joint_states(self.q, self.t)
        if self.goals and round(self.t / PERIOD) % 3 == 0:
            self.controller.on_goal(self.goal, self.t - 0.01, self.novel)
        command = self.controller.step(self.t)
        self.log.append(command)
        if command.q is not None:
            self.sent.append(command.q)
            if not self.blocked:
                self.q = self.sent.pop(0)
        return command

    def run(self, seconds):
        return [self.step() for _ in range(round(seconds / PERIOD))]

    def until(self, state, seconds=10.0):
        for _ in range(round(seconds / PERIOD)):
            if self.step().state is state:
                return self
        raise AssertionError(f'not {state} but {self.controller.state}: {self.controller.reason}')

    def moving(self):
        """Go on until the arm is in full motion."""
        self.run(0.3)
        assert self.controller.enable(True).ok
        self.run(1.0)
        assert np.abs(self.log[-1].velocity).max() > 0.2
        return self


def assert_inside(commands):
    q = np.array([command.q for command in commands if command.q is not None])
    speed = np.diff(q, axis=0) / PERIOD
    assert (q >= PA10.lower).all()
    assert (q <= PA10.upper).all()
    assert (np.abs(speed) <= PA10.velocity).all()
    assert (np.abs(np.diff(speed, axis=0)) / PERIOD <= PA10.acceleration).all()
