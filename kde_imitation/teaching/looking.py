"""Whether a picture may be stored: one person, whole, sharp, holding still."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput
from kde_imitation.vision import Background, Box, PersonFinder, Silhouette, SkinModel, face
from kde_imitation.vision.background import Picture, as_picture, reduced
from kde_imitation.vision.silhouette import FLAT

__all__ = ['Observer', 'box_pixels', 'changed', 'face_pixels', 'glance', 'is_flat']

Grey = npt.NDArray[np.uint8]

# Stillness is judged on pictures of this many pixels a side.
_SIDE = 320
# Grey levels by which a smoothed pixel changes when something moved, above the noise of cameras.
_CHANGE = 12
# Share of the picture that may change while the background is taken, and of the person's area
# while a pair is stored.
STEADY, STILL = 0.002, 0.06
# Sharpness, squared, that a picture must have of the background picture's.
_SHARP = 0.4
# Squared Laplacian of the background below which there is nothing to judge sharpness by.
_TEXTURE = 4.0
# Another thing of this share of the person's size is another person.
_COMPANY = 0.3
_MOST_SKIN = 400
_LIKELY_SKIN = 0.05


def glance(picture: npt.ArrayLike) -> Grey:
    """Return a picture small, grey and smoothed, to be kept for `changed`."""
    small = reduced(as_picture('The picture', picture), _SIDE)
    return np.asarray(cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), (5, 5), 0))


def changed(now: Grey, before: Grey) -> float:
    """Return the share of the pixels at which something moved between two glances."""
    if now.shape != before.shape:
        raise BadInput(
            f'The size of the pictures changed from {before.shape[1]} × {before.shape[0]} to '
            f'{now.shape[1]} × {now.shape[0]}.'
        )
    different = (cv2.absdiff(now, before) > _CHANGE).view(np.uint8)
    # Lines one or two pixels wide are the sway of a body that stands.
    moved = cv2.morphologyEx(different, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    return float(cv2.countNonZero(moved)) / now.size


def is_flat(picture: Picture) -> bool:
    """Whether a picture shows nothing, as with a covered lens."""
    return float(picture.std()) < FLAT


class Observer:
    """Looks at pictures before a known background and says what keeps them from being stored.

    Parameters
    ----------
    background : (h, w, 3) uint8 array
    """

    def __init__(self, background: npt.ArrayLike) -> None:
        self.background = as_picture('The background', background)
        self._find = PersonFinder(Background(self.background))

    def look(self, picture: npt.ArrayLike) -> Silhouette:
        """Return the person in a picture; see `Silhouette.found`."""
        return self._find(picture)

    def refusal(self, person: Silhouette, now: Grey, before: Grey | None) -> str:
        """Say why a picture may not be stored; nothing if it may.

        Parameters
        ----------
        person : Silhouette
            What `look` made of it.
        now, before : (h, w) arrays
            Glances at it and at a picture a moment earlier, if there is one.
        """
        if not person.found:
            return f'No person is seen. {person.reason}'
        edges = _edges_touched(person)
        if edges:
            return f'You are cut off at the {edges} of the picture; step back or aside.'
        if person.others > _COMPANY:
            return 'Somebody or something else is in the picture; only you may be in it.'
        if before is None:
            return 'Hold still for a moment.'
        share = float(np.count_nonzero(person.mask)) / person.mask.size
        if changed(now, before) > STILL * share:
            return 'You are moving; hold still.'
        if self._blurred(person):
            return (
                'The picture is less sharp than that of the background; is the camera out of '
                'focus, or moving?'
            )
        return ''

    def _blurred(self, person: Silhouette) -> bool:
        """Compare what is seen around the person with the same parts of the background."""
        around = cv2.dilate(person.mask, np.ones((9, 9), np.uint8)) == 0
        if not around.any():
            return False
        known = _detail(self._find.background.picture, around)
        return known > _TEXTURE and _detail(person.relit(), around) < _SHARP * known


def _detail(picture: Picture, where: npt.NDArray[np.bool_]) -> float:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return float(np.mean(cv2.Laplacian(grey, cv2.CV_32F)[where] ** 2))


def _edges_touched(person: Silhouette) -> str:
    """Name the edges at which the person leaves the picture; legs may, arms and head may not."""
    box, width = person.box, person.mask.shape[1]
    touched = {
        'left edge': box.left <= 0,
        'right edge': box.left + box.width >= width,
        'upper edge': box.top <= 0,
    }
    return ' and the '.join(name for name, so in touched.items() if so)


def face_pixels(person: Silhouette) -> npt.NDArray[np.uint8]:
    """Return pixels of skin (k, 3) from the face of a person who stands upright.

    Colours that the model of the whole face finds unlikely, as of hair, are left out.
    """
    model = SkinModel.from_faces([person])
    place = face(person)
    assert place is not None
    seen = person.relit()
    skin = (model.likelihood(seen) > _LIKELY_SKIN) & (person.mask > 0)
    return _some(place.cut(seen)[place.cut(skin)])


def box_pixels(picture: npt.ArrayLike, box: Box) -> npt.NDArray[np.uint8]:
    """Return the pixels (k, 3) of a rectangle that shows skin only."""
    SkinModel.from_rectangle(picture, box)
    return _some(box.cut(as_picture('The picture', picture)).reshape(-1, 3))


def _some(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    step = -(-len(pixels) // _MOST_SKIN)
    return pixels[:: max(1, step)]
