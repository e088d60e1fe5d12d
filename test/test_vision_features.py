"""Edgels, skin and the features of the thesis: what they hold, and what leaves them alone."""

import csv
import pickle
from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_vision_silhouette import person_at, read, room

from kde_imitation.errors import BadInput
from kde_imitation.vision import (
    Background,
    Box,
    PersonFinder,
    SkinModel,
    ThesisFeatures,
    edge_map,
    edgels,
    face,
    skin_histograms,
    working_image,
)

ACTOR = Path(__file__).resolve().parents[1] / 'data' / 'actor'
SKIN = (220, 180, 150)


def picked_pixels():
    with (ACTOR / 'teach_A' / 'skin.csv').open() as file:
        return np.array([[int(row[c]) for c in 'rgb'] for row in csv.DictReader(file)])


def frames(folder, numbers):
    return [read(f'{folder}/{n:04d}.jpg') for n in numbers]


@pytest.fixture(scope='module')
def features():
    background = read('teach_A/background.jpg')
    return ThesisFeatures(background, picked_pixels()).fit(frames('free_A', range(0, 500, 20)))


def silhouette_of(**options):
    return PersonFinder(Background(room(seed=1)))(person_at(room(), **options)[0])


# Edgels


def test_edgels_lie_on_the_outline_and_are_evenly_spread():
    image = working_image(silhouette_of(arm=70))
    points = edgels(image, 100)
    assert points.shape == (100, 2)
    inside = cv2.distanceTransform(np.pad(image.mask, 5), cv2.DIST_L2, 5)
    outside = cv2.distanceTransform(1 - np.pad(image.mask, 5), cv2.DIST_L2, 5)
    x, y = np.rint(points + 5).astype(int).T
    assert np.maximum(inside, outside)[y, x].max() <= 3
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    assert np.median(steps) == pytest.approx(steps.mean(), rel=0.25)
    assert steps.max() < 3 * np.median(steps)


def test_edgels_are_the_same_every_time():
    image = working_image(silhouette_of())
    np.testing.assert_array_equal(edgels(image), edgels(image))


def test_the_frame_of_the_picture_is_no_edge():
    whole = silhouette_of()
    cut_off = silhouette_of(top=90)
    assert cut_off.box.top + cut_off.box.height == 240
    assert edgels(working_image(whole))[:, 1].max() > 98
    bottom = edgels(working_image(cut_off))[:, 1] > 98.5
    # Two legs end there: nothing but their four corners may.
    assert bottom.sum() <= 4


def test_fewer_edgels_can_be_asked_for_but_not_too_few():
    image = working_image(silhouette_of())
    assert len(edgels(image, 20)) == 20
    with pytest.raises(BadInput, match='3 edgels or more'):
        edgels(image, 2)


def test_black_clothes_have_an_edge():
    seen, mask = person_at(room())
    seen[mask > 0] = 0
    person = PersonFinder(Background(room(seed=1)))(seen)
    image = working_image(person)
    assert len(edgels(image)) == 100
    # A step of a quarter, smoothed over five pixels, rises by about a quarter of it a pixel.
    assert edge_map(image).max() > 0.25 / 6


def test_without_a_person_there_is_no_working_image():
    with pytest.raises(BadInput, match='no person to scale: Nothing differs'):
        working_image(PersonFinder(Background(room()))(room()))


# Skin


def test_likelihood_is_that_of_the_gaussian_relative_to_its_peak():
    rng = np.random.default_rng(0)
    pixels = np.clip(rng.multivariate_normal(SKIN, np.diag([90, 60, 50]) + 40, 400), 0, 255)
    model = SkinModel.from_pixels(pixels)
    picture = rng.integers(120, 256, (20, 30, 3), dtype=np.uint8)
    gaussian = multivariate_normal(model.mean, model.covariance)
    expected = gaussian.pdf(picture) / gaussian.pdf(model.mean)
    # Single precision: exponents up to a hundred lose five digits.
    assert model.likelihood(picture) == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert model.mean == pytest.approx(pixels.mean(axis=0))


def test_skin_can_be_taken_from_a_rectangle():
    seen, _ = person_at(room(), x=200, top=40)
    model = SkinModel.from_rectangle(seen, Box(48, 194, 12, 12))
    assert model.mean == pytest.approx(SKIN)
    for box in (Box(-1, 0, 5, 5), Box(0, 0, 0, 5), Box(0, 310, 20, 20)):
        with pytest.raises(BadInput, match='does not lie in the picture'):
            SkinModel.from_rectangle(seen, box)


@pytest.mark.parametrize('arm', [0, 60, 170])
def test_the_face_is_found_above_the_trunk_even_with_a_raised_arm(arm):
    place = face(silhouette_of(arm=arm, x=200, top=60))
    # The head is a disc of radius 15 at (200, 74).
    assert abs(place.left + place.width / 2 - 200) < 10
    assert place.top > 60
    assert place.top + place.height < 92
    assert face(PersonFinder(Background(room()))(room())) is None


def test_skin_starts_from_faces_without_picking():
    """It finds what picked pixels find, and does not take clothes for skin."""
    find = PersonFinder(Background(read('teach_A/background.jpg')))
    people = [find(picture) for picture in frames('free_A', range(0, 200, 10))]
    own, picked = SkinModel.from_faces(people), SkinModel.from_pixels(picked_pixels())
    image = working_image(people[3])
    ours, theirs = (m.likelihood(image.picture) > 0.1 for m in (own, picked))
    person = image.mask > 0
    assert (ours & theirs & person).sum() > 0.8 * (theirs & person).sum()
    # The shirt is blue and the trousers grey; skin has clearly more red than blue.
    clothes = person & (image.picture[:, :, 2] + 5.0 >= image.picture[:, :, 0])
    assert clothes.sum() > 0.5 * person.sum()
    assert ours[clothes].mean() < 0.02


def test_skin_without_faces_or_with_bad_pixels_is_refused():
    with pytest.raises(BadInput, match='No face was found'):
        SkinModel.from_faces([PersonFinder(Background(room()))(room())])
    with pytest.raises(BadInput, match='7 picked pixels are too few'):
        SkinModel.from_pixels(np.ones((7, 3)))
    with pytest.raises(BadInput, match='from 0 to 255'):
        SkinModel.from_pixels(np.full((9, 3), 300))
    with pytest.raises(BadInput, match='shape'):
        SkinModel.from_pixels(np.ones((9, 4)))
    with pytest.raises(BadInput, match='positive definite'):
        SkinModel(np.zeros(3), -np.eye(3))
    # Pixels all of one colour still give a model.
    assert SkinModel.from_pixels(np.full((9, 3), 100)).mean == pytest.approx([100, 100, 100])


def test_histograms_say_in_which_columns_and_rows_skin_lies():
    likely, mask = np.zeros((100, 100)), np.ones((100, 100), dtype=np.uint8)
    likely[20:30, 70:90] = 1.0
    likely[20:30, 70:80] = 0.5
    mask[:, :5] = 0
    likely[:, :5] = 1.0
    x, y = np.split(skin_histograms(likely, mask), 2)
    assert x == pytest.approx([0, 0, 0, 0, 0, 0, 0, 1 / 3, 2 / 3, 0])
    assert y == pytest.approx([0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
    counted = skin_histograms(likely, mask, threshold=0.4)
    assert counted[:10] == pytest.approx([0, 0, 0, 0, 0, 0, 0, 0.5, 0.5, 0])
    assert not skin_histograms(np.zeros((100, 100)), mask).any()
    with pytest.raises(BadInput, match='cannot be cut into 7'):
        skin_histograms(likely, mask, bins=7)


# The features together


def test_vectors_are_three_histograms(features):
    vectors = features.transform(frames('teach_A', range(6)))
    assert vectors.shape == (6, 100)
    assert (vectors >= 0).all()
    for part in (slice(0, 80), slice(80, 90), slice(90, 100)):
        assert vectors[:, part].sum(axis=1) == pytest.approx(np.ones(6))
    one = features.transform(frames('teach_A', [2])[0])
    np.testing.assert_array_equal(one, vectors[2:3])
    np.testing.assert_array_equal(
        features.transform(np.stack(frames('teach_A', range(6)))), vectors
    )


def test_fitting_twice_gives_the_same_vectors(features):
    again = clone(features).fit(frames('free_A', range(0, 500, 20)))
    picture = frames('teach_A', [1])[0]
    np.testing.assert_array_equal(again.transform(picture), features.transform(picture))
    copy = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(copy.transform(picture), features.transform(picture))


def test_the_kernel_adds_the_overlaps_of_the_three_histograms(features):
    vectors = features.transform(frames('teach_A', range(4)))
    parts = [
        np.minimum(vectors[:, None, p], vectors[None, :, p]).sum(axis=2)
        for p in (slice(0, 80), slice(80, 90), slice(90, 100))
    ]
    assert features.kernel()(vectors) == pytest.approx(sum(parts))
    weighted = clone(features).set_params(weights=(1.0, 0.5, 0.25)).kernel()
    assert weighted(vectors) == pytest.approx(parts[0] + 0.5 * parts[1] + 0.25 * parts[2])


def distances(features, vectors):
    kernel = features.kernel()(vectors)
    own = np.diag(kernel)
    return np.sqrt(np.maximum(0, own[:, None] + own - 2 * kernel))


@pytest.fixture(scope='module')
def drawn():
    """Features learned on drawn figures."""
    pictures = [person_at(room(seed=i), arm=10 * i)[0] for i in range(18)]
    return ThesisFeatures(room(seed=99), n_words=40).fit(pictures)


def test_where_a_person_stands_and_how_large_matters_less_than_the_pose(drawn):
    same = [(200, 40, 1.0), (230, 35, 1.0), (180, 20, 1.0), (210, 60, 0.8), (190, 10, 1.15)]
    pictures = [
        person_at(room(seed=7), x=x, top=top, size=size, arm=arm)[0]
        for arm in (50, 110)
        for x, top, size in same
    ]
    d = distances(drawn, drawn.transform(pictures))
    within = max(d[:5, :5].max(), d[5:, 5:].max())
    assert within < d[:5, 5:].min()


def test_a_rendered_person_who_walks_keeps_features_nearer_than_another_pose(features):
    """As figure 6.11 of the thesis: two postures, walking across the picture."""
    pictures = frames('shift_A', [2, 6, 10, 14, 22, 26, 30, 34])
    d = distances(features, features.transform(pictures))
    within = np.concatenate([d[:4, :4][np.triu_indices(4, 1)], d[4:, 4:][np.triu_indices(4, 1)]])
    assert within.mean() < 0.7 * d[:4, 4:].mean()
    assert within.max() < d[:4, 4:].min()


def test_features_change_with_the_pose_step_by_step(drawn):
    d = distances(
        drawn, drawn.transform([person_at(room(seed=7), arm=arm)[0] for arm in (60, 63, 90, 150)])
    )
    assert d[0, 1] < d[0, 2] < d[0, 3]


@pytest.mark.parametrize('light', [0.5, 1.3])
def test_the_light_changes_features_less_than_the_pose_does(features, light):
    first, second = frames('teach_A', [0, 1])
    dim = np.clip(first * light, 0, 255).astype(np.uint8)
    d = distances(features, features.transform([first, dim, second]))
    assert d[0, 1] < d[0, 2]


def test_a_picture_without_a_person_is_a_row_of_zeros_with_a_flag(features):
    empty = read('teach_A/background.jpg')
    seen = features.look(empty)
    assert not seen.found
    assert seen.silhouette.reason
    assert seen.working is None
    vectors = features.transform([empty, frames('teach_A', [0])[0]])
    assert not vectors[0].any()
    assert features.kernel()(vectors)[0] == pytest.approx([0, 0])
    assert features.look(frames('teach_A', [0])[0]).found


def test_no_picture_of_the_right_size_crashes(features):
    shape = (240, 320, 3)
    rng = np.random.default_rng(0)
    pictures = [
        np.zeros(shape, dtype=np.uint8),
        np.full(shape, 255, dtype=np.uint8),
        rng.integers(0, 256, shape, dtype=np.uint8),
        rng.integers(0, 256, shape[:2], dtype=np.uint8),
        frames('teach_A', [0])[0][:, ::-1],
        frames('teach_A', [0])[0][::-1],
        255 - frames('teach_A', [0])[0],
    ]
    for picture in pictures:
        vector = features.look(picture).vector
        assert np.isfinite(vector).all()
        assert vector.max() <= 1


@pytest.mark.parametrize('shape', [(48, 64), (3072, 4096)])
def test_cameras_of_any_size_will_do(shape):
    size = shape[0] / 240
    pictures = [
        person_at(room(*shape), x=200 * size, top=40 * size, size=size, arm=arm)[0]
        for arm in (20, 60, 120)
    ]
    found = ThesisFeatures(room(*shape, seed=1), n_words=20).fit(pictures)
    assert (found.transform(pictures).sum(axis=1) > 2.99).all()


def test_pictures_that_cannot_be_learned_from_are_refused(features):
    background = read('teach_A/background.jpg')
    with pytest.raises(BadInput, match='no person in any of the 2 pictures'):
        ThesisFeatures(background, picked_pixels()).fit([background, background])
    with pytest.raises(BadInput, match='no person in any of the 0 pictures'):
        ThesisFeatures(background, picked_pixels()).fit([])
    with pytest.raises(BadInput, match=r'images\[1\] has numbers of type float64'):
        features.transform([background, background / 255])
    with pytest.raises(BadInput, match='64 × 48 pixels, but the background has 320 × 240'):
        features.transform(np.zeros((48, 64, 3), dtype=np.uint8))
    with pytest.raises(BadInput, match='different histograms for 500 words'):
        ThesisFeatures(background, picked_pixels(), n_words=500).fit(frames('free_A', [0]))
    with pytest.raises(NotFittedError):
        ThesisFeatures(background).transform(background)
