"""The web page of the viewer: arm, goal, camera, embedding, curves, buttons; no ROS."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kinematics.chain import Chain
from kde_imitation.nodes.viewer_robot import RobotInPage, shapes_of

__all__ = ['Curve', 'Page', 'load_viser', 'trail_picture']

Picture = npt.NDArray[np.uint8]

_GOAL = (242, 140, 25)
_SIDE, _WIDTH = 240, 320
# Points of the embedding's trail and of the curves.
_TRAIL, _CURVE = 90, 300


def load_viser() -> Any:
    """Return the module viser, or say how to get it."""
    try:
        import viser
    except ModuleNotFoundError as error:
        raise MissingExtra(
            'The viewer needs viser; install it with pip install "kde_imitation[viewer]".'
        ) from error
    return viser


def trail_picture(points: Sequence[tuple[float, float]], novel: bool, side: int) -> Picture:
    """Draw where the embedding goes, its older points fading, (side, side, 3).

    Parameters
    ----------
    points : (x, y) each
        First two coordinates, oldest first.
    novel : bool
        Whether the newest is unlike the demonstrations.
    side : int
        Of the picture, in pixels.
    """
    sheet = np.full((side, side, 3), 250, np.uint8)
    cv2.line(sheet, (side // 2, 0), (side // 2, side), (215, 215, 215), 1)
    cv2.line(sheet, (0, side // 2), (side, side // 2), (215, 215, 215), 1)
    if not points:
        return sheet
    places = np.asarray(points, dtype=np.float64)
    reach = max(float(np.abs(places).max()), 1e-9) * 1.1
    pixels = np.rint(side / 2 + places * [1.0, -1.0] * (side / 2 - 1) / reach).astype(int)
    for i in range(1, len(pixels)):
        grey = int(225 - 150 * i / len(pixels))
        cv2.line(sheet, pixels[i - 1], pixels[i], (grey, grey, 235), 2, cv2.LINE_AA)
    colour = (200, 30, 30) if novel else (20, 90, 200)
    cv2.circle(sheet, pixels[-1], 6, colour, -1, cv2.LINE_AA)
    return sheet


class Curve:
    """A curve over the last seconds."""

    def __init__(self, gui: Any, uplot: Any, title: str, unit: str, colour: str) -> None:
        self._times: deque[float] = deque(maxlen=_CURVE)
        self._values: deque[float] = deque(maxlen=_CURVE)
        label = f'{title} ({unit})' if unit else title
        self._plot = gui.add_uplot(
            data=(np.array([0.0, 1.0]), np.array([0.0, 0.0])),
            series=(
                uplot.Series(label='seconds ago'),
                uplot.Series(label=label, stroke=colour, width=2),
            ),
            title=label,
            scales={'x': uplot.Scale(time=False)},
            aspect=2.4,
        )

    def add(self, now: float, value: float) -> None:
        """Add a point; values that are not finite are left out."""
        if np.isfinite(value):
            self._times.append(now)
            self._values.append(value)

    def show(self, now: float) -> None:
        """Bring the curve to the page."""
        if len(self._times) > 1:
            self._plot.data = (np.asarray(self._times) - now, np.asarray(self._values))

    @property
    def values(self) -> list[float]:
        """What the curve shows, oldest first."""
        return list(self._values)


class Page:
    """The page itself, served until it is closed.

    Parameters
    ----------
    chain : Chain
    urdf : str
        URDF text of the same arm.
    on_enable, on_stop : callable
        Called in a thread of the server when a button is pressed; the first one with whether the
        arm may move.
    host, port : str, int
        Where the page is served; another free port is taken if this one is not.
    """

    def __init__(
        self,
        chain: Chain,
        urdf: str,
        on_enable: Callable[[bool], None],
        on_stop: Callable[[], None],
        host: str = '127.0.0.1',
        port: int = 8080,
    ) -> None:
        viser = load_viser()
        shapes = shapes_of(chain, urdf)
        _require_address(host)
        self._server = viser.ViserServer(
            host=host, port=port, label='kde_imitation', verbose=False
        )
        self.port = int(self._server.get_port())
        self.address = f'http://{host}:{self.port}'
        scene, gui = self._server.scene, self._server.gui
        scene.set_up_direction('+z')
        scene.add_grid('/floor', width=4.0, height=4.0, cell_size=0.25)
        self.arm = RobotInPage(scene, 'arm', chain, shapes)
        self.goal = RobotInPage(scene, 'goal', chain, shapes, ghost=_GOAL)
        self._look_at(chain)
        gui.configure_theme(show_share_button=False, show_logo=False)
        gui.main_panel.dock_right()
        self._state = gui.add_markdown('Waiting for the first messages.')
        self.enable = gui.add_button('Enable', color='green')
        self.disable = gui.add_button('Disable', color='gray')
        self.stop = gui.add_button('STOP', color='red')
        self._note = gui.add_markdown('')
        self.enable.on_click(lambda _: on_enable(True))
        self.disable.on_click(lambda _: on_enable(False))
        self.stop.on_click(lambda _: on_stop())
        blank = np.full((_SIDE, _WIDTH, 3), 235, np.uint8)
        self._camera = gui.add_image(blank, label='Camera', format='jpeg')
        self._trail: deque[tuple[float, float]] = deque(maxlen=_TRAIL)
        self._embedding = gui.add_image(
            trail_picture([], False, _SIDE), label='Embedding', format='png'
        )
        uplot = viser.uplot
        self.novelty = Curve(gui, uplot, 'Novelty', '', '#c0392b')
        self.latency = Curve(gui, uplot, 'Picture to goal', 'ms', '#1b6ca8')

    def _look_at(self, chain: Chain) -> None:
        """Let those who come look at the arm from its front."""
        base = chain.placement
        target = base[:3, 3] + 0.5 * base[:3, 2]
        camera = self._server.initial_camera
        camera.look_at = target
        front = base[:3, 1] if abs(base[2, 2]) < 0.5 else base[:3, 0]
        camera.position = target + 2.6 * front + np.array([0.0, 0.0, 0.6])

    def show_state(self, rows: Sequence[tuple[str, str]]) -> None:
        """Show names with what they say of themselves."""
        text = '\n'.join(f'- **{_plain(name)}** {_plain(what)}' for name, what in rows)
        if text != self._state.content:
            self._state.content = text

    def say(self, sentence: str) -> None:
        """Show what came of a button."""
        self._note.content = _plain(sentence)

    @property
    def said(self) -> str:
        """What came of the last button."""
        return str(self._note.content)

    @property
    def state(self) -> str:
        """The text of the state."""
        return str(self._state.content)

    @property
    def camera(self) -> Picture:
        """The picture that is shown, (h, w, 3)."""
        return np.asarray(self._camera.image)

    def show_camera(self, picture: Picture) -> None:
        """Show a picture (h, w, 3); small ones are enlarged to the width of the page's column."""
        height, width = picture.shape[:2]
        if width < _WIDTH:
            size = (_WIDTH, max(1, round(height * _WIDTH / width)))
            picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC))
        self._camera.image = picture

    def show_embedding(self, point: npt.ArrayLike, novel: bool) -> None:
        """Show where a point (r,) of the embedding lies, by its first two coordinates."""
        values = np.asarray(point, dtype=np.float64).ravel()
        self._trail.append((float(values[0]), float(values[1]) if len(values) > 1 else 0.0))
        self._embedding.image = trail_picture(self._trail, novel, _SIDE)

    def close(self) -> None:
        """Serve the page no longer."""
        self._server.stop()


def _require_address(host: str) -> None:
    """Refuse a host that is not this machine; the server itself would wait for ever."""
    try:
        with socket.socket() as trial:
            trial.bind((host, 0))
    except OSError as error:
        raise BadInput(
            f'The page cannot be served at {host}: {error.strerror}; give an address of this '
            'machine.'
        ) from error


def _plain(text: str) -> str:
    """Return a text in which nothing is taken for markup."""
    return ''.join(f'\\{sign}' if sign in '\\`*_{}[]<>#|' else sign for sign in text)
