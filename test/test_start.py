"""A process that follows is there at once: it loads nothing that only teaching needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import PACKAGE, ROOT

# What training, teaching, drawing and measuring use: a tenth of a second or more to load, each.
HEAVY = (
    *('sklearn', 'skimage', 'matplotlib'),
    *('scipy.fft', 'scipy.linalg', 'scipy.optimize', 'scipy.sparse', 'scipy.spatial'),
    *('scipy.interpolate', 'scipy.ndimage', 'scipy.stats'),
)
TEACHING = (f'{PACKAGE}.learning', f'{PACKAGE}.imitation.training')
FOLLOWING = (
    *('camera_node', 'pose_feature_node', 'kde_regression_node'),
    *('preimage_node', 'arm_controller_node', 'arm_sim_node'),
)


def loaded_by(code: str) -> set[str]:
    """Return the names of all modules that a new process has loaded after running some code."""
    code += '\nimport json, sys\nprint(json.dumps(list(sys.modules)))'
    process = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0, process.stderr
    return set(json.loads(process.stdout.splitlines()[-1]))


@pytest.mark.parametrize('node', FOLLOWING)
def test_a_node_that_follows_loads_nothing_of_teaching(node: str) -> None:
    pytest.importorskip('rclpy', reason='ROS 2 is not installed; the extra "ros" brings it')
    module = f'{PACKAGE}.nodes.{node}'
    loaded = loaded_by(f'import {module}')
    assert module in loaded
    assert loaded & {*HEAVY, *TEACHING} == set()


PREDICT = """
import numpy as np
from kde_imitation.dataset import read_image
from kde_imitation.imitation import ImitationModel
from kde_imitation.resources import share_file
model = ImitationModel.load(next(share_file('model').glob('*.npz')))
found = model.predict(read_image('data/actor/teach_A/0000.jpg'))
assert found.q.shape == (7,) and not found.novel, found
assert model.predict(np.zeros((240, 320, 3), np.uint8)).novel
"""


def test_the_first_prediction_loads_nothing_of_teaching_either() -> None:
    loaded = loaded_by(PREDICT)
    assert f'{PACKAGE}.imitation.model' in loaded
    # Pinocchio is for arms that a URDF describes; the arm of this model is not one of them.
    assert loaded & {*HEAVY, *TEACHING, 'pinocchio'} == set()


def test_help_on_the_command_line_loads_no_numbers() -> None:
    loaded = loaded_by(f'from {PACKAGE} import cli\ncli.build_parser().format_help()')
    assert f'{PACKAGE}.cli' in loaded
    assert loaded & {*HEAVY, 'numpy', 'scipy', 'cv2', 'rclpy'} == set()


def test_all_that_is_watched_for_would_be_seen() -> None:
    watched = {*HEAVY, *TEACHING, 'pinocchio', 'numpy', 'scipy', 'cv2'}
    assert watched - loaded_by(f'import {", ".join(sorted(watched))}') == set()
