"""The PA-10's description: the xacro files, and the numbers in config/pa10."""

import itertools
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import xacro
import yaml

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.description import armature, joint_limits, urdf
from kde_imitation.resources import share_file, share_folder

CONFIG = share_file('config', 'pa10')
TOP = share_file('urdf', 'pa10.urdf.xacro')
NAMES = ['s1', 's2', 's3', 'e1', 'e2', 'w1', 'w2']
LINKS = ['base_link', 'link1', 'link2', 'link3', 'link4', 'link5', 'link6', 'link7']
PLUGINS = {
    'mock': 'mock_components/GenericSystem',
    'gazebo': 'gz_ros2_control/GazeboSimSystem',
    'mujoco': 'mujoco_ros2_control/MujocoSystemInterface',
    'pa10_hardware/Pa10System': 'pa10_hardware/Pa10System',
}
# From the table of public sources: degrees, rad/s, N·m.
POSITION = [177, 91, 174, 137, 255, 165, 255]
VELOCITY = [1, 1, 2, 2, 2, 2, 2]
TORQUE = [200, 200, 80, 80, 15, 15, 10]
MASSES = [3.04, 9.78, 8.41, 3.52, 4.31, 3.45, 1.46, 0.24]


def robot(**arguments):
    return ElementTree.fromstring(urdf(**arguments))


def moving(root):
    return [joint for joint in root.findall('joint') if joint.get('type') == 'revolute']


@pytest.mark.parametrize(
    ('prefix', 'lengths', 'mount', 'ros2_control', 'gazebo'),
    list(
        itertools.product(
            ['', 'left_'], 'AB', ['floor', 'wall'], ['none', *PLUGINS], [False, True]
        )
    ),
)
def test_every_combination_of_arguments_expands_to_the_same_arm(
    prefix, lengths, mount, ros2_control, gazebo
):
    root = robot(
        prefix=prefix, lengths=lengths, mount=mount, ros2_control=ros2_control, gazebo=gazebo
    )

    joints = moving(root)
    assert [joint.get('name') for joint in joints] == [prefix + name for name in NAMES]
    assert [joint.find('axis').get('xyz') for joint in joints] == [
        '0 0 1', '0 1 0', '0 0 1', '0 1 0', '0 0 1', '0 1 0', '0 0 1'
    ]  # fmt: skip
    limit = [{k: float(v) for k, v in joint.find('limit').attrib.items()} for joint in joints]
    np.testing.assert_allclose([each['upper'] for each in limit], np.radians(POSITION))
    np.testing.assert_allclose([each['lower'] for each in limit], -np.radians(POSITION))
    assert [each['velocity'] for each in limit] == VELOCITY
    assert [each['effort'] for each in limit] == TORQUE

    links = [link.get('name') for link in root.findall('link')]
    assert links == ['world'] + [prefix + name for name in [*LINKS, 'flange', 'tool0']]
    named = [*root.findall('joint'), *root.findall('material'), *root.iter('ros2_control')]
    assert all(element.get('name').startswith(prefix) for element in named)
    ends = {
        e.get('link') for j in root.findall('joint') for e in j if e.tag in ('parent', 'child')
    }
    assert ends == set(links)

    systems = root.findall('ros2_control')
    if ros2_control == 'none':
        assert systems == []
    else:
        (system,) = systems
        assert system.get('type') == 'system'
        assert system.findtext('hardware/plugin') == PLUGINS[ros2_control]
        controlled = system.findall('joint')
        assert [joint.get('name') for joint in controlled] == [prefix + name for name in NAMES]
        for joint, degrees in zip(controlled, POSITION, strict=True):
            (command,) = joint.findall('command_interface')
            assert command.get('name') == 'position'
            ends = {param.get('name'): float(param.text) for param in command}
            assert ends == pytest.approx({'min': -np.radians(degrees), 'max': np.radians(degrees)})
            states = [state.get('name') for state in joint.findall('state_interface')]
            assert (
                states == ['position', 'velocity', 'effort'][: 2 if ros2_control == 'mock' else 3]
            )

    blocks = root.findall('gazebo')
    plugins = [block.find('plugin') for block in blocks if block.find('plugin') is not None]
    assert len(plugins) == (gazebo and ros2_control == 'gazebo')
    for plugin in plugins:
        assert plugin.get('filename') == 'gz_ros2_control-system'
        assert plugin.get('name') == 'gz_ros2_control::GazeboSimROS2ControlPlugin'
        assert Path(plugin.findtext('parameters')).is_file()
    surfaces = [block.get('reference') for block in blocks if block.find('mu1') is not None]
    assert surfaces == ([prefix + link for link in LINKS] if gazebo else [])


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        ({'lengths': 'C'}, "lengths is 'C'; use A or B"),
        ({'lengths': ''}, "lengths is ''; use A or B"),
        ({'mount': 'ceiling'}, "mount is 'ceiling'; use floor or wall"),
        ({'mount': "wall'"}, 'use floor or wall'),
        ({'ros2_control': 'mok'}, "ros2_control is 'mok'; use none, mock, gazebo, mujoco or"),
        ({'prefix': 'left arm'}, "prefix is 'left arm'; use letters"),
        ({'prefix': '2'}, "prefix is '2'; use letters"),
        ({'prefix': 'a"><x/>'}, 'use letters'),
        ({'prefix': 'é'}, 'use letters'),
        ({'prefix': None}, 'prefix must be a string, not None'),
        ({'gazebo': 'true'}, "gazebo must be True or False, not 'true'"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_sentence(arguments, sentence):
    with pytest.raises(BadInput) as caught:
        urdf(**arguments)
    assert sentence in str(caught.value)


def test_an_expansion_after_a_refused_one_is_unharmed():
    with pytest.raises(BadInput):
        urdf(prefix='after_', lengths='Z')
    assert moving(robot(prefix='after_'))[0].get('name') == 'after_s1'


def run_xacro(*arguments, cwd):
    return subprocess.run(
        [sys.executable, '-c', 'import xacro; xacro.main()', *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


@pytest.mark.parametrize('relative', [False, True])
def test_the_command_line_tool_expands_the_same_text_from_any_folder(relative, tmp_path):
    arguments = ['prefix:=r_', 'mount:=wall', 'ros2_control:=mock', 'gazebo:=true']
    if relative:
        done = run_xacro('urdf/pa10.urdf.xacro', *arguments, cwd=share_folder())
    else:
        done = run_xacro(TOP, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ours = urdf(prefix='r_', mount='wall', ros2_control='mock', gazebo=True)
    theirs = ElementTree.canonicalize(done.stdout, strip_text=True)
    assert ElementTree.canonicalize(ours, strip_text=True) == theirs


def test_the_command_line_tool_says_what_is_wrong(tmp_path):
    done = run_xacro(TOP, 'lengths:=long', cwd=tmp_path)
    assert done.returncode != 0
    assert "lengths is 'long'; use A or B." in done.stderr
    assert run_xacro(TOP, 'gazebo:=maybe', cwd=tmp_path).stderr.count('use true or false') >= 1


def test_the_macro_puts_two_arms_into_one_robot(tmp_path):
    arm = """
      <xacro:pa10 prefix="{0}" parent="torso" lengths="{1}" config="{2}">
        <origin xyz="0 {3} 1" rpy="0 0 0"/>
      </xacro:pa10>"""
    cell = tmp_path / 'cell.urdf.xacro'
    cell.write_text(
        '<robot name="cell" xmlns:xacro="http://www.ros.org/wiki/xacro">'
        f'<xacro:include filename="{share_file("urdf", "pa10_macro.xacro")}"/>'
        '<link name="torso"/>'
        f'{arm.format("left_", "B", CONFIG, 0.3)}{arm.format("right_", "A", CONFIG, -0.3)}</robot>'
    )
    model = pin.buildModelFromXML(xacro.process_file(str(cell)).toxml())
    assert set(model.names) == {'universe'} | {s + n for s in ('left_', 'right_') for n in NAMES}
    data = model.createData()
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    for prefix, y, reach in (('left_', 0.3, 1.345), ('right_', -0.3, 0.317 + 0.45 + 0.48 + 0.07)):
        tip = data.oMf[model.getFrameId(prefix + 'tool0')].translation
        np.testing.assert_allclose(tip, [0, y, 1 + reach], atol=1e-12)


def test_a_mujoco_model_file_is_passed_on_to_its_plugin(tmp_path):
    done = run_xacro(TOP, 'ros2_control:=mujoco', 'mujoco_model:=/scene.xml', cwd=tmp_path)
    system = ElementTree.fromstring(done.stdout).find('ros2_control')
    assert system.findtext("hardware/param[@name='mujoco_model']") == '/scene.xml'
    assert robot(ros2_control='mujoco').find('ros2_control/hardware/param') is None


def test_a_namespace_reaches_the_controllers_inside_gazebo():
    arguments = {'ros2_control': 'gazebo', 'gazebo': 'true'}
    for namespace, expected in (('', None), ('left', 'left')):
        text = description.expand_xacro(TOP, namespace=namespace, **arguments)
        plugin = ElementTree.fromstring(text).find('gazebo/plugin')
        assert plugin.findtext('ros/namespace') == expected


def test_a_plain_urdf_expands_to_itself_and_a_broken_file_is_one_sentence(tmp_path):
    plain = share_file('urdf', 'examples', 'tern.urdf')
    same = ElementTree.canonicalize(description.expand_xacro(plain, prefix='x'), strip_text=True)
    assert same == ElementTree.canonicalize(plain.read_text(), strip_text=True)
    broken = tmp_path / 'broken.urdf'
    broken.write_text('<robot name="half">')
    with pytest.raises(BadInput, match=r'broken\.urdf'):
        description.expand_xacro(broken)


def test_the_arm_at_the_wall_sits_as_a_right_arm_of_someone_facing_along_x():
    model = pin.buildModelFromXML(urdf(mount='wall'))
    data = model.createData()
    pin.framesForwardKinematics(model, data, np.zeros(7))
    base = data.oMf[model.getFrameId('base_link')]
    right, down, front = [0, -1, 0], [0, 0, -1], [1, 0, 0]
    np.testing.assert_allclose(base.rotation, np.transpose([down, front, right]), atol=1e-12)
    q = np.zeros(7)
    q[1] = np.pi / 2
    pin.framesForwardKinematics(model, data, q)
    hand = data.oMf[model.getFrameId('tool0')].translation
    assert 0.1 < hand[2] < base.translation[2] - 1.0


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


def test_controllers_command_the_joints_of_the_arm():
    controllers = yaml.safe_load((CONFIG / 'controllers.yaml').read_text())
    declared = controllers['/**/controller_manager']['ros__parameters']
    assert declared['position_controller']['type'].endswith('/ForwardCommandController')
    for name in ('position_controller', 'joint_trajectory_controller'):
        assert controllers[f'/**/{name}']['ros__parameters']['joints'] == NAMES


def test_the_documentation_names_every_argument_of_the_xacro():
    page = Path(__file__).parents[1] / 'docs' / 'pa10.md'
    text = page.read_text()
    for arg in ElementTree.parse(TOP).getroot():
        if arg.tag == '{http://www.ros.org/wiki/xacro}arg':
            assert f'`{arg.get("name")}`' in text
