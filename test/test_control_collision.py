"""The guard sees what MuJoCo sees, and keeps the links of a moving arm apart."""

import itertools
import time
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
from conftest import ROOT

from kde_imitation.control import SelfCollisionGuard, Tracker
from kde_imitation.control.braking import Braking
from kde_imitation.dataset import Dataset
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import LINKS, joint_limits, urdf

PA10 = joint_limits()
MARGIN = 0.02
FOLDED = np.array([0.0, 1.55, 0.0, 2.35, 0.0, 0.9, 0.0])


@pytest.fixture(scope='module')
def guard():
    return SelfCollisionGuard(urdf(), MARGIN)


@pytest.fixture(scope='module')
def postures(guard):
    """Postures over the range, and as many in which links are near to each other."""
    rng = np.random.default_rng(5)
    q = rng.uniform(PA10.lower, PA10.upper, (400, 7))
    # Upper arm and forearm folded back bring the hand to the base.
    folded = q.copy()
    folded[:, 1] = rng.uniform(1.2, 1.58, 400) * rng.choice([-1, 1], 400)
    folded[:, 2] = rng.uniform(-0.4, 0.4, 400)
    folded[:, 3] = np.sign(folded[:, 1]) * rng.uniform(1.7, 2.39, 400)
    return np.vstack([q, folded])


@pytest.fixture(scope='module')
def distances(guard, postures):
    return np.array([guard.distance(q) for q in postures])


def mujoco_distances(postures, pairs, far):
    """The least distance between the named links by MuJoCo, as far as `far`."""
    root = ElementTree.fromstring(urdf())
    extension = ElementTree.SubElement(root, 'mujoco')
    ElementTree.SubElement(extension, 'compiler', fusestatic='false')
    model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding='unicode'))
    data = mujoco.MjData(model)
    shapes = {
        name: [
            geom
            for geom in range(model.ngeom)
            if model.body(model.geom_bodyid[geom]).name == name
            and model.geom_contype[geom] + model.geom_conaffinity[geom] > 0
        ]
        for name in LINKS
    }
    geoms = [both for a, b in pairs for both in itertools.product(shapes[a], shapes[b])]
    assert len(geoms) >= len(pairs)
    found = []
    for q in postures:
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        found.append(min(mujoco.mj_geomDistance(model, data, a, b, far, None) for a, b in geoms))
    return np.array(found)


@pytest.mark.skipif(
    tuple(map(int, mujoco.__version__.split('.')[:2])) < (3, 12),
    reason='MuJoCo before 3.12 gives the distance 0 for some shapes that are apart',
)
def test_distances_are_those_of_mujoco(guard, postures, distances):
    far = 0.3
    expected = mujoco_distances(postures[::4], guard.checked, far)
    found = np.minimum(distances[::4], far)
    apart = expected > 0
    assert 0 < (~apart).sum() < len(apart)
    np.testing.assert_allclose(found[apart], expected[apart], atol=1e-4)
    # How deep two shapes overlap is a matter of definition; that they do is not.
    assert (found[~apart] <= 1e-6).all()


def test_safe_means_further_apart_than_the_margin(guard, postures, distances):
    assert 0.02 < (distances <= MARGIN).mean() < 0.98
    np.testing.assert_array_equal([guard.safe(q) for q in postures], distances > MARGIN)


def test_only_links_that_adjoin_or_are_always_near_are_left_out(guard):
    adjoining = set(itertools.pairwise(LINKS))
    assert set(guard.left_out) == adjoining | {('link5', 'link7')}
    assert set(guard.checked) | set(guard.left_out) == set(itertools.combinations(LINKS, 2))


def test_the_nearest_links_are_named(guard):
    assert guard.nearest(np.zeros(7)).first == 'base_link'
    distance, first, second = guard.nearest(FOLDED)
    assert distance < MARGIN
    assert {first, second} <= set(LINKS)


def drive(guard, start, goal, steps=700):
    """Follow the guard's permission towards a goal; return distances and commands."""
    follower = Tracker(PA10, q=start)
    found = [guard.distance(start)]
    for _ in range(steps):
        follower.track(goal, allow=lambda q, b: guard.allows(follower.q, q, b))
        found.append(guard.distance(follower.q))
    return np.array(found), follower


def test_an_arm_on_its_way_into_itself_comes_to_rest_before_it(guard, postures, distances):
    start = np.zeros(7)
    for goal in postures[distances < 0][:6]:
        found, follower = drive(guard, start, goal, 500)
        # Between the postures that are looked at a little of the margin may be used.
        assert found.min() > 0.8 * MARGIN
        assert np.abs(follower.q - goal).max() > 0.01


def test_an_arm_too_near_to_itself_may_leave(guard):
    assert guard.distance(FOLDED) < MARGIN
    found, follower = drive(guard, FOLDED, np.zeros(7))
    assert found.min() >= found[0] - 1e-4
    np.testing.assert_allclose(follower.q, 0.0, atol=1e-5)


def test_an_arm_too_near_to_itself_may_not_go_on(guard):
    further = FOLDED + np.array([0, 0, 0, 0.04, 0, 0.3, 0])
    assert guard.distance(further) < guard.distance(FOLDED) < MARGIN
    still = Braking.from_state(further, *np.zeros((2, 7)), np.ones(7), np.ones(7))
    assert not guard.allows(FOLDED, further, still)


def test_a_line_into_the_arm_is_not_clear_and_one_out_of_it_is(guard):
    assert guard.clear_line(np.zeros(7), np.full(7, 0.5))
    assert not guard.clear_line(np.zeros(7), FOLDED)
    assert guard.clear_line(FOLDED, np.zeros(7))


def test_a_question_takes_far_less_than_a_period(guard, postures):
    for question, most in ((guard.safe, 1e-3), (guard.distance, 3e-3)):
        times = []
        for q in postures[:200]:
            began = time.perf_counter()
            question(q)
            times.append(time.perf_counter() - began)
        assert np.median(times) < most


def test_demonstrated_postures_are_all_allowed(guard):
    labels = Dataset.open(ROOT / 'data' / 'actor' / 'teach_A').labels
    assert len(labels) > 50
    assert all(guard.safe(q) for q in labels)


def test_one_moving_joint_of_many_is_enough():
    guard = SelfCollisionGuard(urdf(), joints=['e1'])
    assert guard.safe([0.5])


def test_an_arm_without_shapes_is_refused():
    root = ElementTree.fromstring(urdf())
    for link in root.findall('link'):
        for shape in link.findall('collision'):
            link.remove(shape)
    with pytest.raises(BadInput, match='no collision shapes'):
        SelfCollisionGuard(ElementTree.tostring(root, encoding='unicode'))


@pytest.mark.parametrize('margin', [-0.01, float('nan'), float('inf')])
def test_a_margin_that_is_no_distance_is_refused(margin):
    with pytest.raises(BadInput, match='margin'):
        SelfCollisionGuard(urdf(), margin)


@pytest.mark.parametrize('q', [np.zeros(6), np.full(7, np.nan)])
def test_what_is_no_posture_is_refused(guard, q):
    for question in (guard.safe, guard.distance, guard.nearest):
        with pytest.raises(BadInput, match='q'):
            question(q)
