"""The goal and the path of the arm as markers for RViz."""

from __future__ import annotations

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.kinematics.chain import Chain
from kde_imitation.nodes.ros import ColorRGBA, Header, Marker, MarkerArray, Point

__all__ = ['goal_markers']

_GOAL = ColorRGBA(r=0.95, g=0.55, b=0.1, a=0.9)
_PATH = ColorRGBA(r=0.1, g=0.6, b=0.9, a=0.9)
_STEPS = 20


def goal_markers(chain: Chain, path: Floats, header: Header) -> MarkerArray:
    """Return the goal as a line along the arm with its joints, and the path of the hand.

    Parameters
    ----------
    chain : Chain
    path : (k, n) array
        Postures; the last is the goal.
    header : std_msgs/Header
        Its frame is the base of the chain.
    """
    joints = np.vstack([np.zeros(3), chain.link_positions(path[-1])])
    share = np.linspace(0.0, len(path) - 1.0, _STEPS)
    columns = [np.interp(share, np.arange(len(path)), joint) for joint in path.T]
    hand = chain.link_positions(np.stack(columns, axis=-1))[:, -1]
    return MarkerArray(
        markers=[
            _marker(header, 'goal', 0, Marker.LINE_STRIP, joints, 0.03, _GOAL),
            _marker(header, 'goal', 1, Marker.SPHERE_LIST, joints, 0.07, _GOAL),
            _marker(header, 'path', 0, Marker.LINE_STRIP, hand, 0.01, _PATH),
        ]
    )


def _marker(
    header: Header,
    space: str,
    number: int,
    kind: int,
    points: Floats,
    width: float,
    colour: ColorRGBA,
) -> Marker:
    marker = Marker(header=header, ns=space, id=number, type=kind, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = width
    marker.color = colour
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in points]
    # A goal that is not renewed vanishes.
    marker.lifetime.sec = 1
    return marker
