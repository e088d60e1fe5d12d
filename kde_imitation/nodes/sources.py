"""Where pictures come from: a camera, a stream, a video, a folder, the bundled clip; no ROS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.dataset import read_image
from kde_imitation.dataset.folder import frames_in
from kde_imitation.errors import BadInput
from kde_imitation.resources import share_file

__all__ = ['Device', 'Folder', 'Recorded', 'Video', 'open_source']

Picture = npt.NDArray[np.uint8]

DEMO = 'demo'
_PLAYLIST = 'playlist.txt'
_VIDEOS = ('.mp4', '.avi', '.mkv', '.mov', '.webm', '.m4v', '.mjpeg', '.mpg')
# How long a stream from the network may be silent, ms.
_PATIENCE = 3000


class Recorded(Protocol):
    """Pictures that are there already, one after the other."""

    name: str
    frame_rate: float
    """pictures a second as recorded; 0 if that is not known"""

    def read(self) -> Picture | None:
        """Return the next picture, (h, w, 3) RGB; None at the end."""

    def rewind(self) -> None:
        """Begin anew."""

    def close(self) -> None:
        """Let go of files."""


class Folder:
    """The numbered pictures of a data set.

    A file `playlist.txt` in it may name them in another order, and some of them again and again.
    """

    frame_rate = 0.0

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        frames = frames_in(folder)
        if not frames:
            raise BadInput(f'{folder} holds no pictures; they must be named 0000.jpg, 0001.jpg, …')
        if (folder / _PLAYLIST).is_file():
            shown = (folder / _PLAYLIST).read_text().split()
            missing = sorted(set(shown) - set(frames))
            if missing or not shown:
                raise BadInput(
                    f'{folder / _PLAYLIST} names {missing[0] if missing else "no picture"}, which '
                    'is not in the folder.'
                )
            frames = tuple(shown)
        self._files = [folder / frame for frame in frames]
        self._next = 0

    def read(self) -> Picture | None:
        """Return the next picture; None at the end."""
        if self._next >= len(self._files):
            return None
        self._next += 1
        return read_image(self._files[self._next - 1])

    def rewind(self) -> None:
        """Begin anew."""
        self._next = 0

    def close(self) -> None:
        """Nothing is open between two pictures."""


class Video:
    """The pictures of a video file."""

    def __init__(self, file: Path) -> None:
        self.name = str(file)
        self._file = file
        self._capture: Any = self._open()
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        self.frame_rate = float(rate) if np.isfinite(rate) and rate > 0.0 else 0.0

    def read(self) -> Picture | None:
        """Return the next picture; None at the end."""
        good, picture = self._capture.read()
        return _rgb(picture) if good else None

    def rewind(self) -> None:
        """Begin anew."""
        self.close()
        self._capture = self._open()

    def _open(self) -> Any:
        capture = cv2.VideoCapture(str(self._file))
        if not capture.isOpened():
            raise BadInput(f'{self._file} cannot be read as a video.')
        return capture

    def close(self) -> None:
        """Let go of the file."""
        self._capture.release()


class Device:
    """A camera or a stream from the network, which may go and come back.

    Parameters
    ----------
    name : str
        An index as '0', a path as '/dev/video0', or an address as 'http://…'.
    width, height : int
        Asked of the camera, which may give another size; 0 leaves it as it is.
    frame_rate : float
        Asked of the camera; 0 leaves it as it is.
    """

    def __init__(
        self, name: str, width: int = 0, height: int = 0, frame_rate: float = 0.0
    ) -> None:
        self.name = name
        self._wanted = {
            cv2.CAP_PROP_FRAME_WIDTH: width,
            cv2.CAP_PROP_FRAME_HEIGHT: height,
            cv2.CAP_PROP_FPS: frame_rate,
        }
        self._capture: Any = None
        # A missing camera is tried again and again; OpenCV would complain each time.
        if hasattr(cv2, 'setLogLevel'):
            # Before version 5.
            cv2.setLogLevel(0)
        else:
            cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

    def open(self) -> bool:
        """Try to open it, and say whether that went well."""
        self.close()
        if '://' in self.name:
            limits = [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, _PATIENCE]
            limits += [cv2.CAP_PROP_READ_TIMEOUT_MSEC, _PATIENCE]
            self._capture = cv2.VideoCapture(self.name, cv2.CAP_FFMPEG, limits)
        else:
            index = int(self.name) if self.name.isdigit() else self.name
            self._capture = cv2.VideoCapture(index)
            for setting, value in self._wanted.items():
                if value:
                    self._capture.set(setting, value)
            self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)
        return bool(self._capture.isOpened())

    def wait(self) -> bool:
        """Wait for the next picture; False if the camera is lost."""
        return self._capture is not None and bool(self._capture.grab())

    def picture(self) -> Picture | None:
        """Return the picture that was waited for; None if it is damaged."""
        good, picture = self._capture.retrieve()
        return _rgb(picture) if good and picture is not None else None

    def close(self) -> None:
        """Let go of the camera."""
        if self._capture is not None:
            self._capture.release()
            self._capture = None


def _rgb(picture: Any) -> Picture:
    if picture.ndim == 2:
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB), dtype=np.uint8)
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def open_source(
    source: str, width: int = 0, height: int = 0, frame_rate: float = 0.0
) -> Folder | Video | Device:
    """Return the source that a user named; `BadInput` if it cannot be one.

    A device may be missing now and come later; files must be there.
    """
    if not source:
        raise BadInput(
            "source is empty; give 'demo', the index or path of a camera, an address, a video or "
            'a folder of pictures.'
        )
    if source == DEMO:
        clip = share_file('clip')
        videos = sorted(path for path in clip.iterdir() if path.suffix in _VIDEOS)
        return Video(videos[0]) if videos else Folder(clip)
    if source.isdigit() or source.startswith('/dev/') or re.match(r'[a-z0-9]+://', source):
        return Device(source, width, height, frame_rate)
    path = Path(source).expanduser()
    if path.is_dir():
        return Folder(path)
    if path.is_file():
        return Video(path)
    raise BadInput(
        f"source is {source!r}, but there is no such file or folder; cameras are named '0' or "
        "'/dev/video0', the bundled clip 'demo'."
    )
