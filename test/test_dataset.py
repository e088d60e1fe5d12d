"""Data sets: what is read is what was written, faults are named, a crash costs one pair."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage

from kde_imitation.dataset import Dataset, Recorder, read_image
from kde_imitation.errors import BadInput

ROOT = Path(__file__).resolve().parents[1]
ACTOR = ROOT / 'data' / 'actor'
HEADER = 'frame,q1,q2,q3,q4,q5,q6,q7\n'


def picture(level=0, size=(16, 24)):
    """A flat picture of one grey level, which JPEG keeps exactly."""
    return np.full((*size, 3), level, np.uint8)


def noise(seed=0, size=(16, 24)):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def row(frame, first=0.5):
    return f'{frame},{first},0,0,0,0,0,0\n'


@pytest.fixture
def folder(tmp_path):
    """Five pictures; the rows name 0003, 0001 and 0004 in this order."""
    place = tmp_path / 'demonstrations'
    place.mkdir()
    for i in range(5):
        PillowImage.fromarray(picture(40 * i)).save(place / f'{i:04d}.jpg')
    PillowImage.fromarray(picture(255)).save(place / 'background.jpg')
    rows = [row(name, i) for i, name in enumerate(('0003.jpg', '0001.jpg', '0004.jpg'))]
    (place / 'labels.csv').write_text(HEADER + ''.join(rows))
    (place / 'skin.csv').write_text('r,g,b\n217,172,149\n0,255,7\n')
    return place


# --- pictures --------------------------------------------------------------------------------


def test_a_colour_picture_comes_as_rgb(tmp_path):
    path = tmp_path / 'a.png'
    PillowImage.fromarray(noise()).save(path)
    image = read_image(path)
    assert image.dtype == np.uint8
    assert image.flags.c_contiguous
    np.testing.assert_array_equal(image, noise())


def test_a_grey_picture_gets_three_equal_channels(tmp_path):
    grey = noise()[:, :, 0]
    for name in ('a.png', 'a.jpg'):
        PillowImage.fromarray(grey).save(tmp_path / name)
        stored = np.asarray(PillowImage.open(tmp_path / name))
        image = read_image(tmp_path / name)
        for channel in range(3):
            np.testing.assert_array_equal(image[:, :, channel], stored)


@pytest.mark.parametrize('channels', [1, 3])
def test_sixteen_bits_are_scaled_so_that_white_stays_white(tmp_path, channels):
    wide = np.linspace(0, 65535, 16 * 24 * channels).astype(np.uint16)
    wide = wide.reshape(16, 24, channels)
    cv2.imwrite(str(tmp_path / 'a.png'), wide)
    image = read_image(tmp_path / 'a.png')
    assert image.dtype == np.uint8
    expected = np.round(wide[:, :, ::-1].astype(float) * 255 / 65535)
    np.testing.assert_array_equal(image, np.broadcast_to(expected, image.shape))
    assert (image.min(), image.max()) == (0, 255)


@pytest.mark.parametrize('mode', ['RGBA', 'LA'])
def test_transparency_is_dropped_and_does_not_darken(tmp_path, mode):
    opaque = PillowImage.fromarray(noise()).convert(
        mode.removesuffix('A') if mode == 'LA' else 'RGB'
    )
    clear = opaque.convert(mode)
    clear.putalpha(0)
    clear.save(tmp_path / 'a.png')
    np.testing.assert_array_equal(read_image(tmp_path / 'a.png'), opaque.convert('RGB'))


def test_the_orientation_a_camera_noted_is_applied(tmp_path):
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:, :16] = 255
    exif = PillowImage.Exif()
    exif[0x0112] = 3  # upside down
    PillowImage.fromarray(upright[::-1, ::-1]).save(tmp_path / 'a.jpg', exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / 'a.jpg'), upright)


def test_a_jpeg_cut_anywhere_is_an_error_and_never_grey(tmp_path):
    PillowImage.fromarray(noise()).save(tmp_path / 'whole.jpg')
    data = (tmp_path / 'whole.jpg').read_bytes()
    read_image(tmp_path / 'whole.jpg')
    for length in range(len(data)):
        (tmp_path / 'cut.jpg').write_bytes(data[:length])
        with pytest.raises(BadInput, match=r'cut\.jpg (is cut short|cannot be decoded)'):
            read_image(tmp_path / 'cut.jpg')


def test_a_jpeg_whose_end_was_lost_to_zeros_is_an_error(tmp_path):
    PillowImage.fromarray(noise()).save(tmp_path / 'a.jpg')
    data = (tmp_path / 'a.jpg').read_bytes()
    (tmp_path / 'a.jpg').write_bytes(data[:-100] + bytes(100))
    with pytest.raises(BadInput, match=r'a\.jpg is cut short'):
        read_image(tmp_path / 'a.jpg')


def with_thumbnail(data):
    """The JPEG `data` with a whole other JPEG, end marker and all, in a segment of its own."""
    small = cv2.imencode('.jpg', picture(9, (8, 8)))[1].tobytes()
    assert small.endswith(b'\xff\xd9')
    return data[:2] + b'\xff\xed' + (len(small) + 2).to_bytes(2, 'big') + small + data[2:]


def test_the_end_of_a_thumbnail_is_not_taken_for_the_end_of_the_picture(tmp_path):
    data = with_thumbnail(cv2.imencode('.jpg', noise())[1].tobytes())
    (tmp_path / 'a.jpg').write_bytes(data)
    assert read_image(tmp_path / 'a.jpg').shape == (16, 24, 3)
    (tmp_path / 'a.jpg').write_bytes(data[:-2])
    with pytest.raises(BadInput, match='is cut short'):
        read_image(tmp_path / 'a.jpg')


@pytest.mark.parametrize('options', [{'progressive': True}, {'restart_marker_blocks': 1}])
def test_every_kind_of_jpeg_is_read_also_with_data_behind_its_end(tmp_path, options):
    PillowImage.fromarray(picture(77)).save(tmp_path / 'a.jpg', **options)
    with (tmp_path / 'a.jpg').open('ab') as file:
        file.write(b'made by a camera')
    np.testing.assert_array_equal(read_image(tmp_path / 'a.jpg'), picture(77))


@pytest.mark.parametrize('data', [b'', b'frame,q1\n', b'\x89PNG\r\n\x1a\n', b'\xff\xd8\xff\xd9'])
def test_a_file_that_is_no_picture_is_named(tmp_path, data):
    (tmp_path / 'a.jpg').write_bytes(data)
    with pytest.raises(BadInput, match=r'a\.jpg cannot be decoded as a picture'):
        read_image(tmp_path / 'a.jpg')


def test_a_cut_png_is_an_error(tmp_path):
    data = cv2.imencode('.png', noise())[1].tobytes()
    (tmp_path / 'a.png').write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match=r'a\.png cannot be decoded'):
        read_image(tmp_path / 'a.png')


def test_pixels_of_another_kind_are_refused(tmp_path):
    cv2.imwrite(str(tmp_path / 'a.tiff'), np.ones((4, 4, 3), np.float32))
    with pytest.raises(BadInput, match=r'a\.tiff has float32 pixels'):
        read_image(tmp_path / 'a.tiff')


def test_a_missing_picture_is_named(tmp_path):
    with pytest.raises(BadInput, match=r'gone\.jpg cannot be read: No such file'):
        read_image(tmp_path / 'gone.jpg')


# --- reading a folder ------------------------------------------------------------------------


def levels(images):
    return [int(image[0, 0, 0]) for image in images]


def test_a_folder_is_read_as_it_lies_there(folder):
    data = Dataset.open(folder)
    assert len(data) == 5
    assert data.frames == ('0000.jpg', '0001.jpg', '0002.jpg', '0003.jpg', '0004.jpg')
    assert data.size == (16, 24)
    assert data.labelled.tolist() == [3, 1, 4]
    assert data.labels.shape == (3, 7)
    assert data.labels[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(data.background, picture(255))
    assert data.skin.tolist() == [[217, 172, 149], [0, 255, 7]]
    np.testing.assert_array_equal(data.image(2), picture(80))


def test_iterating_gives_every_picture_with_its_posture_or_none(folder):
    images, labels = zip(*Dataset.open(folder))
    assert levels(images) == [0, 40, 80, 120, 160]
    assert [None if q is None else q[0] for q in labels] == [None, 1, None, 0, 2]


def test_the_first_pairs_are_those_of_the_first_rows(folder):
    images, labels = zip(*Dataset.open(folder).pairs(2))
    assert levels(images) == [120, 40]
    assert [q[0] for q in labels] == [0, 1]
    assert levels(image for image, _ in Dataset.open(folder).pairs()) == [120, 40, 160]


@pytest.mark.parametrize('limit', [0, -1, 4])
def test_more_pairs_than_there_are_or_none_are_refused_at_once(folder, limit):
    with pytest.raises(BadInput, match=f'3 labelled pictures.* not {limit}'):
        Dataset.open(folder).pairs(limit)


def test_unpaired_pictures_are_those_without_a_row(folder):
    assert levels(Dataset.open(folder).unpaired()) == [0, 80]


def test_a_folder_without_labels_is_wholly_unpaired(folder):
    for name in ('labels.csv', 'background.jpg', 'skin.csv'):
        (folder / name).unlink()
    data = Dataset.open(folder)
    assert data.labels.shape == (0, 7)
    assert data.background is None
    assert data.skin is None
    assert list(data.pairs()) == []
    assert levels(data.unpaired()) == [0, 40, 80, 120, 160]


def test_progress_is_shown_when_asked_for_and_changes_nothing(folder, capsys):
    data = Dataset.open(folder)
    assert levels(image for image, _ in data.samples(progress=True)) == [0, 40, 80, 120, 160]
    assert levels(data.unpaired(progress=True)) == [0, 80]
    shown = capsys.readouterr()
    assert shown.err.count('Reading demonstrations') == 2
    assert shown.out == ''
    data.check()
    assert capsys.readouterr().err == ''


def test_pictures_are_ordered_by_number_also_past_four_digits(folder):
    (folder / '0000.jpg').rename(folder / '10000.jpg')
    (folder / '0001.jpg').rename(folder / '9999.jpg')
    (folder / 'labels.csv').unlink()
    (folder / 'overlay.jpg').write_bytes(b'not one of the numbered')
    assert Dataset.open(folder).frames[-3:] == ('0004.jpg', '9999.jpg', '10000.jpg')


def test_further_columns_their_order_and_windows_files_do_not_matter(folder):
    plain = Dataset.open(folder).labels
    text = 'x, q7,q6,q5,q4,q3,q2,q1,frame\r\n'
    for i, name in enumerate(('0003.jpg', '0001.jpg', '0004.jpg')):
        text += f'"a,b",0,0,0,0,0,0,{i},{name}\r\n\r\n'
    (folder / 'labels.csv').write_bytes(b'\xef\xbb\xbf' + text.rstrip().encode())
    data = Dataset.open(folder)
    np.testing.assert_array_equal(data.labels, plain)
    assert data.labelled.tolist() == [3, 1, 4]


def test_arms_with_another_number_of_joints_are_served(folder):
    (folder / 'labels.csv').write_text('frame,q1,q2\n0002.jpg,1,2\n')
    assert Dataset.open(folder, joints=2).labels.tolist() == [[1, 2]]
    with pytest.raises(BadInput, match=r'labels\.csv must name the columns'):
        Dataset.open(folder)
    with pytest.raises(BadInput, match='has a column q2, but the arm has 1 joints'):
        Dataset.open(folder, joints=1)
    with pytest.raises(BadInput, match='joints must be at least 1'):
        Dataset.open(folder, joints=0)


def test_pictures_are_read_only_when_asked_for(folder):
    (folder / '0002.jpg').write_bytes(b'broken')
    data = Dataset.open(folder)
    assert data.image(1)[0, 0, 0] == 40
    with pytest.raises(BadInput, match=r'0002\.jpg cannot be decoded'):
        data.image(2)
    with pytest.raises(BadInput, match=r'0002\.jpg cannot be decoded'):
        data.check()


def test_a_data_set_cannot_be_changed_by_accident(folder):
    data = Dataset.open(folder)
    with pytest.raises(AttributeError):
        data.labels = None
    for array in (data.labels, data.labelled, data.background, data.skin):
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 1


@pytest.mark.parametrize(
    ('labels', 'fault'),
    [
        (HEADER + row('0009.jpg'), 'labels.csv, line 2, names the picture "0009.jpg"'),
        (HEADER + row('0001'), 'line 2, names the picture "0001"'),
        (HEADER + row('../demonstrations/0001.jpg'), 'line 2, names the picture'),
        (HEADER + row('background.jpg'), 'line 2, names the picture "background.jpg"'),
        (
            HEADER + row('0001.jpg') + row('0002.jpg') + row('0001.jpg'),
            'labels.csv, line 4, labels 0001.jpg again after line 2',
        ),
        (HEADER + row('0001.jpg') + row('0002.jpg', 'up'), 'labels.csv, line 3: q1 is "up"'),
        (HEADER + row('0001.jpg', 'nan'), 'line 2: q1 is "nan"'),
        (HEADER + row('0001.jpg', '-inf'), 'line 2: q1 is "-inf"'),
        (HEADER + row('0001.jpg', ''), 'line 2: q1 is ""'),
        (HEADER + '\n0001.jpg,0,0,0\n', 'labels.csv, line 3, has 4 values'),
        (HEADER + '0001.jpg,0,0,0,0,0,0,0,0\n', 'line 2, has 9 values'),
        ('frame,j1,j2,j3,j4,j5,j6,j7\n', 'labels.csv must name the columns frame,q1,q2'),
        (HEADER.replace(',', ';'), 'must name the columns'),
        (HEADER.replace('q7', 'q6'), 'must name the columns'),
        (HEADER.replace('q7', 'q7,q8'), 'labels.csv has a column q8'),
        ('', 'must name the columns'),
        (row('0001.jpg'), 'must name the columns'),
        (HEADER + '"0001.jpg,0', 'labels.csv is not a table'),
        (HEADER.encode() + b'\xff\xfe\n', 'labels.csv is not a table'),
    ],
)
def test_faulty_labels_are_named_by_file_and_line(folder, labels, fault):
    data = labels if isinstance(labels, bytes) else labels.encode()
    (folder / 'labels.csv').write_bytes(data)
    with pytest.raises(BadInput) as caught:
        Dataset.open(folder)
    assert fault in str(caught.value)
    assert str(folder) in str(caught.value)
    assert str(caught.value).endswith('.')


@pytest.mark.parametrize(
    ('skin', 'fault'),
    [
        ('r,g,b\n1,2,3\n1,256,3\n', 'skin.csv, line 3: g is 256'),
        ('r,g,b\n-1,2,3\n', 'skin.csv, line 2: r is -1'),
        ('r,g,b\n1,2,2.5\n', 'skin.csv, line 2: b is 2.5'),
        ('r,g,b\n1,2,nan\n', 'skin.csv, line 2: b is "nan"'),
        ('r,g,b\n1,2\n', 'skin.csv, line 2, has 2 values'),
        ('red,green,blue\n1,2,3\n', 'skin.csv must name the columns r,g,b'),
        ('r,g,b\n', 'skin.csv holds no pixels'),
    ],
)
def test_faulty_skin_is_named_by_file_and_line(folder, skin, fault):
    (folder / 'skin.csv').write_text(skin)
    with pytest.raises(BadInput) as caught:
        Dataset.open(folder)
    assert fault in str(caught.value)


def test_a_missing_or_empty_folder_is_named(tmp_path, folder):
    with pytest.raises(BadInput, match=r'gone cannot be read as a folder: No such file'):
        Dataset.open(tmp_path / 'gone')
    with pytest.raises(BadInput, match=r'labels\.csv cannot be read as a folder: Not a dir'):
        Dataset.open(folder / 'labels.csv')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(BadInput, match=r'empty holds no pictures'):
        Dataset.open(tmp_path / 'empty')


def test_pictures_of_differing_sizes_are_named(folder):
    PillowImage.fromarray(picture(0, (24, 16))).save(folder / '0003.jpg')
    data = Dataset.open(folder)
    with pytest.raises(BadInput, match=r'0003\.jpg is 16 × 24 pixels.* is 24 × 16'):
        data.image(3)
    with pytest.raises(BadInput, match=r'0003\.jpg is 16 × 24'):
        list(data.pairs(1))


def test_a_background_of_another_size_is_refused_on_opening(folder):
    PillowImage.fromarray(picture(0, (24, 16))).save(folder / 'background.jpg')
    with pytest.raises(BadInput, match=r'background\.jpg is 16 × 24 pixels'):
        Dataset.open(folder)


@pytest.mark.parametrize('index', [5, -1])
def test_a_picture_that_is_not_there_is_refused(folder, index):
    with pytest.raises(BadInput, match=f'pictures 0 to 4; there is no {index}'):
        Dataset.open(folder).image(index)


# --- recording -------------------------------------------------------------------------------


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


# --- continuing, and what a crash leaves -----------------------------------------------------


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


# --- the data of this repository -------------------------------------------------------------


@pytest.mark.parametrize(
    ('name', 'frames', 'labelled', 'skin'),
    [
        ('teach_A', 200, 200, 354),
        ('free_A', 500, 0, 354),
        ('raise_A', 60, 60, 0),
        ('wave_A', 60, 60, 0),
        ('random_A', 60, 60, 0),
        ('random_B', 60, 60, 0),
        ('random_C', 60, 60, 0),
        ('light_A', 60, 60, 0),
        ('shift_A', 40, 40, 0),
    ],
)
def test_the_rendered_people_are_whole(name, frames, labelled, skin):
    data = Dataset.open(ACTOR / name)
    data.check()
    assert len(data) == frames
    assert data.size == (240, 320)
    assert data.background.shape == (240, 320, 3)
    assert len(data.labels) == labelled
    assert (data.labels[:, 4:] == 0).all()
    assert (0 if data.skin is None else len(data.skin)) == skin


def test_picked_skin_is_what_the_pictures_show():
    """Swapped colour channels would show here: most picked colours occur in the pictures."""
    data = Dataset.open(ACTOR / 'teach_A')
    seen = {tuple(c) for i in range(10) for c in np.unique(data.image(i).reshape(-1, 3), axis=0)}

    def found(pixels):
        return sum(tuple(pixel) in seen for pixel in pixels) / len(pixels)

    assert found(data.skin) > 0.5 > found(data.skin[:, ::-1])


def test_the_pictures_are_not_installed():
    setup = (ROOT / 'setup.py').read_text()
    (shared,) = [line for line in setup.splitlines() if line.startswith('SHARED_FOLDERS')]
    assert "'urdf'" in shared
    assert "'data'" not in shared
