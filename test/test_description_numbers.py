"""The numbers in config/pa10: limits, masses and inertias, each with its source."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import yaml
from pa10_facts import CONFIG, LINKS, MASSES, NAMES, robot

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.description import armature, joint_limits, urdf


def test_limits_in_python_are_those_of_the_urdf():
    limits = joint_limits('left_')
    assert limits.names == tuple('left_' + name for name in NAMES)
    model = pin.buildModelFromXML(urdf(prefix='left_'))
    np.testing.assert_allclose(limits.lower, model.lowerPositionLimit, atol=1e-15)
    np.testing.assert_allclose(limits.upper, model.upperPositionLimit, atol=1e-15)
    np.testing.assert_array_equal(limits.velocity, model.velocityLimit)
    np.testing.assert_array_equal(limits.effort, model.effortLimit)
    np.testing.assert_allclose(limits.acceleration * 3, [5, 5, 10, 10, 10, 10, 10])


def test_the_wider_limits_differ_in_s2_alone():
    ours, wider = joint_limits(), joint_limits(wider=True)
    np.testing.assert_allclose(
        np.degrees(wider.upper - ours.upper), [0, 3, 0, 0, 0, 0, 0], atol=1e-12
    )


def test_changing_the_limits_one_got_does_not_change_those_of_others():
    joint_limits().upper[0] = 99.0
    assert joint_limits().upper[0] == pytest.approx(np.radians(177))


def test_a_limit_missing_from_the_file_is_one_sentence(monkeypatch):
    broken = yaml.safe_load((CONFIG / 'joint_limits.yaml').read_text())
    del broken['velocity']['joints']['e1']
    monkeypatch.setattr(description, '_table', lambda file: broken)
    with pytest.raises(BadInput, match='must give velocity as a number for each of s1'):
        joint_limits()


def test_armature_is_that_of_a_fifty_to_one_gear():
    rotors = np.array([3.0e-4, 3.0e-4, 8.5e-5, 8.5e-5, 2.3e-6, 2.3e-6, 2.3e-6])
    np.testing.assert_allclose(armature(), 50**2 * rotors)


def uncited(node, sources, path):
    """List the numbers of which neither the mapping nor the one around it names a source."""
    if isinstance(node, dict):
        sources = [*sources, bool(str(node.get('source') or '').strip())]
        return [p for k, v in node.items() for p in uncited(v, sources, f'{path}.{k}')]
    if isinstance(node, list):
        return [p for i, v in enumerate(node) for p in uncited(v, sources, f'{path}[{i}]')]
    if isinstance(node, bool) or not isinstance(node, int | float):
        return []
    return [] if any(sources[-3:]) else [path]


def description_files():
    # controllers.yaml holds ROS parameters, not facts about the arm.
    return sorted(path for path in CONFIG.glob('*.yaml') if path.name != 'controllers.yaml')


@pytest.mark.parametrize('path', description_files(), ids=lambda path: path.name)
def test_every_number_has_a_source(path):
    assert uncited(yaml.safe_load(path.read_text()), [], path.name) == []


def test_a_number_without_a_source_is_found():
    table = {'a': {'source': 'x', 'joints': {'s1': 1.0}}, 'b': {'joints': {'s1': 2.0}}, 'c': 3}
    assert uncited(table, [], 'f') == ['f.b.joints.s1', 'f.c']
    assert uncited({'a': {'source': ' ', 'list': [1]}}, [], 'f') == ['f.a.list[0]']


def inertials(root):
    for link in root.findall('link'):
        inertial = link.find('inertial')
        if inertial is not None:
            i = {k: float(v) for k, v in inertial.find('inertia').attrib.items()}
            tensor = np.array(
                [
                    [i['ixx'], i['ixy'], i['ixz']],
                    [i['ixy'], i['iyy'], i['iyz']],
                    [i['ixz'], i['iyz'], i['izz']],
                ]
            )
            centre = [float(v) for v in inertial.find('origin').get('xyz').split()]
            yield link.get('name'), float(inertial.find('mass').get('value')), centre, tensor


def test_masses_are_the_manufacturers():
    masses = {name: mass for name, mass, _, _ in inertials(robot())}
    assert masses == dict(zip(LINKS, MASSES, strict=True))
    assert sum(masses.values()) == pytest.approx(34.21)


def test_centres_of_mass_lie_on_the_axis_where_published():
    above_base = {
        name: position + centre[2]
        for (name, _, centre, _), position in zip(
            inertials(robot()), [0, 0.315, 0.315, 0.765, 0.765, 1.265, 1.265, 1.345], strict=True
        )
        if centre[:2] == [0, 0]
    }
    published = [0.075, 0.377, 0.674, 0.810, 1.100, 1.235, 1.315]
    assert [above_base[name] for name in LINKS if name != 'link1'] == pytest.approx(published)


def test_inertias_are_possible():
    for name, mass, _, tensor in inertials(robot()):
        moments = np.linalg.eigvalsh(tensor)
        assert (moments > 0).all(), name
        assert moments[2] <= moments[0] + moments[1], name
        # No mass may be further from the axis than the link is long.
        assert moments[2] < mass * 0.25**2, name


@pytest.mark.parametrize('prefix', ['', 'left/arm_'])
@pytest.mark.parametrize('mount', ['floor', 'wall'])
def test_pinocchio_and_mujoco_load_the_same_arm(prefix, mount):
    text = urdf(prefix=prefix, mount=mount)
    ours = pin.buildModelFromXML(text)
    theirs = mujoco.MjModel.from_xml_string(text)
    names = [prefix + name for name in NAMES]
    assert list(ours.names)[1:] == names
    assert [theirs.joint(i).name for i in range(theirs.njnt)] == names
    np.testing.assert_allclose(theirs.jnt_range[:, 1], ours.upperPositionLimit)
    # MuJoCo merges the base into the world and drops its mass.
    moving_mass = sum(MASSES[1:])
    assert theirs.body_mass.sum() == pytest.approx(moving_mass)
    assert sum(inertia.mass for inertia in list(ours.inertias)[1:]) == pytest.approx(moving_mass)


def test_controllers_command_the_joints_of_the_arm():
    controllers = yaml.safe_load((CONFIG / 'controllers.yaml').read_text())
    declared = controllers['/**/controller_manager']['ros__parameters']
    assert declared['position_controller']['type'].endswith('/ForwardCommandController')
    for name in ('position_controller', 'joint_trajectory_controller'):
        assert controllers[f'/**/{name}']['ros__parameters']['joints'] == NAMES
