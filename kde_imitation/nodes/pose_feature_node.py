"""From pictures to feature vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.base import SENSOR, Newest
from kde_imitation.nodes.diagnostics import OK
from kde_imitation.nodes.messages import (
    nanoseconds,
    picture_message,
    read_picture,
    vector_message,
)
from kde_imitation.nodes.model import ModelNode
from kde_imitation.nodes.ros import Header, Image

__all__ = ['PoseFeatureNode']

_OUTLINE, _BOX = (40, 200, 80), (240, 160, 30)


class PoseFeatureNode(ModelNode):
    """Looks at each picture and gives its feature vector, with the picture's stamp.

    A picture without a person gives a vector of zeros, so that everything behind learns of it at
    once. The three debug pictures are made only while someone listens.
    """

    NAME = 'pose_feature_node'

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        model: ImitationModel | None = None,
        **options: Any,
    ) -> None:
        super().__init__(parameters, model, **options)
        self._without = 0
        self._features = self.create_publisher(Image, 'pose_features', SENSOR)
        self._debug = {
            'silhouette': self.create_publisher(Image, 'debug/silhouette', SENSOR),
            'skin': self.create_publisher(Image, 'debug/skin', SENSOR),
            'overlay': self.create_publisher(Image, 'debug/overlay', SENSOR),
        }
        Newest(self, Image, 'image_raw', self._on_picture)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how many pictures had no person."""
        return {'pictures without a person': str(self._without)}

    def _on_picture(self, message: Image) -> None:
        header = message.header
        if not nanoseconds(header.stamp):
            # Of a camera that does not say when: the best guess is now.
            header = Header(stamp=self.stamp(), frame_id=header.frame_id)
        seen = self.model.look(read_picture(message))
        self._features.publish(vector_message(seen.vector, header))
        if seen.found:
            self.report.state(OK, 'There is a person.')
        else:
            self._without += 1
            self.report.state(OK, f'No person: {seen.reason}')
        self._show(seen, header)

    def _show(self, seen: Any, header: Header) -> None:
        made = {'silhouette': _silhouette, 'skin': _skin, 'overlay': _overlay}
        for name, publisher in self._debug.items():
            if publisher.get_subscription_count():
                publisher.publish(picture_message(made[name](seen), header))


def _silhouette(seen: Any) -> npt.NDArray[np.uint8]:
    """Return the person, white on black, (h, w)."""
    return np.asarray(255 * (seen.silhouette.mask > 0), dtype=np.uint8)


def _skin(seen: Any) -> npt.NDArray[np.uint8]:
    """Return how much each pixel looks like skin, (h, w); black where nothing was looked at."""
    skin = getattr(seen, 'skin', None)
    if skin is None:
        return np.zeros(seen.silhouette.mask.shape, np.uint8)
    return np.asarray(255.0 * np.clip(skin, 0.0, 1.0), dtype=np.uint8)


def _overlay(seen: Any) -> npt.NDArray[np.uint8]:
    """Return the picture with the person's outline and bounds, (h, w, 3) RGB."""
    person = seen.silhouette
    picture = np.array(person.picture, dtype=np.uint8)
    if seen.found:
        mask = (person.mask > 0).astype(np.uint8)
        outlines = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)[0]
        cv2.drawContours(picture, outlines, -1, _OUTLINE, 1)
        box = person.box
        corner = (box.left + box.width - 1, box.top + box.height - 1)
        cv2.rectangle(picture, (box.left, box.top), corner, _BOX, 1)
    return picture
