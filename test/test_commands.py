"""`kde_imitation train`, `predict` and `evaluate`: what they write, print and refuse."""

import base64
import csv
import json
import os
import re
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
from demonstrations import FREE, TEACH, copy_part

from kde_imitation import cli
from kde_imitation.commands import train
from kde_imitation.commands.frames import WALL_VIEW, view_of
from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.kinematics import description

FIGURES = {'peers', 'errors', 'demonstrations', 'spectra', 'choices', 'reduction', 'worst', 'best'}


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """Return a folder with data sets, a model and its report."""
    folder = tmp_path_factory.mktemp('commands')
    copy_part(folder / 'teach', range(20), others=('background.jpg', 'skin.csv'))
    copy_part(folder / 'new', range(100, 108), others=())
    (folder / 'free').mkdir()
    for number in (0, 50, 100):
        shutil.copy(FREE / f'{number:04d}.jpg', folder / 'free')
    call = ['train', folder / 'teach', folder / 'free', '--output', folder / 'model.npz']
    assert cli.main([*map(str, call), '--pairs', '18']) == 0
    return folder


def refused(capsys, *call):
    """Return the one sentence with which a call fails."""
    assert cli.main([str(word) for word in call]) == 1
    printed = capsys.readouterr()
    assert printed.out == ''
    assert printed.err.startswith('kde_imitation: ')
    assert printed.err.count('\n') == 1
    assert printed.err.endswith(('.\n', '…\n'))
    return printed.err


# --- train ------------------------------------------------------------------------------------


def test_train_takes_the_first_rows_and_all_unpaired_pictures(place):
    summary = ImitationModel.load(place / 'model.npz').summary
    assert summary['pairs'] == 18
    assert summary['unpaired'] == 3


def test_train_prints_what_it_chose_and_how_long_it_took(tmp_path, place, capsys):
    assert (
        cli.main(
            ['train', str(place / 'teach'), '--output', str(tmp_path / 'm.npz'), '--no-report']
        )
        == 0
    )
    printed = capsys.readouterr()
    for word in ('pairs', 'chosen ridge', 'chosen rank', 'fold error', 'MiB', 'training'):
        assert word in printed.out
    assert printed.err == ''
    assert [path.name for path in tmp_path.iterdir()] == ['m.npz']


def test_the_report_is_one_page_that_needs_nothing_else(place):
    page = (place / 'model_report' / 'report.html').read_text()
    assert not re.search(r'https?:|<script|<link|src="(?!data:)|url\(', page)
    embedded = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(embedded) == len(FIGURES)
    files = {path.stem: path for path in (place / 'model_report').glob('*.png')}
    assert files.keys() == FIGURES
    contents = {base64.b64decode(code) for code in embedded}
    assert contents == {path.read_bytes() for path in files.values()}
    for path in files.values():
        assert cv2.imread(str(path)).std() > 1


def test_the_report_shows_the_numbers_it_was_made_of(place):
    numbers = json.loads((place / 'model_report' / 'numbers.json').read_text())
    page = (place / 'model_report' / 'report.html').read_text()
    assert numbers['frames'] == [f'teach/{i:04d}.jpg' for i in range(18)]
    for name, errors in numbers['peers_mm'].items():
        assert f'<td>{name}</td>' in page
        assert f'{np.mean(errors):.1f} ± ' in page
    worst = int(np.argmax(numbers['errors_mm']))
    assert len(numbers['errors_mm']) == 18
    assert numbers['errors_mm'][worst] > 0


def test_a_report_may_stand_elsewhere(tmp_path):
    parser = cli.build_parser()
    chosen = parser.parse_args(['train', 'a', '--output', 'b.npz', '--report', 'c'])
    assert str(chosen.report) == 'c'
    assert train.default_report(tmp_path / 'arm.npz') == tmp_path / 'arm_report'
    with pytest.raises(SystemExit):
        parser.parse_args(['train', 'a', '--output', 'b.npz', '--report', 'c', '--no-report'])


def test_rows_are_counted_over_the_data_sets_in_order(place):
    found = train.gather([place / 'new', place / 'teach', place / 'free'], 11, 7)
    given = found.demonstrations
    names = [f'new/{i:04d}.jpg' for i in range(100, 108)]
    assert list(given.names) == names + [f'teach/{i:04d}.jpg' for i in range(3)]
    assert given.postures.shape == (11, 7)
    assert np.array_equal(given.postures[8:], Dataset.open(place / 'teach').labels[:3])
    assert len(given.unpaired) == 3
    assert found.skin is not None


def test_the_background_comes_from_the_first_data_set_that_has_one(place, tmp_path):
    other = copy_part(tmp_path / 'other', range(3))
    picture = cv2.imread(str(other / 'background.jpg'))
    cv2.imwrite(str(other / 'background.jpg'), 255 - picture)
    found = train.gather([place / 'free', place / 'teach', other], None, 7)
    assert np.array_equal(found.background, Dataset.open(place / 'teach').background)
    assert len(found.notes) == 1
    assert str(other) in found.notes[0]
    assert train.gather([place / 'teach', TEACH], 1, 7).notes == []


def test_an_arm_of_ones_own_needs_all_its_parts(tmp_path):
    (tmp_path / 'arm.urdf').write_text(description.urdf())
    robot = train.robot_of(tmp_path / 'arm.urdf', 'link7', 'e1', 'w1', None)
    assert robot is not None
    assert robot.joints == 7
    assert train.robot_of(None, None, None, None, None) is None
    with pytest.raises(BadInput, match='--urdf needs --elbow, --wrist'):
        train.robot_of(tmp_path / 'arm.urdf', 'link7', None, None, None)
    with pytest.raises(BadInput, match='--elbow'):
        train.robot_of(None, None, 'e1', None, None)
    with pytest.raises(BadInput, match='cannot be read'):
        train.robot_of(tmp_path / 'gone.urdf', 'link7', 'e1', 'w1', None)


def test_train_says_what_is_wrong_with_the_data_sets(place, tmp_path, capsys):
    model = tmp_path / 'm.npz'
    teach, free, new = place / 'teach', place / 'free', place / 'new'

    def fails(*words):
        return refused(capsys, 'train', *words, '--output', model)

    assert 'gone' in fails(place / 'gone')
    assert 'background.jpg' in fails(new)
    assert 'save it as' in fails(new, free)
    assert 'no labelled pictures' in fails(free)
    assert 'choose from 1 to 20' in fails(teach, '--pairs', 21)
    assert 'choose from 1 to 20' in fails(teach, '--pairs', 0)
    assert 'too few' in fails(teach, '--pairs', 5)
    assert 'given twice' in fails(teach, free, teach / '..' / 'teach')
    (tmp_path / 'empty').mkdir()
    assert 'no pictures' in fails(teach, tmp_path / 'empty')
    assert not model.exists()
    assert not train.default_report(model).exists()


def test_data_sets_of_different_sizes_are_told_apart(place, tmp_path, capsys):
    (tmp_path / 'small').mkdir()
    cv2.imwrite(str(tmp_path / 'small' / '0000.jpg'), np.zeros((60, 80, 3), np.uint8))
    said = refused(
        capsys, 'train', place / 'teach', tmp_path / 'small', '--output', tmp_path / 'm.npz'
    )
    assert '80 × 60' in said
    assert '320 × 240' in said


def test_a_background_of_another_size_is_refused(tmp_path, capsys):
    folder = copy_part(tmp_path / 'teach', range(12))
    cv2.imwrite(str(folder / 'background.jpg'), np.zeros((60, 80, 3), np.uint8))
    said = refused(capsys, 'train', folder, '--output', tmp_path / 'm.npz')
    assert 'background.jpg' in said
    assert '80 × 60' in said


def test_a_damaged_picture_is_named_and_nothing_is_written(tmp_path, capsys):
    folder = copy_part(tmp_path / 'teach', range(12))
    data = (folder / '0007.jpg').read_bytes()
    (folder / '0007.jpg').write_bytes(data[: len(data) // 2])
    assert '0007.jpg' in refused(capsys, 'train', folder, '--output', tmp_path / 'm.npz')
    assert [path.name for path in tmp_path.iterdir()] == ['teach']


def test_an_output_that_cannot_be_written_is_refused_before_the_work(place, tmp_path, capsys):
    (tmp_path / 'file').write_text('')
    call = ('train', place / 'teach', '--output')
    assert 'is a folder' in refused(capsys, *call, tmp_path)
    assert 'not a folder' in refused(capsys, *call, tmp_path / 'file' / 'm.npz')
    said = refused(capsys, *call, tmp_path / 'm.npz', '--report', tmp_path / 'file' / 'report')
    assert 'not a folder' in said
    assert [path.name for path in tmp_path.iterdir()] == ['file']


def test_wrong_words_are_refused_by_the_parser():
    for words in (
        ['train', 'a'],
        ['train', '--output', 'm.npz'],
        ['train', 'a', '--output', 'm.npz', '--features', 'telepathy'],
        ['train', 'a', '--output', 'm.npz', '--pairs', 'many'],
        ['predict', 'm.npz', 'a'],
        ['evaluate', 'm.npz'],
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(words)
        assert stopped.value.code == 2


# --- predict ----------------------------------------------------------------------------------


def table(path):
    with path.open(newline='') as file:
        return list(csv.DictReader(file))


def test_predict_writes_a_row_for_every_picture(place, tmp_path, capsys):
    out = tmp_path / 'deep' / 'out.csv'
    assert (
        cli.main(['predict', str(place / 'model.npz'), str(place / 'new'), '--csv', str(out)]) == 0
    )
    assert '8 pictures' in capsys.readouterr().out
    rows = table(out)
    assert list(rows[0]) == ['frame', *(f'q{i}' for i in range(1, 8)), 'novelty']
    assert [row['frame'] for row in rows] == [f'{i:04d}.jpg' for i in range(100, 108)]
    model, data = ImitationModel.load(place / 'model.npz'), Dataset.open(place / 'new')
    for index, row in enumerate(rows):
        expected = model.predict(data.image(index))
        found = [float(row[f'q{i}']) for i in range(1, 8)]
        assert np.allclose(found, expected.q, atol=1e-8)
        assert float(row['novelty']) == pytest.approx(expected.novelty, rel=1e-6)


def test_predict_runs_as_a_program_and_says_where_nobody_is(place, tmp_path):
    folder = tmp_path / 'empty room'
    folder.mkdir()
    shutil.copy(place / 'teach' / 'background.jpg', folder / '0000.jpg')
    done = subprocess.run(
        [
            *(sys.executable, '-m', 'kde_imitation.cli', 'predict'),
            *(str(place / 'model.npz'), str(folder), '--csv', str(tmp_path / 'out.csv')),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
    )
    assert done.returncode == 0
    assert done.stderr == ''
    assert '1 of them novel' in done.stdout
    (row,) = table(tmp_path / 'out.csv')
    assert row['novelty'] == 'inf'


def test_predict_of_a_movement_smooths_it(place, tmp_path):
    folder = tmp_path / 'moving'
    folder.mkdir()
    for number in range(100, 160):
        shutil.copy(FREE / f'{number:04d}.jpg', folder)
    steps = []
    for words in (['--sequence', 'no'], ['--sequence', 'yes']):
        call = ['predict', place / 'model.npz', folder, '--csv', tmp_path / 'out.csv', *words]
        assert cli.main([str(word) for word in call]) == 0
        q = [[float(row[f'q{i}']) for i in range(1, 8)] for row in table(tmp_path / 'out.csv')]
        assert len(q) == 60
        steps.append(np.square(np.diff(q, axis=0)).sum())
    assert steps[1] < steps[0]


def test_predict_refuses_and_writes_nothing(place, tmp_path, capsys):
    out = tmp_path / 'out.csv'
    model = place / 'model.npz'

    def fails(model, folder):
        said = refused(capsys, 'predict', model, folder, '--csv', out)
        assert not out.exists()
        return said

    broken = tmp_path / 'broken'
    shutil.copytree(place / 'new', broken)
    (broken / '0103.jpg').write_bytes(b'no picture')
    assert str(broken / '0103.jpg') in fails(model, broken)
    cv2.imwrite(str(broken / '0103.jpg'), np.zeros((60, 80, 3), np.uint8))
    said = fails(model, broken)
    assert str(broken / '0103.jpg') in said
    assert '80 × 60' in said
    assert 'gone' in fails(model, tmp_path / 'gone')
    (tmp_path / 'empty').mkdir()
    assert 'no pictures' in fails(model, tmp_path / 'empty')
    assert 'train a model first' in fails(tmp_path / 'gone.npz', place / 'new')
    assert 'not a model file' in fails(place / 'teach' / 'labels.csv', place / 'new')


def test_a_failed_prediction_keeps_the_earlier_table(place, tmp_path, capsys):
    out = tmp_path / 'out.csv'
    out.write_text('earlier')
    (tmp_path / 'broken').mkdir()
    (tmp_path / 'broken' / '0000.jpg').write_bytes(b'')
    refused(capsys, 'predict', place / 'model.npz', tmp_path / 'broken', '--csv', out)
    assert out.read_text() == 'earlier'


def test_an_interrupt_is_no_traceback(place, tmp_path, capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(ImitationModel, 'look', interrupted)
    call = ['predict', place / 'model.npz', place / 'new', '--csv', tmp_path / 'out.csv']
    assert cli.main([str(word) for word in call]) == 130
    assert capsys.readouterr().err == 'kde_imitation: stopped.\n'
    assert list(tmp_path.iterdir()) == []


# --- evaluate ---------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def evaluated(place):
    call = ['evaluate', place / 'model.npz', place / 'new', '--json', place / 'new.json']
    assert cli.main([*map(str, call), '--pictures', str(place / 'pictures')]) == 0
    return json.loads((place / 'new.json').read_text())


def test_evaluate_measures_elbow_wrist_and_hand(place, evaluated):
    model, data = ImitationModel.load(place / 'model.npz'), Dataset.open(place / 'new')
    found = np.stack([model.predict(image).q for image, _ in data.pairs()])
    errors = 1000 * model.robot.errors(found, data.labels)
    each = evaluated['per_frame']
    assert [row['error_mm'] for row in each] == pytest.approx(errors.tolist())
    assert [row['frame'] for row in each] == list(data.frames)
    assert evaluated['mean_mm'] == pytest.approx(errors.mean())
    assert evaluated['median_mm'] == pytest.approx(np.median(errors))
    assert np.mean(list(evaluated['points_mm'].values())) == pytest.approx(errors.mean())
    assert list(evaluated['points_mm']) == ['elbow', 'wrist', 'hand']
    low, high = evaluated['interval_95_mm']
    assert errors.min() < low < errors.mean() < high < errors.max()
    mean = np.broadcast_to(Dataset.open(place / 'teach').labels[:18].mean(axis=0), found.shape)
    chance = 1000 * model.robot.errors(mean, data.labels).mean()
    assert evaluated['chance_mm'] == pytest.approx(chance)
    assert evaluated['novel_rate'] == np.mean([row['novel'] for row in each])


def test_evaluate_draws_worst_and_best_frames(place, evaluated):
    assert {path.name for path in (place / 'pictures').iterdir()} == {'worst.png', 'best.png'}
    for path in (place / 'pictures').iterdir():
        assert cv2.imread(str(path)).shape[1] > 1000


def test_evaluate_prints_a_table(place, capsys):
    assert cli.main(['evaluate', str(place / 'model.npz'), str(place / 'new')]) == 0
    printed = capsys.readouterr()
    for word in ('mean error', '95 % interval', 'median', 'elbow, wrist, hand', 'chance'):
        assert word in printed.out


def test_evaluate_takes_a_movement_in_the_order_of_its_pictures(place, tmp_path):
    """The rows of labels.csv may stand in any order."""
    folder = copy_part(tmp_path / 'mixed', [104, 100, 107, 102, 105, 101, 106, 103], others=())
    out = tmp_path / 'out.json'
    call = ['evaluate', place / 'model.npz', folder, '--sequence', 'yes', '--json', out]
    assert cli.main([str(word) for word in call]) == 0
    record = json.loads(out.read_text())
    assert [row['frame'] for row in record['per_frame']] == [
        f'{i:04d}.jpg' for i in range(100, 108)
    ]


def test_evaluate_refuses_and_writes_nothing(place, tmp_path, capsys):
    out = tmp_path / 'out.json'
    call = ('evaluate', place / 'model.npz')
    assert 'needs a labels.csv' in refused(capsys, *call, place / 'free', '--json', out)
    folder = copy_part(tmp_path / 'wrong', range(3), others=())
    lines = (folder / 'labels.csv').read_text().splitlines()
    cells = lines[2].split(',')
    cells[1] = '9.5'
    (folder / 'labels.csv').write_text('\n'.join([*lines[:2], ','.join(cells), lines[3]]) + '\n')
    said = refused(capsys, *call, folder, '--json', out)
    assert 'row 1' in said
    assert 'limits' in said
    (folder / 'labels.csv').write_text('frame,q1\n')
    assert 'labels.csv' in refused(capsys, *call, folder, '--json', out)
    assert not out.exists()


def test_frames_without_a_person_are_counted_and_json_stays_plain(place, tmp_path):
    folder = copy_part(tmp_path / 'part', range(100, 104), others=())
    shutil.copy(place / 'teach' / 'background.jpg', folder / '0102.jpg')
    out = tmp_path / 'out.json'
    call = ['evaluate', place / 'model.npz', folder, '--json', out]
    assert cli.main([*map(str, call), '--pictures', str(tmp_path / 'pictures')]) == 0
    record = json.loads(out.read_text(), parse_constant=pytest.fail)
    empty = record['per_frame'][2]
    assert empty['novelty'] is None
    assert empty['novel']
    assert empty['reason']
    assert record['novel_rate'] >= 0.25
    assert record['mean_mm_of_familiar'] is not None


def test_the_learned_view_is_that_of_the_camera_before_the_wall(place):
    """Rendered people face the camera, which the model was not told."""
    view = view_of(ImitationModel.load(place / 'model.npz'))
    assert np.abs(view - WALL_VIEW).max() < 0.35
