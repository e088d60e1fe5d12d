"""The camera node gives pictures from every kind of source, and finds a lost camera again."""

from __future__ import annotations

import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from node_bench import World, lines, status
from rclpy.qos import ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image

from kde_imitation.errors import BadInput
from kde_imitation.nodes import sources
from kde_imitation.nodes.base import RELIABLE, SENSOR
from kde_imitation.nodes.camera_node import CameraNode
from kde_imitation.nodes.messages import nanoseconds, read_picture

SHADES = (20, 90, 160, 230)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, shade in enumerate(SHADES):
        cv2.imwrite(str(tmp_path / f'{number:04d}.jpg'), np.full((24, 32, 3), shade, np.uint8))
    return tmp_path


@pytest.fixture
def video(tmp_path: Path) -> Path:
    file = tmp_path / 'film.avi'
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*'MJPG'), 25.0, (32, 24))
    for shade in SHADES:
        writer.write(np.full((24, 32, 3), shade, np.uint8))
    writer.release()
    return file


def shades(heard: list[Image]) -> list[int]:
    """Return which of the four pictures each message shows."""
    means = [read_picture(message).mean() for message in heard]
    return [int(np.argmin(np.abs(np.array(SHADES) - mean))) for mean in means]


def start(ros: World, **parameters: object) -> tuple[CameraNode, list[Image]]:
    heard = ros.listen(Image, 'image_raw', SENSOR)
    node = CameraNode(parameters, context=ros.context)
    ros.run(node)
    return node, heard


@pytest.mark.parametrize('kind', ['folder', 'video'])
def test_recorded_pictures_come_in_order_again_and_again(
    ros: World, kind: str, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue(kind)
    node, heard = start(ros, source=str(source), frame_rate=40.0, frame_id='eye')
    ros.until(lambda: len(heard) >= 10)
    found = shades(heard)
    # A picture may be lost on the way, but none comes out of order.
    steps = {(b - a) % 4 for a, b in pairwise(found)}
    assert steps <= {1, 2}
    assert {(m.encoding, m.width, m.height, m.header.frame_id) for m in heard} == {
        ('rgb8', 32, 24, 'eye')
    }
    stamps = [nanoseconds(message.header.stamp) for message in heard]
    assert stamps == sorted(set(stamps))
    assert abs(stamps[-1] - node.now()) < 2e9


def test_the_rate_of_a_video_is_its_own_unless_told(ros: World, video: Path) -> None:
    node, heard = start(ros, source=str(video))
    ros.until(lambda: len(heard) >= 2)
    assert node._pace.timer_period_ns == round(1e9 / 25.0)
    assert ros.set('camera_node', frame_rate=50.0) == [(True, '')]
    assert node._pace.timer_period_ns == round(1e9 / 50.0)
    count = len(heard)
    ros.until(lambda: len(heard) >= count + 3)


def test_without_loop_the_pictures_end_and_that_is_said(ros: World, folder: Path) -> None:
    told = ros.diagnoses()
    _, heard = start(ros, source=str(folder), frame_rate=20.0, loop=False)
    ros.until(
        lambda: (found := status(told, 'camera_node')) and 'come to its end' in found.message
    )
    assert 1 <= len(heard) <= 4


def test_pictures_are_made_the_wanted_size_with_calibration(ros: World, folder: Path) -> None:
    infos = ros.listen(CameraInfo, 'camera_info', SENSOR)
    _, heard = start(ros, source=str(folder), width=64, height=16, focal_length=100.0)
    ros.until(lambda: heard and infos)
    assert (heard[0].width, heard[0].height) == (64, 16)
    assert (infos[0].width, infos[0].height) == (64, 16)
    assert infos[0].k.tolist() == [100.0, 0.0, 32.0, 0.0, 100.0, 8.0, 0.0, 0.0, 1.0]
    stamps = {nanoseconds(message.header.stamp) for message in heard}
    assert stamps & {nanoseconds(info.header.stamp) for info in infos}


def test_pictures_are_offered_as_sensor_data(ros: World, folder: Path) -> None:
    start(ros, source=str(folder))
    for topic in ('/image_raw', '/camera_info'):
        (offer,) = ros.until(lambda topic=topic: ros.probe.get_publishers_info_by_topic(topic))
        assert offer.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


def test_pictures_come_with_the_clock_of_a_simulation(ros: World, folder: Path) -> None:
    clock = ros.speak(Clock, '/clock', RELIABLE)
    _, heard = start(ros, source=str(folder), frame_rate=10.0, use_sim_time=True)
    ros.connected(clock)
    now = Clock()

    def tick() -> list[Image]:
        now.clock.nanosec += 20_000_000
        if now.clock.nanosec >= 10**9:
            now.clock.sec, now.clock.nanosec = now.clock.sec + 1, now.clock.nanosec - 10**9
        clock.publish(now)
        ros.pass_time(0.01)
        return heard if len(heard) >= 3 else []

    ros.until(tick)
    assert all(message.header.stamp.sec < 100 for message in heard)
    count = len(heard)
    ros.pass_time(0.4)
    assert len(heard) <= count + 1, 'time stands still'


@pytest.mark.parametrize(
    ('name', 'said'),
    [
        ('', 'source is empty'),
        ('nowhere', 'no such file or folder'),
        ('empty', 'holds no pictures'),
        ('text.avi', 'cannot be read as a video'),
    ],
)
def test_a_source_that_cannot_be_is_one_sentence(
    ros: World, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'text.avi').write_text('no film')
    with pytest.raises(BadInput, match=said):
        CameraNode({'source': str(tmp_path / name) if name else ''}, context=ros.context)


def test_a_damaged_picture_is_said(ros: World, folder: Path) -> None:
    (folder / '0001.jpg').write_bytes(b'no picture')
    told = ros.diagnoses()
    _, heard = start(ros, source=str(folder), frame_rate=40.0)
    assert ros.until(
        lambda: (found := status(told, 'camera_node')) and '0001.jpg' in found.message
    )
    assert ros.until(lambda: {0, 2, 3} <= set(shades(heard)))


def test_the_bundled_clip_is_known_by_its_name(
    folder: Path, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, 'share_file', lambda *parts: folder)
    found = sources.open_source('demo')
    assert isinstance(found, sources.Video)
    video.unlink()
    assert isinstance(sources.open_source('demo'), sources.Folder)


# --- a camera that comes and goes ------------------------------------------------------------


class Stream(socketserver.ThreadingTCPServer):
    """A camera on the network, at 25 Hz."""

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, port: int = 0) -> None:
        self.on = True
        super().__init__(('127.0.0.1', port), Sender)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def end(self) -> None:
        self.on = False
        self.shutdown()
        self.server_close()


class Sender(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        picture = cv2.imencode('.jpg', np.full((24, 32, 3), 90, np.uint8))[1].tobytes()
        self.send_response(200)
        self.send_header('Content-Type', 'multipart/x-mixed-replace; boundary=next')
        self.end_headers()
        while self.server.on:
            head = f'--next\r\nContent-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n'
            self.wfile.write(head.encode() + picture + b'\r\n')
            time.sleep(0.04)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_lost_camera_is_said_and_found_again_without_a_restart(ros: World) -> None:
    told = ros.diagnoses()
    camera = Stream()
    address = f'http://127.0.0.1:{camera.port}/film.mjpg'
    _, heard = start(ros, source=address, retry_period=0.2)
    ros.until(lambda: len(heard) >= 5)
    assert set(shades(heard)) == {1}
    port = camera.port
    camera.end()
    lost = ros.until(
        lambda: (found := status(told, 'camera_node')) and found.level == b'\x02' and found
    )
    assert address in lost.message
    assert 'tried again every 0.2 s' in lost.message
    count = len(heard)
    camera = Stream(port)
    try:
        ros.until(lambda: len(heard) >= count + 5)
        good = ros.until(
            lambda: (found := status(told, 'camera_node')) and found.level == b'\x00' and found
        )
        assert lines(good)['times lost'] == '1'
    finally:
        ros.end_nodes()
        camera.end()


def test_a_camera_that_is_not_there_is_waited_for(ros: World) -> None:
    told = ros.diagnoses()
    start(ros, source='/dev/video97', retry_period=0.1)
    found = ros.until(lambda: status(told, 'camera_node'))
    assert found.level == b'\x02'
    assert found.message == (
        'The camera /dev/video97 cannot be opened; it is tried again every 0.1 s.'
    )
    ((taken, reason),) = ros.set('camera_node', frame_rate=5.0)
    assert not taken
    assert 'frame_rate of a camera is read at the start only' in reason
