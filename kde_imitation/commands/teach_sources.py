"""Who stands before the camera: a person now, a recording, or a data set that plays the person."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from kde_imitation.checks import Floats
from kde_imitation.dataset import Dataset
from kde_imitation.dataset.folder import LABELS
from kde_imitation.dataset.pictures import Image
from kde_imitation.errors import BadInput
from kde_imitation.nodes.sources import DEMO, Device, Recorded, open_source
from kde_imitation.resources import share_file
from kde_imitation.teaching import Session, Stage

__all__ = ['Camera', 'Played', 'Recording', 'Source', 'open_person']

_RETRY = 1.0


class Source(Protocol):
    """Gives the pictures of a session."""

    live: bool
    """whether a picture that is not taken now is gone"""
    postures: Floats | None
    """(k, n): what the person copies, where that is known before"""
    trouble: str
    """why there are no pictures"""

    def picture(self, session: Session, now: float) -> Image | None:
        """Return the next picture, if there is one."""

    def close(self) -> None:
        """Let go of camera and files."""


class Played:
    """A data set with labels: at each posture it shows the picture that belongs to it."""

    live: bool = False
    trouble: str = ''

    def __init__(self, folder: Path, joints: int, count: int | None) -> None:
        self._data = Dataset.open(folder, joints)
        if self._data.background is None:
            raise BadInput(f'{folder} has no background.jpg, the picture of the empty room.')
        available = len(self._data.labelled)
        if not 1 <= (available if count is None else count) <= available:
            raise BadInput(
                f'{folder} has {available} labelled pictures, but {count} postures are wanted.'
            )
        self.postures: Floats | None = self._data.labels[:count]

    def picture(self, session: Session, now: float) -> Image | None:
        """Return the empty room in the beginning, then the person in the present posture."""
        if session.stage is Stage.BACKGROUND:
            return self._data.background
        return self._data.image(int(self._data.labelled[session.index or 0]))

    def close(self) -> None:
        """Nothing is open between two pictures."""


class Recording:
    """A video or a folder of pictures without labels, played in its time."""

    live: bool = False
    postures: Floats | None = None

    def __init__(self, recorded: Recorded, rate: float) -> None:
        self._recorded, self._period = recorded, 1.0 / (recorded.frame_rate or rate)
        self.trouble = ''
        self._next: float | None = None

    def picture(self, session: Session, now: float) -> Image | None:
        """Return the picture that is due; the end ends the session."""
        if self._next is not None and now < self._next - 1e-9:
            return None
        self._next = now + self._period
        image = self._recorded.read()
        if image is None:
            self.trouble = f'{self._recorded.name} has ended.'
            session.finish(now)
        return image

    def close(self) -> None:
        """Let go of the file."""
        self._recorded.close()


class Camera:
    """A camera, tried again while it is away."""

    live: bool = True
    postures: Floats | None = None

    def __init__(self, device: Device) -> None:
        self._device, self.trouble = device, ''
        self._open = False
        self._retry_at = -1.0

    def picture(self, session: Session, now: float) -> Image | None:
        """Wait for the next picture."""
        if not self._open:
            if now < self._retry_at:
                time.sleep(0.02)
                return None
            self._open = self._device.open()
            self._retry_at = now + _RETRY
        self._open = self._open and self._device.wait()
        self.trouble = '' if self._open else f'The camera {self._device.name} gives no pictures.'
        return self._device.picture() if self._open else None

    def close(self) -> None:
        """Let go of the camera."""
        self._device.close()


def open_person(source: str, joints: int, count: int | None, rate: float = 30.0) -> Source:
    """Return the source that a user named.

    Parameters
    ----------
    source : str
        A camera ('0', '/dev/video0', an address), a video, a folder, or 'demo' for the bundled
        clip. A folder with labels plays the person.
    joints : int
    count : int, optional
        How many of its postures; all unless told.
    rate : float
        Pictures a second of recordings that do not say it.
    """
    folder = share_file('clip') if source == DEMO else Path(source).expanduser()
    if (folder / LABELS).is_file():
        return Played(folder, joints, count)
    opened = open_source(source)
    return Camera(opened) if isinstance(opened, Device) else Recording(opened, rate)
