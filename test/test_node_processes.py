"""The nodes as executables: parameters from files and words, orderly ends, clear failures."""

from __future__ import annotations

import configparser
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import ROOT
from node_bench import ACTOR, Process, World, environ, lines, small_model, status

from kde_imitation.nodes.main import NODES


@pytest.fixture(scope='module')
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each node cannot do without."""
    model = ['-p', f'model:={small_model(tmp_path_factory.mktemp("model") / "small.npz")}']
    return {
        **dict.fromkeys(NODES, model),
        'camera_node': ['-p', f'source:={ACTOR / "teach_A"}'],
        'arm_controller_node': [],
        'arm_sim_node': [],
        'teach_node': ['-p', f'output:={tmp_path_factory.mktemp("taught")}'],
        'viewer_node': [],
    }


def test_every_node_is_an_executable_of_the_package() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / 'setup.cfg')
    scripts = settings['options.entry_points']['console_scripts'].split('\n')
    for name in NODES:
        assert f'{name} = kde_imitation.nodes.main:{name}' in scripts


def test_a_signal_ends_every_node_with_status_0_and_without_a_traceback(
    ros: World, given: dict[str, list[str]]
) -> None:
    numbers = dict(zip(NODES, [signal.SIGINT, signal.SIGTERM] * len(NODES), strict=False))
    told = ros.diagnoses()
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                Process(
                    *(name, ros.domain, '-r', '__ns:=/left', '--params-file'),
                    *(str(ROOT / 'config' / f'{name}.yaml'), *given[name]),
                )
            )
            for name in NODES
        }
        ros.until(lambda: all(status(told, f'left/{name}:') for name in NODES), 60.0)
        ends = {name: process.end(numbers[name]) for name, process in running.items()}
    assert {name: code for name, (code, _) in ends.items()} == dict.fromkeys(NODES, 0)
    assert [name for name, (_, errors) in ends.items() if 'Traceback' in errors] == []


def test_parameters_come_from_a_file_in_any_namespace(ros: World, tmp_path: Path) -> None:
    told = ros.diagnoses()
    text = (ROOT / 'config' / 'camera_node.yaml').read_text()
    assert text.count("source: 'demo'") == 1
    file = tmp_path / 'mine.yaml'
    file.write_text(text.replace("source: 'demo'", f'source: {ACTOR / "teach_A"}'))
    words = ('--params-file', str(file), '-r', '__ns:=/some/where')
    with Process('camera_node', ros.domain, *words):
        found = ros.until(lambda: status(told, 'some/where/camera_node'))
        assert lines(found)['source'] == str(ACTOR / 'teach_A')


@pytest.mark.parametrize(
    ('name', 'words', 'said'),
    [
        ('camera_node', ['-p', 'source:=nowhere.avi'], 'no such file or folder'),
        ('camera_node', ['-p', 'frame_rate:=900.0'], 'frame_rate is 900, but must be from 0 to'),
        ('arm_sim_node', ['-p', 'payload:=heavy'], "payload must be a number, not 'heavy'"),
        ('arm_sim_node', ['-p', 'pailoat:=1.0'], 'There is no parameter pailoat'),
        ('arm_controller_node', ['-p', 'joint_state_timeout:=0.006'], 'joint_state_timeout is'),
        ('preimage_node', ['-p', 'model:=nowhere.npz'], 'nowhere.npz'),
        ('camera_node', ['-p', 'source'], 'ROS could not start'),
        ('camera_node', ['--params-file', 'nowhere.yaml'], 'ROS could not start'),
    ],
)
def test_a_wrong_start_is_one_sentence_and_status_1(
    ros: World, name: str, words: list[str], said: str
) -> None:
    with Process(name, ros.domain, *words) as process:
        code, errors = process.end()
    assert code == 1
    assert said in errors
    assert 'Traceback' not in errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith(f'{name}: ')
    assert last.endswith('.')


def test_without_ros_the_executables_say_what_to_install() -> None:
    code = (
        'import sys; sys.modules["rclpy"] = None; '
        'from kde_imitation.nodes.main import camera_node; sys.exit(camera_node())'
    )
    done = subprocess.run(
        [sys.executable, '-c', code], env=environ(0), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == (
        "camera_node: The nodes need ROS 2, but its module 'rclpy' is not installed; source a "
        'ROS 2 installation, or install it with pip install "kde_imitation[ros]".\n'
    )


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_a_node_as_well(
    ros: World, given: dict[str, list[str]], number: signal.Signals
) -> None:
    with Process('camera_node', ros.domain, *given['camera_node']) as process:
        process.wait_for_interpreter()
        code, errors = process.end(number)
    assert (code, 'Traceback' in errors) == (0, False)
