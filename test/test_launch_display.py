"""display.launch.py, started for real."""

import pytest

launch_bench = pytest.importorskip('launch_bench')

from launch_bench import description, launch_pytest, listening, need, own_domain  # noqa: E402
from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@launch_pytest.fixture
def displayed():
    need(
        ('robot_state_publisher', 'robot_state_publisher'),
        ('joint_state_publisher', 'joint_state_publisher'),
    )
    own_domain()
    return description('display', gui='false', rviz='false', prefix='left_', namespace='left')


@pytest.mark.launch(fixture=displayed)
def test_the_arm_is_described_and_its_joints_stay_at_zero():
    with listening() as listener:
        urdf = listener.first(String, '/left/robot_description', qos=LATCHED).data
        assert 'left_w2' in urdf
        states = listener.first(JointState, '/left/joint_states')
        assert {'left_s1', 'left_w2'} <= set(states.name)
        assert not any(states.position)
