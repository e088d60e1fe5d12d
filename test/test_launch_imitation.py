"""imitation.launch.py, started for real: the simulated arm follows, and every node comes back."""

import os
import signal
import subprocess
import time

import pytest

launch_bench = pytest.importorskip('launch_bench')

from conftest import ROOT  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from launch_bench import description, launch_pytest, listening, need, own_domain  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import Float64MultiArray  # noqa: E402

from kde_imitation.dataset import Dataset  # noqa: E402
from kde_imitation.imitation import ImitationModel  # noqa: E402

NODES = (
    *('camera_node', 'pose_feature_node', 'kde_regression_node', 'preimage_node'),
    *('arm_controller_node', 'arm_sim_node'),
)
TEACH, MOVING = (ROOT / 'data' / 'actor' / name for name in ('teach_A', 'free_A'))


@pytest.fixture(scope='module')
def model(tmp_path_factory):
    """A model of a few demonstrations."""
    demonstrations = Dataset.open(TEACH)
    pictures = [demonstrations.image(i) for i in range(30)]
    file = tmp_path_factory.mktemp('model') / 'model.npz'
    labels = demonstrations.labels[:30]
    ImitationModel.train(pictures, labels, demonstrations.background).save(file)
    return file


@launch_pytest.fixture
def imitating(model):
    need(
        *(('kde_imitation', node) for node in NODES),
        ('robot_state_publisher', 'robot_state_publisher'),
    )
    own_domain()
    arguments = {'source': str(MOVING), 'model': str(model), 'rviz': 'false'}
    return description('imitation', namespace='left', prefix='l_', **arguments)


def follows(listener):
    """Wait until the controller says that it goes to goals."""

    def fits(message):
        return any(
            'arm_controller_node' in status.name
            and status.message.startswith(('aligning', 'following'))
            for status in message.status
        )

    return listener.first(DiagnosticArray, '/diagnostics', fits)


@pytest.mark.launch(fixture=imitating)
def test_the_simulated_arm_follows_the_pictures():
    with listening() as listener:
        follows(listener)
        states = listener.first(JointState, '/left/joint_states')
        assert states.name == ['l_s1', 'l_s2', 'l_s3', 'l_e1', 'l_e2', 'l_w1', 'l_w2']
        command = listener.first(Float64MultiArray, '/left/position_controller/commands')
        assert len(command.data) == 7


def process_of(executable):
    """Return the process of a node that this test started."""
    domain = os.environ['ROS_DOMAIN_ID'].encode()
    listing = subprocess.run(['ps', '-eo', 'pid,args'], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines()[1:]:
        number, _, command = line.strip().partition(' ')
        if f'/lib/kde_imitation/{executable} ' not in f'{command} ' or '__node' not in command:
            continue
        try:
            with open(f'/proc/{number}/environ', 'rb') as environ:
                variables = environ.read().split(b'\0')
        except OSError:
            continue
        if b'ROS_DOMAIN_ID=' + domain in variables:
            return int(number)
    return None


@pytest.mark.launch(fixture=imitating)
def test_a_killed_node_comes_back_and_the_arm_follows_again():
    with listening() as listener:
        follows(listener)
        for executable in ('preimage_node', 'arm_controller_node'):
            killed = process_of(executable)
            os.kill(killed, signal.SIGKILL)
            others = {name: process_of(name) for name in NODES if name != executable}
            end = time.monotonic() + 20.0
            while process_of(executable) in (None, killed):
                assert time.monotonic() < end, f'{executable} did not come back'
                time.sleep(0.1)
            follows(listener)
            assert {name: process_of(name) for name in others} == others
