"""Moving inside limits: no ROS here."""

from kde_imitation.control.collision import SelfCollisionGuard
from kde_imitation.control.machine import Answer, ArmController, Command, State
from kde_imitation.control.settings import ControlSettings, Parameter
from kde_imitation.control.tracker import Tracker

__all__ = [
    'Answer',
    'ArmController',
    'Command',
    'ControlSettings',
    'Parameter',
    'SelfCollisionGuard',
    'State',
    'Tracker',
]
