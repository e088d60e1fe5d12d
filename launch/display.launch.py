"""Look at an arm and move its joints by hand.

ros2 launch kde_imitation display.launch.py mount:=wall
"""

from launch import LaunchDescription
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from kde_imitation.nodes.launching import (
    arguments,
    declared,
    group,
    robot_description,
    robot_state_publisher,
    rviz,
)


def generate_launch_description():
    return LaunchDescription(
        [
            *arguments('prefix', 'lengths', 'urdf', 'namespace', 'gui', 'rviz', mount='floor'),
            OpaqueFunction(function=start),
        ]
    )


def start(context):
    value = declared(context)
    nodes = [robot_state_publisher(robot_description(value))]
    if value['gui'] == 'true':
        nodes.append(
            Node(package='joint_state_publisher_gui', executable='joint_state_publisher_gui')
        )
    else:
        nodes.append(Node(package='joint_state_publisher', executable='joint_state_publisher'))
    if value['rviz'] == 'true':
        nodes.append(rviz('display.rviz'))
    return [group(value, nodes)]
