"""Look at the PA-10 and move its joints by hand.

ros2 launch kde_imitation display.launch.py mount:=wall
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition, UnlessCondition
from launch.substitutions import (
    Command,
    FindExecutable,
    LaunchConfiguration,
    PathJoinSubstitution,
)
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def shared(*parts):
    return PathJoinSubstitution([FindPackageShare('kde_imitation'), *parts])


def generate_launch_description():
    arguments = [
        DeclareLaunchArgument(
            'prefix',
            default_value='',
            description='Put before every link and joint name, for several arms in one scene.',
        ),
        DeclareLaunchArgument(
            'lengths',
            default_value='B',
            choices=['A', 'B'],
            description='Which of the two published sets of link lengths to use.',
        ),
        DeclareLaunchArgument(
            'mount',
            default_value='floor',
            choices=['floor', 'wall'],
            description='Where the base is fixed: standing, or sideways as a right arm.',
        ),
        DeclareLaunchArgument(
            'gui',
            default_value='true',
            choices=['true', 'false'],
            description='Move the joints by sliders; otherwise they stay at zero.',
        ),
        DeclareLaunchArgument(
            'rviz',
            default_value='true',
            choices=['true', 'false'],
            description='Show the arm in RViz.',
        ),
    ]

    description = ParameterValue(
        Command(
            [
                FindExecutable(name='xacro'),
                ' ',
                shared('urdf', 'pa10.urdf.xacro'),
                ' prefix:=',
                LaunchConfiguration('prefix'),
                ' lengths:=',
                LaunchConfiguration('lengths'),
                ' mount:=',
                LaunchConfiguration('mount'),
            ]
        ),
        value_type=str,
    )

    nodes = [
        Node(
            package='robot_state_publisher',
            executable='robot_state_publisher',
            parameters=[{'robot_description': description}],
            output='both',
        ),
        Node(
            package='joint_state_publisher_gui',
            executable='joint_state_publisher_gui',
            condition=IfCondition(LaunchConfiguration('gui')),
        ),
        Node(
            package='joint_state_publisher',
            executable='joint_state_publisher',
            condition=UnlessCondition(LaunchConfiguration('gui')),
        ),
        Node(
            package='rviz2',
            executable='rviz2',
            arguments=['-d', shared('rviz', 'display.rviz')],
            output='log',
            condition=IfCondition(LaunchConfiguration('rviz')),
        ),
    ]
    return LaunchDescription([*arguments, *nodes])
