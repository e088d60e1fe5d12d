"""The person is found before the room, whatever the light, and nobody where there is nobody."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.vision import Background, Box, PersonFinder

ACTOR = Path(__file__).resolve().parents[1] / 'data' / 'actor'


def read(name):
    picture = cv2.imread(str(ACTOR / name))
    assert picture is not None, f'{name} is missing in {ACTOR}.'
    return np.ascontiguousarray(picture[:, :, ::-1])


def room(height=240, width=320, seed=0):
    """A wall with soft shading, a cupboard and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    wall = 150 + 40 * x / width + 20 * y / height
    picture = np.stack([wall, wall * 0.98, wall * 0.95], axis=2)
    picture[height // 3 :, : width // 6] = (120, 80, 50)
    return np.clip(picture + rng.normal(0, 1.5, picture.shape), 0, 255).astype(np.uint8)


def person_at(picture, x=200, top=40, size=1.0, arm=60):
    """Draw a figure; return the picture and its true mask. `arm` is its angle from down."""
    mask = np.zeros(picture.shape[:2], dtype=np.uint8)

    def at(dx, dy):
        return round(x + size * dx), round(top + size * dy)

    parts = []
    for colour, draw in (
        ((60, 70, 90), lambda m: cv2.rectangle(m, at(-18, 100), at(18, 190), 1, -1)),
        ((40, 80, 170), lambda m: cv2.rectangle(m, at(-22, 30), at(22, 105), 1, -1)),
        ((220, 180, 150), lambda m: cv2.circle(m, at(0, 14), round(15 * size), 1, -1)),
        (
            (220, 180, 150),
            lambda m: cv2.line(
                m,
                at(-18, 38),
                at(-18 - 75 * np.sin(np.radians(arm)), 38 + 75 * np.cos(np.radians(arm))),
                1,
                max(2, round(11 * size)),
            ),
        ),
    ):
        part = np.zeros_like(mask)
        draw(part)
        parts.append((colour, part))
        mask |= part
    seen = picture.copy()
    for colour, part in parts:
        seen[part > 0] = colour
    return seen, mask


def overlap(a, b):
    return np.logical_and(a, b).sum() / np.logical_or(a, b).sum()


@pytest.mark.parametrize('arm', [0, 60, 120, 175])
def test_a_person_is_found_to_the_pixel_rows_of_the_edge(arm):
    seen, mask = person_at(room(), arm=arm)
    found = PersonFinder(Background(room(seed=1)))(seen)
    assert found.found
    assert found.reason == ''
    assert overlap(found.mask, mask) > 0.93
    rows, columns = np.nonzero(mask)
    assert abs(found.box.top - rows.min()) <= 2
    assert abs(found.box.left - columns.min()) <= 2
    assert abs(found.box.top + found.box.height - 1 - rows.max()) <= 2
    assert abs(found.box.left + found.box.width - 1 - columns.max()) <= 2


@pytest.mark.parametrize('light', [0.35, 0.6, 1.3, 1.8])
def test_light_that_changes_is_not_a_person_and_does_not_hide_one(light):
    def lit(picture, light=light):
        # At 1.8 parts of the wall and of the skin are cut off, but not all.
        return np.clip(picture * (0.7 * light), 0, 255).astype(np.uint8)

    find = PersonFinder(Background(lit(room(), 1.0)))
    assert not find(lit(room(seed=2))).found
    seen, mask = person_at(room(seed=2))
    found = find(lit(seen))
    assert found.found
    assert overlap(found.mask, mask) > 0.88
    if light < 1.3:
        # Where nothing is cut off at 255 the gain is that of the light, but for DARK.
        assert found.gain == pytest.approx(np.full(3, light), rel=0.08)
        difference = found.relit()[mask == 0].astype(float) - lit(room(seed=2), 1.0)[mask == 0]
        assert np.abs(difference).mean() < 6


def test_a_soft_shadow_is_not_the_person():
    seen, mask = person_at(room(), arm=30)
    shadow = cv2.GaussianBlur(np.roll(mask, -30, axis=1).astype(np.float32), (0, 0), 18)
    dark = np.where(mask[:, :, None] > 0, 1.0, 1.0 - 0.15 * shadow[:, :, None])
    found = PersonFinder(Background(room(seed=1)))((seen * dark).astype(np.uint8))
    assert found.found
    assert overlap(found.mask, mask) > 0.88


def test_small_holes_are_closed_and_large_ones_are_not():
    seen, mask = person_at(room(), arm=0)
    clean = room()
    small, large = np.zeros_like(mask), np.zeros_like(mask)
    cv2.circle(small, (200, 100), 2, 1, -1)
    cv2.rectangle(large, (186, 108), (212, 134), 1, -1)
    for hole in (small, large):
        seen[hole > 0] = clean[hole > 0]
    found = PersonFinder(Background(room(seed=1)))(seen)
    assert found.mask[small > 0].all()
    assert found.mask[large > 0].mean() < 0.35


@pytest.mark.parametrize('name', ['black', 'white', 'empty', 'noise', 'other', 'speck'])
def test_pictures_without_a_person_say_so(name):
    clean = room()
    picture = {
        'black': np.zeros_like(clean),
        'white': np.full_like(clean, 255),
        'empty': room(seed=3),
        'noise': np.random.default_rng(0).integers(0, 256, clean.shape, dtype=np.uint8),
        'other': np.ascontiguousarray(
            np.where(np.indices(clean.shape)[0] // 20 % 2, clean, 255 - clean)
        ),
        'speck': person_at(clean, size=0.15)[0],
    }[name]
    found = PersonFinder(Background(clean))(picture)
    assert not found.found
    assert found.reason.endswith(('.', '?'))
    assert not found.mask.any()
    assert found.box == Box(0, 0, 0, 0)


@pytest.mark.parametrize('shape', [(48, 64), (3072, 4096), (240, 320)])
def test_small_large_and_grey_pictures_work(shape):
    height, width = shape
    size = height / 240
    clean = room(height, width)
    seen, mask = person_at(clean, x=200 * size, top=40 * size, size=size)
    found = PersonFinder(Background(clean))(seen)
    assert found.found
    assert max(found.mask.shape) <= 640
    true = cv2.resize(mask, found.mask.shape[::-1], interpolation=cv2.INTER_NEAREST)
    assert overlap(found.mask, true) > (0.7 if height < 100 else 0.9)
    grey = PersonFinder(Background(clean[:, :, 0]))(seen[:, :, 0])
    assert grey.found
    assert grey.picture.shape[2] == 3


def test_a_median_of_frames_leaves_out_who_walks_through():
    frames = [person_at(room(seed=i), x=30 + 45 * i)[0] for i in range(7)]
    background = Background.from_pictures(frames)
    assert np.abs(background.picture.astype(int) - room()).mean() < 3
    assert PersonFinder(background)(frames[3]).found


def test_the_learner_of_opencv_gives_the_room():
    frames = [room(seed=i) for i in range(30)]
    frames += [person_at(room(seed=i), x=30 + 25 * i)[0] for i in range(10)]
    background = Background.learned(frames)
    seen, mask = person_at(room(seed=50), x=250)
    found = PersonFinder(background)(seen)
    assert found.found
    assert overlap(found.mask, mask) > 0.8


@pytest.mark.parametrize(
    'name', ['teach_A/0000.jpg', 'teach_A/0007.jpg', 'light_A/0000.jpg', 'light_A/0059.jpg']
)
def test_a_rendered_person_fills_a_likely_part_of_the_picture(name):
    find = PersonFinder(Background(read('teach_A/background.jpg')))
    found = find(read(name))
    assert found.found
    assert 0.06 < found.mask.mean() < 0.25
    # One piece, as people are.
    count, _, stats, _ = cv2.connectedComponentsWithStats(found.mask)
    assert stats[1:, cv2.CC_STAT_AREA].max() > 0.95 * found.mask.sum()
    assert count >= 2
    assert not find(read('teach_A/background.jpg')).found


@pytest.mark.parametrize(
    ('picture', 'message'),
    [
        (np.zeros((240, 320, 3)), 'uint8'),
        (np.zeros((240, 320, 4), dtype=np.uint8), r'\(height, width, 3\)'),
        (np.zeros((240,), dtype=np.uint8), r'\(height, width, 3\)'),
        (np.zeros((8, 320, 3), dtype=np.uint8), '16 or more'),
        (np.zeros((0, 0, 3), dtype=np.uint8), '16 or more'),
        (np.zeros((120, 160, 3), dtype=np.uint8), '160 × 120 pixels, but the background'),
        (None, 'type object'),
    ],
)
def test_what_is_no_picture_of_this_camera_is_refused(picture, message):
    with pytest.raises(BadInput, match=message):
        PersonFinder(Background(room()))(picture)


def test_backgrounds_that_cannot_be_made_are_refused():
    with pytest.raises(BadInput, match='no picture'):
        Background.from_pictures([])
    with pytest.raises(BadInput, match='differ in size'):
        Background.learned([room(), room(120, 160)])
    with pytest.raises(BadInput, match='series of pictures'):
        Background.from_pictures(3)
    with pytest.raises(BadInput, match='above 0'):
        Background(room(), colour=0.0)
    with pytest.raises(BadInput, match='must rise'):
        PersonFinder(Background(room()), smallest=0.5, largest=0.2)


@pytest.mark.parametrize('side', [120, 160, 240])
def test_a_reduced_picture_shows_the_same_person(side):
    seen, mask = person_at(room(), arm=60)
    background = Background(room(seed=1), side=side)
    found = PersonFinder(background)(seen)
    assert found.found
    assert max(found.mask.shape) == side
    small = cv2.resize(
        mask.astype(np.float32), found.mask.shape[::-1], interpolation=cv2.INTER_AREA
    )
    assert overlap(found.mask, small > 0.5) > 0.9
    again = Background.from_arrays(background.picture, background.full_size, [0.07, 0.12, 0.18])
    assert again.side == side
    assert (PersonFinder(again)(seen).mask == found.mask).all()


@pytest.mark.parametrize('side', [15, 641])
def test_pictures_are_not_compared_too_small_or_too_large(side):
    with pytest.raises(BadInput, match='16 to 640'):
        Background(room(), side=side)
