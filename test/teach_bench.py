"""What the tests of the teach-in share: a small room, a person in it, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from kde_imitation.dataset import Recorder
from kde_imitation.teaching import Session, Stage, TeachSettings

STEP = 0.1


def room() -> np.ndarray:
    """Return a picture of an empty room with things to see in it."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(110, 180, (6, 8, 3), dtype=np.uint8)
    picture = cv2.resize(coarse, (128, 96), interpolation=cv2.INTER_LINEAR)
    # Grey, because JPEG files keep less of colour.
    picture[::8] -= 40
    picture[:, ::8] -= 40
    return picture


def person(left: int = 50, top: int = 20) -> np.ndarray:
    """Return the room with somebody in it, down to the lower edge."""
    picture = room()
    picture[top:, left : left + 24] = (40, 60, 120)
    picture[top : top + 14, left + 5 : left + 19] = (220, 180, 150)
    return picture


class Teaching:
    """A session with pictures and joint values at 10 Hz."""

    def __init__(
        self, folder: Path, postures: Any, arm: bool = False, joints: int = 7, **settings: Any
    ) -> None:
        self.recorder = Recorder(folder, joints)
        defaults = {'skin': 'none', 'background_frames': 3, 'leave_time': 1.0}
        self.session = Session(
            self.recorder, postures, TeachSettings(**{**defaults, **settings}), arm=arm, wanted=4
        )
        self.now = 100.0
        self.q: np.ndarray | None = None

    def see(self, picture: Any, seconds: float = 0.5) -> None:
        """Let pictures come in for a while; may be a function that makes each."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            if self.q is not None:
                self.session.on_joint_values(self.q, self.now)
            self.session.on_picture(picture() if callable(picture) else picture, self.now)

    def empty_room(self) -> None:
        """Come to the first posture."""
        self.session.capture(self.now)
        self.see(room(), 2.0)
        assert self.session.stage is not Stage.BACKGROUND

    def ask(self, what: str) -> tuple[bool, str]:
        act: Callable[[float], tuple[bool, str]] = getattr(self.session, what)
        return act(self.now)

    def close(self) -> None:
        self.recorder.close()
