"""The guard keeps the links off what the arm is mounted on, and loses nothing by boxes."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT
from control_bench import Bench
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control import SelfCollisionGuard, State, Tracker
from kde_imitation.control.collision import MountingPlane
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import LINKS, joint_limits, urdf

PA10 = joint_limits()
MARGIN = 0.02
WALL = 'the mounting wall'
TEXT = urdf(mount='wall')
TERN = ROOT / 'urdf' / 'examples' / 'tern.urdf'
# The forearm lies along the wall, and bends into it.
ALONG, INTO = np.radians([[0, 88, 0, 0, 0, 0, 0], [4, 88, -14, 53, 0, 0, 0]])


class Plain(SelfCollisionGuard):
    """A guard that measures every pair of shapes."""

    def _safe(self, posture):
        return self.distance(posture) > self.margin


@pytest.fixture(scope='module')
def guard():
    return SelfCollisionGuard(TEXT, MARGIN, keep_off_mount=True)


@pytest.fixture(scope='module')
def plain():
    return Plain(TEXT, MARGIN, keep_off_mount=True)


def numbers(element, name, default):
    return np.array([float(one) for one in element.get(name, default).split()])


def turned(roll, pitch, yaw):
    """The rotation of a URDF's rpy."""
    rotation = np.eye(3)
    for axis, angle in ((2, yaw), (1, pitch), (0, roll)):
        c, s = np.cos(angle), np.sin(angle)
        a, b = [(1, 2), (2, 0), (0, 1)][axis]
        one = np.eye(3)
        one[a, a] = one[b, b] = c
        one[b, a], one[a, b] = s, -s
        rotation = rotation @ one
    return rotation


def heights(postures):
    """How far the lowest point of each moving link is above the base's plane, in closed form."""
    root = ElementTree.fromstring(TEXT)
    shapes = {link.get('name'): link.findall('collision') for link in root.findall('link')}
    found = []
    for count, link in enumerate(LINKS[1:], start=1):
        poses = Chain.from_urdf(TEXT, tip=link).pose(postures[:, :count])
        lowest = []
        for shape in shapes[link]:
            origin = shape.find('origin')
            if origin is None:
                origin = ElementTree.Element('origin')
            centre = poses[:, :3, :3] @ numbers(origin, 'xyz', '0 0 0') + poses[:, :3, 3]
            axes = (poses[:, :3, :3] @ turned(*numbers(origin, 'rpy', '0 0 0')))[:, 2]
            (geometry,) = shape.find('geometry')
            if geometry.tag == 'cylinder':
                radius, length = (float(geometry.get(name)) for name in ('radius', 'length'))
                along = np.abs(axes[:, 2])
                depth = length / 2 * along + radius * np.sqrt(1 - np.minimum(along, 1) ** 2)
            else:
                assert geometry.tag == 'box'
                depth = np.abs(axes) @ numbers(geometry, 'size', '') / 2
            lowest.append(centre[:, 2] - depth)
        found.append(np.min(lowest, axis=0))
    return np.min(found, axis=0)


# --- the plane -------------------------------------------------------------------------------


def test_the_distance_to_the_plane_is_that_of_the_lowest_point(guard):
    postures = np.random.default_rng(0).uniform(PA10.lower, PA10.upper, (1500, 7))
    expected = heights(postures)
    found = [guard.nearest(q) for q in postures]
    near = np.array([one.second == WALL for one in found])
    assert near.sum() > 20
    assert (expected[near] < 0).any()
    assert (expected[near] > 0).any()
    distances = np.array([one.distance for one in found])
    np.testing.assert_allclose(distances[near], expected[near], atol=1e-5)
    # What is nearest otherwise is nearer than the wall.
    assert (distances[~near] <= expected[~near] + 1e-5).all()


def test_without_it_nothing_is_known_of_the_plane():
    guard = SelfCollisionGuard(TEXT, MARGIN)
    assert guard.mount is None
    assert guard.safe(INTO)
    assert WALL not in np.ravel(guard.checked)


def test_a_posture_behind_the_plane_is_refused_by_name(guard):
    assert not guard.safe(INTO)
    near = guard.nearest(INTO)
    assert near.distance < 0
    assert near.first in LINKS
    assert near.second == WALL == guard.mount.name


def test_links_that_are_always_near_the_plane_are_left_out(guard):
    seen = [first for first, second in guard.checked if second == WALL]
    assert seen == [link for link in LINKS if link != 'base_link']
    # The first link turns about the plane's normal, 0.2 m above it.
    wide = SelfCollisionGuard(TEXT, 0.21, keep_off_mount=True)
    assert ('link1', WALL) in wide.left_out
    assert ('link7', WALL) in wide.checked


def test_the_plane_changes_nothing_between_links(guard):
    without = SelfCollisionGuard(TEXT, MARGIN)
    assert [pair for pair in guard.checked if WALL not in pair] == list(without.checked)
    assert guard.left_out == without.left_out


@pytest.mark.parametrize(
    ('text', 'name'),
    [
        (urdf(mount='floor'), 'the mounting floor'),
        (TEXT, WALL),
        (TERN.read_text(), 'the mounting floor'),
        (
            TERN.read_text().replace(
                '<child link="stand"/>\n    <origin xyz="0 0 0"/>',
                '<child link="stand"/>\n    <origin xyz="0 0 0" rpy="3.1 0 0"/>',
            ),
            'the mounting ceiling',
        ),
    ],
    ids=['floor', 'wall', 'tern', 'ceiling'],
)
def test_the_plane_is_called_what_it_is(text, name):
    plane = MountingPlane.of(Chain.from_urdf(text))
    assert plane.name == name


def test_the_plane_turns_with_the_base(guard):
    floor = SelfCollisionGuard(urdf(mount='floor'), MARGIN, keep_off_mount=True)
    for q in np.random.default_rng(1).uniform(PA10.lower, PA10.upper, (200, 7)):
        assert floor.distance(q) == pytest.approx(guard.distance(q), abs=1e-5)


# --- movements -------------------------------------------------------------------------------


def drive(guard, start, goal, steps):
    follower = Tracker(PA10, q=start)
    found = [guard.distance(start)]
    for _ in range(steps):
        follower.track(goal, allow=lambda q, b: guard.allows(follower.q, q, b))
        found.append(guard.distance(follower.q))
    return np.array(found), follower


def test_an_arm_on_its_way_into_the_wall_comes_to_rest_before_it(guard):
    found, follower = drive(guard, ALONG, INTO, 300)
    # Between the postures that are looked at a little of the margin may be used.
    assert found.min() > 0.8 * MARGIN
    assert follower.at_rest
    assert np.abs(follower.q - INTO).max() > 0.1


def test_an_arm_behind_the_plane_may_leave(guard):
    found, follower = drive(guard, INTO, np.zeros(7), 700)
    assert found[0] < 0
    assert found.min() >= found[0] - 1e-4
    np.testing.assert_allclose(follower.q, 0.0, atol=1e-5)


def test_a_line_into_the_wall_is_not_clear_and_one_out_of_it_is(guard):
    assert not guard.clear_line(ALONG, INTO)
    assert guard.clear_line(INTO, ALONG)


def test_the_controller_says_that_the_wall_is_in_the_way(guard):
    bench = Bench(q=ALONG, guard=guard)
    bench.goal = INTO
    bench.run(0.3)
    assert bench.controller.enable(True).ok
    bench.run(0.5)
    assert bench.controller.state is State.HOLDING
    assert re.search(
        r'in it links link\d and the mounting wall are -\d+ mm apart', bench.controller.reason
    )
    np.testing.assert_array_equal(bench.q, ALONG)


# --- bounding boxes --------------------------------------------------------------------------


def folded(rng):
    """A posture anywhere, or one in which links are near to each other or to the wall."""
    q = rng.uniform(PA10.lower, PA10.upper)
    if rng.random() < 0.7:
        q[1] = rng.uniform(1.2, 1.58) * rng.choice([-1, 1])
        q[2] = rng.uniform(-0.4, 0.4)
        q[3] = np.sign(q[1]) * rng.uniform(0.5, 2.39)
    return q


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_boxes_hide_no_pair_that_is_too_near(guard, seed):
    q = folded(np.random.default_rng(seed))
    distance = guard.distance(q)
    if abs(distance - MARGIN) > 1e-5:
        assert guard.safe(q) == (distance > MARGIN)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_every_step_of_a_movement_is_judged_as_by_measuring_all_pairs(guard, plain, seed):
    rng = np.random.default_rng(seed)
    follower = Tracker(PA10, q=folded(rng))
    answers = []

    def allow(q, braking):
        answers.append(guard.allows(follower.q, q, braking))
        assert answers[-1] == plain.allows(follower.q, q, braking)
        return answers[-1]

    for _ in range(3):
        goal = folded(rng)
        for _ in range(25):
            follower.track(goal, allow=allow)
    assert answers


def test_movements_are_refused_as_well_as_allowed(guard):
    """The comparison above is of both answers."""
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(20):
        follower = Tracker(PA10, q=folded(rng))
        goal = folded(rng)

        def allow(q, braking, follower=follower):
            answers.append(guard.allows(follower.q, q, braking))
            return answers[-1]

        for _ in range(40):
            follower.track(goal, allow=allow)
    assert 0.02 < np.mean(answers) < 0.98


FLAT = '<box size="0.3 0.3 0"/>'


def with_hand(geometry):
    """The PA-10 with another shape for its hand."""
    root = ElementTree.fromstring(TEXT)
    (hand,) = [link for link in root.findall('link') if link.get('name') == 'link7']
    shapes = hand.findall('collision')
    for shape in shapes[1:]:
        hand.remove(shape)
    place = shapes[0].find('geometry')
    for old in list(place):
        place.remove(old)
    place.append(ElementTree.fromstring(geometry))
    return ElementTree.tostring(root, encoding='unicode')


def tetrahedron(file):
    """Write a mesh of four triangles."""
    corners = np.array([[0, 0, 0], [0.2, 0, 0], [0, 0.2, 0], [0, 0, 0.2]])
    lines = ['solid t']
    for face in ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)):
        lines += ['facet normal 0 0 0', 'outer loop']
        lines += ['vertex {} {} {}'.format(*corners[i]) for i in face]
        lines += ['endloop', 'endfacet']
    file.write_text('\n'.join([*lines, 'endsolid t', '']))


@pytest.mark.parametrize('kind', ['flat', 'mesh'])
def test_flat_shapes_and_meshes_are_seen_like_others(kind, tmp_path):
    tetrahedron(tmp_path / 'hand.stl')
    shape = FLAT if kind == 'flat' else f'<mesh filename="{tmp_path}/hand.stl"/>'
    guard = SelfCollisionGuard(with_hand(shape), MARGIN, keep_off_mount=True)
    rng = np.random.default_rng(4)
    postures = [folded(rng) for _ in range(600)]
    near = [guard.nearest(q) for q in postures]
    behind = [one.second == WALL and one.first == 'link7' for one in near]
    assert sum(behind) > 5
    clear = np.array([one.distance for one in near]) > MARGIN
    assert 0.02 < clear.mean() < 0.98
    np.testing.assert_array_equal([guard.safe(q) for q in postures], clear)
