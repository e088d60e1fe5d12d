"""The launch files name executables, files, parameters and topics that exist.

They are run with a stand-in for `launch`, so this holds where that is not installed;
`test_launch_*.py` beside it start them for real where it is.
"""

from __future__ import annotations

import configparser
import functools
import itertools
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import launch_stand_in
import pytest
import yaml
from catkin_pkg.package import parse_package
from conftest import PACKAGE, ROOT
from launch_stand_in import (
    FindPackageShare,
    ParameterValue,
    PathJoinSubstitution,
    Run,
    all_topics,
    topics_of,
)

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description

LAUNCH = ROOT / 'launch'
FILES = ('display', 'gazebo', 'imitation', 'teach')
TERN = str(ROOT / 'urdf/examples/tern.urdf')
TERN_XACRO = str(ROOT / 'urdf/examples/tern.urdf.xacro')
TERN_LIMITS = str(ROOT / 'config/tern/joint_limits.yaml')
TERN_CONTROLLERS = str(ROOT / 'config/tern/controllers.yaml')
TOPIC = '/camera/image_raw'
# Values of the arguments that have no list of choices.
TRIED = {
    'source': ['demo', '0', '/dev/video0', str(ROOT / 'clip'), TOPIC],
    'model': ['demo', 'somewhere/model.npz'],
    'namespace': ['', 'left'],
    'prefix': ['', 'left_'],
    'commands': ['', '/other/commands'],
    'postures': ['spread', 'guided'],
}


def console_scripts() -> set[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / 'setup.cfg')
    lines = settings['options.entry_points']['console_scripts'].split('\n')
    return {line.partition('=')[0].strip() for line in lines if line}


def skip_if_unwritten(name: str) -> None:
    if name == 'teach' and 'teach_node' not in console_scripts():
        pytest.skip('setup.cfg has no executable teach_node')


@pytest.fixture(autouse=True, scope='module')
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Expand each description once, and leave no files behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description, 'expand_xacro', expand_once)
        patch.setattr(tempfile, 'tempdir', str(tmp_path_factory.mktemp('launch')))
        yield


expand_once = functools.cache(description.expand_xacro)


def launch(name: str, **given: str) -> Run:
    return launch_stand_in.launch(LAUNCH / f'{name}.launch.py', **given)


def combinations(name: str) -> list[dict[str, str]]:
    """Return sets of values in which each two values of any two arguments meet."""
    declared = launch(name).arguments
    values = {key: one.choices or TRIED.get(key, []) for key, one in declared.items()}
    tried = {key: several for key, several in values.items() if several}
    rng = random.Random(0)
    found: list[dict[str, str]] = []
    for a, b in itertools.combinations(tried, 2):
        for x, y in itertools.product(tried[a], tried[b]):
            if not any(one[a] == x and one[b] == y for one in found):
                rest = {key: rng.choice(several) for key, several in tried.items()}
                found.append({**rest, a: x, b: y})
    return found


@pytest.fixture(params=FILES, scope='module')
def runs(request: pytest.FixtureRequest) -> list[Run]:
    """Every launch file with its choices in combinations."""
    skip_if_unwritten(request.param)
    return [launch(request.param, **given) for given in combinations(request.param)]


# --- what they name --------------------------------------------------------------------------


def test_every_launch_file_is_looked_at() -> None:
    found = {path.name.removesuffix('.launch.py') for path in LAUNCH.iterdir() if path.is_file()}
    assert found == set(FILES)


@pytest.mark.parametrize('name', FILES)
def test_every_argument_says_what_it_is_for(name: str) -> None:
    skip_if_unwritten(name)
    declared = launch(name).arguments
    assert {'prefix', 'mount', 'namespace', 'urdf'} <= set(declared)
    for argument in declared.values():
        assert re.fullmatch(r'[A-Z].{15,}\.', argument.description), argument.name
        assert argument.choices is None or argument.default_value in argument.choices


def test_the_main_launch_file_has_the_arguments_that_the_manual_promises() -> None:
    declared = launch('imitation').arguments
    assert declared['arm'].choices == ['mujoco', 'gazebo', 'real']
    assert {'source', 'model', 'rviz', 'namespace', 'prefix', 'record'} <= set(declared)
    page = (ROOT / 'docs/launch.md').read_text()
    for name in FILES:
        section = re.split(r'^## ', page, flags=re.MULTILINE)
        (text,) = [part for part in section if part.startswith(f'{name}.launch.py')]
        shown = set(re.findall(r'^\| `(\w+)` \|', text, flags=re.MULTILINE))
        if name != 'teach' or 'teach_node' in console_scripts():
            assert shown == set(launch(name).arguments), name


def test_every_executable_exists(runs: list[Run]) -> None:
    scripts = console_scripts()
    needed = {each.name for each in parse_package(str(ROOT / 'package.xml')).exec_depends}
    for node in itertools.chain(*(run.nodes for run in runs)):
        if node.package == PACKAGE:
            assert node.executable in scripts
            assert node.name == node.executable
        else:
            assert node.package in needed


def node_classes() -> dict[str, Any]:
    pytest.importorskip('rclpy', reason='ROS 2 is not installed; the extra "ros" brings it')
    from kde_imitation.nodes.reference import classes

    return dict(classes())


def plain(value: Any) -> Any:
    """Return what a node would get."""
    if isinstance(value, ParameterValue):
        assert value.value_type is str
        return str(value.value)
    return value


def test_every_parameter_is_one_that_the_node_takes(runs: list[Run]) -> None:
    known = node_classes()
    ours = [node for run in runs for node in run.nodes if node.package == PACKAGE]
    for node in ours:
        declared = {each.name: each for each in known[node.executable].PARAMETERS}
        defaults, given = node.parameters
        (table,) = yaml.safe_load(Path(defaults).read_text()).items()
        assert table[0] == f'/**/{node.executable}'
        values = {**table[1]['ros__parameters'], **given}
        assert set(values) == set(declared)
        for key, value in values.items():
            declared[key].check(plain(value))


def test_every_remapping_names_a_topic_of_the_node(runs: list[Run]) -> None:
    for node in (node for run in runs for node in run.nodes):
        if node.package == PACKAGE:
            own = topics_of(ROOT / PACKAGE / 'nodes' / f'{node.executable}.py')
            assert {old for old, _ in node.remappings} <= own
            assert all(new and new != old for old, new in node.remappings)


# --- what they do ----------------------------------------------------------------------------


def test_a_node_that_ends_is_started_again_and_takes_no_other_with_it(runs: list[Run]) -> None:
    lasting = {*console_scripts(), 'robot_state_publisher', 'parameter_bridge'}
    for node in (node for run in runs for node in run.nodes):
        if node.executable in lasting:
            assert node.respawn
            assert node.respawn_delay is not None
            assert 0 < node.respawn_delay <= 2
        else:
            assert not node.respawn, 'a window that was closed stays closed'


PIPELINE = ['camera_node', 'pose_feature_node', 'kde_regression_node', 'preimage_node']


@pytest.mark.parametrize(
    ('arm', 'started'),
    [
        ('mujoco', ['arm_controller_node', 'arm_sim_node', 'robot_state_publisher', 'rviz2']),
        ('real', ['arm_controller_node', 'rviz2']),
    ],
)
def test_the_arm_decides_what_is_started(arm: str, started: list[str]) -> None:
    run = launch('imitation', arm=arm)
    assert run.executables == [*PIPELINE, *started]
    assert run.included == []
    assert not any(run.common)


def test_in_gazebo_the_controllers_come_in_order_and_all_take_its_time() -> None:
    run = launch('imitation', arm='gazebo', namespace='left', rviz='false')
    gazebo = ['parameter_bridge', 'robot_state_publisher', 'create', 'spawner', 'spawner']
    assert run.executables == [*gazebo, *PIPELINE, 'arm_controller_node']
    spawned = [node.arguments[0] for node in run.nodes if node.executable == 'spawner']
    assert spawned == ['joint_state_broadcaster', 'position_controller']
    assert run.spaces == ['/left'] * len(run.nodes)
    assert run.common == [{'use_sim_time': True}] * len(run.nodes)
    ((place, arguments),) = run.included
    assert place == PathJoinSubstitution(
        [FindPackageShare('ros_gz_sim'), 'launch', 'gz_sim.launch.py']
    )
    assert arguments == {'gz_args': f'-r {ROOT / "worlds/imitation.sdf"}'}


def test_without_a_window_gazebo_is_a_server_alone() -> None:
    ((_, arguments),) = launch('gazebo', gui='false', world='my world.sdf').included
    assert arguments == {'gz_args': "-r -s 'my world.sdf'"}


def test_an_arm_that_gazebo_refuses_gets_no_controllers_but_a_sentence() -> None:
    run = launch('gazebo', returncode=1)
    assert 'spawner' not in run.executables
    assert run.messages == ['The arm could not be put into Gazebo, so it has no controllers.']


def test_trajectories_go_to_their_own_controller() -> None:
    run = launch('imitation', arm='gazebo', interface='trajectory')
    spawned = [node.arguments[0] for node in run.nodes if node.executable == 'spawner']
    assert spawned == ['joint_state_broadcaster', 'joint_trajectory_controller']
    _, given = run.named('arm_controller_node').parameters
    assert given['command_interface'] == 'trajectory'


def description_of(run: Run) -> ElementTree.Element:
    (parameters,) = run.named('robot_state_publisher').parameters
    return ElementTree.fromstring(parameters['robot_description'].value)


def test_the_description_in_gazebo_names_controllers_of_its_own_joints() -> None:
    root = description_of(launch('gazebo', prefix='left_', namespace='left'))
    plugin = root.find('gazebo/plugin')
    assert plugin is not None
    assert plugin.findtext('ros/namespace') == 'left'
    table = yaml.safe_load(Path(plugin.findtext('parameters', '')).read_text())
    moving = [one.get('name') for one in root.findall('joint') if one.get('type') == 'revolute']
    for name in ('position_controller', 'joint_trajectory_controller'):
        assert table[f'/**/{name}']['ros__parameters']['joints'] == moving
        assert name in table['/**/controller_manager']['ros__parameters']


@pytest.mark.parametrize('name', ['display', 'imitation'])
def test_the_described_arm_is_the_one_that_was_asked_for(name: str) -> None:
    root = description_of(launch(name, prefix='x_', lengths='A', mount='wall'))
    expected = description.urdf(prefix='x_', lengths='A', mount='wall')
    assert ElementTree.canonicalize(expected) == ElementTree.canonicalize(
        ElementTree.tostring(root, encoding='unicode')
    )


def test_without_sliders_the_joints_stay() -> None:
    assert 'joint_state_publisher_gui' in launch('display').executables
    run = launch('display', gui='false', rviz='false')
    assert run.executables == ['robot_state_publisher', 'joint_state_publisher']


@pytest.mark.parametrize(
    ('arm', 'enable', 'enabled'),
    [
        *(('mujoco', 'auto', True), ('gazebo', 'auto', True), ('real', 'auto', False)),
        *(('real', 'true', True), ('mujoco', 'false', False)),
    ],
)
def test_a_real_arm_waits_until_it_is_enabled(arm: str, enable: str, enabled: bool) -> None:
    run = launch('imitation', arm=arm, enable=enable)
    assert run.named('arm_controller_node').parameters[1]['enable_at_start'] is enabled


@pytest.mark.parametrize(
    ('arm', 'keep', 'kept'),
    [
        *(('mujoco', 'auto', False), ('gazebo', 'auto', False), ('real', 'auto', True)),
        *(('real', 'false', False), ('mujoco', 'true', True)),
    ],
)
def test_a_real_arm_is_kept_off_its_mount(arm: str, keep: str, kept: bool) -> None:
    run = launch('imitation', arm=arm, keep_off_mount=keep)
    assert run.named('arm_controller_node').parameters[1]['keep_off_mount'] is kept


@pytest.mark.parametrize('name', ['imitation', 'teach'])
def test_the_web_page_is_served_where_it_is_asked_for(name: str) -> None:
    assert 'viewer_node' not in launch(name).executables
    run = launch(name, viewer='true', viewer_port='9090', prefix='left_', source=TOPIC)
    viewer = run.named('viewer_node')
    assert viewer.parameters[1]['port'] == 9090
    assert viewer.parameters[1]['prefix'] == ParameterValue('left_', str)
    assert viewer.remappings == [('image_raw', TOPIC)]


@pytest.mark.parametrize('source', ['demo', '0', '/dev/video0', 'rtsp://camera/1', 'no such.mp4'])
def test_what_the_camera_node_can_open_is_handed_to_it_as_text(source: str) -> None:
    run = launch('imitation', source=source)
    assert run.named('camera_node').parameters[1]['source'] == ParameterValue(source, str)
    assert run.named('pose_feature_node').remappings == []


def test_a_folder_is_no_topic(tmp_path: Path) -> None:
    run = launch('imitation', source=str(tmp_path))
    assert 'camera_node' in run.executables


def test_pictures_may_come_from_a_topic(tmp_path: Path) -> None:
    run = launch('imitation', source=TOPIC, namespace='left', record=str(tmp_path / 'bag'))
    assert 'camera_node' not in run.executables
    assert run.named('pose_feature_node').remappings == [('image_raw', TOPIC)]
    assert ('/image_raw', TOPIC) in run.named('rviz2').remappings
    (command,) = run.processes
    assert TOPIC in command
    assert '/left/image_raw' not in command


def test_commands_can_go_to_a_topic_of_your_own() -> None:
    run = launch('imitation', arm='real', commands='/cell/forward/commands')
    remappings = run.named('arm_controller_node').remappings
    assert remappings == [('position_controller/commands', '/cell/forward/commands')]


def test_a_file_of_parameters_goes_last(tmp_path: Path) -> None:
    file = tmp_path / 'mine.yaml'
    file.write_text('/**/arm_controller_node: {ros__parameters: {speed_scale: 0.3}}')
    run = launch('imitation', params=str(file))
    assert run.named('arm_controller_node').parameters[-1] == str(file)


def test_the_recording_holds_topics_that_exist(tmp_path: Path) -> None:
    run = launch('imitation', record=str(tmp_path / 'bag'), namespace='left')
    ((*command, topics),) = [[*words[:6], words[6:]] for words in run.processes]
    folder = str(tmp_path / 'bag')
    assert command == ['ros2', 'bag', 'record', '--output', folder, '--topics']
    inside = {topic.removeprefix('/left/') for topic in topics if topic.startswith('/left/')}
    assert inside <= all_topics()
    assert set(topics) - {f'/left/{topic}' for topic in inside} == {
        *('/diagnostics', '/tf', '/tf_static')
    }
    assert '/left/position_controller/commands' in topics
    clock = launch('imitation', arm='gazebo', record=str(tmp_path / 'bag')).processes[0]
    assert '/clock' in clock
    assert '/joint_states' in clock
    assert launch('imitation').processes == []


@pytest.mark.parametrize(
    ('name', 'given', 'sentence'),
    [
        ('imitation', {'urdf': '/no/arm.urdf'}, "urdf is '/no/arm.urdf', but there is no such"),
        ('imitation', {'limits': 'none.yaml'}, "limits is 'none.yaml', but there is no such file"),
        ('imitation', {'params': 'none.yaml'}, "params is 'none.yaml', but there is no such file"),
        (
            *('imitation', {'viewer': 'true', 'viewer_port': 'high'}),
            "viewer_port is 'high', but must be a number",
        ),
        ('imitation', {'record': str(ROOT)}, 'which is there already; name a new folder'),
        ('display', {'prefix': 'a b'}, "prefix is 'a b'; use letters"),
        ('gazebo', {'urdf': TERN_XACRO}, 'give the YAML file of its controllers'),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(
    name: str, given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadInput) as caught:
        launch(name, **given)
    assert sentence in str(caught.value)


# --- another arm -----------------------------------------------------------------------------


@pytest.mark.parametrize('urdf', [TERN, TERN_XACRO], ids=['urdf', 'xacro'])
def test_another_arm_reaches_every_node_that_needs_it(urdf: str) -> None:
    run = launch('imitation', urdf=urdf, tip='tool0', limits=TERN_LIMITS)
    for name in ('preimage_node', 'arm_controller_node', 'arm_sim_node'):
        given = run.named(name).parameters[1]
        assert given['urdf'] == ParameterValue(urdf, str)
        assert given['tip'] == ParameterValue('tool0', str)
    controller = run.named('arm_controller_node').parameters[1]
    assert controller['limits'] == ParameterValue(TERN_LIMITS, str)
    assert description_of(run).get('name') == 'tern'


def test_another_arm_comes_into_gazebo_with_its_controllers() -> None:
    run = launch('imitation', arm='gazebo', urdf=TERN_XACRO, controllers=TERN_CONTROLLERS)
    plugin = description_of(run).find('gazebo/plugin')
    assert plugin is not None
    assert plugin.findtext('parameters') == TERN_CONTROLLERS


# --- teaching --------------------------------------------------------------------------------


def test_an_arm_that_is_guided_by_hand_is_not_enabled() -> None:
    skip_if_unwritten('teach')
    enabled = {
        postures: launch('teach', postures=postures)
        .named('arm_controller_node')
        .parameters[1]['enable_at_start']
        for postures in ('spread', 'guided')
    }
    assert enabled == {'spread': True, 'guided': False}
