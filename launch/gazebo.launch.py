"""The arm in Gazebo Harmonic, moved by ros2_control.

ros2 launch kde_imitation gazebo.launch.py gui:=false
"""

import shlex

from launch import LaunchDescription
from launch.actions import (
    IncludeLaunchDescription,
    LogInfo,
    OpaqueFunction,
    RegisterEventHandler,
)
from launch.event_handlers import OnProcessExit
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from kde_imitation.nodes.launching import (
    COMMANDS,
    arguments,
    declared,
    group,
    robot_description,
    robot_state_publisher,
)
from kde_imitation.resources import share_file


def generate_launch_description():
    return LaunchDescription(
        [
            *arguments('prefix', 'lengths', 'mount', 'urdf', 'controllers', 'interface'),
            *arguments('namespace', 'world', 'gui'),
            OpaqueFunction(function=start),
        ]
    )


def start(context):
    value = declared(context)
    world = value['world'] or str(share_file('worlds', 'imitation.sdf'))
    window = '' if value['gui'] == 'true' else '-s '
    simulator = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(
            PathJoinSubstitution([FindPackageShare('ros_gz_sim'), 'launch', 'gz_sim.launch.py'])
        ),
        launch_arguments=[('gz_args', f'-r {window}{shlex.quote(world)}')],
    )
    clock = Node(
        package='ros_gz_bridge',
        executable='parameter_bridge',
        arguments=['/clock@rosgraph_msgs/msg/Clock[gz.msgs.Clock'],
        respawn=True,
        respawn_delay=1.0,
    )
    arm = Node(
        package='ros_gz_sim',
        executable='create',
        arguments=['-topic', 'robot_description', '-name', value['prefix'] + 'arm'],
        output='both',
    )
    states = spawner('joint_state_broadcaster')
    commands = spawner(COMMANDS[value['interface']].partition('/')[0])

    def after(first, then, complaint):
        """Start one process when another has ended well, or say what that means."""

        def go_on(event, context):
            if event.returncode:
                return [LogInfo(msg=complaint)]
            # What is started by an event is in no group but its own.
            return [group(value, [then], simulated_time=True)]

        return RegisterEventHandler(OnProcessExit(target_action=first, on_exit=go_on))

    nodes = [
        clock,
        robot_state_publisher(robot_description(value, gazebo=True)),
        arm,
        # The controllers live in the simulated arm, and commands are of use once states come.
        after(arm, states, 'The arm could not be put into Gazebo, so it has no controllers.'),
        after(states, commands, 'Without joint states the arm takes no commands.'),
    ]
    return [simulator, group(value, nodes, simulated_time=True)]


def spawner(controller):
    return Node(
        package='controller_manager',
        executable='spawner',
        arguments=[controller, '--controller-manager-timeout', '60'],
        output='both',
    )
