"""Recording demonstrations so that a crash loses at most the pair being written."""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import as_floats
from kde_imitation.dataset.folder import (
    BACKGROUND,
    LABELS,
    SKIN,
    Size,
    check_size,
    frames_in,
    joint_columns,
    number_of,
    read_labels,
    read_skin,
)
from kde_imitation.dataset.pictures import Image, read_bytes, read_image
from kde_imitation.errors import BadInput

PARTIAL = '.partial'
_STRAY = re.compile(r'([0-9]+\.jpg|labels\.csv|background\.jpg|skin\.csv)\.partial')

_log = logging.getLogger(__name__)


class Recorder:
    """Write a data set so that a crash at any moment loses at most the pair being written.

    A picture is written under another name, brought to the disk and renamed; only then its row is
    added. A folder that exists is checked and continued: what a crash left half-written is taken
    away, and `repairs` says what that was. One recorder at a time may hold a folder.

    Parameters
    ----------
    folder : path
        Made if it is missing.
    joints : int
        Values in a posture.
    quality : int
        Of the JPEG pictures, 1 to 100.
    """

    def __init__(self, folder: str | os.PathLike[str], joints: int = 7, quality: int = 95) -> None:
        if not 1 <= quality <= 100:
            raise BadInput(f'quality must be between 1 and 100, not {quality}.')
        self.folder = Path(folder)
        self.joints = joints
        self.quality = quality
        self.repairs: tuple[str, ...] = ()
        self._size: Size | None = None
        self._next = 0
        self._rows: list[tuple[str, int]] = []
        self._header = ','.join(['frame', *joint_columns(joints)]) + '\n'
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise BadInput(f'{self.folder} cannot be made or opened: {error.strerror}.') from error
        try:
            self._take_lock()
            self._resume()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of pairs in the folder."""
        return len(self._rows)

    def close(self) -> None:
        """Leave the folder to others; everything is on the disk already."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, image: Image, q: npt.ArrayLike) -> str:
        """Store a picture (height, width, 3) with its posture (joints,); return its file name."""
        posture = as_floats('q', q, (self.joints,))
        name = self.add_unpaired(image)
        try:
            if not (self.folder / LABELS).exists():
                self._replace(LABELS, self._header.encode())
            row = ','.join([name, *(repr(float(value)) for value in posture)]) + '\n'
            self._rows.append((name, self._append(row.encode())))
        except BadInput:
            self._remove_picture(name)
            raise
        return name

    def add_unpaired(self, image: Image) -> str:
        """Store a picture (height, width, 3) without a posture; return its file name."""
        name = f'{self._next:04d}.jpg'
        self._write_picture(name, image)
        self._next += 1
        return name

    def set_background(self, image: Image) -> None:
        """Store the scene without the person, (height, width, 3), in place of an earlier one."""
        self._write_picture(BACKGROUND, image)

    def set_skin(self, rgb: npt.ArrayLike) -> None:
        """Store picked pixels of skin, (k, 3) whole numbers from 0 to 255, for earlier ones."""
        pixels = as_floats('rgb', rgb, (None, 3))
        if not (len(pixels) and np.isin(pixels, np.arange(256)).all()):
            raise BadInput('rgb must hold at least one pixel, in whole numbers from 0 to 255.')
        rows = [','.join(map(str, pixel)) + '\n' for pixel in pixels.astype(int).tolist()]
        self._replace(SKIN, ''.join(['r,g,b\n', *rows]).encode())

    def undo(self) -> str:
        """Remove the pair of the last row, picture and all; return its file name."""
        if not self._rows:
            raise BadInput(f'{self.folder} holds no pair that could be undone.')
        self._require_open()
        name, start = self._rows[-1]
        path = self.folder / LABELS
        if not read_bytes(path)[start:].startswith(f'{name},'.encode()):
            raise BadInput(
                f'{path} was changed by another program while this one records; '
                'close the recorder and open it again.'
            )
        try:
            with path.open('r+b') as file:
                file.truncate(start)
                os.fsync(file.fileno())
        except OSError as error:
            raise BadInput(f'{path} cannot be written: {error.strerror}.') from error
        self._rows.pop()
        self._remove_picture(name)
        return name

    def _remove_picture(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        frames = frames_in(self.folder)
        self._next = number_of(frames[-1]) + 1 if frames else 0
        if not frames and not (self.folder / BACKGROUND).exists():
            self._size = None

    def _require_open(self) -> int:
        if self._lock is None:
            raise BadInput(f'The recorder of {self.folder} is closed; open a new one.')
        return self._lock

    def _write_picture(self, name: str, image: Image) -> None:
        path = self.folder / name
        image = np.asarray(image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            raise BadInput(
                f'The picture for {path} must be RGB of shape (height, width, 3) and type uint8, '
                f'not of shape {image.shape} and type {image.dtype}.'
            )
        check_size(path, image, self._size)
        try:
            bgr = np.ascontiguousarray(image[:, :, ::-1])
            done, data = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, self.quality])
        except cv2.error:
            done = False
        if not done:
            raise BadInput(f'The picture for {path} cannot be a JPEG: it is {image.shape} large.')
        self._replace(name, data.tobytes())
        self._size = (image.shape[0], image.shape[1])

    def _replace(self, name: str, data: bytes) -> None:
        """Put a whole file in place of what is there: a crash leaves the old or the new one."""
        folder = self._require_open()
        path = self.folder / name
        partial = path.with_name(name + PARTIAL)
        try:
            with partial.open('wb') as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            os.fsync(folder)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise BadInput(f'{path} cannot be written: {error.strerror}.') from error

    def _append(self, row: bytes) -> int:
        """Add a row to the labels and return where it begins; none of it stays if that fails."""
        path = self.folder / LABELS
        try:
            start = path.stat().st_size
            try:
                with path.open('ab') as file:
                    file.write(row)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                os.truncate(path, start)
                raise
        except OSError as error:
            raise BadInput(f'{path} cannot be written: {error.strerror}.') from error
        return start

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._require_open(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput(
                f'{self.folder} is being recorded to by another program; stop that first.'
            ) from error

    def _resume(self) -> None:
        """Check what is in the folder, and only if all is well repair what a crash left."""
        repairs: list[str] = []
        frames = frames_in(self.folder)
        self._next = number_of(frames[-1]) + 1 if frames else 0
        for name in [*frames, BACKGROUND]:
            if name != BACKGROUND or (self.folder / name).exists():
                image = read_image(self.folder / name)
                check_size(self.folder / name, image, self._size)
                self._size = image.shape[:2]
        if (self.folder / SKIN).exists():
            read_skin(self.folder / SKIN)
        kept = self._resume_labels(frames, repairs)
        strays = sorted(name for name in os.listdir(self.folder) if _STRAY.fullmatch(name))
        repairs += [f'{self.folder / name} was half-written and is removed.' for name in strays]
        for name in strays:
            (self.folder / name).unlink()
        if kept is not None:
            self._replace(LABELS, kept)
        for repair in repairs:
            _log.warning(repair)
        self.repairs = tuple(repairs)

    def _resume_labels(self, frames: Sequence[str], repairs: list[str]) -> bytes | None:
        """Note the rows that are there; return the whole ones if the last was cut short."""
        path = self.folder / LABELS
        if not path.exists():
            return None
        data = read_bytes(path)
        whole, torn = data[: data.rfind(b'\n') + 1], data[data.rfind(b'\n') + 1 :]
        if not whole and self._header.startswith(torn.decode('utf-8-sig', errors='replace')):
            whole = self._header.encode()
        names, _ = read_labels(path, frames, self.joints, whole or data)
        lines = (whole or data).splitlines(keepends=True)
        header = lines[0].decode('utf-8-sig').rstrip('\r\n')
        if header != self._header.strip():
            raise BadInput(
                f'{path} has the columns {header}, but only {self._header.strip()} can be '
                'continued; record into another folder.'
            )
        ends = accumulate(map(len, lines))
        starts = [start for start, line in zip(ends, lines[1:]) if line.strip()]
        self._rows = list(zip(names, starts, strict=True))
        if whole == data:
            return None
        repairs.append(
            f'{path} ended in a row without a line end, so it was half-written and is removed: '
            f'"{torn.decode(errors="replace")}".'
        )
        return whole
