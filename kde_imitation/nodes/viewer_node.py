"""A web page that shows what the nodes do, with buttons to enable and stop the arm."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from kde_imitation.errors import BadInput
from kde_imitation.nodes.arm import ARM_PARAMETERS, Arm
from kde_imitation.nodes.base import RELIABLE, ImitationNode, Newest
from kde_imitation.nodes.diagnostics import OK
from kde_imitation.nodes.messages import (
    nanoseconds,
    read_embedding,
    read_joint_state,
    read_picture,
    read_trajectory,
)
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import (
    Clock,
    ClockType,
    DiagnosticArray,
    Image,
    JointState,
    JointTrajectory,
    QoSProfile,
    SetBool,
    Trigger,
)
from kde_imitation.nodes.viewer_page import Page

__all__ = ['ViewerNode']

# The camera's own picture is shown while the one with the outline has been away so long, seconds;
# a goal is shown so long.
_OVERLAY_AWAY, _GOAL_SHOWN = 1.0, 1.0
# What the page says of each node, in the order of the stack.
_ORDER = (
    *('camera_node', 'pose_feature_node', 'kde_regression_node', 'preimage_node', 'teach_node'),
    *('arm_controller_node', 'arm_sim_node'),
)


class ViewerNode(ImitationNode):
    """Takes what the other nodes publish and shows it; works with any part of them missing."""

    NAME = 'viewer_node'
    PARAMETERS = (
        Parameter(
            'host',
            '127.0.0.1',
            'Address on which the page is served; 0.0.0.0 lets others on the network see it, and '
            'press its buttons.',
        ),
        Parameter('port', 8080, 'Port of the page; the next free one if it is taken.', 1, 65535),
        Parameter(
            'controller',
            'arm_controller_node',
            'Name of the node whose services ~/enable and ~/stop the buttons call.',
        ),
        Parameter('rate', 10.0, 'How often the page is renewed.', 1.0, 60.0, 'Hz'),
        *ARM_PARAMETERS,
    )

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(parameters, **options)
        arm = Arm.of(self)
        self.names = arm.names
        controller = self.value('controller')
        if not controller:
            raise BadInput('controller is empty; name the node that the buttons are for.')
        self._enable = self.create_client(SetBool, f'{controller}/enable')
        self._stop = self.create_client(Trigger, f'{controller}/stop')
        self.page = Page(
            arm.chain,
            arm.urdf,
            lambda on: self._call(self._enable, SetBool.Request(data=on)),
            lambda: self._call(self._stop, Trigger.Request()),
            self.value('host'),
            self.value('port'),
        )
        self._lock = threading.Lock()
        self._newest: dict[str, Any] = {}
        self._overlay_at = self._goal_at = -10.0
        self._states: dict[str, str] = {}
        for kind, topic, take in (
            (JointState, 'joint_states', self._on_joint_state),
            (JointTrajectory, 'joint_path', self._on_path),
        ):
            self.create_subscription(kind, topic, self.guarded(take), RELIABLE)
        self.create_subscription(
            *(DiagnosticArray, '/diagnostics', self.guarded(self._on_diagnostics)),
            QoSProfile(depth=10),
        )
        Newest(self, Image, 'debug/overlay', self._on_overlay)
        Newest(self, Image, 'image_raw', self._on_picture)
        Newest(self, Image, 'pose_embedding', self._on_embedding)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(1.0 / self.value('rate'), self.guarded(self._show), clock=steady)
        self.get_logger().info(f'The page is at {self.page.address}')
        self.report.state(OK, f'The page is at {self.page.address}')

    def diagnosis(self) -> Mapping[str, str]:
        """Return where the page is."""
        return {'page': self.page.address}

    # --- messages ---

    def _seconds(self) -> float:
        return 1e-9 * self.now()

    def _keep(self, **values: Any) -> None:
        with self._lock:
            self._newest.update(values)

    def _on_joint_state(self, message: JointState) -> None:
        if set(self.names) & set(message.name):
            self._keep(q=read_joint_state(message, self.names))

    def _on_path(self, message: JointTrajectory) -> None:
        path, _ = read_trajectory(message, self.names)
        now = self._seconds()
        latency = now - 1e-9 * nanoseconds(message.header.stamp)
        with self._lock:
            self.page.latency.add(now, 1e3 * latency)
            self._newest['goal'] = path[-1] if len(path) else None
            self._goal_at = now

    def _on_overlay(self, message: Image) -> None:
        self._overlay_at = self._seconds()
        self._keep(picture=read_picture(message))

    def _on_picture(self, message: Image) -> None:
        if self._seconds() - self._overlay_at > _OVERLAY_AWAY:
            self._keep(picture=read_picture(message))

    def _on_embedding(self, message: Image) -> None:
        # The page takes whatever size the model has.
        point, novelty = read_embedding(message, 'pose_embedding', int(message.width) - 1)
        with self._lock:
            self.page.novelty.add(self._seconds(), novelty)
            self._newest['embedding'] = point, novelty

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name, separator, _ = status.name.partition(': kde_imitation')
            short = name.rpartition('/')[2]
            if separator and short != self.NAME:
                lines = {line.key: line.value for line in status.values}
                rate = f' ({lines["rate (Hz)"]} Hz)' if 'rate (Hz)' in lines else ''
                with self._lock:
                    self._states[short] = f'{status.message}{rate}'

    # --- the page ---

    def _show(self) -> None:
        with self._lock:
            new, self._newest = self._newest, {}
            order = {name: place for place, name in enumerate(_ORDER)}
            rows = sorted(self._states.items(), key=lambda row: (order.get(row[0], 99), row[0]))
        now, page = self._seconds(), self.page
        if 'q' in new:
            page.arm.move(new['q'])
        if new.get('goal') is not None:
            page.goal.move(new['goal'])
        elif page.goal.visible and ('goal' in new or now - self._goal_at > _GOAL_SHOWN):
            page.goal.hide()
        if 'picture' in new:
            page.show_camera(new['picture'])
        if 'embedding' in new:
            point, novelty = new['embedding']
            page.show_embedding(point, novelty > 1.0)
        for curve in (page.novelty, page.latency):
            curve.show(now)
        if rows:
            page.show_state(rows)

    def _call(self, client: Any, request: Any) -> None:
        """Call a service of the controller, and show its answer."""
        if not client.service_is_ready():
            self.page.say(f'There is no {client.srv_name}; is the controller running?')
            return
        client.call_async(request).add_done_callback(
            lambda future: self.page.say(future.result().message)
        )

    def close(self) -> None:
        """Serve the page no longer and take the node down."""
        super().close()
        self.page.close()
