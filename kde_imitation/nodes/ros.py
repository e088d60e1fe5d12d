"""The door to ROS 2: everything the nodes use of it, or a sentence on how to get it.

Where a ROS 2 is sourced it serves; elsewhere the packages of the extra `ros` do.
"""

from __future__ import annotations

from kde_imitation.errors import MissingExtra

try:
    import rclpy
    from builtin_interfaces.msg import Duration, Time
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
    from geometry_msgs.msg import Point
    from rcl_interfaces.msg import (
        FloatingPointRange,
        IntegerRange,
        ParameterDescriptor,
        SetParametersResult,
    )
    from rclpy.callback_groups import CallbackGroup
    from rclpy.clock import Clock, ClockType
    from rclpy.duration import Duration as RosDuration
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.node import Node
    from rclpy.parameter import Parameter as RosParameter
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from rclpy.serialization import deserialize_message
    from rclpy.signals import SignalHandlerOptions
    from rosgraph_msgs.msg import Clock as ClockMessage
    from sensor_msgs.msg import CameraInfo, Image, JointState
    from std_msgs.msg import (
        ColorRGBA,
        Float64MultiArray,
        Header,
        MultiArrayDimension,
        MultiArrayLayout,
        String,
    )
    from std_srvs.srv import SetBool, Trigger
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
    from visualization_msgs.msg import Marker, MarkerArray
except ModuleNotFoundError as error:
    raise MissingExtra(
        f'The nodes need ROS 2, but its module {error.name!r} is not installed; source a ROS 2 '
        'installation, or install it with pip install "kde_imitation[ros]".'
    ) from error

__all__ = [
    'CallbackGroup',
    'CameraInfo',
    'Clock',
    'ClockMessage',
    'ClockType',
    'ColorRGBA',
    'DiagnosticArray',
    'DiagnosticStatus',
    'DurabilityPolicy',
    'Duration',
    'ExternalShutdownException',
    'Float64MultiArray',
    'FloatingPointRange',
    'Header',
    'Image',
    'IntegerRange',
    'JointState',
    'JointTrajectory',
    'JointTrajectoryPoint',
    'KeyValue',
    'Marker',
    'MarkerArray',
    'MultiArrayDimension',
    'MultiArrayLayout',
    'Node',
    'ParameterDescriptor',
    'Point',
    'QoSProfile',
    'ReliabilityPolicy',
    'RosDuration',
    'RosParameter',
    'SetBool',
    'SetParametersResult',
    'SignalHandlerOptions',
    'SingleThreadedExecutor',
    'String',
    'Time',
    'Trigger',
    'deserialize_message',
    'rclpy',
]
