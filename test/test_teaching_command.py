"""`kde_imitation teach` on pictures that play the person."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from conftest import ROOT
from rich.console import Console
from teach_bench import person, room

from kde_imitation import cli
from kde_imitation.commands import teach
from kde_imitation.commands.teach_options import Options
from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel

TEACH_A = ROOT / 'data' / 'actor' / 'teach_A'


def run(**options: object) -> str:
    """Run the command without a terminal; return what it says."""
    text = io.StringIO()
    console = Console(file=text, width=200, soft_wrap=True)
    assert teach.run(Options(**{'auto': True, 'headless': True, **options}), console) == 0
    return text.getvalue()


def test_a_data_set_plays_the_person_and_a_model_comes_out(tmp_path: Path) -> None:
    folder = tmp_path / 'taught'
    status = cli.main(
        [
            *('teach', '--source', str(TEACH_A), '--count', '12', '--auto', '--no-report'),
            *('--output', str(folder)),
        ]
    )
    assert status == 0
    given, taught = Dataset.open(TEACH_A), Dataset.open(folder)
    np.testing.assert_array_equal(taught.labels, given.labels[:12])
    for i in range(12):
        gap = np.abs(taught.image(i).astype(int) - given.image(i))
        assert gap.mean() < 3.0, 'the same picture, but for JPEG'
    assert taught.background is not None
    assert taught.skin is not None
    model = ImitationModel.load(tmp_path / 'taught.npz')
    assert model.summary['pairs'] == 12


def test_the_same_command_goes_on_where_it_stopped(tmp_path: Path) -> None:
    folder = tmp_path / 'taught'
    said = run(source=str(TEACH_A), count=2, output=folder)
    assert '2 pairs are too few to train' in said
    said = run(source=str(TEACH_A), count=4, output=folder, train=False)
    assert 'Posture 3 of 4 is stored as 0002.jpg' in said
    assert 'Posture 2' not in said
    np.testing.assert_array_equal(Dataset.open(folder).labels, Dataset.open(TEACH_A).labels[:4])


def test_the_simulated_arm_shows_the_postures_and_leaves_out_what_it_cannot(
    tmp_path: Path,
) -> None:
    folder = tmp_path / 'taught'
    said = run(source=str(TEACH_A), count=3, output=folder, arm='mujoco', skin='none')
    assert 'from the plane that it is mounted on' in said
    assert 'Posture 3 of 3 is left out' in said
    shown = Dataset.open(folder).labels
    asked = Dataset.open(TEACH_A).labels[:2]
    assert 0.0 < np.abs(shown - asked).max() < 0.03, 'where the arm was, not where it should be'
    view = cv2.imread(str(tmp_path / 'taught_view.png'))
    assert view.shape == (480, 480 + 640, 3)


def test_a_video_is_played_in_its_time(tmp_path: Path) -> None:
    file = tmp_path / 'person.avi'
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*'MJPG'), 10.0, (128, 96))
    for picture in [*[room()] * 20, *[person()] * 20]:
        writer.write(np.ascontiguousarray(picture[:, :, ::-1]))
    writer.release()
    postures = tmp_path / 'postures.csv'
    postures.write_text('q1,q2,q3,q4,q5,q6,q7\n0,0.1,0,0,0,0,0\n0,0.4,0,0,0,0,0\n')
    plain = {'source': str(file), 'arm': 'none', 'skin': 'none', 'train': False}
    said = run(output=tmp_path / 'taught', postures=str(postures), **plain)
    assert 'Posture 1 of 2 is stored' in said
    np.testing.assert_allclose(Dataset.open(tmp_path / 'taught').labels[:, 1], [0.1, 0.4])
    said = run(output=tmp_path / 'short', **plain)
    assert 'person.avi has ended' in said


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        ({'source': 'nowhere'}, 'there is no such file or folder'),
        ({'count': 201}, 'has 200 labelled pictures, but 201'),
        ({'postures': 'some.csv'}, 'leave out --postures'),
        ({'auto': False}, 'Keys need a terminal'),
        ({'skin': 'nose'}, "skin is 'nose'"),
        ({'model': Path('.')}, 'is a folder'),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    tmp_path: Path, options: dict[str, object], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        run(**{'source': str(TEACH_A), 'output': tmp_path / 'taught', **options})


def test_keys_store_skip_undo_and_finish(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    command = [sys.executable, '-m', 'kde_imitation.cli', 'teach', '--source', str(TEACH_A)]
    command += ['--output', str(tmp_path / 'taught'), '--count', '4', '--skin', 'none']
    child = subprocess.Popen(
        command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    os.close(terminal)
    assert child.stdout is not None
    heard: list[str] = []

    def wait_for(words: str) -> None:
        while words not in heard[-1] if heard else True:
            line = child.stdout.readline()  # type: ignore[union-attr]
            assert line, heard
            heard.append(line)

    def press(key: bytes) -> None:
        time.sleep(0.5)
        os.write(master, key)

    wait_for('Leave the picture')
    press(b' ')
    wait_for('The background is taken')
    press(b' ')
    wait_for('Posture 1 of 4 is stored')
    press(b's')
    wait_for('Posture 2 of 4 is left out')
    press(b'u')
    wait_for('Posture 2 of 4 is shown after all')
    press(b' ')
    wait_for('Posture 2 of 4 is stored')
    press(b'q')
    rest, _ = child.communicate(timeout=20)
    os.close(master)
    assert child.returncode == 0
    assert 'holds 2 pairs' in rest
    np.testing.assert_array_equal(
        Dataset.open(tmp_path / 'taught').labels, Dataset.open(TEACH_A).labels[:2]
    )
