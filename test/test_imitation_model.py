"""The trained model: what it predicts, that a file keeps it, and other arms."""

import json
import math

import numpy as np
import pytest
from demonstrations import FREE, TEACH, pairs, pictures
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kde_imitation.dataset import Dataset, read_image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Robot, Settings, files
from kde_imitation.kinematics import description

NEW = (60, 75, 90, 120, 150)
ROOM = read_image(TEACH / 'background.jpg')


@pytest.fixture(scope='module')
def model():
    images, postures = pairs(range(30))
    return ImitationModel.train(images, postures, ROOM, unpaired=pictures(range(0, 40, 5)))


@pytest.fixture(scope='module')
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp('model') / 'model.npz'
    model.save(path)
    return path


def same(one, other):
    return (
        np.array_equal(one.q, other.q)
        and np.array_equal(one.embedding, other.embedding)
        and one.novelty == other.novelty
        and one.reason == other.reason
    )


# --- predictions ------------------------------------------------------------------------------


def test_new_pictures_get_postures_far_better_than_the_mean_one(model):
    images, true = pairs(range(100, 130))
    found = np.stack([model.predict(image).q for image in images])
    guess = np.broadcast_to(model.goal.postures.mean(axis=0), true.shape)
    assert model.robot.errors(found, true).mean() < 0.5 * model.robot.errors(guess, true).mean()


def test_prediction_is_its_three_steps_one_by_one(model):
    for image in pairs(NEW)[0]:
        whole = model.predict(image)
        seen = model.look(image)
        found = model.embed(seen.vector)
        assert np.array_equal(model.solve(found.point), whole.q)
        assert found.novelty == whole.novelty
        assert seen.vector.shape == (model.vector_size,)
        assert found.point.shape == (model.embedding_size,)


def test_prediction_is_deterministic(model):
    image = pairs([70])[0][0]
    assert same(model.predict(image), model.predict(image.copy()))


def test_a_saved_model_predicts_exactly_the_same(model, saved):
    again = ImitationModel.load(saved)
    for image in [*pairs(NEW)[0], *pictures([3, 33])]:
        assert same(model.predict(image), again.predict(image))
    assert again.names == model.names == description.joint_limits().names
    assert again.summary == json.loads(json.dumps(model.summary))


def test_saving_what_was_loaded_gives_the_same_contents(saved, tmp_path):
    ImitationModel.load(saved).save(tmp_path / 'again.npz')
    first, second = files.read(saved), files.read(tmp_path / 'again.npz')
    assert first[0] == second[0]
    assert all(np.array_equal(first[1][name], second[1][name]) for name in first[1])


def test_an_empty_room_is_novel_without_measure(model):
    found = model.predict(ROOM)
    assert found.novelty == math.inf
    assert found.novel
    assert found.reason
    assert (found.q >= model.robot.lower).all()
    assert (found.q <= model.robot.upper).all()
    assert not model.look(ROOM).found


@pytest.mark.parametrize('shade', [0, 255])
def test_a_covered_or_blinded_lens_is_novel(model, shade):
    assert model.predict(np.full_like(ROOM, shade)).novel


def test_noise_is_novel(model):
    noise = np.random.default_rng(0).integers(0, 256, ROOM.shape, dtype=np.uint8)
    assert model.predict(noise).novel


def test_a_picture_of_another_size_is_refused(model):
    with pytest.raises(BadInput, match='100 × 50 pixels'):
        model.predict(np.zeros((50, 100, 3), np.uint8))


@pytest.mark.parametrize('wrong', [np.zeros(3), np.array([[np.nan]]), 'posture'])
def test_a_wrong_embedding_or_start_is_refused(model, wrong):
    with pytest.raises(BadInput, match='embedding'):
        model.solve(wrong)
    with pytest.raises(BadInput, match='start'):
        model.solve(np.zeros(model.embedding_size), wrong)
    with pytest.raises(BadInput, match='feature vector'):
        model.embed(wrong)


def far(size):
    return arrays(np.float64, size, elements=st.floats(-1e6, 1e6))


@given(data=st.data())
def test_every_embedding_gives_a_posture_inside_the_limits(model, data):
    point = data.draw(far(model.embedding_size))
    start = data.draw(st.none() | far(model.joints))
    q = model.solve(point, start)
    assert q.shape == (model.joints,)
    assert (q >= model.robot.lower).all()
    assert (q <= model.robot.upper).all()


@given(data=st.data())
def test_the_search_never_ends_worse_than_where_it_began(model, data):
    goal = model.goal
    start = data.draw(arrays(np.float64, model.joints, elements=st.floats(-2, 2)))
    point = data.draw(arrays(np.float64, model.embedding_size, elements=st.floats(-1, 1)))
    begin = np.clip(start, goal.lower, goal.upper)

    def loss(q):
        points = model.robot.map.evaluate(q[None])[0][0]
        gap = goal.matrix @ points + goal.offset - (point @ goal.lift + goal.lift_offset)
        return (gap**2).sum() + (goal.pull * (q - begin) ** 2).sum()

    assert loss(model.solve(point, start)) <= loss(begin) * (1 + 1e-9)


def test_joints_that_never_moved_stay_where_they_were(model):
    still = np.ptp(model.goal.postures, axis=0) == 0
    assert still.any()
    for image in pairs(NEW)[0]:
        q = model.predict(image, start=model.robot.upper).q
        assert np.allclose(q[still], model.goal.postures[0, still], atol=1e-12)


def test_a_movement_is_predicted_picture_by_picture_in_order(model):
    images = [*pictures(range(100, 108)), ROOM]
    alone = [model.predict(image) for image in images]
    plain = model.predict_sequence(iter(images), movement=False)
    moved = model.predict_sequence(images, movement=True)
    assert all(np.allclose(a.q, b.q, atol=1e-9) for a, b in zip(alone, plain, strict=True))
    assert [each.novelty for each in moved] == pytest.approx([each.novelty for each in alone])
    assert moved[-1].novel
    assert moved[-1].reason
    assert model.predict_sequence([]) == []


def test_a_model_of_fifty_pairs_is_small(tmp_path):
    data, free = Dataset.open(TEACH), Dataset.open(FREE)
    trained = ImitationModel.train(
        [image for image, _ in data.pairs(50)],
        data.labels[:50],
        data.background,
        unpaired=list(free.unpaired()),
    )
    trained.save(tmp_path / 'model.npz')
    assert (tmp_path / 'model.npz').stat().st_size < 2 * 2**20
    assert trained.summary['points'] <= trained.summary['points_full'] / 3
    assert trained.summary['compression_error'] < 0.05


def test_the_features_of_the_thesis_are_saved_as_well(tmp_path):
    images, postures = pairs(range(15))
    trained = ImitationModel.train(images, postures, ROOM, settings=Settings(features='thesis'))
    trained.save(tmp_path / 'model.npz')
    again = ImitationModel.load(tmp_path / 'model.npz')
    for image in [*pairs([50, 80])[0], ROOM]:
        assert same(trained.predict(image), again.predict(image))
    assert again.predict(ROOM).novelty == math.inf


# --- other arms -------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def own_arm():
    return Robot.from_urdf(
        description.urdf(), tip='link7', elbow='e1', wrist='w1', base='base_link'
    )


def test_an_arm_from_its_urdf_points_where_the_built_in_one_does(own_arm):
    built_in = Robot.pa10()
    _, postures = pairs(range(0, 200, 10))
    assert own_arm.names == built_in.names
    # The built-in one has learned its points, to half a millimetre.
    gap = own_arm.directions(postures) - built_in.directions(postures)
    assert np.abs(gap).max() < 5e-3


def test_a_model_for_an_arm_of_its_own_carries_the_arm(own_arm, tmp_path):
    images, postures = pairs(range(15))
    trained = ImitationModel.train(images, postures, ROOM, robot=own_arm)
    trained.save(tmp_path / 'model.npz')
    again = ImitationModel.load(tmp_path / 'model.npz')
    assert again.robot.header == own_arm.header
    image = pairs([50])[0][0]
    assert np.allclose(again.predict(image).q, trained.predict(image).q, atol=1e-5)


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        ({'elbow': 'knee'}, "elbow joint 'knee'"),
        ({'tip': 'tail'}, 'tail'),
        ({'elbow': 'w1', 'wrist': 'e1'}, 'must come after'),
        ({'elbow': 's1'}, 'must come after'),
        ({'wrist': 'e1'}, 'must come after'),
    ],
)
def test_wrong_parts_of_an_arm_are_refused(change, said):
    named = {'tip': 'link7', 'elbow': 'e1', 'wrist': 'w1', **change}
    with pytest.raises(BadInput, match=said):
        Robot.from_urdf(description.urdf(), **named)


def test_an_upper_arm_without_length_is_refused():
    short = Robot.from_urdf(description.urdf(), tip='link7', elbow='s2', wrist='w1')
    with pytest.raises(BadInput, match='no length'):
        short.directions(np.zeros((1, 7)))


def test_errors_are_distances_of_elbow_wrist_and_hand():
    robot = Robot.pa10()
    bent, straight = np.zeros((1, 7)), np.zeros((1, 7))
    bent[0, 3] = np.pi / 2
    # The elbow stays; wrist and hand swing a quarter circle of 0.5 and 0.58 m.
    expected = np.array([0.0, 0.5 * np.sqrt(2), 0.58 * np.sqrt(2)])
    assert robot.distances(bent, straight)[0] == pytest.approx(expected, abs=3e-3)
    assert robot.errors(bent, straight)[0] == pytest.approx(expected.mean(), abs=2e-3)
