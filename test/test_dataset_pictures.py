"""Pictures: every kind is read as 8-bit RGB, and a damaged one is an error, never grey."""

import cv2
import numpy as np
import pytest
from dataset_bench import noise, picture
from PIL import Image as PillowImage

from kde_imitation.dataset import read_image
from kde_imitation.errors import BadInput


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
