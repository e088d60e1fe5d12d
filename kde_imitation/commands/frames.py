"""Pictures with what the model makes of them: found arm, predicted and true posture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kde_imitation.checks import Floats
from kde_imitation.imitation import ImitationModel, Robot
from kde_imitation.vision.arm_features import ArmFeatures, SeenArm
from kde_imitation.vision.features import Seen

# Rows: x and y (down) of the picture in the frame of an arm that hangs on a wall where the person
# would stand: z to the person's right, x down, y towards the camera.
WALL_VIEW: Floats = np.array([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
PREDICTED, TRUE = '#d95f02', '#1b6ca8'
A_ROW = 2
DPI = 110
# Pictures are drawn at least about so many pixels wide, so that lines on them are fine.
SHARP = 640


@dataclass(frozen=True)
class Frame:
    """One picture to be shown."""

    title: str
    seen: SeenArm | Seen
    predicted: Floats
    """(joints,)"""
    true: Floats
    """(joints,)"""


def as_png(figure: Figure) -> bytes:
    """Return a figure as the contents of a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format='png', dpi=DPI)
    return file.getvalue()


def view_of(model: ImitationModel) -> Floats:
    """Return the camera's view (2, 3) of the robot's frame, as learned where it was learned."""
    features = model.features
    return features.geometry_.view if isinstance(features, ArmFeatures) else WALL_VIEW


def overlay(seen: SeenArm | Seen) -> Any:
    """Return the picture (h, w, 3) with the outline of the person and the found arm."""
    person = seen.silhouette
    large = max(SHARP // person.picture.shape[1], 1)
    shown = cv2.resize(person.picture, None, fx=large, fy=large, interpolation=cv2.INTER_CUBIC)
    mask = cv2.resize(person.mask, None, fx=large, fy=large, interpolation=cv2.INTER_NEAREST)
    outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(shown, outlines, -1, (255, 255, 255), 1, cv2.LINE_AA)
    arm = getattr(seen, 'arm', None)
    if arm is not None:
        corners = np.rint((arm + 0.5) * large * 8).astype(np.int32)
        for colour, width in (((30, 30, 30), 7), ((255, 214, 0), 3)):
            cv2.polylines(shown, [corners], False, colour, width, cv2.LINE_AA, shift=3)
        for x, y in corners:
            cv2.circle(shown, (int(x), int(y)), 6 * 8, (30, 30, 30), -1, cv2.LINE_AA, shift=3)
            cv2.circle(shown, (int(x), int(y)), 4 * 8, (255, 214, 0), -1, cv2.LINE_AA, shift=3)
    return shown


def draw_frames(frames: Sequence[Frame], robot: Robot, view: Floats) -> Figure:
    """Draw pictures, each beside its two postures seen from the camera and from the side."""
    rows = -(-len(frames) // A_ROW)
    high = 2.25 * rows + 0.6
    figure = Figure(figsize=(13, high))
    figure.subplots_adjust(0.01, 0.4 / high, 0.99, 1 - 0.25 / high, 0.06, 0.16)
    widths = (1.55, 1.0, 1.0) * A_ROW
    grid: Any = figure.subplots(rows, 3 * A_ROW, width_ratios=widths, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for place, frame in enumerate(frames):
        row, column = divmod(place, A_ROW)
        picture, front, side = grid[row, 3 * column : 3 * column + 3]
        picture.imshow(overlay(frame.seen))
        picture.set_title(frame.title, fontsize=9, loc='left')
        draw_postures(front, side, frame, robot, view)
    named = [(TRUE, 'true posture'), (PREDICTED, 'predicted posture')]
    if any(getattr(frame.seen, 'arm', None) is not None for frame in frames):
        named.append(('#ffd600', 'arm found in the picture'))
    handles = [
        figure.axes[0].plot([], [], color=colour, linewidth=3, label=label)[0]
        for colour, label in named
    ]
    figure.legend(handles=handles, loc='lower center', ncols=3, frameon=False, fontsize=9)
    return figure


def draw_postures(front: Any, side: Any, frame: Frame, robot: Robot, view: Floats) -> None:
    """Draw the predicted and the true posture as stick figures, from the camera and the side."""
    towards = -np.cross(view[0], view[1])
    reach = 0.0
    for q, colour, width in ((frame.true, TRUE, 4.5), (frame.predicted, PREDICTED, 2.2)):
        points = np.asarray(robot.kinematics.link_positions(q[None]))[0]
        points = np.vstack([np.zeros(3), points - points[0]])
        reach = max(reach, float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum()))
        for axes, across in ((front, view[0]), (side, towards)):
            x, y = points @ across, points @ view[1]
            axes.plot(x, y, color=colour, linewidth=width, solid_capstyle='round', alpha=0.9)
            used = [robot.elbow + 1, robot.wrist + 1, len(points) - 1]
            axes.plot(x[used], y[used], 'o', color=colour, markersize=width + 1.5)
    reach *= 1.08
    for axes, title in ((front, 'from the camera'), (side, 'from the side')):
        axes.plot(0, 0, 's', color='0.25', markersize=6)
        axes.set(xlim=(-reach, reach), ylim=(reach, -reach), aspect='equal')
        axes.set_title(title, fontsize=8, color='0.35')
        axes.add_patch(
            Rectangle(
                (-reach, -reach), 2 * reach, 2 * reach, fill=False, edgecolor='0.85', clip_on=False
            )
        )
    side.annotate(
        'camera →', (0.98, 0.03), xycoords='axes fraction', ha='right', fontsize=7, color='0.45'
    )
