"""The teach-in through DDS: goals to the arm, pairs from pictures and joint states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_bench import ACTOR, World, lines, status
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Header, String
from std_srvs.srv import Trigger
from teach_bench import person, room
from trajectory_msgs.msg import JointTrajectory

from kde_imitation.dataset import Dataset, Recorder
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.kinematics.description import JOINTS
from kde_imitation.nodes.arm_controller_node import ArmControllerNode
from kde_imitation.nodes.arm_sim_node import ArmSimNode
from kde_imitation.nodes.base import LATCHED, RELIABLE, SENSOR
from kde_imitation.nodes.messages import picture_message, read_trajectory
from kde_imitation.nodes.teach_node import TeachNode

POSTURES = np.zeros((3, 7))
POSTURES[:, 1], POSTURES[:, 3] = [0.0, 0.25, -0.2], [0.4, 0.1, 0.3]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    rows = '\n'.join(','.join(map(str, row)) for row in POSTURES)
    (tmp_path / 'postures.csv').write_text(f'q1,q2,q3,q4,q5,q6,q7\n{rows}\n')
    return {
        'output': str(tmp_path / 'taught'),
        'postures': str(tmp_path / 'postures.csv'),
        'skin': 'none',
        'leave_time': 0.0,
        'background_frames': 3,
        'train_at_end': False,
    }


class Camera:
    """Pictures at 20 Hz of whatever is before it."""

    def __init__(self, ros: World) -> None:
        self.shows = room()
        self._speaker = ros.speak(Image, 'image_raw', SENSOR)
        ros.probe.create_timer(0.05, self._send)

    def _send(self) -> None:
        self._speaker.publish(picture_message(self.shows, Header()))


class Arm:
    """Joint states at 50 Hz of an arm that is wherever it is put."""

    def __init__(self, ros: World, q: Any) -> None:
        self.q = np.asarray(q)
        self._speaker = ros.speak(JointState, 'joint_states', RELIABLE)
        ros.probe.create_timer(0.02, self._send)

    def _send(self) -> None:
        self._speaker.publish(JointState(name=list(JOINTS), position=self.q.tolist()))


def ask(ros: World, what: str) -> tuple[bool, str]:
    answer = ros.call(Trigger, f'teach_node/{what}', Trigger.Request())
    return answer.success, answer.message


def test_with_a_countdown_the_simulated_arm_shows_all_postures_and_they_are_stored(
    ros: World, given: dict[str, Any]
) -> None:
    camera = Camera(ros)
    told = ros.listen(String, 'teach_node/status', LATCHED)
    ros.run(ArmSimNode({'start': POSTURES[1].tolist()}, context=ros.context))
    ros.run(ArmControllerNode({'enable_at_start': True}, context=ros.context))
    ros.run(TeachNode({**given, 'countdown': 0.3}, context=ros.context))
    ros.until(lambda: told and told[-1].data.startswith('The background is taken'))
    camera.shows = person()
    ros.until(lambda: 'Finished' in told[-1].data, 30.0)
    labels = Dataset.open(given['output']).labels
    assert labels.shape == (3, 7)
    assert np.abs(labels - POSTURES).max() < 0.03


def test_services_store_undo_skip_and_finish_and_the_status_guides(
    ros: World, given: dict[str, Any]
) -> None:
    camera, arm = Camera(ros), Arm(ros, POSTURES[1])
    goals = ros.listen(JointTrajectory, 'joint_path', QoSProfile(depth=10))
    diagnoses = ros.diagnoses()
    node = ros.run(TeachNode(given, context=ros.context))
    told = ros.listen(String, 'teach_node/status', LATCHED)
    ros.until(lambda: told)
    assert told[-1].data.startswith('Leave the picture')
    assert 'call /teach_node/capture' in told[-1].data
    assert ask(ros, 'capture')[0]
    ros.until(lambda: 'wait for the arm' in told[-1].data)
    camera.shows = person()
    ok, said = ask(ros, 'capture')
    assert not ok
    assert 'wait for the arm' in said
    ros.until(lambda: goals)
    path, _ = read_trajectory(goals[-1], JOINTS)
    np.testing.assert_array_equal(path, POSTURES[[1, 0]])
    arm.q = POSTURES[0]
    ros.until(lambda: 'copy the arm' in told[-1].data)
    ros.pass_time(0.6)
    assert ask(ros, 'capture') == (True, 'Posture 1 of 3 is stored as 0000.jpg.')
    assert ask(ros, 'skip') == (True, 'Posture 2 of 3 is left out.')
    assert ask(ros, 'undo') == (True, 'Posture 2 of 3 is shown after all.')
    assert ask(ros, 'undo') == (True, '0000.jpg is removed.')
    found = ros.until(lambda: (new := status(diagnoses, 'teach_node')) and lines(new))
    assert found['wanted'] == '3'
    assert ask(ros, 'finish')[0]
    ros.until(lambda: 'Finished' in told[-1].data)
    ros.until(lambda: node._recorder is None)
    Recorder(given['output']).close()


def test_an_arm_that_is_guided_by_hand_gets_no_goals(ros: World, given: dict[str, Any]) -> None:
    camera, arm = Camera(ros), Arm(ros, POSTURES[0])
    goals = ros.listen(JointTrajectory, 'joint_path', QoSProfile(depth=10))
    guided = {**given, 'postures': 'guided', 'count': 2, 'countdown': 0.2}
    node = ros.run(TeachNode(guided, context=ros.context))
    ros.until(lambda: node.session.index == 0)
    camera.shows = person()
    ros.until(lambda: node.session.stored == 1)
    arm.q = POSTURES[1]
    ros.until(lambda: node.session.stored == 2)
    np.testing.assert_array_equal(Dataset.open(given['output']).labels, POSTURES[:2])
    assert not goals


def test_at_the_end_a_model_is_trained_and_the_status_says_so(
    ros: World, given: dict[str, Any], tmp_path: Path
) -> None:
    data = Dataset.open(ACTOR / 'teach_A')
    with Recorder(given['output']) as recorder:
        recorder.set_background(data.background)
        for image, q in data.pairs(11):
            recorder.add(image, q)
    told = ros.listen(String, 'teach_node/status', LATCHED)
    ros.run(TeachNode({**given, 'train_at_end': True}, context=ros.context))
    assert ask(ros, 'finish')[0]
    ros.until(lambda: 'Training …' in told[-1].data)
    ros.until(lambda: 'Training …' not in told[-1].data, 60.0)
    model = tmp_path / 'taught.npz'
    assert f'The model is {model}. Report in' in told[-1].data
    assert ImitationModel.load(model).summary['pairs'] == 11


def test_training_that_fails_is_one_sentence(ros: World, given: dict[str, Any]) -> None:
    with Recorder(given['output']) as recorder:
        recorder.set_background(room())
        recorder.add(person(), POSTURES[0])
    told = ros.listen(String, 'teach_node/status', LATCHED)
    ros.run(TeachNode({**given, 'train_at_end': True}, context=ros.context))
    assert ask(ros, 'finish')[0]
    ros.until(
        lambda: told and 'Training failed: 1 demonstrations are too few' in told[-1].data, 30
    )


@pytest.mark.parametrize(
    ('parameters', 'said'),
    [
        ({'postures': 'nowhere.csv'}, 'cannot be read'),
        ({'postures': 'spread', 'count': 0}, 'count is 0'),
        ({'skin': 'nose'}, "skin is 'nose'"),
        ({'lower': [0.1] * 7, 'upper': [0.0] * 7}, 'must rise'),
        ({'urdf': 'arm.urdf', 'train_at_end': True}, 'needs elbow and wrist'),
    ],
)
def test_a_teach_in_that_cannot_be_is_one_sentence(
    ros: World, given: dict[str, Any], parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        TeachNode({**given, **parameters}, context=ros.context)
