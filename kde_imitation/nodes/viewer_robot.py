"""An arm in a web page: the shapes of its URDF, and where they are; no ROS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kinematics.chain import Chain

__all__ = ['RobotInPage', 'Shape', 'load_trimesh', 'shapes_of']


@dataclass(frozen=True, eq=False)
class Shape:
    """A shape of a link, in the frame of the joint that moves the link."""

    joint: int
    vertices: npt.NDArray[np.float32]
    """(v, 3), metres"""
    faces: npt.NDArray[np.uint32]
    """(f, 3)"""
    colour: tuple[int, int, int]


def load_trimesh() -> Any:
    """Return the module trimesh, which comes with viser, or say how to get it."""
    try:
        import trimesh
    except ModuleNotFoundError as error:
        raise MissingExtra(
            'The viewer needs viser; install it with pip install "kde_imitation[viewer]".'
        ) from error
    return trimesh


def _mesh(shape: Any) -> Any:
    """Return a shape of Pinocchio as a mesh, in its own frame; None if it cannot be drawn."""
    trimesh = load_trimesh()
    geometry = shape.geometry
    make = {
        'Box': lambda: trimesh.creation.box(2.0 * np.asarray(geometry.halfSide)),
        'Sphere': lambda: trimesh.creation.icosphere(3, geometry.radius),
        'Cylinder': lambda: trimesh.creation.cylinder(
            geometry.radius, 2.0 * geometry.halfLength, sections=40
        ),
        'Capsule': lambda: trimesh.creation.capsule(2.0 * geometry.halfLength, geometry.radius),
    }
    kind = type(geometry).__name__
    if kind in make:
        return make[kind]()
    if Path(shape.meshPath).is_file():
        mesh = trimesh.load_mesh(shape.meshPath)
        mesh.apply_scale(np.asarray(shape.meshScale).ravel())
        return mesh
    return None


def shapes_of(chain: Chain, urdf: str) -> list[Shape]:
    """Return what is to be seen of an arm, or its collision shapes if it has nothing else."""
    for kind in (pin.VISUAL, pin.COLLISION):
        try:
            geometry = pin.buildGeomFromUrdfString(chain.model, urdf, kind)
        except (RuntimeError, ValueError) as error:
            raise BadInput(f'The shapes of the URDF cannot be used: {error}') from error
        found = []
        for one in geometry.geometryObjects:
            mesh = _mesh(one)
            if mesh is None:
                continue
            place = np.asarray(one.placement.homogeneous)
            vertices = np.asarray(mesh.vertices) @ place[:3, :3].T + place[:3, 3]
            red, green, blue = (
                int(255 * share) for share in np.asarray(one.meshColor).ravel()[:3]
            )
            found.append(
                Shape(
                    int(one.parentJoint),
                    vertices.astype(np.float32),
                    np.asarray(mesh.faces, dtype=np.uint32),
                    (red, green, blue),
                )
            )
        if found:
            return found
    return []


class RobotInPage:
    """One arm in the scene of a page; moving it moves one frame a joint.

    Parameters
    ----------
    scene : viser.SceneApi
    name : str
        Of the arm in the scene.
    chain : Chain
    shapes : list of Shape
    ghost : tuple of int, optional
        Draw it transparent, in this colour, and not before it is moved.
    """

    def __init__(
        self,
        scene: Any,
        name: str,
        chain: Chain,
        shapes: list[Shape],
        ghost: tuple[int, int, int] | None = None,
    ) -> None:
        self._model, self._data = chain.model, chain.model.createData()
        self._joints = len(chain.names)
        self._root = scene.add_frame(f'/{name}', show_axes=False, visible=ghost is None)
        self._frames = {
            joint: scene.add_frame(f'/{name}/joint{joint}', show_axes=False)
            for joint in {shape.joint for shape in shapes}
        }
        for number, shape in enumerate(shapes):
            scene.add_mesh_simple(
                f'/{name}/joint{shape.joint}/shape{number}',
                shape.vertices,
                shape.faces,
                color=shape.colour if ghost is None else ghost,
                opacity=None if ghost is None else 0.35,
                cast_shadow=ghost is None,
                flat_shading=False,
            )
        self.q: Floats = np.zeros(self._joints)
        self._place()

    @property
    def visible(self) -> bool:
        """Whether it is seen."""
        return bool(self._root.visible)

    def hide(self) -> None:
        """Show nothing until it moves again."""
        self._root.visible = False

    def move(self, q: npt.ArrayLike) -> None:
        """Put the arm into a posture (n,)."""
        self.q = as_floats('q', q, (self._joints,))
        self._place()
        if not self._root.visible:
            self._root.visible = True

    def _place(self) -> None:
        pin.forwardKinematics(self._model, self._data, self.q)
        for joint, frame in self._frames.items():
            pose = self._data.oMi[joint]
            x, y, z, w = pin.Quaternion(pose.rotation).coeffs()
            frame.wxyz = np.array([w, x, y, z])
            frame.position = np.asarray(pose.translation)
