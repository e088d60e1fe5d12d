"""The frame of the body follows a person who steps aside or comes nearer, not the arm."""

import cv2
import numpy as np
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.vision.body import SIDE, STEP, BodyTemplate

HEIGHT, WIDTH = 120, 160
ARMS = np.linspace(10, 170, 24)


def person(arm, x=95.0, y=60.0, size=1.0):
    """The mask of a figure with one arm, its angle from down in degrees; (x, y) is the belly."""
    fine = 4
    mask = np.zeros((fine * HEIGHT, fine * WIDTH), dtype=np.uint8)

    def at(dx, dy):
        return round(fine * (x + size * dx)), round(fine * (y + size * dy))

    cv2.rectangle(mask, at(-9, 15), at(9, 60), 255, -1)
    cv2.rectangle(mask, at(-11, -20), at(11, 18), 255, -1)
    cv2.circle(mask, at(0, -29), round(fine * 8 * size), 255, -1)
    turn = np.radians(arm)
    hand = at(-9 - 38 * np.sin(turn), -16 + 38 * np.cos(turn))
    cv2.line(mask, at(-9, -16), hand, 255, round(fine * 6 * size))
    small = cv2.resize(mask, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA)
    return (small > 127).astype(np.uint8)


@pytest.fixture(scope='module')
def body():
    return BodyTemplate.learn([person(arm) for arm in ARMS])


@pytest.mark.parametrize('arm', [20, 75, 140])
def test_the_frame_moves_with_the_person(body, arm):
    start = body.locate(person(arm))
    for dx, dy in ((-30, 0), (25, 0), (0, 6), (1, 1), (-13, -3)):
        place = body.locate(person(arm, 95 + dx, 60 + dy))
        # Silhouettes are cut off below in other rows, which pulls a little.
        assert place.x - start.x == pytest.approx(dx, abs=0.25)
        assert place.y - start.y == pytest.approx(dy, abs=0.5)
        assert place.cell == pytest.approx(start.cell, rel=STEP / 2)


def test_the_arm_hardly_moves_the_frame(body):
    places = [body.locate(person(arm)) for arm in ARMS]
    # The arm is forty cells long.
    assert np.ptp([place.x for place in places]) < 3.0
    assert np.ptp([place.y for place in places]) < 3.0
    assert np.ptp([place.cell for place in places]) < STEP * body.cell


@pytest.mark.parametrize('size', [0.7, 0.85, 1.2, 1.5])
def test_the_frame_grows_with_the_person(body, size):
    for arm in (30, 120):
        place = body.locate(person(arm, size=size))
        assert place.cell / body.cell == pytest.approx(size, rel=STEP)
        assert place.fit > 0.7


def test_a_person_of_the_size_learned_has_exactly_that_size(body):
    assert {body.locate(person(arm)).cell for arm in ARMS} == {body.cell}


@pytest.mark.parametrize(('dx', 'dy', 'size'), [(-25, 0, 1.0), (9, 4, 1.0), (0, 0, 1.3)])
def test_the_window_shows_the_same_wherever_the_person_stands(body, dx, dy, size):
    first, then = person(75), person(75, 95 + dx, 60 + dy, size)
    windows = [body.crop(mask, body.locate(mask)) for mask in (first, then)]
    assert windows[0].shape == (SIDE, SIDE)
    # The body is cut off below in other rows.
    inside = np.s_[: SIDE // 2 + 10]
    changed = np.abs(windows[0][inside] - windows[1][inside]).sum()
    other = person(105)
    turned = np.abs(windows[0] - body.crop(other, body.locate(other)))[inside].sum()
    assert changed < 0.5 * turned


@pytest.mark.parametrize('size', [1.0, 1.8])
def test_colours_are_those_of_the_window(body, size):
    mask = person(75, size=size)
    place = body.locate(mask)
    rng = np.random.default_rng(0)
    picture = cv2.GaussianBlur(rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8), (0, 0), 2)
    factors = np.array([1.0, 0.5, 2.0], dtype=np.float32)
    colours, covered = body.colours(picture, mask, place, factors, 8.0)
    assert covered == pytest.approx(body.crop(mask, place), abs=0.04)
    expected = body.crop(picture, place) * factors + 8.0
    # OpenCV rounds places to a 32nd of a pixel.
    assert np.abs(colours - expected).mean() < 1.0


def test_what_is_no_person_fits_badly(body):
    blob = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    cv2.rectangle(blob, (20, 50), (140, 75), 1, -1)
    assert body.locate(blob).fit < body.locate(person(60)).fit - 0.3


def test_there_must_be_a_body():
    with pytest.raises(BadInput, match='no silhouettes'):
        BodyTemplate.learn([])
    with pytest.raises(BadInput, match='shows no body'):
        BodyTemplate(np.zeros((44, 44)), np.zeros((44, 44)), 1.0, np.zeros(2))
    with pytest.raises(BadInput, match='shape'):
        BodyTemplate(np.ones((40, 44)), np.ones((44, 44)), 1.0, np.zeros(2))
