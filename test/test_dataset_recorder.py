"""Recording: what is read again is what was stored, and what cannot be stored is refused."""

import os

import numpy as np
import pytest
from dataset_bench import HEADER, levels, noise, picture, row
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage

from kde_imitation.dataset import Dataset, Recorder, read_image
from kde_imitation.errors import BadInput


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=7, max_size=7),
        min_size=1,
        max_size=4,
    )
)
def test_postures_come_back_to_the_last_bit(tmp_path_factory, postures):
    place = tmp_path_factory.mktemp('recorded')
    with Recorder(place) as recorder:
        for i, q in enumerate(postures):
            recorder.add(picture(i), q)
    data = Dataset.open(place)
    assert data.labels.tobytes() == np.array(postures).tobytes()
    assert levels(image for image, _ in data.pairs()) == list(range(len(postures)))


def test_everything_recorded_is_read_again(tmp_path):
    place = tmp_path / 'new' / 'folder'
    with Recorder(place) as recorder:
        recorder.set_background(picture(200))
        recorder.set_background(picture(250))
        recorder.set_skin([[0, 128, 255], [1, 2, 3]])
        names = [recorder.add_unpaired(picture(1)), recorder.add(picture(2), np.arange(7))]
        assert len(recorder) == 1
    assert names == ['0000.jpg', '0001.jpg']
    data = Dataset.open(place)
    assert data.labelled.tolist() == [1]
    assert data.labels.tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert data.background[0, 0, 0] == 250
    assert data.skin.tolist() == [[0, 128, 255], [1, 2, 3]]
    assert sorted(os.listdir(place)) == [*names, 'background.jpg', 'labels.csv', 'skin.csv']


def test_red_stays_red(tmp_path):
    red = picture()
    red[:, :, 0] = 255
    with Recorder(tmp_path) as recorder:
        recorder.add_unpaired(red)
    seen = np.asarray(PillowImage.open(tmp_path / '0000.jpg')).astype(int)
    assert (seen[:, :, 0] > 200).all()
    assert (seen[:, :, 1:] < 50).all()


def test_a_higher_quality_is_nearer_to_the_picture(tmp_path):
    errors = []
    for quality in (1, 50, 95, 100):
        with Recorder(tmp_path / str(quality), quality=quality) as recorder:
            recorder.add_unpaired(noise())
        image = read_image(tmp_path / str(quality) / '0000.jpg')
        errors.append(np.abs(image.astype(int) - noise()).mean())
    assert errors == sorted(errors, reverse=True)
    with Recorder(tmp_path / 'default') as recorder:
        recorder.add_unpaired(noise())
    pictures = [(tmp_path / name / '0000.jpg').read_bytes() for name in ('95', 'default')]
    assert pictures[0] == pictures[1]


def test_undo_takes_the_last_pair_away_row_and_picture(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.add(picture(1), np.zeros(7))
        before = (tmp_path / 'labels.csv').read_bytes()
        recorder.add(picture(2), np.ones(7))
        assert recorder.undo() == '0001.jpg'
        assert (tmp_path / 'labels.csv').read_bytes() == before
        assert sorted(os.listdir(tmp_path)) == ['0000.jpg', 'labels.csv']
        assert recorder.add(picture(3), np.ones(7)) == '0001.jpg'
    with Recorder(tmp_path) as recorder:
        assert recorder.undo() == '0001.jpg'
        assert recorder.undo() == '0000.jpg'
        assert len(recorder) == 0
        with pytest.raises(BadInput, match='no pair that could be undone'):
            recorder.undo()
        recorder.add(picture(4, (8, 8)), np.ones(7))
    assert Dataset.open(tmp_path).size == (8, 8)


def test_undo_leaves_unpaired_pictures_alone(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.add(picture(1), np.zeros(7))
        recorder.add_unpaired(picture(2))
        assert recorder.undo() == '0000.jpg'
        assert recorder.add_unpaired(picture(3)) == '0002.jpg'


def test_undo_touches_nothing_when_someone_else_changed_the_labels(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.add(picture(1), np.zeros(7))
        recorder.add(picture(2), np.ones(7))
        changed = HEADER + row('0001.jpg')
        (tmp_path / 'labels.csv').write_text(changed)
        with pytest.raises(BadInput, match=r'labels\.csv was changed by another program'):
            recorder.undo()
    assert (tmp_path / 'labels.csv').read_text() == changed
    assert (tmp_path / '0001.jpg').exists()


@pytest.mark.parametrize(
    ('image', 'q', 'fault'),
    [
        (picture(), [0, 0, 0, np.nan, 0, 0, 0], r'q holds nan at index \(3,\)'),
        (picture(), [np.inf] + 6 * [0], 'q holds inf'),
        (picture(), np.zeros(6), r'q must have shape \(7,\), not \(6,\)'),
        (picture(), np.zeros((1, 7)), r'q must have shape \(7,\)'),
        (picture(), 'straight', 'q must be an array of numbers'),
        (picture(0, (24, 16)), np.zeros(7), r'0001\.jpg is 16 × 24 pixels'),
        (picture()[:, :, 0], np.zeros(7), r'must be RGB of shape'),
        (picture() / 255.0, np.zeros(7), 'type uint8, not of .* float64'),
        (picture(0, (0, 4)), np.zeros(7), 'must be RGB of shape'),
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_no_trace(tmp_path, image, q, fault):
    with Recorder(tmp_path) as recorder:
        recorder.add(picture(1), np.zeros(7))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(BadInput, match=fault):
            recorder.add(image, q)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert recorder.add(picture(2), np.zeros(7)) == '0001.jpg'


@pytest.mark.parametrize(
    'rgb',
    [np.empty((0, 3)), [[1, 2, 256]], [[-1, 2, 3]], [[0.5, 2, 3]], [[1, 2]], [[1, 2, np.nan]]],
)
def test_skin_that_cannot_be_read_again_is_refused(tmp_path, rgb):
    with Recorder(tmp_path) as recorder, pytest.raises(BadInput, match='rgb'):
        recorder.set_skin(rgb)
    assert os.listdir(tmp_path) == []


def test_a_background_of_another_size_is_refused_in_recording(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.add_unpaired(picture())
        with pytest.raises(BadInput, match=r'background\.jpg is 16 × 24 pixels'):
            recorder.set_background(picture(0, (24, 16)))


@pytest.mark.parametrize('quality', [0, 101])
def test_a_quality_that_jpeg_does_not_know_is_refused(tmp_path, quality):
    with pytest.raises(BadInput, match='quality must be between 1 and 100'):
        Recorder(tmp_path, quality=quality)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(BadInput, match='file/below cannot be made'):
        Recorder(tmp_path / 'file' / 'below')


def test_a_folder_has_one_recorder_at_a_time(tmp_path):
    first = Recorder(tmp_path)
    with pytest.raises(BadInput, match='being recorded to by another program'):
        Recorder(tmp_path)
    first.close()
    first.close()
    with pytest.raises(BadInput, match='is closed'):
        first.add(picture(), np.zeros(7))
    Recorder(tmp_path).close()
