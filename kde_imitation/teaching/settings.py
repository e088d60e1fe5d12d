"""What a session may be told: when a pair is stored, and what counts as rest."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kde_imitation.errors import BadInput
from kde_imitation.vision import Box

__all__ = ['SkinSource', 'TeachSettings', 'as_skin_source', 'beside']

SkinSource = Literal['face', 'none'] | Box


@dataclass(frozen=True)
class TeachSettings:
    """How a session goes.

    Attributes
    ----------
    countdown : float, optional
        Seconds from the arm's rest to storing a pair; 0 stores as soon as the person holds still.
        Without it a pair is stored when `Session.capture` is called.
    capture : str
        How the person does that, for the sentences.
    background_frames : int
        The background is the median of so many pictures.
    leave_time : float
        Seconds that the person has to leave the picture.
    skin : 'face', 'none' or Box
        Where the colours of skin are taken from, if at all.
    patience : float, optional
        Seconds after which a posture is left out by itself if no pair can be stored; for pictures
        that were recorded before and will not get better.
    tolerance : float
        Radians by which the arm may be off its goal.
    rest_time, rest_speed : float
        The arm rests if no joint has been faster for so long, s and rad/s.
    still_time : float
        Seconds for which the person has to hold still.
    picture_timeout, joint_timeout : float
        Pictures and joint values that are older, in seconds, do not count.
    """

    countdown: float | None = None
    capture: str = 'press space'
    background_frames: int = 15
    leave_time: float = 5.0
    skin: SkinSource = 'face'
    patience: float | None = None
    tolerance: float = 0.03
    rest_time: float = 0.3
    rest_speed: float = 0.02
    still_time: float = 0.3
    picture_timeout: float = 1.0
    joint_timeout: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.background_frames <= 1000:
            raise BadInput(
                f'background_frames is {self.background_frames}; choose from 1 to 1000.'
            )
        times = ('leave_time', 'rest_time', 'still_time', 'picture_timeout', 'joint_timeout')
        for name in (*times, 'countdown', 'patience', 'tolerance', 'rest_speed'):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0.0):
                raise BadInput(f'{name} is {value}; it must be 0 or more.')


def as_skin_source(text: str) -> SkinSource:
    """Return what a user named: 'face', 'none', or a rectangle as 'left,top,width,height'."""
    if text in ('face', 'none'):
        return text  # type: ignore[return-value]
    numbers = re.fullmatch(r'\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*', text)
    if numbers is None:
        raise BadInput(
            f"skin is {text!r}; give 'face', 'none', or a rectangle of skin in pixels as "
            "'left,top,width,height'."
        )
    left, top, width, height = (int(number) for number in numbers.groups())
    return Box(top, left, height, width)


def beside(folder: Path, ending: str) -> Path:
    """Return the place beside a folder that has its name and an ending."""
    named = folder if folder.name else folder.resolve()
    return named.with_name(f'{named.name}{ending}')
