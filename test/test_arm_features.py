"""Features of the arm: what changes them, what does not, and what they refuse to trust."""

import cv2
import numpy as np
import pytest
from demonstrations import TEACH, pairs, pictures

from kde_imitation.benchmarks.odd_pictures import odd_pictures
from kde_imitation.dataset import read_image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Robot
from kde_imitation.vision import arm_features
from kde_imitation.vision.arm_families import WEIGHTS
from kde_imitation.vision.arm_features import ArmFeatures

ROOM = read_image(TEACH / 'background.jpg')
NEW = range(60, 160, 4)


@pytest.fixture(scope='module')
def model():
    images, postures = pairs(range(40))
    return ImitationModel.train(images, postures, ROOM, unpaired=pictures(range(0, 500, 10)))


@pytest.fixture(scope='module')
def features(model):
    return model.features


@pytest.fixture(scope='module')
def shown():
    return pairs(NEW)


def paste(features, picture, right, down=0, factor=1.0):
    """Return the person of a picture elsewhere in the room, and larger or smaller."""
    mask = features.finder_(picture).mask
    mask = cv2.resize(mask, picture.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    share = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.7)
    # The person goes on below the picture.
    share = cv2.copyMakeBorder(share, 0, 120, 0, 0, cv2.BORDER_REPLICATE)
    below = cv2.copyMakeBorder(picture, 0, 120, 0, 0, cv2.BORDER_REPLICATE)
    matrix = np.array([[factor, 0, right + 165 * (1 - factor)], [0, factor, down]], float)
    size = picture.shape[1::-1]
    moved = cv2.warpAffine(below, matrix, size)
    share = cv2.warpAffine(share, matrix, size)[:, :, None]
    return np.rint(moved * share + ROOM * (1 - share)).astype(np.uint8)


def distances(features, one, other):
    gap = features.transform(one)[:, :-1] - features.transform(other)[:, :-1]
    return np.square(gap).sum(axis=1)


def between(features, images):
    vectors = features.transform(images)[:, :-1]
    squares = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    return float(np.median(squares[np.triu_indices(len(vectors), 1)]))


def test_the_median_distance_of_pictures_is_the_sum_of_the_weights(features, shown):
    assert between(features, shown[0]) == pytest.approx(sum(WEIGHTS.values()) * 0.7, rel=0.6)


@pytest.mark.parametrize('right', [-30, -12, 15])
def test_where_the_person_stands_changes_little(features, shown, right):
    images = shown[0][:10]
    moved = [paste(features, image, right) for image in images]
    here = [paste(features, image, 0) for image in images]
    assert np.median(distances(features, here, moved)) < 0.1 * between(features, shown[0])


@pytest.mark.parametrize('factor', [0.8, 1.2])
def test_how_large_the_person_is_changes_little(features, shown, factor):
    images = shown[0][:10]
    scaled = [paste(features, image, 0, 10, factor) for image in images]
    assert np.median(distances(features, images, scaled)) < 0.35 * between(features, shown[0])


@pytest.mark.parametrize('gain', [0.4, 0.7, 1.15])
def test_how_bright_the_light_is_changes_little(features, shown, gain):
    images = shown[0][:10]
    relit = [np.clip(image * gain, 0, 255).astype(np.uint8) for image in images]
    assert np.median(distances(features, images, relit)) < 0.1 * between(features, shown[0])


def test_a_little_noise_changes_little(features, shown):
    rng = np.random.default_rng(0)
    images = shown[0][:10]
    noisy = [
        np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8) for image in images
    ]
    assert np.median(distances(features, images, noisy)) < 0.1 * between(features, shown[0])


def test_the_arm_is_found_where_the_posture_says_it_is(features, shown):
    wanted = features.geometry_.project(Robot.pa10().directions(shown[1]))
    gaps = []
    for image, arm in zip(shown[0], wanted):
        seen = features.look(image)
        elbow = features._to_pixels(arm, seen.place)[1]
        gaps.append(np.linalg.norm(seen.arm[1] - elbow) / seen.place.cell)
    # An arm behind the body cannot be found, so the median counts.
    assert np.median(gaps) < 3.0


def test_saved_features_see_the_same(features, shown):
    again = ArmFeatures.from_arrays({k: np.asarray(v) for k, v in features.arrays().items()})
    for image in shown[0][:5]:
        np.testing.assert_array_equal(again.look(image).vector, features.look(image).vector)


def test_an_empty_room_has_a_vector_of_zeros_and_a_reason(features):
    seen = features.look(ROOM)
    assert not seen.found
    assert not seen.vector.any()
    assert seen.reason


def test_odd_pictures_are_novel_or_refused(model, shown):
    for kind, odd in odd_pictures(shown[0][:10], ROOM, model.features.finder_):
        for picture in odd:
            if picture.dtype != np.uint8 or picture.shape != ROOM.shape:
                with pytest.raises(BadInput, match=r'\.$'):
                    model.predict(picture)
                continue
            found = model.predict(picture)
            assert found.novel, kind
            assert found.reason


def test_an_overexposed_picture_is_not_trusted(features, shown):
    burnt = np.clip(shown[0][0].astype(float) * 1.9, 0, 255).astype(np.uint8)
    seen = features.look(burnt)
    assert not seen.found or seen.vector[-1] > 1


@pytest.mark.parametrize('weights', [{'points': -1.0}, {'speed': 1.0}, {'points': 0.0}, {}])
def test_weights_that_make_no_sense_are_refused(features, shown, weights):
    people = [features.finder_(image) for image in shown[0]]
    directions = Robot.pa10().directions(shown[1])
    with pytest.raises(BadInput, match='weights'):
        ArmFeatures(ROOM, weights).fit_people(features.finder_, people, directions, directions)


def test_pictures_without_people_teach_nothing():
    empty = [ROOM] * 12
    directions = np.tile([[1.0, 0, 0], [1.0, 0, 0]], (12, 1, 1))
    with pytest.raises(BadInput, match='too few'):
        ArmFeatures(ROOM).fit(empty, directions, directions)


def test_every_part_of_doubt_has_a_limit_and_a_reason():
    assert len(arm_features.LIMITS) == len(arm_features.REASONS)
