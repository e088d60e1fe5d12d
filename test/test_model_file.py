"""The model file: nothing in it is run, and whatever is wrong with it is one sentence."""

import io
import json
import os
import zipfile

import numpy as np
import pytest
from demonstrations import TEACH, pairs

from kde_imitation.dataset import read_image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, files


@pytest.fixture(scope='module')
def model():
    return ImitationModel.train(*pairs(range(15)), read_image(TEACH / 'background.jpg'))


@pytest.fixture(scope='module')
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp('model') / 'model.npz'
    model.save(path)
    return path


def contents(saved):
    header, found = files.read(saved)
    kept = {
        name: value
        for name, value in header.items()
        if name not in ('format', 'format_version', 'version', 'digest')
    }
    return kept, found


def refusal(path):
    """Return the one sentence with which a file is refused."""
    with pytest.raises(BadInput) as refused:
        ImitationModel.load(path)
    sentence = str(refused.value)
    assert str(path) in sentence
    assert '\n' not in sentence
    assert sentence.endswith('.')
    assert not sentence.endswith('..')
    return sentence


def raw(path, entries):
    with zipfile.ZipFile(path, 'w') as packed:
        for name, array in entries.items():
            file = io.BytesIO()
            np.lib.format.write_array(file, array)
            packed.writestr(f'{name}.npy', file.getvalue())


def header_of(**changes):
    text = json.dumps({'format': files.FORMAT, 'format_version': 1, 'digest': '', **changes})
    return np.frombuffer(text.encode(), np.uint8)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    assert 'no file' in refusal(tmp_path / 'gone.npz')
    assert 'folder' in refusal(tmp_path)


@pytest.mark.parametrize('share', [0.0, 0.001, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_refused(saved, tmp_path, share):
    data = saved.read_bytes()
    (tmp_path / 'cut.npz').write_bytes(data[: int(share * len(data))])
    assert 'damaged' in refusal(tmp_path / 'cut.npz')


def test_a_flipped_bit_is_refused_or_changes_nothing(saved, tmp_path):
    """Some bits of a zip file mean nothing to us, such as those of the hour."""
    data = saved.read_bytes()
    _, expected = files.read(saved)
    rng = np.random.default_rng(0)
    places = [*rng.integers(0, len(data), 60), *(len(data) - rng.integers(1, 3000, 120))]
    refused = 0
    for place in places:
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / 'flipped.npz').write_bytes(flipped)
        try:
            _, found = files.read(tmp_path / 'flipped.npz')
        except BadInput:
            refused += 1
        else:
            assert found.keys() == expected.keys()
            assert all(np.array_equal(found[name], expected[name]) for name in found)
    assert refused > len(places) / 2


def test_what_is_no_zip_file_is_refused(tmp_path):
    (tmp_path / 'model.npz').write_text('frame,q1,q2\n')
    assert 'not a model file' in refusal(tmp_path / 'model.npz')


def test_a_zip_file_of_something_else_is_refused(tmp_path):
    np.savez(tmp_path / 'model.npz', weights=np.zeros(3))
    assert 'no header' in refusal(tmp_path / 'model.npz')


@pytest.mark.parametrize(
    ('header', 'said'),
    [
        (np.frombuffer(b'{"format": ', np.uint8), 'not a model of kde_imitation'),
        (np.frombuffer(b'[1, 2]', np.uint8), 'not a model of kde_imitation'),
        (np.frombuffer(b'\xff\xfe', np.uint8), 'not a model of kde_imitation'),
        (np.zeros(3), 'no header'),
        (header_of(format='another program'), 'not a model of kde_imitation'),
        (header_of(format_version=2), 'format version 2'),
        (header_of(format_version=None), 'format version None'),
        (header_of(digest='0' * 64), 'digest'),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, header, said):
    raw(tmp_path / 'model.npz', {'header': header})
    assert said in refusal(tmp_path / 'model.npz')


def test_an_unknown_version_says_what_to_do(tmp_path):
    raw(tmp_path / 'model.npz', {'header': header_of(format_version=7)})
    assert 'train the model again' in refusal(tmp_path / 'model.npz')


def test_a_missing_array_is_refused(saved, tmp_path):
    header, found = contents(saved)
    for name in found:
        rest = {other: array for other, array in found.items() if other != name}
        files.write(tmp_path / 'model.npz', header, rest)
        said = refusal(tmp_path / 'model.npz')
        part = name.partition('.')[2].partition('axes_')[0]
        assert part in said or name.startswith('features.axes_'), name


@pytest.mark.parametrize(
    ('name', 'wrong', 'said'),
    [
        ('goal.lower', lambda a: a[:-1], 'goal.lower has shape'),
        ('goal.lift', lambda a: a[:, :-1], 'goal.lift has shape'),
        ('goal.postures', lambda a: a[:, :3], 'goal.postures has shape'),
        ('goal.lower', lambda a: a - 10.0, 'limits of the postures'),
        ('goal.upper', lambda a: a - 100.0, 'limits of the postures'),
        ('expansion.points', lambda a: a[:, :-1], 'expansion.points has shape'),
        ('familiar.points', lambda a: a[:, :-1], 'familiar.points has shape'),
        ('familiar.threshold', lambda a: np.zeros_like(a), 'threshold of novelty'),
        ('features.background', lambda a: a.astype(np.float64), 'type float64'),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(saved, tmp_path, name, wrong, said):
    header, found = contents(saved)
    files.write(tmp_path / 'model.npz', header, {**found, name: wrong(found[name])})
    assert said in refusal(tmp_path / 'model.npz')


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(saved, tmp_path, value):
    header, found = contents(saved)
    spoiled = found['goal.lift'].copy()
    spoiled[0, 0] = value
    files.write(tmp_path / 'model.npz', header, {**found, 'goal.lift': spoiled})
    assert 'goal.lift' in refusal(tmp_path / 'model.npz')


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickled_objects_are_refused_and_not_run(saved, tmp_path):
    _, found = contents(saved)
    trap = tmp_path / 'sprung'
    raw(
        tmp_path / 'model.npz',
        {**found, 'goal.lift': np.array([Trap(trap)]), 'header': header_of()},
    )
    assert 'Object arrays' in refusal(tmp_path / 'model.npz')
    assert not trap.exists()


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / 'model.npz', 'w', zipfile.ZIP_DEFLATED) as packed:
        for part in range(5):
            packed.writestr(f'{part}.npy', bytes(60 * 2**20))
    assert (tmp_path / 'model.npz').stat().st_size < 2**20
    assert 'no model does' in refusal(tmp_path / 'model.npz')


def test_an_array_that_claims_to_be_huge_is_refused(tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {'descr': '<f8', 'fortran_order': False, 'shape': (10**15,)}
    )
    with zipfile.ZipFile(tmp_path / 'model.npz', 'w') as packed:
        packed.writestr('header.npy', file.getvalue())
    assert 'not a model file' in refusal(tmp_path / 'model.npz')


@pytest.mark.parametrize(
    ('robot', 'said'),
    [
        *((robot, 'arm of kind None') for robot in (None, 5, 'pa10', [], {})),
        ({'arm': 'crane'}, "arm of kind 'crane'"),
        ({'arm': 'urdf', 'urdf': '<robot name="x"/>'}, 'ends in 0 links'),
    ],
)
def test_an_unknown_arm_is_refused(saved, tmp_path, robot, said):
    header, found = contents(saved)
    files.write(tmp_path / 'model.npz', {**header, 'robot': robot}, found)
    assert said in refusal(tmp_path / 'model.npz')


def test_a_model_file_cannot_have_another_file_opened(saved, tmp_path):
    header, found = contents(saved)
    other = tmp_path / 'other.urdf'
    other.write_text('<robot name="secret"/>')
    robot = {'arm': 'urdf', 'urdf': str(other), 'tip': 'a', 'elbow': 'b', 'wrist': 'c'}
    files.write(tmp_path / 'model.npz', {**header, 'robot': robot}, found)
    assert 'not a URDF text' in refusal(tmp_path / 'model.npz')


def test_a_failed_save_leaves_the_old_file_and_nothing_else(model, saved, tmp_path, monkeypatch):
    path = tmp_path / 'model.npz'
    path.write_bytes(b'old')

    def full(*arguments):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'replace', full)
    with pytest.raises(BadInput, match='No space left'):
        model.save(path)
    assert path.read_bytes() == b'old'
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_is_not_saved_over_a_folder(model, tmp_path):
    with pytest.raises(BadInput, match='cannot be written'):
        model.save(tmp_path)
