"""The demonstration, from the command line to its pictures and report."""

import json

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from kde_imitation.cli import main
from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.simulation import demo, render


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """One run of five seconds: its folder and its report."""
    folder = tmp_path_factory.mktemp('demo')
    arguments = ['demo', '--headless', '--seconds', '5']
    places = ['--report', str(folder / 'r.json'), '--output', str(folder / 'out')]
    assert main(arguments + places) == 0
    return folder, json.loads((folder / 'r.json').read_text())


def test_arm_follows_the_path_inside_all_limits(finished):
    _, report = finished
    assert report['seconds'] == 5
    assert report['samples_outside_limits'] == 0
    assert report['hand_error_max_mm'] < 5
    assert 0 < report['tracking_rms_mrad'] < report['tracking_max_mrad'] < 5
    assert 0 < report['torque_share_max'] < 1


def test_ten_postures_were_solved_with_the_learned_kinematics(finished):
    _, report = finished
    assert report['postures'] == 10
    assert 0.1 < report['model_error_mean'] < 1.5
    assert report['posture_error_max'] < 3


def test_pictures_show_an_arm_that_moves(finished):
    folder, report = finished
    assert [str(folder / 'out' / name) for name in ('demo.gif', 'demo.png')] == report['pictures']
    with Image.open(folder / 'out' / 'demo.gif') as film:
        assert film.n_frames == 50
        first = np.asarray(film.convert('RGB'), dtype=float)
        film.seek(25)
        later = np.asarray(film.convert('RGB'), dtype=float)
    assert (np.abs(first - later).max(axis=-1) > 40).mean() > 0.005
    with Image.open(folder / 'out' / 'demo.png') as sheet:
        assert min(sheet.size) > 400
        assert np.asarray(sheet.convert('L')).std() > 20


def test_without_opengl_it_draws_all_the_same_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(render, 'gl_library', lambda: None)
    console = Console(record=True, width=200, quiet=False, force_terminal=False)
    assert demo.run(seconds=1, output=tmp_path, headless=True, console=console) == 0
    assert 'plain drawings by Matplotlib' in console.export_text()
    assert (tmp_path / 'demo.png').stat().st_size > 20_000


def test_without_a_screen_no_window_is_opened_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv('DISPLAY', raising=False)
    monkeypatch.delenv('WAYLAND_DISPLAY', raising=False)
    console = Console(record=True, width=200)
    assert demo.run(seconds=1, output=tmp_path, console=console) == 0
    assert 'There is no screen' in console.export_text()


def test_solved_postures_reach_their_targets_and_lie_close_together():
    arm = LearnedArm.of_pa10()
    targets = demo.hand_targets()
    postures = demo.solve_postures(arm, targets)
    assert np.abs(arm.link_positions(postures)[:, 6] - targets).max() < 1e-6
    assert (np.abs(postures) <= pa10.UPPER).all()
    assert np.abs(np.diff(postures, axis=0)).max() < 1.0


def test_a_target_out_of_reach_is_named():
    with pytest.raises(Unreachable, match=r'Hand position 0 at .* outside the reach'):
        demo.solve_postures(LearnedArm.of_pa10(), np.array([[2.0, 0.0, 0.0]]))


@pytest.mark.parametrize('seconds', [0, -1, 1e6, float('nan')])
def test_seconds_outside_the_range_are_refused(seconds):
    with pytest.raises(BadInput, match='seconds must be from 1 to 3600'):
        demo.run(seconds=seconds)
