"""Pictures of the simulated arm without a screen, and short animations of them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.simulation.arm import COLLISION_GROUP, SimulatedArm, load_mujoco

__all__ = ['Camera', 'Renderer', 'gl_library', 'write_animation']

Picture = npt.NDArray[np.uint8]

GL_LIBRARIES = ('egl', 'osmesa', 'glfw')
SWITCHED_OFF = ('disable', 'disabled', 'off', 'false', '0')

# Runs in a process of its own, because a broken driver may take the whole process with it.
_PROBE = """
import importlib, sys
import mujoco
context = importlib.import_module('mujoco.' + sys.argv[1]).GLContext(16, 16)
context.make_current()
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value).free()
context.free()
print('pictures can be drawn')
"""


@cache
def gl_library() -> str | None:
    """Return the OpenGL library that draws without a screen here, or None where none does.

    MUJOCO_GL says which to use; without it EGL and then OSMesa are tried.
    """
    wanted = os.environ.get('MUJOCO_GL', '').strip().lower()
    if wanted in SWITCHED_OFF:
        return None
    candidates = (wanted,) if wanted in GL_LIBRARIES else ('egl', 'osmesa')
    return next((library for library in candidates if _draws(library)), None)


def _draws(library: str) -> bool:
    try:
        done = subprocess.run(
            [sys.executable, '-c', _PROBE, library],
            env={**os.environ, 'MUJOCO_GL': library},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return 'pictures can be drawn' in done.stdout


@dataclass(frozen=True)
class Camera:
    """Where the picture is taken from: round a point, metres and degrees.

    With azimuth 0 the camera looks along the world's x axis, with 90 along y; a negative
    elevation looks down.
    """

    target: tuple[float, float, float] = (0.0, 0.0, 0.65)
    distance: float = 2.4
    azimuth: float = 145.0
    elevation: float = -14.0


class Renderer:
    """Draws the arm as it stands, by MuJoCo, or by Matplotlib where OpenGL is missing.

    Parameters
    ----------
    arm : SimulatedArm
    width, height : int
        Of the picture, in pixels.
    camera : Camera, optional
        The whole arm from the side unless told.
    library : str
        'egl', 'osmesa' or 'glfw', 'matplotlib' for the plain drawing, or 'auto' for the best of
        them that works.

    Attributes
    ----------
    library : str
        The one that draws.
    """

    def __init__(
        self,
        arm: SimulatedArm,
        width: int = 640,
        height: int = 480,
        camera: Camera | None = None,
        library: str = 'auto',
    ) -> None:
        for name, size in (('width', width), ('height', height)):
            if not 16 <= size <= 4096:
                raise BadInput(f'{name} is {size} pixels; use 16 to 4096.')
        if library not in ('auto', *GL_LIBRARIES, 'matplotlib'):
            raise BadInput(
                f'library is {library!r}; use auto, {", ".join(GL_LIBRARIES)} or matplotlib.'
            )
        if library in GL_LIBRARIES and not _draws(library):
            raise BadInput(
                f'{library} cannot draw here; use library="auto", or install it: OSMesa is the '
                'system package libosmesa6.'
            )
        self._asked = library == 'matplotlib'
        if library == 'auto':
            library = gl_library() or 'matplotlib'
        self.library = library
        self._camera = camera or _default_camera(arm)
        self._drawing: _Sketch | _Scene = (
            _Sketch(arm, width, height, self._camera)
            if library == 'matplotlib'
            else _Scene(arm, width, height, self._camera, library)
        )

    def picture(self) -> Picture:
        """Return the arm as it stands now, (height, width, 3), red green blue."""
        return self._drawing.picture()

    def describe(self) -> str:
        """Say how the pictures are made, for reports and logs."""
        if self.library != 'matplotlib':
            return f'Pictures are drawn by MuJoCo with {self.library}.'
        if self._asked:
            return 'Pictures are plain drawings by Matplotlib, as asked.'
        return (
            'Pictures are plain drawings by Matplotlib, because no OpenGL library draws here '
            'without a screen; install the system package libosmesa6 for shaded ones.'
        )

    def close(self) -> None:
        """Free the memory of the graphics; the renderer is of no use afterwards."""
        self._drawing.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _default_camera(arm: SimulatedArm) -> Camera:
    """Look at the whole reach of the arm, where its base is."""
    x, y, z = arm.chain.placement[:3, 3]
    if z > 0.5:
        return Camera(target=(x, y - 0.45, z - 0.25), distance=3.0, azimuth=160.0)
    return Camera(target=(x, y, z + 0.65))


class _Scene:
    """MuJoCo's own drawing.

    The context is made here and not by `mujoco.Renderer`, which settles its library when MuJoCo is
    imported, before it can be known what works.
    """

    def __init__(
        self, arm: SimulatedArm, width: int, height: int, camera: Camera, library: str
    ) -> None:
        self._mujoco = mujoco = load_mujoco()
        self._arm = arm
        self._size = height, width
        arm.model.vis.global_.offwidth = width
        arm.model.vis.global_.offheight = height
        self._window = importlib.import_module(f'mujoco.{library}').GLContext(width, height)
        self._window.make_current()
        self._context = mujoco.MjrContext(arm.model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        # Before Python's own end, or the libraries complain about what they can no longer free.
        self.close = weakref.finalize(self, _free, self._window, self._context)
        self._scene = mujoco.MjvScene(arm.model, maxgeom=1000)
        self._option = mujoco.MjvOption()
        self._option.geomgroup[COLLISION_GROUP] = 0
        self._view = mujoco.MjvCamera()
        self._view.lookat[:] = camera.target
        self._view.distance = camera.distance
        self._view.azimuth = camera.azimuth
        self._view.elevation = camera.elevation

    def picture(self) -> Picture:
        mujoco, arm = self._mujoco, self._arm
        self._window.make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            arm.model, arm.data, self._option, None, self._view, everything, self._scene
        )
        height, width = self._size
        frame = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(frame, self._scene, self._context)
        pixels = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, frame, self._context)
        # OpenGL counts rows from below.
        return np.ascontiguousarray(pixels[::-1])


def _free(window: Any, context: Any) -> None:
    window.make_current()
    context.free()
    window.free()


class _Sketch:
    """The arm as thick lines between its joints."""

    def __init__(self, arm: SimulatedArm, width: int, height: int, camera: Camera) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._arm = arm
        figure: Any = Figure(figsize=(width / 100, height / 100), dpi=100)
        self._canvas: Any = FigureCanvasAgg(figure)
        self._size = height, width
        self._axes = figure.add_axes((0, 0, 1, 1), projection='3d')
        # Matplotlib's camera stands where MuJoCo's looks from, and counts its height upwards.
        self._axes.view_init(elev=-camera.elevation, azim=camera.azimuth + 180.0)
        reach = camera.distance / 3.2
        for axis, centre in zip('xyz', camera.target, strict=True):
            getattr(self._axes, f'set_{axis}lim')(centre - reach, centre + reach)
        self._axes.set_box_aspect((1, 1, 1), zoom=1.3)
        self._axes.set_axis_off()
        self._floor()
        (self._links,) = self._axes.plot(
            [], [], [], color='0.55', linewidth=width / 45, solid_capstyle='round'
        )
        (self._joints,) = self._axes.plot(
            [], [], [], 'o', color='0.15', markersize=width / 50, linestyle='none'
        )

    def _floor(self) -> None:
        x, y, _ = self._arm.chain.placement[:3, 3]
        corners = np.array([[-0.6, -0.6], [0.6, -0.6], [0.6, 0.6], [-0.6, 0.6], [-0.6, -0.6]])
        self._axes.plot(x + corners[:, 0], y + corners[:, 1], 0.0, color='0.8', linewidth=1)

    def points(self) -> Floats:
        """Return base, joints and tip in the world's frame, (n + 2, 3)."""
        chain, q = self._arm.chain, self._arm.q
        local = np.vstack([np.zeros(3), chain.link_positions(q), chain.pose(q)[:3, 3]])
        return np.asarray(local @ chain.placement[:3, :3].T + chain.placement[:3, 3])

    def picture(self) -> Picture:
        points = self.points()
        self._links.set_data_3d(*points.T)
        self._joints.set_data_3d(*points[1:-1].T)
        self._canvas.draw()
        height, width = self._size
        pixels = np.asarray(self._canvas.buffer_rgba())[:height, :width, :3]
        return np.array(pixels, dtype=np.uint8)

    def close(self) -> None:
        self._canvas.figure.clear()


def write_animation(
    path: str | Path, pictures: Iterable[npt.ArrayLike], per_second: float = 25.0
) -> None:
    """Write pictures as an endless animation: GIF, or animated PNG with all colours.

    Parameters
    ----------
    path : str or Path
        Ends in .gif or .png.
    pictures : iterable of array_like
        Equal sizes, (height, width, 3), uint8.
    per_second : float
        Pictures a second; both formats keep whole hundredths of a second or coarser.
    """
    from PIL import Image

    path = Path(path)
    if path.suffix.lower() not in ('.gif', '.png'):
        raise BadInput(f'{path} must end in .gif or .png to hold an animation.')
    if not 0.1 <= per_second <= 100.0:
        raise BadInput(f'per_second is {per_second}; use 0.1 to 100.')
    frames: list[Image.Image] = []
    for i, picture in enumerate(pictures):
        pixels = np.asarray(picture)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise BadInput(
                f'Picture {i} must be (height, width, 3) of uint8, not {pixels.shape} of '
                f'{pixels.dtype}.'
            )
        if frames and pixels.shape[1::-1] != frames[0].size:
            raise BadInput(
                f'Picture {i} is {pixels.shape[1]} x {pixels.shape[0]}, but the first is '
                f'{frames[0].size[0]} x {frames[0].size[1]}; all must be equal.'
            )
        frames.append(Image.fromarray(pixels))
    if not frames:
        raise BadInput('An animation needs at least one picture.')
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        frames[0].save(
            path, save_all=True, append_images=frames[1:], duration=1000.0 / per_second, loop=0
        )
    except OSError as error:
        raise BadInput(f'{path} cannot be written: {error}.') from error
