"""Data sets are read as they lie there, and what is wrong with them is named."""

import numpy as np
import pytest
from conftest import ROOT
from dataset_bench import HEADER, levels, picture, row
from demonstrations import ACTOR
from PIL import Image as PillowImage

from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput


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
