"""Messages to arrays and back: the one place where pictures, vectors and joint values cross.

What a message says of itself is checked before it is believed: a message that cannot be used is a
`BadInput` with one sentence, never a crash. A stamped vector is a `sensor_msgs/Image` of one row
with the encoding 32FC1; RViz shows it as a strip.
"""

from __future__ import annotations

import array
import re
import sys
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.nodes.ros import (
    Duration,
    Float64MultiArray,
    Header,
    Image,
    JointState,
    JointTrajectory,
    JointTrajectoryPoint,
    MultiArrayDimension,
    MultiArrayLayout,
    Time,
)

__all__ = [
    'command_message',
    'command_stamp',
    'embedding_message',
    'nanoseconds',
    'picture_message',
    'read_command',
    'read_embedding',
    'read_joint_state',
    'read_picture',
    'read_trajectory',
    'read_vector',
    'seconds',
    'time_message',
    'trajectory_command',
    'trajectory_message',
    'trajectory_stamp',
    'vector_message',
]

VECTOR = '32FC1'

# Encoding: bytes of a channel, channels, and how to come to RGB (None: it is RGB already).
_PICTURES: dict[str, tuple[int, int, int | None]] = {
    'rgb8': (1, 3, None),
    'bgr8': (1, 3, cv2.COLOR_BGR2RGB),
    'rgba8': (1, 4, cv2.COLOR_RGBA2RGB),
    'bgra8': (1, 4, cv2.COLOR_BGRA2RGB),
    'mono8': (1, 1, cv2.COLOR_GRAY2RGB),
    'mono16': (2, 1, cv2.COLOR_GRAY2RGB),
    '8UC1': (1, 1, cv2.COLOR_GRAY2RGB),
    '8UC3': (1, 3, cv2.COLOR_BGR2RGB),
    '16UC1': (2, 1, cv2.COLOR_GRAY2RGB),
    'yuv422': (1, 2, cv2.COLOR_YUV2RGB_UYVY),
    'uyvy': (1, 2, cv2.COLOR_YUV2RGB_UYVY),
    'yuv422_yuy2': (1, 2, cv2.COLOR_YUV2RGB_YUYV),
    'yuyv': (1, 2, cv2.COLOR_YUV2RGB_YUYV),
}
_LARGEST = 1 << 28


# --- time ------------------------------------------------------------------------------------


def nanoseconds(stamp: Time) -> int:
    """Return a stamp as nanoseconds."""
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def seconds(stamp: Time) -> float:
    """Return a stamp as seconds."""
    return 1e-9 * nanoseconds(stamp)


def time_message(instant: int) -> Time:
    """Return nanoseconds as a stamp."""
    sec, nanosec = divmod(int(instant), 10**9)
    return Time(sec=sec, nanosec=nanosec)


# --- pictures --------------------------------------------------------------------------------


def _rows(
    message: Image, size: int, channels: int, kind: str, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """Return the pixels (h, w, channels) in the byte order of this machine, without padding."""
    height, width, step = int(message.height), int(message.width), int(message.step)
    if height < 1 or width < 1:
        raise BadInput(f'A {kind} of {width} × {height} came in; it must have at least one pixel.')
    needed = width * channels * size
    if step < needed:
        raise BadInput(
            f'A {kind} with encoding {message.encoding} and width {width} needs {needed} bytes a '
            f'row, but its step is {step}.'
        )
    # The last row may come without its padding.
    least = step * (height - 1) + needed
    data = np.frombuffer(message.data, np.uint8)
    if height * step > _LARGEST or len(data) < least:
        raise BadInput(
            f'A {kind} of {width} × {height} with a step of {step} needs {least} bytes of data, '
            f'but has {len(data)}.'
        )
    if len(data) < height * step:
        data = np.concatenate([data, np.zeros(height * step - len(data), np.uint8)])
    rows = data[: height * step].reshape(height, step)[:, :needed]
    pixels = np.ascontiguousarray(rows).view(dtype).reshape(height, width, channels)
    if size > 1 and bool(message.is_bigendian) != (sys.byteorder == 'big'):
        pixels = pixels.byteswap()
    return pixels


def read_picture(message: Image) -> npt.NDArray[np.uint8]:
    """Return the picture of a message as RGB, (h, w, 3) uint8, whatever its encoding.

    Padding, byte order and the channels' order are seen to; 16 bits are scaled to 8, grey gets
    three equal channels.
    """
    encoding = message.encoding.strip()
    if encoding not in _PICTURES:
        raise BadInput(
            f'A picture came in with the encoding {encoding!r}; use one of '
            f'{", ".join(sorted(_PICTURES))}.'
        )
    size, channels, conversion = _PICTURES[encoding]
    if channels == 2 and message.width % 2:
        raise BadInput(f'A picture with encoding {encoding} has the odd width {message.width}.')
    pixels = _rows(message, size, channels, 'picture', np.uint8 if size == 1 else np.uint16)
    if size == 2:
        pixels = ((pixels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if conversion is not None:
        pixels = cv2.cvtColor(pixels, conversion)
    return np.ascontiguousarray(pixels, dtype=np.uint8)


def picture_message(picture: npt.NDArray[np.uint8], header: Header) -> Image:
    """Return a picture, (h, w, 3) RGB or (h, w) grey, as a message with encoding rgb8 or mono8."""
    picture = np.ascontiguousarray(picture, dtype=np.uint8)
    if picture.ndim not in (2, 3) or picture.shape[2:] not in ((), (3,)) or not picture.size:
        raise BadInput(f'picture must have shape (h, w, 3) or (h, w), not {picture.shape}.')
    height, width = picture.shape[:2]
    return Image(
        header=header,
        height=height,
        width=width,
        encoding='rgb8' if picture.ndim == 3 else 'mono8',
        is_bigendian=0,
        step=picture.size // height,
        # Message types take an array of bytes as it is, but look at anything else byte by byte.
        data=array.array('B', picture.tobytes()),
    )


# --- stamped vectors -------------------------------------------------------------------------


def vector_message(vector: npt.ArrayLike, header: Header) -> Image:
    """Return a vector (d,) as a message of one row."""
    values = np.ascontiguousarray(vector, dtype='<f4')
    if values.ndim != 1 or not len(values):
        raise BadInput(f'vector must have shape (any,), not {values.shape}.')
    return Image(
        header=header,
        height=1,
        width=len(values),
        encoding=VECTOR,
        is_bigendian=0,
        step=4 * len(values),
        data=array.array('B', values.tobytes()),
    )


def read_vector(message: Image, name: str, size: int | None = None) -> Floats:
    """Return the vector (d,) of a message, finite and of the wanted size.

    Parameters
    ----------
    message : sensor_msgs/Image
    name : str
        Of the topic, for the sentence if the message cannot be used.
    size : int, optional
        How many values there must be.
    """
    return as_floats(name, _any_vector(message, name, size))


def _any_vector(message: Image, name: str, size: int | None) -> Floats:
    if message.encoding != VECTOR or message.height != 1:
        raise BadInput(
            f'{name} takes vectors, that is one row of {VECTOR}, but a message of '
            f'{message.width} × {message.height} with encoding {message.encoding!r} came in.'
        )
    values = _rows(message, 4, 1, 'vector', np.float32).reshape(-1).astype(np.float64)
    if size is not None and len(values) != size:
        raise BadInput(
            f'{name} brought {len(values)} values, but the model takes {size}; give all nodes the '
            'same model.'
        )
    return values


def embedding_message(point: npt.ArrayLike, novelty: float, header: Header) -> Image:
    """Return a point (r,) of the embedding and its novelty as one message of r + 1 values.

    They travel together, so that no node can act on the one before it knows the other.
    """
    return vector_message([*np.asarray(point, dtype=np.float64), novelty], header)


def read_embedding(message: Image, name: str, size: int) -> tuple[Floats, float]:
    """Return the point (r,) and its novelty, which may be infinite."""
    values = _any_vector(message, name, size + 1)
    point, novelty = as_floats(name, values[:-1]), float(values[-1])
    if np.isnan(novelty) or novelty < 0.0:
        raise BadInput(f'{name} brought the novelty {novelty}; it must be 0 or more.')
    return point, novelty


# --- joint values ----------------------------------------------------------------------------


def _order(found: Sequence[str], names: Sequence[str], what: str) -> list[int]:
    """Return where each of `names` stands in a message."""
    if len(set(found)) != len(found):
        raise BadInput(f'{what} names a joint twice: {", ".join(found)}.')
    missing = [name for name in names if name not in found]
    if missing:
        raise BadInput(
            f'{what} lacks the joints {", ".join(missing)}; it names {", ".join(found) or "none"}.'
        )
    return [list(found).index(name) for name in names]


def read_joint_state(message: JointState, names: Sequence[str]) -> Floats:
    """Return the positions (n,) of the named joints; others in the message do not matter."""
    order = _order(message.name, names, 'A joint state')
    if len(message.position) != len(message.name):
        raise BadInput(
            f'A joint state names {len(message.name)} joints, but has {len(message.position)} '
            'positions.'
        )
    return as_floats('A joint state', np.asarray(message.position, dtype=np.float64)[order])


def trajectory_message(
    names: Sequence[str], path: npt.ArrayLike, times: Sequence[float], header: Header
) -> JointTrajectory:
    """Return a path (k, n) of postures, each so many seconds after the start; k may be 0."""
    points = []
    for posture, instant in zip(np.asarray(path, dtype=np.float64), times, strict=True):
        sec, nanosec = divmod(round(instant * 1e9), 10**9)
        points.append(
            JointTrajectoryPoint(
                positions=posture.tolist(),
                time_from_start=Duration(sec=sec, nanosec=nanosec),
            )
        )
    return JointTrajectory(header=header, joint_names=list(names), points=points)


def read_trajectory(message: JointTrajectory, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the postures (k, n) in the order of `names`, and their times (k,) in seconds."""
    order = _order(message.joint_names, names, 'A trajectory')
    path = np.empty((len(message.points), len(names)))
    times = np.empty(len(path))
    for i, point in enumerate(message.points):
        if len(point.positions) != len(message.joint_names):
            raise BadInput(
                f'Point {i} of a trajectory has {len(point.positions)} positions for '
                f'{len(message.joint_names)} joints.'
            )
        path[i] = np.asarray(point.positions, dtype=np.float64)[order]
        times[i] = point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec
    if (np.diff(times, prepend=0.0) < 0.0).any():
        raise BadInput('The times of a trajectory must rise from point to point.')
    return as_floats('A trajectory', path), times


# --- commands --------------------------------------------------------------------------------

_STAMP = re.compile(r'picture (-?[0-9]+)\.([0-9]{9})')


def _label(stamp: int | None) -> str:
    if stamp is None:
        return ''
    sec, nanosec = divmod(stamp, 10**9)
    return f'picture {sec}.{nanosec:09d}'


def _read_label(label: str) -> int | None:
    found = _STAMP.fullmatch(label)
    return int(found[1]) * 10**9 + int(found[2]) if found else None


def command_message(q: npt.ArrayLike, stamp: int | None) -> Float64MultiArray:
    """Return a command (n,) of the position stream.

    The message type has no stamp; that of the picture (nanoseconds) goes into the label of its
    one dimension, which ros2_control does not read.
    """
    values = np.asarray(q, dtype=np.float64).tolist()
    dimension = MultiArrayDimension(label=_label(stamp), size=len(values), stride=len(values))
    return Float64MultiArray(layout=MultiArrayLayout(dim=[dimension]), data=values)


def command_stamp(message: Float64MultiArray) -> int | None:
    """Return when the picture behind a command was taken, in nanoseconds, if it says so."""
    return _read_label(message.layout.dim[0].label) if message.layout.dim else None


def trajectory_stamp(message: JointTrajectory) -> int | None:
    """Return when the picture behind a trajectory command was taken, if it says so.

    Its own stamp says when to start, so the picture's goes into its frame.
    """
    return _read_label(message.header.frame_id)


def trajectory_command(
    names: Sequence[str], q: npt.ArrayLike, duration: float, stamp: int | None
) -> JointTrajectory:
    """Return a command (n,) as a trajectory of one point that starts at once."""
    return trajectory_message(
        names, np.asarray(q)[None], [duration], Header(frame_id=_label(stamp))
    )


def read_command(message: Float64MultiArray, joints: int) -> Floats:
    """Return the positions (n,) of a command."""
    values = np.asarray(message.data, dtype=np.float64)
    if len(values) != joints:
        raise BadInput(f'A command has {len(values)} values, but the arm has {joints} joints.')
    return as_floats('A command', values)
