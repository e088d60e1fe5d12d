"""From feature vectors to points of the embedding of postures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.base import SENSOR, Newest
from kde_imitation.nodes.diagnostics import OK
from kde_imitation.nodes.messages import embedding_message, read_vector, vector_message
from kde_imitation.nodes.model import ModelNode
from kde_imitation.nodes.ros import Image

__all__ = ['KdeRegressionNode']


class KdeRegressionNode(ModelNode):
    """Gives the point of each feature vector in the embedding, and how novel the vector is.

    `pose_embedding` carries the novelty as its last value: what may be acted on and whether it
    may arrive as one. `novelty` has it alone, for plots.
    """

    NAME = 'kde_regression_node'

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        model: ImitationModel | None = None,
        **options: Any,
    ) -> None:
        super().__init__(parameters, model, **options)
        self._last_novelty = float('nan')
        self._embedding = self.create_publisher(Image, 'pose_embedding', SENSOR)
        self._novelty = self.create_publisher(Image, 'novelty', SENSOR)
        Newest(self, Image, 'pose_features', self._on_features)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how novel the last picture was."""
        return {'novelty': f'{self._last_novelty:.3f}'}

    def _on_features(self, message: Image) -> None:
        vector = read_vector(message, 'pose_features', self.model.vector_size)
        found = self.model.embed(vector)
        novelty = self._last_novelty = float(found.novelty)
        self._embedding.publish(embedding_message(found.point, novelty, message.header))
        self._novelty.publish(vector_message([novelty], message.header))
        known = 'like' if novelty <= 1.0 else 'unlike'
        self.report.state(OK, f'The picture is {known} the demonstrations.')
