"""From pictures to commands with a trained model: each node alone, then all in one process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_bench import ACTOR, World, lines, small_model, status
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import JOINTS, urdf
from kde_imitation.nodes.base import RELIABLE, SENSOR
from kde_imitation.nodes.kde_regression_node import KdeRegressionNode
from kde_imitation.nodes.messages import (
    command_stamp,
    embedding_message,
    nanoseconds,
    picture_message,
    read_embedding,
    read_picture,
    read_vector,
    vector_message,
)
from kde_imitation.nodes.pose_feature_node import PoseFeatureNode
from kde_imitation.nodes.preimage_node import PreimageNode
from kde_imitation.nodes.stack import running_stack

HEADER = Header(frame_id='camera')
HEADER.stamp.sec, HEADER.stamp.nanosec = 1234, 567890123
MANY = QoSProfile(depth=1000)


@pytest.fixture(scope='module')
def demonstrations() -> Dataset:
    return Dataset.open(ACTOR / 'teach_A')


@pytest.fixture(scope='module')
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp('model') / 'small.npz')


@pytest.fixture(scope='module')
def model(model_file: Path) -> ImitationModel:
    return ImitationModel.load(model_file)


def ask(ros: World, speaker: Any, message: Any, heard: list[Any]) -> Any:
    """Publish until an answer comes; best effort may lose a message."""

    def answer() -> Any:
        if not heard:
            speaker.publish(message)
            ros.pass_time(0.1)
        return heard

    ros.connected(speaker)
    return ros.until(answer)[-1]


# --- pictures to features --------------------------------------------------------------------


@dataclass(frozen=True)
class Running:
    """A node that is tested, the speaker to what it takes, and what it gives."""

    node: Any
    speaker: Any
    heard: list[Any]

    @classmethod
    def of(cls, ros: World, node: Any, takes: str, gives: str, kind: Any = Image) -> Running:
        """Run a node, and listen before anyone speaks."""
        ros.run(node)
        heard = ros.listen(kind, gives, SENSOR if kind is Image else RELIABLE)
        return cls(node, ros.speak(Image, takes, SENSOR), heard)


@pytest.fixture
def features(ros: World, model_file: Path) -> Running:
    node = PoseFeatureNode({'model': str(model_file)}, context=ros.context)
    return Running.of(ros, node, 'image_raw', 'pose_features')


def test_a_picture_becomes_its_feature_vector_with_its_stamp(
    ros: World, features: Running, model: ImitationModel, demonstrations: Dataset
) -> None:
    picture = demonstrations.image(3)
    found = ask(ros, features.speaker, picture_message(picture, HEADER), features.heard)
    assert found.header == HEADER
    vector = read_vector(found, 'pose_features', model.vector_size)
    assert np.allclose(vector, model.look(picture).vector, rtol=1e-6, atol=1e-7)
    (offer,) = ros.probe.get_publishers_info_by_topic('/pose_features')
    assert offer.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


def test_a_picture_without_a_stamp_gets_the_present(
    ros: World, features: Running, demonstrations: Dataset
) -> None:
    message = picture_message(demonstrations.image(3), Header())
    found = ask(ros, features.speaker, message, features.heard)
    assert 0 < features.node.now() - nanoseconds(found.header.stamp) < 20e9


def test_an_empty_room_gives_zeros_and_bad_pictures_are_said(
    ros: World, features: Running, demonstrations: Dataset
) -> None:
    told = ros.diagnoses()
    assert demonstrations.background is not None
    empty = picture_message(demonstrations.background, HEADER)
    found = ask(ros, features.speaker, empty, features.heard)
    assert not read_vector(found, 'pose_features').any()
    ros.until(
        lambda: (
            (found := status(told, 'pose_feature_node'))
            and 'No person: ' in found.message
            and int(lines(found)['pictures without a person']) >= 1
        )
    )
    broken = picture_message(demonstrations.background, HEADER)
    broken.encoding = 'jpeg'
    features.speaker.publish(broken)
    ros.until(
        lambda: (
            (found := status(told, 'pose_feature_node'))
            and "encoding 'jpeg'" in found.message
            and found.level == b'\x01'
        )
    )


def test_debug_pictures_are_made_only_while_someone_listens(
    ros: World, features: Running, demonstrations: Dataset
) -> None:
    made = []
    debug = features.node._debug
    publish = {name: publisher.publish for name, publisher in debug.items()}
    for name, publisher in debug.items():
        publisher.publish = lambda message, name=name: (made.append(name), publish[name](message))
    picture = demonstrations.image(3)
    message = picture_message(picture, HEADER)
    ask(ros, features.speaker, message, features.heard)
    assert made == []
    shown = {
        name: ros.listen(Image, f'debug/{name}', SENSOR)
        for name in ('silhouette', 'skin', 'overlay')
    }
    pictures = {
        name: read_picture(ask(ros, features.speaker, message, some))
        for name, some in shown.items()
    }
    assert all(some[0].header == HEADER for some in shown.values())
    assert set(np.unique(pictures['silhouette'])) == {0, 255}
    assert pictures['overlay'].shape == picture.shape
    changed = (pictures['overlay'] != picture).any(axis=2)
    assert 0 < changed.mean() < 0.2, 'lines, not areas'
    assert pictures['skin'].max() > pictures['skin'].min()


# --- features to the embedding ---------------------------------------------------------------


@pytest.fixture
def regression(ros: World, model_file: Path) -> Running:
    node = KdeRegressionNode({'model': str(model_file)}, context=ros.context)
    return Running.of(ros, node, 'pose_features', 'pose_embedding')


def test_features_become_a_point_with_its_novelty_and_their_stamp(
    ros: World, regression: Running, model: ImitationModel, demonstrations: Dataset
) -> None:
    speaker, points = regression.speaker, regression.heard
    novelties = ros.listen(Image, 'novelty', SENSOR)
    vector = model.look(demonstrations.image(3)).vector
    found = ask(ros, speaker, vector_message(vector, HEADER), points)
    wanted = model.embed(vector)
    point, novelty = read_embedding(found, 'pose_embedding', model.embedding_size)
    assert np.allclose(point, wanted.point, rtol=1e-3, atol=1e-4)
    assert novelty == pytest.approx(wanted.novelty, rel=1e-3)
    alone = ros.until(lambda: novelties)[-1]
    assert alone.header == found.header == HEADER
    assert read_vector(alone, 'novelty', 1)[0] == pytest.approx(novelty)
    del points[:]
    nobody = ask(ros, speaker, vector_message(np.zeros_like(vector), HEADER), points)
    assert read_embedding(nobody, 'pose_embedding', model.embedding_size)[1] == np.inf


def test_features_of_another_model_are_refused(ros: World, regression: Running) -> None:
    told = ros.diagnoses()
    ros.connected(regression.speaker)
    regression.speaker.publish(vector_message([1.0, 2.0], HEADER))
    assert ros.until(
        lambda: (
            (found := status(told, 'kde_regression_node'))
            and 'give all nodes the same model' in found.message
        )
    )
    assert regression.heard == []


# --- the embedding to postures ---------------------------------------------------------------


@pytest.fixture
def preimage(ros: World, model_file: Path) -> Running:
    node = PreimageNode({'model': str(model_file)}, context=ros.context)
    return Running.of(ros, node, 'pose_embedding', 'joint_path', JointTrajectory)


def test_a_point_becomes_a_path_from_where_the_arm_is(
    ros: World, preimage: Running, model: ImitationModel, demonstrations: Dataset
) -> None:
    speaker, heard = preimage.speaker, preimage.heard
    wanted = model.embed(model.look(demonstrations.image(3)).vector)
    message = embedding_message(wanted.point, wanted.novelty, HEADER)
    first = ask(ros, speaker, message, heard)
    assert len(first.points) == 1, 'it is not known yet where the arm is'
    assert (first.header.stamp, first.header.frame_id) == (HEADER.stamp, 'base_link')
    start = np.array([0.1, 0.2, 0.0, 0.5, 0.0, 0.0, 0.0])
    states = ros.speak(JointState, 'joint_states', RELIABLE)
    ros.connected(states)
    states.publish(JointState(name=list(JOINTS[::-1]), position=start[::-1].tolist()))
    ros.pass_time(0.2)
    del heard[:]
    found = ask(ros, speaker, message, heard)
    assert tuple(found.joint_names) == JOINTS
    assert np.allclose(found.points[0].positions, start)
    goal = model.solve(np.float32(wanted.point), start)
    assert np.allclose(found.points[-1].positions, goal, atol=1e-3)


def test_a_novel_point_gives_a_path_without_points(
    ros: World, preimage: Running, model: ImitationModel
) -> None:
    speaker, heard = preimage.speaker, preimage.heard
    told = ros.diagnoses()
    point = np.zeros(model.embedding_size)
    assert ask(ros, speaker, embedding_message(point, 0.9, HEADER), heard).points
    for novelty in (1.1, np.inf):
        del heard[:]
        found = ask(ros, speaker, embedding_message(point, novelty, HEADER), heard)
        assert (found.points, found.header.stamp) == ([], HEADER.stamp)
    assert ros.set('preimage_node', novelty_limit=1.2) == [(True, '')]
    del heard[:]
    assert ask(ros, speaker, embedding_message(point, 1.1, HEADER), heard).points
    ros.until(
        lambda: (
            (found := status(told, 'preimage_node')) and int(lines(found)['novel pictures']) >= 2
        )
    )


def test_goal_and_path_are_shown_as_markers(
    ros: World, preimage: Running, model: ImitationModel
) -> None:
    speaker, heard = preimage.speaker, preimage.heard
    markers = ros.listen(MarkerArray, 'markers', RELIABLE)
    message = embedding_message(np.zeros(model.embedding_size), 0.5, HEADER)
    ros.pass_time(0.3)
    found = ask(ros, speaker, message, markers)
    goal = np.array(ros.until(lambda: heard)[-1].points[-1].positions)
    arm, joints, path = found.markers
    assert {one.header.frame_id for one in found.markers} == {'base_link'}
    assert [one.ns for one in found.markers] == ['goal', 'goal', 'path']
    chain = Chain.from_urdf(urdf(mount='wall'))
    drawn = np.array([[p.x, p.y, p.z] for p in arm.points])
    assert np.allclose(drawn[1:], chain.link_positions(goal), atol=1e-6)
    assert len(joints.points) == 8
    last = path.points[-1]
    assert np.allclose([last.x, last.y, last.z], drawn[-1], atol=1e-6)


def test_a_model_for_another_arm_is_refused(ros: World, model: ImitationModel) -> None:
    class Shorter:
        joints = 6

    with pytest.raises(BadInput, match='moves 6 joints, but the arm has 7'):
        PreimageNode(context=ros.context, model=Shorter())


@pytest.mark.parametrize('kind', [PoseFeatureNode, KdeRegressionNode, PreimageNode])
def test_a_model_that_cannot_be_read_is_one_sentence(
    ros: World, tmp_path: Path, kind: Any
) -> None:
    (tmp_path / 'text.npz').write_text('no model')
    for name in ('nowhere.npz', 'text.npz'):
        with pytest.raises(BadInput, match=name):
            kind({'model': str(tmp_path / name)}, context=ros.context)


# --- all together ----------------------------------------------------------------------------


def test_all_nodes_in_one_process_follow_the_person(ros: World, model_file: Path) -> None:
    told = ros.diagnoses()
    commands = ros.listen(Float64MultiArray, '/left/position_controller/commands', MANY)
    pictures = ros.listen(Image, '/left/image_raw', SENSOR)
    paths = ros.listen(JointTrajectory, '/left/joint_path', MANY)
    with running_stack(
        {
            'camera_node': {'source': str(ACTOR / 'teach_A'), 'frame_rate': 10.0},
            'arm_controller_node': {'enable_at_start': True, 'novel_limit': 1000},
            '*': {'model': str(model_file)},
        },
        namespace='left',
        domain_id=ros.domain,
    ) as stack:
        ros.until(
            lambda: (
                (found := stack.controller.command)
                and found.state.value in ('aligning', 'following')
            )
        )
        ros.until(lambda: sum(command_stamp(message) is not None for message in commands) > 100)
        known = {nanoseconds(message.header.stamp) for message in pictures}
        used = {command_stamp(message) for message in commands} - {None}
        assert len(used & known) >= 0.5 * len(used) > 0, 'the stamps are those of the pictures'
        assert used <= {nanoseconds(message.header.stamp) for message in paths}
        assert 0.0 < stack.controller.report.percentiles()['p50'] < 0.5
        names = [node.get_name() for node in stack.nodes]
        ros.until(lambda: all(status(told, f'left/{name}') for name in names))
        context = stack.context
    assert not context.ok()
    ros.pass_time(0.3)
    assert np.abs(np.diff([message.data for message in commands[-2:]], axis=0)).max() < 1e-4


def test_a_stack_with_a_wrong_node_or_parameter_does_not_start(
    ros: World, model_file: Path
) -> None:
    for wrong, said in [
        ({'kamera_node': {}}, 'There is no node kamera_node'),
        ({'arm_sim_node': {'speed': 1.0}}, 'There is no parameter speed'),
    ]:
        source = {'camera_node': {'source': str(ACTOR / 'teach_A')}}
        everywhere = {'*': {'model': str(model_file)}}
        with (
            pytest.raises(BadInput, match=said),
            running_stack({**source, **everywhere, **wrong}, domain_id=ros.domain),
        ):
            pass
