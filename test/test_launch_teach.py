"""teach.launch.py, started for real: the arm shows a posture, and a call stores the pair."""

import pytest

launch_bench = pytest.importorskip('launch_bench')

from conftest import ROOT  # noqa: E402
from launch_bench import description, launch_pytest, listening, need, own_domain  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

TEACH = ROOT / 'data' / 'actor' / 'teach_A'


@launch_pytest.fixture
def teaching(tmp_path):
    need(
        *(('kde_imitation', node) for node in ('teach_node', 'camera_node', 'arm_sim_node')),
        ('robot_state_publisher', 'robot_state_publisher'),
    )
    own_domain()
    arguments = {'source': str(TEACH), 'output': str(tmp_path / 'taught'), 'rviz': 'false'}
    return description('teach', **arguments)


@pytest.mark.launch(fixture=teaching)
def test_the_arm_is_sent_to_a_posture():
    with listening() as listener:
        goal = listener.first(JointTrajectory, '/joint_path', lambda path: len(path.points) > 0)
        assert len(goal.joint_names) == 7
