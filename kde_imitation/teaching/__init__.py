"""The teach-in: the arm shows postures, a person copies each, and the pairs are stored.

`Session` knows what comes next, what may be stored, and what to tell the person. It has neither
camera nor arm of its own: pictures, joint values and the time are given to it.
"""

from kde_imitation.teaching.looking import Observer
from kde_imitation.teaching.postures import Workspace, read_postures, spread
from kde_imitation.teaching.route import Router
from kde_imitation.teaching.session import Session, Stage, TeachSettings, as_skin_source

__all__ = [
    'Observer',
    'Router',
    'Session',
    'Stage',
    'TeachSettings',
    'Workspace',
    'as_skin_source',
    'read_postures',
    'spread',
]
