"""From points of the embedding to postures of the arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kde_imitation.checks import Floats, as_postures
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.arm import ARM_PARAMETERS, Arm
from kde_imitation.nodes.base import RELIABLE, Newest, Polled
from kde_imitation.nodes.diagnostics import OK, WARN
from kde_imitation.nodes.markers import goal_markers
from kde_imitation.nodes.messages import read_embedding, read_joint_state, trajectory_message
from kde_imitation.nodes.model import MODEL, ModelNode
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import Header, Image, JointState, JointTrajectory, MarkerArray

__all__ = ['PreimageNode']


class PreimageNode(ModelNode):
    """Finds the posture of each point, starting from where the arm is.

    `joint_path` goes from there to the goal and has the picture's stamp. For a novel picture it
    has no points, which tells the controller to hold.
    """

    NAME = 'preimage_node'
    PARAMETERS = (
        MODEL,
        *ARM_PARAMETERS,
        Parameter(
            'novelty_limit',
            1.0,
            'Pictures with a greater novelty are not acted on; 1 is where the model was '
            'calibrated, less is stricter.',
            *(0.01, 100.0),
            live=True,
        ),
        Parameter(
            'duration',
            0.5,
            'Time from the start to the goal of joint_path, for those who take it as a trajectory '
            'with times; the controller of this package does not.',
            *(0.01, 60.0, 's'),
            live=True,
        ),
    )

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        model: ImitationModel | None = None,
        **options: Any,
    ) -> None:
        super().__init__(parameters, model, **options)
        self._arm = Arm.of(self)
        self.names = self._arm.names
        if len(self.names) != self.model.joints:
            raise BadInput(
                f'The model moves {self.model.joints} joints, but the arm has {len(self.names)}; '
                'train a model for this arm.'
            )
        self._posture: Floats | None = None
        self._novel = 0
        self._path = self.create_publisher(JointTrajectory, 'joint_path', RELIABLE)
        self._markers = self.create_publisher(MarkerArray, 'markers', RELIABLE)
        self._joint_states = Polled(self, JointState, 'joint_states')
        self._receive = self.guarded(self._on_joint_state)
        Newest(self, Image, 'pose_embedding', self._on_embedding)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how many pictures were too novel."""
        return {'novel pictures': str(self._novel)}

    def _on_joint_state(self, message: JointState) -> None:
        if set(self.names) & set(message.name):
            self._posture = read_joint_state(message, self.names)

    def _on_embedding(self, message: Image) -> None:
        point, novelty = read_embedding(message, 'pose_embedding', self.model.embedding_size)
        # Its own stamp is that of the picture, its frame that of the arm.
        header = Header(stamp=message.header.stamp, frame_id=self._arm.chain.base)
        if novelty > self.value('novelty_limit'):
            self._novel += 1
            self._path.publish(trajectory_message(self.names, [], [], header))
            self.report.state(WARN, 'The picture is unlike the demonstrations: no goal.')
            return
        for state, _ in self._joint_states.take():
            self._receive(state)
        start = self._posture
        goal = as_postures('The goal', self.model.solve(point, start), len(self.names))
        path = goal[None] if start is None else np.stack([start, goal])
        times = [self.value('duration')] if start is None else [0.0, self.value('duration')]
        self._path.publish(trajectory_message(self.names, path, times, header))
        if self._markers.get_subscription_count():
            self._markers.publish(goal_markers(self._arm.chain, path, header))
        self.report.state(
            *(OK, 'Goals start from the arm.')
            if start is not None
            else (WARN, 'No joint states have come in; goals start from the model.')
        )
