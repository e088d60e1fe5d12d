"""The web page of the viewer: served, fed through DDS, and with buttons that reach the arm."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from node_bench import World
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import JOINTS, urdf
from kde_imitation.nodes.arm_controller_node import ArmControllerNode
from kde_imitation.nodes.base import RELIABLE, SENSOR
from kde_imitation.nodes.messages import (
    embedding_message,
    picture_message,
    time_message,
    trajectory_message,
)
from kde_imitation.nodes.viewer_node import ViewerNode
from kde_imitation.nodes.viewer_page import trail_picture
from kde_imitation.nodes.viewer_robot import shapes_of

# The last two come with viser.
WHY = 'viser is not installed; the extra "viewer" brings it'
viser = pytest.importorskip('viser', reason=WHY)
msgspec = pytest.importorskip('msgspec', reason=WHY)
client = pytest.importorskip('websockets.sync.client', reason=WHY)

GOAL = np.array([0.2, 0.5, 0.1, 1.0, 0.0, 0.5, 0.1])


@pytest.fixture
def viewer(ros: World) -> ViewerNode:
    node: ViewerNode = ros.run(ViewerNode({'rate': 30.0}, context=ros.context))
    return node


def header(ros: World, late: float = 0.0) -> Header:
    now = ros.probe.get_clock().now().nanoseconds
    return Header(stamp=time_message(now - round(1e9 * late)))


def test_the_page_and_its_socket_answer(viewer: ViewerNode) -> None:
    with urllib.request.urlopen(viewer.page.address, timeout=5) as answer:
        assert answer.status == 200
        assert b'<html' in answer.read().lower()
    assert 'page' in viewer.diagnosis()
    with socket(viewer) as opened:
        first = opened.recv(timeout=5)
        assert isinstance(first, bytes)
        assert len(first) > 100, 'the scene'


@contextmanager
def socket(viewer: ViewerNode) -> Iterator[Any]:
    """Connect as a browser does: it tells its view first."""
    address = viewer.page.address.replace('http', 'ws')
    protocol = f'viser-v{viser.__version__}'
    with client.connect(
        address, subprotocols=[protocol], max_size=None, compression=None
    ) as opened:
        view = {'wxyz': [1, 0, 0, 0], 'position': [0, 0, 0], 'look_at': [1, 0, 0]}
        lens = {'fov': 1.0, 'near': 0.1, 'far': 10.0, 'image_height': 100, 'image_width': 100}
        said = {'type': 'ViewerCameraMessage', **view, **lens, 'up_direction': [0, 0, 1]}
        opened.send(msgspec.msgpack.encode(said))
        yield opened


def click(opened: Any, button: Any) -> None:
    """Say what a browser says when a button is pressed."""
    message = {'type': 'GuiUpdateMessage', 'uuid': button._impl.uuid, 'updates': {'value': True}}
    opened.send(msgspec.msgpack.encode(message))


def test_buttons_call_the_services_of_the_controller(ros: World, viewer: ViewerNode) -> None:
    asked: list[str] = []

    def enable(request: Any, response: Any) -> Any:
        asked.append(f'enable {request.data}')
        response.success, response.message = True, 'The arm may move.'
        return response

    def stop(request: Any, response: Any) -> Any:
        asked.append('stop')
        response.success, response.message = True, 'The arm *stops*.'
        return response

    page = viewer.page
    with socket(viewer) as opened:
        click(opened, page.stop)
        ros.until(lambda: 'is the controller running' in page.said)
        ros.probe.create_service(SetBool, 'arm_controller_node/enable', enable)
        ros.probe.create_service(Trigger, 'arm_controller_node/stop', stop)
        ros.until(lambda: viewer._stop.service_is_ready() and viewer._enable.service_is_ready())
        click(opened, page.enable)
        ros.until(lambda: page.said == 'The arm may move.')
        click(opened, page.disable)
        ros.until(lambda: len(asked) == 2)
        click(opened, page.stop)
        ros.until(lambda: page.said == 'The arm \\*stops\\*.')
    assert asked == ['enable True', 'enable False', 'stop']


def test_the_page_shows_the_arm_its_goal_and_hides_a_goal_that_is_gone(
    ros: World, viewer: ViewerNode
) -> None:
    states = ros.speak(JointState, 'joint_states', RELIABLE)
    paths = ros.speak(JointTrajectory, 'joint_path', RELIABLE)
    ros.connected(states)
    ros.connected(paths)
    states.publish(JointState(name=list(JOINTS), position=GOAL.tolist()))
    ros.until(lambda: np.array_equal(viewer.page.arm.q, GOAL))
    assert not viewer.page.goal.visible
    path = trajectory_message(JOINTS, [GOAL, 2 * GOAL], [0.0, 1.0], header(ros, late=0.03))
    paths.publish(path)
    ros.until(lambda: viewer.page.goal.visible)
    np.testing.assert_array_equal(viewer.page.goal.q, 2 * GOAL)
    (latency,) = viewer.page.latency.values
    assert 30.0 <= latency < 500.0
    paths.publish(trajectory_message(JOINTS, [], [], header(ros)))
    ros.until(lambda: not viewer.page.goal.visible)


def test_the_page_shows_pictures_embedding_and_novelty(ros: World, viewer: ViewerNode) -> None:
    camera = ros.speak(Image, 'image_raw', SENSOR)
    overlay = ros.speak(Image, 'debug/overlay', SENSOR)
    embedding = ros.speak(Image, 'pose_embedding', SENSOR)
    for speaker in (camera, overlay, embedding):
        ros.connected(speaker)

    def shown(speaker: Any, level: int) -> None:
        picture = np.full((240, 320, 3), level, np.uint8)

        def sent() -> bool:
            speaker.publish(picture_message(picture, header(ros)))
            return np.array_equal(viewer.page.camera, picture)

        ros.until(sent)

    shown(camera, 50)
    shown(overlay, 90)
    camera.publish(picture_message(np.zeros((240, 320, 3), np.uint8), header(ros)))
    ros.pass_time(0.3)
    assert viewer.page.camera[0, 0, 0] == 90, 'the picture with the outline goes first'
    embedding.publish(embedding_message([0.5, -0.2, 0.1], 0.7, header(ros)))
    ros.until(lambda: viewer.page.novelty.values)
    assert viewer.page.novelty.values == [pytest.approx(0.7)]


def test_the_page_says_what_the_nodes_say(ros: World, viewer: ViewerNode) -> None:
    ros.run(ArmControllerNode({}, context=ros.context))
    assert ros.until(lambda: '**arm\\_controller\\_node** disabled' in viewer.page.state)


def test_a_second_viewer_takes_another_port_and_a_bad_address_is_one_sentence(
    ros: World, viewer: ViewerNode
) -> None:
    other = ViewerNode({'port': viewer.page.port}, context=ros.context, node_name='other')
    assert other.page.port != viewer.page.port
    other.close()
    with pytest.raises(BadInput, match='cannot be served at 203'):
        ViewerNode({'host': '203.0.113.7'}, context=ros.context, node_name='nowhere')
    with pytest.raises(BadInput, match='controller is empty'):
        ViewerNode({'controller': ''}, context=ros.context, node_name='nobody')


def test_the_shapes_of_the_page_are_those_of_the_description() -> None:
    text = urdf(mount='wall')
    chain = Chain.from_urdf(text)
    shapes = shapes_of(chain, text)
    assert {shape.joint for shape in shapes} == set(range(8)), 'every link is seen'
    for shape in shapes:
        assert np.isfinite(shape.vertices).all()
        assert shape.faces.max() < len(shape.vertices)
    base = np.concatenate([shape.vertices for shape in shapes if shape.joint == 0])
    # The base on the wall stands 1.4 m above the floor.
    assert abs(base[:, 2].mean() - 1.4) < 0.02


def test_without_viser_the_viewer_says_how_to_get_it(
    ros: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'viser', None)
    with pytest.raises(MissingExtra, match=r'pip install "kde_imitation\[viewer\]"'):
        ViewerNode({}, context=ros.context)


def test_the_trail_ends_in_red_where_a_picture_is_novel() -> None:
    points = [(0.0, 0.0), (1.0, 1.0)]
    for novel, colour in ((False, (20, 90, 200)), (True, (200, 30, 30))):
        picture = trail_picture(points, novel, 100)
        ends = np.argwhere((picture == colour).all(axis=2))
        assert len(ends) > 40
        assert ends[:, 0].mean() < 20, 'up'
        assert ends[:, 1].mean() > 80, 'to the right'
    assert trail_picture([], False, 100).shape == (100, 100, 3)
