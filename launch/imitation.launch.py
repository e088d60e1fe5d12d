"""The arm copies the person in front of the camera.

ros2 launch kde_imitation imitation.launch.py
ros2 launch kde_imitation imitation.launch.py arm:=gazebo source:=0 model:=my_model.npz
ros2 launch kde_imitation imitation.launch.py arm:=real source:=/camera/image_raw
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
            *arguments('model', *STACK),
            OpaqueFunction(function=start),
        ]
    )


def start(context):
    value = declared(context)
    model = {'model': text(value['model'])}
    return stack(
        value,
        [
            node('pose_feature_node', value, model, pictures(value)),
            node('kde_regression_node', value, model),
            node('preimage_node', value, {**model, **arm_parameters(value)}),
        ],
    )
