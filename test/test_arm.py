"""An arm drawn at a known place is found there, and drawn arms tell how arms look."""

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from kde_imitation.errors import BadInput
from kde_imitation.vision.arm import ArmGeometry, arm_search, coverage
from kde_imitation.vision.body import SIDE

SHOULDER, LENGTHS = np.array([60.0, 45.0]), np.array([20.0, 22.0])
THICKNESS = 7


def drawn(arm, thickness=THICKNESS):
    """Evidence of an arm (3, 2), soft at its edge."""
    canvas = np.zeros((SIDE, SIDE), dtype=np.uint8)
    corners = np.rint(16 * arm).astype(np.int32).reshape(1, -1, 2)
    cv2.polylines(canvas, corners, False, 255, thickness, cv2.LINE_AA, shift=4)
    return cv2.GaussianBlur(canvas.astype(np.float32) / 255, (0, 0), 1.0)


def arms_at(rng, count, bends=(-110, 110)):
    """Arms at the shoulder with their bends in degrees, each part shortened by up to a third."""
    first = rng.uniform(0, 2 * np.pi, count)
    angles = np.stack([first, first + np.radians(rng.uniform(*bends, count))], axis=1)[..., None]
    parts = np.concatenate([np.cos(angles), np.sin(angles)], axis=2)
    parts = parts * (LENGTHS[:, None] * rng.uniform(0.67, 1.0, (count, 2, 1)))
    zero = np.zeros((count, 1, 2))
    return SHOULDER + np.concatenate([zero, np.cumsum(parts, axis=1)], axis=1)


@pytest.mark.parametrize('thickness', [3, 5, THICKNESS])
def test_a_drawn_arm_is_found_to_a_cell_and_its_thickness(thickness):
    rng = np.random.default_rng(0)
    search = arm_search(arms_at(rng, 4000), LENGTHS)
    # A straight arm is one line with its elbow anywhere.
    arms = [arm for arm in arms_at(rng, 100, (45, 100)) if arm.min() > 5 and arm.max() < 95]
    assert len(arms) > 50
    off = []
    for arm in arms:
        found, _ = search.find(drawn(arm, thickness))
        assert found[0].tolist() == SHOULDER.tolist()
        off.append(np.linalg.norm(found - arm, axis=1)[1:])
    # Longer is better as long as it is covered: up to the outer edge of the line.
    assert np.max(off) < 1.0 + thickness / 2
    assert np.median(off) < thickness / 2


def test_what_is_found_covers_at_least_as_much_as_the_truth():
    rng = np.random.default_rng(1)
    search = arm_search(arms_at(rng, 4000), LENGTHS)
    for arm in arms_at(rng, 30):
        evidence = drawn(arm)
        _, value = search.find(evidence)
        assert value >= 0.97 * coverage(evidence[None], arm[None])[0]


def test_the_coverage_of_a_full_map_is_half_the_length():
    arms = arms_at(np.random.default_rng(2), 20)
    arms = np.clip(arms, 1, SIDE - 2)
    lengths = np.linalg.norm(np.diff(arms, axis=1), axis=2).sum(axis=1)
    full = np.ones((20, SIDE, SIDE), dtype=np.float32)
    assert coverage(full, arms) == pytest.approx(lengths / 2, abs=1e-9)
    assert coverage(0 * full, arms) == pytest.approx(-lengths / 2, abs=1e-9)


def test_points_are_projected_along_the_view():
    geometry = ArmGeometry([10.0, 20.0], [5.0, 3.0], [[1, 0, 0], [0, 0, -1]])
    directions = np.array([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, -1, 0]]], dtype=float)
    points = geometry.project(directions)
    assert points[0].tolist() == [[10, 20], [15, 20], [15, 17]]
    # Towards the camera and back nothing is seen.
    assert points[1].tolist() == [[10, 20], [10, 20], [10, 20]]


@pytest.mark.parametrize('seed', [0, 1])
def test_shoulder_lengths_and_view_are_found_from_drawn_arms(seed):
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(60, 2, 3))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    view = Rotation.random(random_state=seed).as_matrix()[:2]
    true = ArmGeometry([55.0, 47.0], [18.0, 16.0], view)
    evidence = np.stack([drawn(arm) for arm in true.project(directions)])
    found = ArmGeometry.fit(evidence, directions)
    assert found.view @ found.view.T == pytest.approx(np.eye(2), abs=1e-9)
    assert found.shoulder == pytest.approx(true.shoulder, abs=1.0)
    # Both parts reach to the outer edge of the line.
    assert (found.lengths > true.lengths - 1.0).all()
    assert (found.lengths < true.lengths + 1.0 + THICKNESS / 2).all()
    assert (np.sum(found.view * true.view, axis=1) > np.cos(np.radians(3))).all()


def test_impossible_arms_are_refused():
    with pytest.raises(BadInput, match='lengths'):
        ArmGeometry([0, 0], [5, 0], np.eye(3)[:2])
    with pytest.raises(BadInput, match='arms to try'):
        arm_search(np.zeros((2, 3, 2)), LENGTHS)
    with pytest.raises(BadInput, match='directions'):
        ArmGeometry([0, 0], [5, 5], np.eye(3)[:2]).project(np.full((1, 2, 3), np.nan))
