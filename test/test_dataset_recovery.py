"""Recordings that are continued, and what a crash leaves: it costs one pair at most."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from dataset_bench import HEADER, levels, picture, row
from PIL import Image as PillowImage

from kde_imitation.dataset import Dataset, Recorder
from kde_imitation.errors import BadInput


def test_a_recording_is_continued_after_its_last_number(tmp_path, caplog):
    for start in (0, 2):
        with Recorder(tmp_path) as recorder:
            assert recorder.repairs == ()
            assert len(recorder) == start // 2
            recorder.add_unpaired(picture(start))
            assert recorder.add(picture(start + 1), np.full(7, start)) == f'{start + 1:04d}.jpg'
    assert Dataset.open(tmp_path).labels[:, 0].tolist() == [0, 2]
    assert caplog.messages == []


@pytest.mark.parametrize(
    ('name', 'data', 'fault'),
    [
        (
            'labels.csv',
            HEADER.replace('q7', 'q7,x') + '0000.jpg,0,0,0,0,0,0,0,0\n0',
            'can be cont',
        ),
        ('labels.csv', 'frame,q1,q2\n0000.jpg,0,0\n0', 'must name the columns'),
        ('labels.csv', 'angles', 'must name the columns'),
        ('labels.csv', 'q1,q2,q3,q4,q5,q6,q7,frame', 'can be continued'),
        ('labels.csv', HEADER.strip() + ' ', 'can be continued'),
        ('labels.csv', '\n' + HEADER, 'can be continued'),
        ('labels.csv', HEADER + row('0007.jpg') + '0000', 'line 2, names the picture'),
        ('0001.jpg', 'no picture', r'0001\.jpg cannot be decoded'),
        ('background.jpg', 'no picture', r'background\.jpg cannot be decoded'),
        ('skin.csv', 'r,g,b\n300,0,0\n', r'skin\.csv, line 2'),
    ],
)
def test_a_folder_at_fault_is_refused_before_anything_is_touched(tmp_path, name, data, fault):
    PillowImage.fromarray(picture()).save(tmp_path / '0000.jpg')
    (tmp_path / '0005.jpg.partial').write_text('stray')
    (tmp_path / name).write_text(data)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(BadInput, match=fault):
        Recorder(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / name).unlink()
    Recorder(tmp_path).close()


def test_a_last_row_cut_anywhere_is_dropped_and_said(tmp_path, caplog):
    with Recorder(tmp_path) as recorder:
        for i in range(3):
            recorder.add(picture(i), np.full(7, i / 3))
    whole = (tmp_path / 'labels.csv').read_bytes()
    start = whole.index(b'0002.jpg')
    for end in range(start + 1, len(whole)):
        (tmp_path / 'labels.csv').write_bytes(whole[:end])
        caplog.clear()
        with Recorder(tmp_path) as recorder:
            assert len(recorder) == 2
            (said,) = recorder.repairs
            assert f'"{whole[start:end].decode()}"' in said
            assert caplog.messages == [said]
        assert (tmp_path / 'labels.csv').read_bytes() == whole[:start]
    data = Dataset.open(tmp_path)
    assert data.labels[:, 0].tolist() == [0, 1 / 3]
    assert levels(data.unpaired()) == [2]


@pytest.mark.parametrize('text', ['', 'fra', HEADER.strip(), '\ufeff' + HEADER.strip()])
def test_a_header_cut_short_is_completed(tmp_path, text):
    (tmp_path / 'labels.csv').write_text(text)
    with Recorder(tmp_path) as recorder:
        assert len(recorder.repairs) == 1
        recorder.add(picture(), np.ones(7))
    assert Dataset.open(tmp_path).labels.tolist() == [[1] * 7]


def test_stray_temporary_files_are_removed_and_said_but_no_others(tmp_path):
    for name in ('0003.jpg.partial', 'skin.csv.partial', 'thesis.partial'):
        (tmp_path / name).write_text('half')
    with Recorder(tmp_path) as recorder:
        assert [Path(said.split()[0]).name for said in recorder.repairs] == [
            '0003.jpg.partial',
            'skin.csv.partial',
        ]
    assert os.listdir(tmp_path) == ['thesis.partial']


def test_a_full_disk_is_said_and_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    calls = 0

    def full_at(moment):
        def fsync(descriptor):
            nonlocal calls
            calls += 1
            if calls == moment:
                raise OSError(28, 'No space left on device')

        return fsync

    with Recorder(tmp_path) as recorder:
        recorder.add(picture(), np.zeros(7))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        for moment in (1, 3):  # the picture, the row
            calls = 0
            monkeypatch.setattr(os, 'fsync', full_at(moment))
            with pytest.raises(BadInput, match='cannot be written: No space left'):
                recorder.add(picture(1), np.ones(7))
            monkeypatch.undo()
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert recorder.add(picture(1), np.ones(7)) == '0001.jpg'
    assert len(list(Dataset.open(tmp_path).pairs())) == 2


WRITER = textwrap.dedent(
    """
    import os, signal, sys
    import numpy as np
    from kde_imitation.dataset import Recorder

    folder, deadly_call = sys.argv[1], int(sys.argv[2])
    calls = 0

    def counted(function):
        def call(*arguments):
            global calls
            calls += 1
            if calls == deadly_call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)
        return call

    recorder = Recorder(folder)
    os.fsync, os.replace = counted(os.fsync), counted(os.replace)
    while True:
        i = len(recorder)
        recorder.add(np.full((120, 160, 3), i % 256, np.uint8), np.full(7, i / 7))
        print(i, flush=True)
    """
)


def start_writer(place, deadly_call=0):
    return subprocess.Popen(
        [sys.executable, '-c', WRITER, str(place), str(deadly_call)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )


def assert_nothing_lost(place, promised):
    """All promised pairs are there, whole and in order, and at most one more; return how many."""
    with Recorder(place) as recorder:
        found = len(recorder)
    assert promised <= found <= promised + 1
    assert not list(place.glob('*.partial'))
    if found:
        data = Dataset.open(place)
        data.check()
        for i, (image, q) in enumerate(data.pairs()):
            assert (image == i % 256).all()
            assert (q == i / 7).all()
    return found


def test_a_writer_killed_at_random_moments_loses_no_finished_pair(tmp_path):
    rng = random.Random(5)
    written = 0
    for _ in range(10):
        writer = start_writer(tmp_path)
        first = writer.stdout.readline()
        assert int(first) == written
        time.sleep(rng.uniform(0, 0.08))
        writer.kill()
        rest = writer.stdout.read().split()
        assert writer.wait() == -signal.SIGKILL
        promised = int(rest[-1]) + 1 if rest else written + 1
        written = assert_nothing_lost(tmp_path, promised)
    assert written >= 10


# Of the first pair: picture written, renamed, folder written, the same of the header, then the
# row; the second pair has no header.
@pytest.mark.parametrize(
    ('deadly_call', 'promised', 'pictures', 'found'),
    [
        *((1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 1, 0), (4, 0, 1, 0), (5, 0, 1, 0), (6, 0, 1, 0)),
        *((7, 0, 1, 1), (8, 1, 1, 1), (9, 1, 1, 1), (10, 1, 2, 1), (11, 1, 2, 2), (12, 2, 2, 2)),
    ],
)
def test_a_writer_killed_at_each_step_loses_one_pair_at_most(
    tmp_path, deadly_call, promised, pictures, found
):
    writer = start_writer(tmp_path, deadly_call)
    output = writer.communicate(timeout=30)[0].split()
    assert writer.returncode == -signal.SIGKILL
    assert len(output) == promised
    # A picture has its name only once it is whole, and the folder is sound before any repair.
    assert len(list(tmp_path.glob('*.jpg'))) == pictures
    if pictures:
        assert len(Dataset.open(tmp_path).labels) == found
    assert assert_nothing_lost(tmp_path, promised) == found
