"""Reading pictures: whole ones only, as RGB."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput

Image = npt.NDArray[np.uint8]

# In coded JPEG data 0xFF is followed by 0, by a restart marker or by filling, else it ends them.
_END_OF_SCAN = re.compile(rb'\xff[^\x00\xd0-\xd7\xff]')


def read_bytes(path: Path) -> bytes:
    """Return what a file holds, or say why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f'{path} cannot be read: {error.strerror}.') from error


def _is_whole_jpeg(data: bytes) -> bool:
    """Follow the segments of a JPEG file up to its end-of-image marker, if it has one.

    The marker is not searched for by its bytes: a thumbnail inside the file has one of its own,
    and some cameras write more data behind the last.
    """
    place = 2
    while place + 4 <= len(data) or data[place : place + 2] == b'\xff\xd9':
        if data[place] != 0xFF:
            return False
        marker = data[place + 1]
        if marker == 0xD9:
            return True
        if marker == 0xFF:
            place += 1
            continue
        place += 2 + int.from_bytes(data[place + 2 : place + 4], 'big')
        if marker == 0xDA:
            end = _END_OF_SCAN.search(data, place)
            if end is None:
                return False
            place = end.start()
    return False


def read_image(path: str | os.PathLike[str]) -> Image:
    """Read a picture as RGB, (height, width, 3) uint8, whatever its file holds.

    Grey pictures get three equal channels, 16 bits are scaled to 8, transparency is dropped and
    the orientation that a camera noted is applied. A file that was cut short is an error, though
    decoders would rather fill the missing part with grey.
    """
    path = Path(path)
    data = read_bytes(path)
    if data.startswith(b'\xff\xd8') and not _is_whole_jpeg(data):
        raise BadInput(
            f'{path} is cut short: it ends inside the picture; copy or record it again.'
        )
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    decoded: npt.NDArray[Any] | None = None
    if data:
        try:
            decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise BadInput(f'{path} cannot be decoded as a picture: {error.err}.') from error
    if decoded is None:
        raise BadInput(
            f'{path} cannot be decoded as a picture: it is no picture file, or is damaged.'
        )
    if decoded.dtype == np.uint16:
        decoded = np.rint(decoded / 257.0).astype(np.uint8)
    if decoded.dtype != np.uint8:
        raise BadInput(f'{path} has {decoded.dtype} pixels; save it with 8 or 16 bits a channel.')
    return np.ascontiguousarray(decoded[:, :, ::-1])
