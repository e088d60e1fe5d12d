"""Training: what it refuses, what it reports, and that its choices are what it says."""

import numpy as np
import pytest
from demonstrations import TEACH, pairs, pictures

from kde_imitation.dataset import read_image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Robot, Settings
from kde_imitation.imitation.training import FEWEST_PAIRS, demonstrated_range

ROOM = read_image(TEACH / 'background.jpg')
COUNT = 16


@pytest.fixture(scope='module')
def given():
    return pairs(range(COUNT))


@pytest.fixture(scope='module')
def calls():
    return []


@pytest.fixture(scope='module')
def model(given, calls):
    images, postures = given
    return ImitationModel.train(
        images,
        postures,
        ROOM,
        unpaired=pictures([0, 40, 80]),
        progress=lambda what, share: calls.append((what, share)),
    )


# --- refusals ---------------------------------------------------------------------------------


def test_too_few_pairs_are_refused(given):
    images, postures = given
    few = FEWEST_PAIRS - 1
    with pytest.raises(BadInput, match=f'{few} demonstrations are too few'):
        ImitationModel.train(images[:few], postures[:few], ROOM)


def test_no_pairs_at_all_are_refused():
    with pytest.raises(BadInput, match='too few'):
        ImitationModel.train([], np.empty((0, 7)), ROOM)


def test_unequal_numbers_of_pictures_and_postures_are_refused(given):
    images, postures = given
    with pytest.raises(BadInput, match=f'{COUNT} pictures but {COUNT - 1} postures'):
        ImitationModel.train(images, postures[:-1], ROOM)


def test_a_posture_outside_of_the_limits_is_named(given):
    images, postures = given
    wrong = postures.copy()
    wrong[4, 3] = 9.0
    with pytest.raises(BadInput, match=r'row 4: joint e1 at 9\.000 rad'):
        ImitationModel.train(images, wrong, ROOM)


@pytest.mark.parametrize(
    ('postures', 'said'),
    [
        (np.zeros((COUNT, 6)), 'shape'),
        (np.full((COUNT, 7), np.nan), 'finite'),
        (['posture'] * COUNT, 'numbers'),
    ],
)
def test_postures_that_are_none_are_refused(given, postures, said):
    with pytest.raises(BadInput, match=said):
        ImitationModel.train(given[0], postures, ROOM)


def test_pictures_without_a_person_are_refused(given):
    images, postures = given
    with pytest.raises(BadInput, match=f'Only 0 of the {COUNT} demonstrations show a person'):
        ImitationModel.train([ROOM] * len(images), postures, ROOM)


def test_the_background_of_another_camera_is_refused(given):
    images, postures = given
    with pytest.raises(BadInput, match='160 × 120'):
        ImitationModel.train(images, postures, ROOM[::2, ::2])


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        ({'features': 'telepathy'}, "choose 'arm' or 'thesis'"),
        ({'scales': ()}, 'scales'),
        ({'scales': (1.0, 0.0)}, 'scales'),
        ({'ridges': (-1e-3,)}, 'ridges'),
        ({'folds': 1}, 'folds'),
        ({'folds': 2.5}, 'folds'),
        ({'input_components': 0.0}, 'input_components'),
        ({'input_components': 1.5}, 'input_components'),
        ({'max_error': 1.0}, 'max_error'),
        ({'familiar_quantile': 0.0}, 'familiar_quantile'),
        ({'pull': -1.0}, 'pull'),
        ({'pull': float('nan')}, 'pull'),
    ],
)
def test_settings_out_of_range_are_refused(change, said):
    with pytest.raises(BadInput, match=said):
        Settings(**change)


# --- what it does -----------------------------------------------------------------------------


def test_demonstrations_without_a_person_are_left_out(given):
    images, postures = given
    trained = ImitationModel.train([ROOM, *images], np.vstack([postures[:1], postures]), ROOM)
    assert trained.summary['pairs'] == COUNT


def test_progress_only_grows_and_ends_complete(model, calls):
    shares: dict[str, list[float]] = {}
    for what, share in calls:
        shares.setdefault(what, []).append(share)
    for seen in shares.values():
        assert seen == sorted(seen)
        assert seen[0] >= 0
        assert seen[-1] == pytest.approx(1.0)


def test_the_summary_says_what_was_learned_from(model):
    summary = model.summary
    assert summary['pairs'] == COUNT
    assert summary['unpaired'] == 3
    assert summary['features'] == 'arm'
    assert summary['points'] <= summary['points_full'] == COUNT + 3


def test_the_choice_is_the_best_that_was_tried(model):
    summary = model.summary
    best = min(summary['fold_errors'], key=lambda row: row[3])
    assert [summary['scale'], summary['ridge'], summary['rank']] == best[:3]
    assert summary['fold_error_mm'] == best[3]


def test_only_what_is_asked_for_is_tried(given):
    images, postures = given
    settings = Settings(scales=(1.2,), ridges=(5e-3,))
    trained = ImitationModel.train(images, postures, ROOM, settings=settings)
    assert trained.summary['scale'] == 1.2
    assert trained.summary['ridge'] == 5e-3


def test_spectra_are_shares_that_fall(model):
    for name in ('input_spectrum', 'output_spectrum'):
        shares = np.array(model.summary[name])
        assert (np.diff(shares) <= 1e-6).all()
        assert 0.5 < shares.sum() < 1 + 1e-4


def test_training_again_gives_the_same_model(given, model):
    images, postures = given
    again = ImitationModel.train(images, postures, ROOM, unpaired=pictures([0, 40, 80]))
    for image in pairs([50, 100])[0]:
        one, other = model.predict(image), again.predict(image)
        assert np.array_equal(one.q, other.q)
        assert one.novelty == other.novelty


def test_most_pictures_it_learned_from_are_familiar(given, model):
    novel = [model.predict(image).novel for image in given[0]]
    assert np.mean(novel) <= 0.1


def test_the_demonstrated_range_is_inside_the_limits_and_still_joints_have_none():
    robot = Robot.pa10()
    Q = np.zeros((3, 7))
    Q[:, 0] = robot.lower[0], 0.0, robot.upper[0]
    Q[:, 1] = -0.2, 0.1, 0.3
    lower, upper = demonstrated_range(Q, robot)
    assert lower[0] == robot.lower[0]
    assert upper[0] == robot.upper[0]
    assert lower[1] < -0.2 < 0.3 < upper[1]
    assert (lower[2:] == 0).all()
    assert (upper[2:] == 0).all()
