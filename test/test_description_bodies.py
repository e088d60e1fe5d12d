"""The bodies of the PA-10's links: they touch only where the real arm would touch itself."""

import itertools

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from pa10_facts import POSITION

from kde_imitation.kinematics.description import urdf


def touching_by_coal(lengths, postures):
    """Pairs of links whose bodies overlap in some posture, neighbours included."""
    text = urdf(lengths=lengths)
    model = pin.buildModelFromXML(text)
    shapes = pin.buildGeomFromUrdfString(model, text, pin.COLLISION)
    shapes.addAllCollisionPairs()
    data, geometry = model.createData(), shapes.createData()
    pairs = set()
    for q in postures:
        pin.computeCollisions(model, data, shapes, geometry, q, False)
        for pair, result in zip(shapes.collisionPairs, geometry.collisionResults, strict=True):
            if result.isCollision():
                names = [shapes.geometryObjects[i].name for i in (pair.first, pair.second)]
                pairs.add(tuple(names))
    return pairs


def touching_by_mujoco(lengths, postures):
    model = mujoco.MjModel.from_xml_string(urdf(lengths=lengths))
    data = mujoco.MjData(model)
    pairs = set()
    for q in postures:
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        pairs |= {
            tuple(model.body(model.geom_bodyid[geom]).name for geom in (c.geom1, c.geom2))
            for c in data.contact
            if c.dist < 0
        }
    return pairs


def sweeps():
    """Each joint alone through its whole range, the others at zero."""
    for joint, degrees in enumerate(POSITION):
        for angle in np.radians(np.linspace(-degrees, degrees, 25)):
            q = np.zeros(7)
            q[joint] = angle
            yield q


ORDINARY = np.radians(
    [
        [0, 45, 0, 90, 0, 45, 0],
        [30, -40, 50, 110, 0, -50, 0],
        [-90, 60, -90, 60, 120, 90, -120],
        [0, 90, 0, -90, 0, 90, 0],
        [170, -80, 20, 120, -200, -150, 200],
    ]
)


@pytest.mark.parametrize('lengths', ['A', 'B'])
@pytest.mark.parametrize('touching', [touching_by_coal, touching_by_mujoco])
def test_no_two_links_touch_at_zero_nor_in_ordinary_postures(touching, lengths):
    assert touching(lengths, [np.zeros(7), *ORDINARY]) == set()


@pytest.mark.parametrize('lengths', ['A', 'B'])
def test_every_joint_reaches_its_limits_without_its_links_touching(lengths):
    assert touching_by_coal(lengths, sweeps()) == set()


@pytest.mark.parametrize('touching', [touching_by_coal, touching_by_mujoco])
def test_a_folded_arm_does_touch_itself(touching):
    folded = np.radians([0, 91, 0, 137, 0, 0, 0])
    assert touching('B', [folded]) != set()


def test_no_link_reaches_past_its_neighbours_joints():
    """At zero every body lies between the joint behind its own and the next one's housing."""
    model = pin.buildModelFromXML(urdf())
    shapes = pin.buildGeomFromUrdfString(model, urdf(), pin.COLLISION)
    data = model.createData()
    shoulder, elbow, wrist, flange = 0.315, 0.765, 1.265, 1.345
    span = {
        'base_link': (0.0, shoulder),
        'link1': (0.0, shoulder + 0.07),
        'link2': (shoulder - 0.07, elbow),
        'link3': (shoulder, elbow + 0.07),
        'link4': (elbow - 0.07, wrist),
        'link5': (elbow, wrist + 0.07),
        'link6': (wrist - 0.07, flange),
        'link7': (wrist, flange),
    }
    placements = shapes.createData()
    pin.updateGeometryPlacements(model, data, shapes, placements, np.zeros(7))
    for shape, placement in zip(shapes.geometryObjects, placements.oMg, strict=True):
        shape.geometry.computeLocalAABB()
        box = shape.geometry.aabb_local
        corners = np.array(list(itertools.product(*zip(box.min_, box.max_, strict=True))))
        heights = (corners @ placement.rotation.T + placement.translation)[:, 2]
        low, high = span[shape.name.rsplit('_', 1)[0]]
        assert low - 1e-9 <= heights.min(), shape.name
        assert heights.max() <= high + 1e-9, shape.name
