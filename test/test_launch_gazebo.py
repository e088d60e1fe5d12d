"""gazebo.launch.py, started for real: the arm stands in Gazebo and its controllers run."""

import time

import pytest

launch_bench = pytest.importorskip('launch_bench')

from launch_bench import (  # noqa: E402
    PATIENCE,
    description,
    launch_pytest,
    listening,
    need,
    own_domain,
)
from rosgraph_msgs.msg import Clock  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402

from kde_imitation.kinematics.description import JOINTS  # noqa: E402


@launch_pytest.fixture
def simulated():
    need(
        ('robot_state_publisher', 'robot_state_publisher'),
        ('ros_gz_sim', 'create'),
        ('ros_gz_bridge', 'parameter_bridge'),
        ('controller_manager', 'spawner'),
    )
    own_domain()
    return description('gazebo', gui='false', namespace='left', prefix='left_')


@pytest.mark.launch(fixture=simulated)
def test_the_arm_holds_its_posture_in_gazebo():
    with listening() as listener:
        listener.first(Clock, '/clock', lambda clock: clock.clock.sec >= 1)
        states = listener.first(JointState, '/left/joint_states', lambda one: len(one.name) == 7)
        assert set(states.name) == {f'left_{name}' for name in JOINTS}
        assert max(map(abs, states.position)) < 0.05
        end = time.monotonic() + PATIENCE
        while not listener.node.count_subscribers('/left/position_controller/commands'):
            assert time.monotonic() < end, 'the position controller did not come up'
            time.sleep(0.2)
