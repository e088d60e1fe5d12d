"""What the launch files share: their arguments, the nodes, the arm, RViz, a recording.

The launch files say which of these they start. Like all of ROS, `launch` is imported here and
there alone.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from launch.actions import (
    DeclareLaunchArgument,
    ExecuteProcess,
    GroupAction,
    IncludeLaunchDescription,
)
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node, PushRosNamespace, SetParameter
from launch_ros.parameter_descriptions import ParameterValue

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.description import expand_xacro
from kde_imitation.resources import share_file

__all__ = [
    'arguments',
    'arm_parameters',
    'controllers_file',
    'declared',
    'group',
    'node',
    'picture_topic',
    'pictures',
    'robot_description',
    'robot_state_publisher',
    'rviz',
    'stack',
    'text',
]

RESPAWN_DELAY = 1.0
"""A node that ended is started again after this many seconds."""

COMMANDS = {
    'position': 'position_controller/commands',
    'trajectory': 'joint_trajectory_controller/joint_trajectory',
}
"""Where commands go, for each kind of command."""

RECORDED = (
    *('camera_info', 'pose_features', 'pose_embedding', 'novelty', 'joint_path', 'joint_states'),
    *('robot_description', '/diagnostics', '/tf', '/tf_static'),
)
"""Topics of a recording, besides pictures and commands."""

SHOWN = (
    *('image_raw', 'markers', 'robot_description'),
    *('debug/silhouette', 'debug/skin', 'debug/overlay'),
)
"""Topics that the views for RViz name; these follow the namespace."""

_TOPIC = re.compile(r'(/[A-Za-z_][A-Za-z0-9_]*)+')


@dataclass(frozen=True)
class _Argument:
    default: str
    description: str
    choices: tuple[str, ...] = ()


_SWITCH = ('true', 'false')
_ARGUMENTS = {
    'arm': _Argument(
        'mujoco',
        "The arm that moves: 'mujoco' or 'gazebo' simulate it, 'real' takes the one that a "
        'running ros2_control already moves.',
        ('mujoco', 'gazebo', 'real'),
    ),
    'source': _Argument(
        'demo',
        "Where pictures come from: 'demo' (the bundled clip), the index or path of a camera, an "
        'address, a video, a folder of pictures, or a topic with its leading slash.',
    ),
    'model': _Argument(
        'demo', "File of the trained model; 'demo' is the one that comes with the package."
    ),
    'enable': _Argument(
        'auto',
        "Whether the arm may move at once; 'auto' says yes to simulated arms, while a real one "
        'waits for the service arm_controller_node/enable.',
        ('auto', *_SWITCH),
    ),
    'interface': _Argument(
        'position',
        "What the arm takes: a stream of positions, or a short 'trajectory' each period.",
        ('position', 'trajectory'),
    ),
    'commands': _Argument(
        '', "Topic of the arm's commands; empty for that of the controller with the usual name."
    ),
    'namespace': _Argument('', 'Namespace of all nodes and topics.'),
    'prefix': _Argument(
        '', 'Put before every link and joint name of the PA-10, for several arms in one scene.'
    ),
    'lengths': _Argument(
        'B', "Which of the two published sets of the PA-10's link lengths to use.", ('A', 'B')
    ),
    'mount': _Argument(
        'wall',
        "Where the PA-10's base is fixed: standing, or sideways as a right arm.",
        ('floor', 'wall'),
    ),
    'urdf': _Argument('', 'URDF or xacro file of another arm; empty for the PA-10.'),
    'tip': _Argument('', 'Last link of another arm, where it has more than one end.'),
    'limits': _Argument(
        '', 'YAML file with the accelerations of another arm; must be given with urdf.'
    ),
    'elbow': _Argument('', "Joint of another arm that is its elbow, for a teach-in's training."),
    'wrist': _Argument('', "Joint of another arm that is its wrist, for a teach-in's training."),
    'keep_off_mount': _Argument(
        'auto',
        "Whether the arm is kept off the wall or floor that it is mounted on; 'auto' says yes to "
        'a real arm, while simulated ones have no wall and may reach behind their base.',
        ('auto', *_SWITCH),
    ),
    'controllers': _Argument(
        '', 'Parameters of the controllers inside Gazebo; empty for those of the PA-10.'
    ),
    'params': _Argument(
        '', 'YAML file with parameters of the nodes; it goes before all other settings.'
    ),
    'rviz': _Argument('true', 'Show the arm in RViz.', _SWITCH),
    'viewer': _Argument('false', 'Serve a web page that shows what the nodes do.', _SWITCH),
    'viewer_port': _Argument('8080', 'Port of that page; the next free one if it is taken.'),
    'record': _Argument('', 'Folder for a recording of all topics; empty for none.'),
    'gui': _Argument(
        'true', "Open a window: sliders that move the joints, or Gazebo's own.", _SWITCH
    ),
    'world': _Argument('', 'World for Gazebo; empty for a floor under the sun.'),
    'output': _Argument('demonstrations', 'Folder of the data set; one that is there goes on.'),
    'postures': _Argument(
        'spread',
        "Which postures the arm shows: 'spread' over its range, a CSV file, or 'guided' by hand.",
    ),
    'count': _Argument('50', 'How many demonstrations to take.'),
    'countdown': _Argument(
        '0.0', 'Seconds after which a pair is stored by itself; 0 waits for ~/capture.'
    ),
}

STACK = (
    *('arm', 'source', 'enable', 'keep_off_mount', 'interface', 'commands'),
    *('prefix', 'lengths', 'mount', 'urdf', 'tip', 'limits', 'controllers'),
    *('namespace', 'params', 'rviz', 'viewer', 'viewer_port', 'record'),
)
"""Arguments that `stack` takes."""

Value = Mapping[str, str]


def arguments(*names: str, **defaults: str) -> list[Any]:
    """Declare launch arguments by name; some may be given another default."""
    made = []
    for name in (*names, *defaults):
        known = _ARGUMENTS[name]
        made.append(
            DeclareLaunchArgument(
                name,
                default_value=defaults.get(name, known.default),
                description=known.description,
                # An empty list would allow nothing.
                **({'choices': list(known.choices)} if known.choices else {}),
            )
        )
    return made


def declared(context: Any) -> Value:
    """Return the values of all of these arguments that a launch file has declared."""
    configured = context.launch_configurations
    return {
        name: LaunchConfiguration(name).perform(context)
        for name in _ARGUMENTS
        if name in configured
    }


def text(value: str) -> Any:
    """Return a parameter that stays a text, even if it looks like a number."""
    return ParameterValue(value, value_type=str)


# --- the arm ---------------------------------------------------------------------------------


def robot_description(value: Value, gazebo: bool = False) -> str:
    """Return the URDF of the arm that the arguments name."""
    more: dict[str, str] = {}
    if gazebo:
        controllers = str(controllers_file(value))
        more = {'ros2_control': 'gazebo', 'gazebo': 'true', 'controllers': controllers}
        more['namespace'] = value.get('namespace', '')
    if value.get('urdf'):
        return expand_xacro(_file(value['urdf'], 'urdf'), prefix=value['prefix'], **more)
    more |= {name: value[name] for name in ('prefix', 'lengths', 'mount')}
    return expand_xacro(share_file('urdf', 'pa10.urdf.xacro'), **more)


def arm_parameters(value: Value) -> dict[str, Any]:
    """Return the parameters that tell a node which arm it has."""
    urdf = str(_file(value['urdf'], 'urdf')) if value['urdf'] else ''
    others = {name: text(value[name]) for name in ('tip', 'prefix', 'lengths', 'mount')}
    return {'urdf': text(urdf), **others}


def controllers_file(value: Value) -> Path:
    """Return the parameters of the controllers, with the prefix before the joints' names."""
    given, prefix = value.get('controllers', ''), value.get('prefix', '')
    if given:
        return _file(given, 'controllers')
    if value.get('urdf'):
        raise BadInput(
            'controllers is empty, but urdf names another arm; give the YAML file of its '
            'controllers as controllers:=FILE.'
        )
    file = share_file('config', 'pa10', 'controllers.yaml')
    if not prefix:
        return file
    table = yaml.safe_load(file.read_text(encoding='utf-8'))
    for node_parameters in table.values():
        settings = node_parameters['ros__parameters']
        if 'joints' in settings:
            settings['joints'] = [prefix + joint for joint in settings['joints']]
    # It must outlive the launch file, whose processes read it later.
    with tempfile.NamedTemporaryFile(
        'w', prefix='kde_imitation_', suffix='.yaml', delete=False, encoding='utf-8'
    ) as copy:
        yaml.safe_dump(table, copy)
    return Path(copy.name)


def _file(name: str, argument: str) -> Path:
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise BadInput(f'{argument} is {name!r}, but there is no such file.')
    return path


# --- nodes -----------------------------------------------------------------------------------


def picture_topic(source: str) -> str | None:
    """Return the topic that a source names, or nothing if it is for `camera_node` to open."""
    is_topic = _TOPIC.fullmatch(source) and not source.startswith('/dev/')
    return source if is_topic and not Path(source).exists() else None


def node(
    name: str,
    value: Value,
    parameters: Mapping[str, Any] | None = None,
    remappings: Sequence[tuple[str, str]] = (),
) -> Any:
    """Return one of this package's nodes, which is started again whenever it ends.

    Parameters
    ----------
    name : str
        The executable; `config/` has a file of parameters of that name.
    value : mapping
        The arguments of the launch file; the file of parameters among them goes last.
    parameters : mapping, optional
        What the launch file itself sets.
    remappings : sequence of (str, str)
        Topics to be called by other names.
    """
    files = [str(_file(value['params'], 'params'))] if value.get('params') else []
    return Node(
        package='kde_imitation',
        executable=name,
        name=name,
        parameters=[str(share_file('config', f'{name}.yaml')), dict(parameters or {}), *files],
        remappings=[(old, new) for old, new in remappings if new and new != old],
        output='both',
        respawn=True,
        respawn_delay=RESPAWN_DELAY,
    )


def robot_state_publisher(urdf: str) -> Any:
    """Return the node that publishes a URDF, and the frames of its links."""
    return Node(
        package='robot_state_publisher',
        executable='robot_state_publisher',
        parameters=[{'robot_description': text(urdf)}],
        output='both',
        respawn=True,
        respawn_delay=RESPAWN_DELAY,
    )


def rviz(view: str, pictures: str | None = None) -> Any:
    """Return RViz with one of the views in `rviz/`, its topics those of the namespace.

    Parameters
    ----------
    view : str
        Name of the file.
    pictures : str, optional
        Topic of the pictures, if it is not `image_raw`.
    """
    remappings = [(f'/{topic}', topic) for topic in SHOWN]
    if pictures is not None:
        remappings[SHOWN.index('image_raw')] = ('/image_raw', pictures)
    return Node(
        package='rviz2',
        executable='rviz2',
        arguments=['-d', str(share_file('rviz', view))],
        remappings=remappings,
        output='log',
    )


def _recording(value: Value) -> list[Any]:
    """Return the process that records all topics, if the arguments ask for it."""
    if not value['record']:
        return []
    folder = Path(value['record']).expanduser()
    if folder.exists():
        raise BadInput(f'record is {str(folder)!r}, which is there already; name a new folder.')
    topics = [picture_topic(value['source']) or 'image_raw', *RECORDED]
    topics.append(value['commands'] or COMMANDS[value['interface']])
    topics += ['/clock'] if value['arm'] == 'gazebo' else []
    space = value['namespace'].strip('/')
    absolute = [
        topic if topic.startswith('/') else '/'.join(['', *([space] if space else []), topic])
        for topic in topics
    ]
    return [
        ExecuteProcess(
            cmd=['ros2', 'bag', 'record', '--output', str(folder), '--topics', *absolute],
            output='both',
        )
    ]


def group(value: Value, actions: Sequence[Any], simulated_time: bool = False) -> Any:
    """Return actions as a group in the namespace that the arguments name."""
    space = [PushRosNamespace(value['namespace'])] if value.get('namespace') else []
    clock = [SetParameter(name='use_sim_time', value=True)] if simulated_time else []
    return GroupAction([*space, *clock, *actions])


def pictures(value: Value) -> list[tuple[str, str]]:
    """Return the remapping for a node that takes pictures."""
    return [('image_raw', picture_topic(value['source']) or '')]


def stack(value: Value, nodes: Sequence[Any]) -> list[Any]:
    """Return nodes with all that a moving arm needs: pictures, the arm, views, a recording."""
    inside = [*_camera(value), *nodes, *_arm(value)]
    if value['viewer'] == 'true':
        inside.append(_viewer(value))
    if value['rviz'] == 'true':
        inside.append(rviz('imitation.rviz', picture_topic(value['source'])))
    simulated_time = value['arm'] == 'gazebo'
    return [*_gazebo(value), group(value, inside, simulated_time), *_recording(value)]


def _camera(value: Value) -> list[Any]:
    if picture_topic(value['source']):
        return []
    return [node('camera_node', value, {'source': text(value['source'])})]


def _viewer(value: Value) -> Any:
    port = value['viewer_port']
    if not port.isdecimal():
        raise BadInput(f'viewer_port is {port!r}, but must be a number, as in viewer_port:=8080.')
    parameters = {**arm_parameters(value), 'port': int(port)}
    return node('viewer_node', value, parameters, pictures(value))


def _chosen(value: str, auto: bool) -> bool:
    """Return whether a switch is on; 'auto' leaves it to us."""
    return auto if value == 'auto' else value == 'true'


def _arm(value: Value) -> list[Any]:
    """Return the controller, and the arm where it is simulated by a node."""
    parameters, kind = arm_parameters(value), value['interface']
    commands = [(COMMANDS[kind], value['commands'])]
    limits = str(_file(value['limits'], 'limits')) if value['limits'] else ''
    real = value['arm'] == 'real'
    made = [
        node(
            'arm_controller_node',
            value,
            {
                **parameters,
                'limits': text(limits),
                'command_interface': kind,
                'enable_at_start': _chosen(value['enable'], auto=not real),
                'keep_off_mount': _chosen(value['keep_off_mount'], auto=real),
            },
            commands,
        )
    ]
    if value['arm'] == 'mujoco':
        made.append(node('arm_sim_node', value, parameters, commands))
        made.append(robot_state_publisher(robot_description(value)))
    return made


def _gazebo(value: Value) -> list[Any]:
    """Return the arm in Gazebo, if that is the one wanted."""
    if value['arm'] != 'gazebo':
        return []
    names = ('prefix', 'lengths', 'mount', 'urdf', 'controllers', 'interface', 'namespace')
    return [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(share_file('launch', 'gazebo.launch.py'))),
            launch_arguments=[(name, value[name]) for name in names],
        )
    ]
