"""Pictures, vectors and joint values cross into messages and back; bad messages are refused."""

from __future__ import annotations

import array

import node_bench  # noqa: F401  (skips where there is no ROS)
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory

from kde_imitation.errors import BadInput
from kde_imitation.nodes import messages

HEADER = Header(frame_id='camera')
HEADER.stamp.sec, HEADER.stamp.nanosec = 12, 345
NAMES = ('s1', 's2', 's3')


def wired(message):
    """Return a message as it arrives at another node."""
    return deserialize_message(serialize_message(message), type(message))


def image(data: bytes, encoding: str, width: int, height: int, step: int, big: int = 0) -> Image:
    return Image(
        encoding=encoding,
        width=width,
        height=height,
        step=step,
        is_bigendian=big,
        data=array.array('B', data),
    )


pictures = hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)))


# --- pictures --------------------------------------------------------------------------------


@given(pictures)
def test_a_picture_comes_back_as_it_went(picture: np.ndarray) -> None:
    message = wired(messages.picture_message(picture, HEADER))
    assert message.encoding == 'rgb8'
    assert message.header == HEADER
    assert np.array_equal(messages.read_picture(message), picture)


@given(pictures)
def test_a_grey_picture_comes_back_with_three_equal_channels(picture: np.ndarray) -> None:
    grey = picture[:, :, 0]
    back = messages.read_picture(wired(messages.picture_message(grey, HEADER)))
    assert np.array_equal(back, np.repeat(grey[:, :, None], 3, axis=2))


@given(pictures, st.sampled_from(['rgb8', 'bgr8', 'rgba8', 'bgra8']), st.integers(0, 5))
def test_channels_in_any_order_and_padded_rows_are_read(
    picture: np.ndarray, encoding: str, padding: int
) -> None:
    height, width, _ = picture.shape
    channels = [{'r': 0, 'g': 1, 'b': 2}.get(letter) for letter in encoding[:-1]]
    rows = np.stack(
        [np.full((height, width), 9) if c is None else picture[:, :, c] for c in channels], axis=2
    ).astype(np.uint8)
    step = width * len(channels) + padding
    padded = np.full((height, step), 77, np.uint8)
    padded[:, : step - padding] = rows.reshape(height, -1)
    message = image(padded.tobytes(), encoding, width, height, step)
    assert np.array_equal(messages.read_picture(message), picture)
    cut = image(padded.tobytes()[: padded.size - padding], encoding, width, height, step)
    assert np.array_equal(messages.read_picture(cut), picture)


@pytest.mark.parametrize('big', [0, 1])
def test_sixteen_bits_are_read_in_either_byte_order(big: int) -> None:
    values = np.array([[0, 257, 65535], [128, 129, 30000]], dtype='>u2' if big else '<u2')
    message = image(values.tobytes(), 'mono16', 3, 2, 6, big)
    wanted = np.rint(values.astype(float) / 257.0)
    assert np.array_equal(messages.read_picture(message)[:, :, 0], wanted)


@pytest.mark.parametrize('encoding', ['yuv422', 'uyvy', 'yuv422_yuy2', 'yuyv'])
def test_yuv_pictures_are_read(encoding: str) -> None:
    # One grey and one strong red: the BT.601 values of these colours.
    colours = {(128, 128, 128): (126, 128, 128), (255, 0, 0): (81, 90, 240)}
    for rgb, (y, u, v) in colours.items():
        pixels = [u, y, v, y] if encoding in ('yuv422', 'uyvy') else [y, u, y, v]
        found = messages.read_picture(image(bytes(pixels * 2), encoding, 2, 2, 4))
        assert np.abs(found.astype(int) - rgb).max() <= 3


@pytest.mark.parametrize(
    ('message', 'said'),
    [
        (image(b'123', 'jpeg', 1, 1, 3), 'encoding'),
        (image(b'', 'rgb8', 0, 0, 0), 'at least one pixel'),
        (image(b'12', 'rgb8', 1, 1, 3), 'needs 3 bytes of data, but has 2'),
        (image(b'123456', 'rgb8', 2, 1, 5), 'its step is 5'),
        (image(b'', 'rgb8', 2**31, 2**31, 2**32 - 1), 'bytes'),
        (image(b'123456', 'yuyv', 3, 1, 6), 'odd width'),
        (image(b'1234', '32FC1', 1, 1, 4), 'encoding'),
    ],
)
def test_a_bad_picture_is_refused_with_a_sentence(message: Image, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        messages.read_picture(message)


@given(
    st.sampled_from(sorted([*messages._PICTURES, 'nonsense'])),
    *[st.integers(0, 6)] * 3,
    st.binary(max_size=80),
)
def test_whatever_a_message_says_of_itself_it_is_read_or_refused(
    encoding: str, width: int, height: int, step: int, data: bytes
) -> None:
    message = image(data, encoding, width, height, step)
    try:
        found = messages.read_picture(message)
    except BadInput:
        return
    assert found.shape == (height, width, 3)


@pytest.mark.parametrize('shape', [(4,), (2, 2, 4), (0, 3, 3)])
def test_only_pictures_become_picture_messages(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match='shape'):
        messages.picture_message(np.zeros(shape, np.uint8), HEADER)


# --- vectors ---------------------------------------------------------------------------------

floats = st.floats(-1e6, 1e6, width=32)


@given(hnp.arrays(np.float32, st.integers(1, 30), elements=floats))
def test_a_vector_comes_back_with_its_stamp(vector: np.ndarray) -> None:
    message = wired(messages.vector_message(vector, HEADER))
    assert (message.height, message.encoding, message.header) == (1, '32FC1', HEADER)
    assert np.array_equal(messages.read_vector(message, 'pose_features', len(vector)), vector)


def test_a_vector_from_a_machine_of_the_other_byte_order_is_read() -> None:
    message = image(np.array([1.5, -2.0], '>f4').tobytes(), '32FC1', 2, 1, 8, big=1)
    assert messages.read_vector(message, 'x').tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ('message', 'said'),
    [
        (messages.vector_message([1.0, np.nan], HEADER), 'pose_features holds nan'),
        (messages.vector_message([1.0, np.inf], HEADER), 'pose_features holds inf'),
        (messages.vector_message([1.0], HEADER), '1 values, but the model takes 2'),
        (image(bytes(16), '32FC1', 2, 2, 8), 'one row'),
        (image(bytes(6), 'rgb8', 2, 1, 6), 'takes vectors'),
        (image(bytes(7), '32FC1', 2, 1, 8), 'has 7'),
    ],
)
def test_a_bad_vector_is_refused_with_a_sentence(message: Image, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        messages.read_vector(message, 'pose_features', 2)


@pytest.mark.parametrize('novelty', [0.0, 0.5, 7.0, np.inf])
def test_a_point_travels_with_its_novelty(novelty: float) -> None:
    message = wired(messages.embedding_message([1.0, -2.0], novelty, HEADER))
    point, found = messages.read_embedding(message, 'pose_embedding', 2)
    assert (point.tolist(), found) == ([1.0, -2.0], novelty)


@pytest.mark.parametrize(
    ('values', 'said'),
    [
        ([1.0, 2.0, np.nan], 'novelty nan'),
        ([1.0, 2.0, -1.0], 'novelty -1'),
        ([1.0, np.inf, 0.0], 'holds inf'),
        ([1.0, 2.0], '2 values, but the model takes 3'),
    ],
)
def test_a_bad_embedding_is_refused(values: list[float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        messages.read_embedding(messages.vector_message(values, HEADER), 'pose_embedding', 2)


# --- joints ----------------------------------------------------------------------------------


@given(st.permutations(['s1', 's2', 's3', 'gripper']))
def test_joint_states_are_read_by_name_in_any_order(names: list[str]) -> None:
    places = {'s1': 0.1, 's2': 0.2, 's3': 0.3, 'gripper': 9.0}
    message = wired(JointState(name=names, position=[places[name] for name in names]))
    assert messages.read_joint_state(message, NAMES).tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ('names', 'positions', 'said'),
    [
        (['s1', 's3'], [0.0, 0.0], 'lacks the joints s2'),
        ([], [], 'names none'),
        (['s1', 's2', 's3'], [0.0, 0.0], 'names 3 joints, but has 2 positions'),
        (['s1', 's2', 's3'], [0.0, np.nan, 0.0], 'holds nan'),
        (['s1', 's2', 's3', 's1'], [0.0] * 4, 'twice'),
    ],
)
def test_bad_joint_states_are_refused(names: list[str], positions: list[float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        messages.read_joint_state(JointState(name=names, position=positions), NAMES)


def test_a_trajectory_comes_back_by_name() -> None:
    path = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    message = wired(messages.trajectory_message(['s3', 's1', 's2'], path, [0.0, 1.25], HEADER))
    assert message.header == HEADER
    found, times = messages.read_trajectory(message, NAMES)
    assert np.array_equal(found, path[:, [1, 2, 0]])
    assert times.tolist() == [0.0, 1.25]


def test_a_trajectory_may_have_no_points() -> None:
    message = wired(messages.trajectory_message(NAMES, [], [], HEADER))
    path, times = messages.read_trajectory(message, NAMES)
    assert (path.shape, times.shape) == ((0, 3), (0,))


@pytest.mark.parametrize(
    ('path', 'times', 'said'),
    [
        ([[0.0, 0.0]], [0.0], 'has 2 positions for 3'),
        ([[0.0, 0.0, np.inf]], [0.0], 'holds inf'),
        ([[0.0] * 3, [1.0] * 3], [1.0, 0.5], 'must rise'),
    ],
)
def test_bad_trajectories_are_refused(
    path: list[list[float]], times: list[float], said: str
) -> None:
    message: JointTrajectory = messages.trajectory_message(NAMES, path, times, HEADER)
    with pytest.raises(BadInput, match=said):
        messages.read_trajectory(message, NAMES)


# --- commands --------------------------------------------------------------------------------


@given(st.one_of(st.none(), st.integers(0, 2**62)))
def test_a_command_knows_its_picture_to_the_nanosecond(stamp: int | None) -> None:
    message = wired(messages.command_message([0.5, -0.5], stamp))
    assert messages.command_stamp(message) == stamp
    assert messages.read_command(message, 2).tolist() == [0.5, -0.5]
    trajectory = wired(messages.trajectory_command(NAMES, [0.0] * 3, 0.01, stamp))
    assert messages.trajectory_stamp(trajectory) == stamp
    assert messages.nanoseconds(trajectory.header.stamp) == 0, 'it must start at once'


def test_commands_of_others_have_no_picture() -> None:
    assert messages.command_stamp(Float64MultiArray(data=[0.0])) is None


@pytest.mark.parametrize(
    ('values', 'said'), [([0.0], 'has 1 values'), ([0.0, np.nan], 'holds nan'), ([], 'has 0')]
)
def test_bad_commands_are_refused(values: list[float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        messages.read_command(Float64MultiArray(data=values), 2)


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_stamps_are_exact(instant: int) -> None:
    assert messages.nanoseconds(messages.time_message(instant)) == instant
