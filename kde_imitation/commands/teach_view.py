"""The picture of a teach-in: the arm that is to be copied, beside what the camera sees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.dataset.pictures import Image
from kde_imitation.imitation.files import write_whole
from kde_imitation.simulation.render import Camera, Renderer
from kde_imitation.teaching import Session
from kde_imitation.teaching.settings import beside
from kde_imitation.teaching.shown_arm import ShownArm

__all__ = ['View']

_HEIGHT = 480


class View:
    """Shows the arm in a window where there is a screen, and in a picture file anyhow.

    Parameters
    ----------
    file : Path, optional
        PNG file, renewed whenever the session goes on; beside the data set unless told.
    arm : ShownArm, optional
        Without one there is nothing to show unless a file is named.
    headless : bool
        Open no window.
    output : Path
        The folder of the data set.
    """

    def __init__(
        self, file: Path | None, arm: ShownArm | None, headless: bool, output: Path
    ) -> None:
        self._arm = arm
        if file is None and arm is not None:
            file = beside(output, '_view.png')
        self._file = file
        self._state: object = None
        self._window: Any = None
        self._renderer: Renderer | None = None
        screen = os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')
        if arm is not None and screen and not headless:
            import mujoco.viewer

            self._window = mujoco.viewer.launch_passive(arm.arm.model, arm.arm.data)

    def describe(self) -> str:
        """Say where to look."""
        places = ['a window'] if self._window is not None else []
        places += [str(self._file)] if self._file is not None else []
        if not places:
            return 'No arm is shown; the postures are those of the source.'
        return f'The arm is shown in {" and ".join(places)}.'

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        if self._renderer is not None:
            self._renderer.close()
        if self._window is not None:
            self._window.close()

    def show(self, session: Session, picture: Image | None) -> None:
        """Renew window and file, the file only when the session went on."""
        if self._window is not None:
            self._window.sync()
        state = (session.stage, session.index, session.stored)
        if self._file is None or state == self._state:
            return
        self._state = state
        parts = [_to_height(self._draw())] if self._arm is not None else []
        parts += [_to_height(picture)] if picture is not None else []
        if parts:
            # Mirrors: what is on the person's right is on the right.
            self._write(np.hstack([part[:, ::-1] for part in parts]))

    def _draw(self) -> npt.NDArray[np.uint8]:
        assert self._arm is not None
        if self._renderer is None:
            self._renderer = Renderer(self._arm.arm, _HEIGHT, _HEIGHT, _in_front(self._arm))
        return self._renderer.picture()

    def _write(self, sheet: npt.NDArray[np.uint8]) -> None:
        assert self._file is not None
        _, data = cv2.imencode('.png', np.ascontiguousarray(sheet[:, :, ::-1]))
        write_whole(self._file, data.tobytes())


def _to_height(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    height, width = picture.shape[:2]
    size = (max(1, round(width * _HEIGHT / height)), _HEIGHT)
    scaled = cv2.resize(np.ascontiguousarray(picture), size, interpolation=cv2.INTER_AREA)
    return np.asarray(scaled, dtype=np.uint8)


def _in_front(arm: ShownArm) -> Camera:
    """Return a camera where the one that sees the person would be: its y axis points there."""
    base = arm.arm.chain.placement
    x, y, z = base[:3, 3] + 0.5 * base[:3, 2]
    forward = base[:3, 1]
    azimuth = float(np.degrees(np.arctan2(-forward[1], -forward[0])))
    return Camera((float(x), float(y), float(z)), 3.0, azimuth, -8.0)
