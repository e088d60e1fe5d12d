"""What the tests of the nodes share: a DDS domain of their own, a node that talks to others."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
os.environ.pop('ROS_LOCALHOST_ONLY', None)

rclpy = pytest.importorskip('rclpy', reason='ROS 2 is not installed; the extra "ros" brings it')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rcl_interfaces.msg import Parameter as ParameterMessage  # noqa: E402
from rcl_interfaces.srv import SetParameters  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.parameter import Parameter as RosParameter  # noqa: E402
from rclpy.qos import QoSProfile  # noqa: E402

from kde_imitation.dataset import Dataset  # noqa: E402
from kde_imitation.imitation import ImitationModel, Settings  # noqa: E402
from kde_imitation.nodes.base import ImitationNode, Spinner  # noqa: E402

ACTOR = Path(__file__).resolve().parent.parent / 'data' / 'actor'
PATIENCE = 20.0
COMMANDS = 'position_controller/commands'
TRAJECTORIES = 'joint_trajectory_controller/joint_trajectory'
MANY = QoSProfile(depth=1000)
READY = [0.0, 0.7, 0.0, 1.2, 0.0, 0.7, 0.0]


def small_model(file: Path) -> Path:
    """Train a model in a second, good enough to move an arm, and save it."""
    demonstrations = Dataset.open(ACTOR / 'teach_A')
    pairs = list(demonstrations.pairs(20))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)
        model = ImitationModel.train(
            [picture for picture, _ in pairs],
            [posture for _, posture in pairs],
            demonstrations.background,
            skin=demonstrations.skin,
            settings=Settings(features='thesis', ridges=(1e-2,), folds=2),
        )
    model.save(file)
    return file


@contextmanager
def own_domain() -> Iterator[int]:
    """Lend a DDS domain that no other test run of this machine uses at the time."""
    for number in range(20, 100):
        lock = (Path(tempfile.gettempdir()) / f'kde_imitation_domain_{number}').open('w')
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        with lock:
            yield number
            return
    raise RuntimeError('All DDS domains are in use.')


class World:
    """A ROS context of a test: a node that listens and speaks, and the nodes that are tested."""

    def __init__(self, domain: int) -> None:
        self.domain = domain
        self.context = rclpy.Context()
        rclpy.init(args=['test'], context=self.context, domain_id=domain)
        self.probe = rclpy.create_node('probe', context=self.context)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.probe)
        self._spinners: list[Spinner] = []

    def run(self, *nodes: ImitationNode) -> Any:
        """Run nodes in the background until the test ends; return the first."""
        self._spinners.append(Spinner(nodes, self.context))
        self._spinners[-1].start()
        return nodes[0]

    def end_nodes(self) -> None:
        """End the nodes that are tested in their orderly way."""
        while self._spinners:
            spinner = self._spinners.pop()
            spinner.stop()
            assert spinner.error is None

    def close(self) -> None:
        self.end_nodes()
        self._executor.shutdown(1.0)
        self.probe.destroy_node()
        rclpy.try_shutdown(context=self.context)

    def listen(self, message_type: Any, topic: str, qos: QoSProfile) -> list[Any]:
        """Return a list to which the messages of a topic are added."""
        heard: list[Any] = []
        self.probe.create_subscription(message_type, topic, heard.append, qos)
        return heard

    def speak(self, message_type: Any, topic: str, qos: QoSProfile) -> Any:
        return self.probe.create_publisher(message_type, topic, qos)

    def until(self, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Take in messages until something is so, and return it."""
        deadline = time.monotonic() + patience
        while not (found := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f'waited {patience:g} s in vain')
            self._executor.spin_once(timeout_sec=0.02)
        return found

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.01)

    def connected(self, publisher: Any, count: int = 1) -> None:
        self.until(lambda: publisher.get_subscription_count() >= count)

    def call(self, service_type: Any, name: str, request: Any) -> Any:
        client = self.probe.create_client(service_type, name)
        self.until(client.service_is_ready)
        future = client.call_async(request)
        self.until(future.done)
        self.probe.destroy_client(client)
        return future.result()

    def set(self, node: str, **values: Any) -> list[tuple[bool, str]]:
        """Change parameters as `ros2 param set` does; return what was answered to each."""
        messages: list[ParameterMessage] = [
            RosParameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ]
        request = SetParameters.Request(parameters=messages)
        answer = self.call(SetParameters, f'/{node}/set_parameters', request)
        return [(result.successful, result.reason) for result in answer.results]

    def diagnoses(self) -> list[DiagnosticArray]:
        return self.listen(DiagnosticArray, '/diagnostics', QoSProfile(depth=100))


def status(heard: list[DiagnosticArray], node: str) -> DiagnosticStatus | None:
    """Return the newest status of a node."""
    found = [one for array in heard for one in array.status if one.name.startswith(node)]
    return found[-1] if found else None


def lines(found: DiagnosticStatus) -> dict[str, str]:
    return {one.key: one.value for one in found.values}


@contextmanager
def world() -> Iterator[World]:
    with own_domain() as domain:
        made = World(domain)
        try:
            yield made
        finally:
            made.close()


# --- separate processes ----------------------------------------------------------------------


def environ(domain: int) -> dict[str, str]:
    return {
        **os.environ,
        'ROS_DOMAIN_ID': str(domain),
        'ROS_LOG_DIR': tempfile.gettempdir(),
        'OMP_NUM_THREADS': '1',
    }


class Process:
    """A node as `ros2 run` starts it."""

    def __init__(self, name: str, domain: int, *words: str) -> None:
        # The word tells when signals are taken; importing what the node needs comes after.
        code = (
            'import sys; from kde_imitation.nodes import main; spin = main._spin\n'
            'def told(*words): print("up", flush=True); return spin(*words)\n'
            f'main._spin = told; sys.exit(main.{name}())'
        )
        self._process = subprocess.Popen(
            [sys.executable, '-c', code, *(('--ros-args', *words) if words else ())],
            env=environ(domain),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_interpreter(self) -> None:
        """Wait until signals are taken."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == 'up\n'

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Send a signal, wait, and return the status and what was written to stderr."""
        if number is not None:
            self._process.send_signal(number)
        try:
            _, errors = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            pytest.fail('the process did not end')
        return self._process.returncode, errors

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self.kill()
