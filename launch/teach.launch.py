"""The arm shows postures, the person copies them, and each pair is stored.

ros2 launch kde_imitation teach.launch.py source:=0 output:=my_demonstrations countdown:=3.0
"""

from launch import LaunchDescription
from launch.actions import OpaqueFunction

from kde_imitation.nodes.launching import (
    STACK,
    arguments,
    arm_parameters,
    declared,
    node,
    pictures,
    stack,
    text,
)


def generate_launch_description():
    return LaunchDescription(
        [
            *arguments('output', 'postures', 'count', 'countdown', 'elbow', 'wrist', *STACK),
            OpaqueFunction(function=start),
        ]
    )


def start(context):
    value = dict(declared(context))
    if value['postures'] == 'guided' and value['enable'] == 'auto':
        # Whoever guides the arm by hand must not be pushed.
        value['enable'] = 'false'
    parameters = {
        'output': text(value['output']),
        'postures': text(value['postures']),
        'count': int(value['count']),
        'countdown': float(value['countdown']),
        'elbow': text(value['elbow']),
        'wrist': text(value['wrist']),
        **arm_parameters(value),
    }
    return stack(value, [node('teach_node', value, parameters, pictures(value))])
