"""The PA-10's description: the xacro files, their arguments, and what they expand to."""

import itertools
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest
import xacro
from conftest import ROOT
from pa10_facts import CONFIG, LINKS, NAMES, POSITION, TORQUE, VELOCITY, robot

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.description import urdf
from kde_imitation.resources import share_file, share_folder

TOP = share_file('urdf', 'pa10.urdf.xacro')
PLUGINS = {
    'mock': 'mock_components/GenericSystem',
    'gazebo': 'gz_ros2_control/GazeboSimSystem',
    'mujoco': 'mujoco_ros2_control/MujocoSystemInterface',
    'pa10_hardware/Pa10System': 'pa10_hardware/Pa10System',
}


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


def test_the_documentation_names_every_argument_of_the_xacro():
    text = (ROOT / 'docs' / 'pa10.md').read_text()
    for arg in ElementTree.parse(TOP).getroot():
        if arg.tag == '{http://www.ros.org/wiki/xacro}arg':
            assert f'`{arg.get("name")}`' in text
