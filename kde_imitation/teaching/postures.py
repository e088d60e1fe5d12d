"""Which postures the arm shows: those of a file, or as different ones as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from kde_imitation.checks import Floats, as_floats
from kde_imitation.dataset.folder import finite_cell, joint_columns, read_table
from kde_imitation.dataset.pictures import read_bytes
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain
from kde_imitation.teaching.route import Router

__all__ = ['Workspace', 'farthest_first', 'read_postures', 'spread']

# What a person's right arm can copy when the PA-10 hangs where the shoulder would be, degrees.
_PA10 = ((-23, -83, -51, -105, 0, 0, 0), (63, 89, 51, 105, 0, 0, 0))
# So many postures of the workspace are chosen from, as a power of two.
_POOL = 12
MOST = 1000


@dataclass(frozen=True, eq=False)
class Workspace:
    """A box of joint values, (n,) each; a joint whose ends are equal stays there."""

    lower: Floats
    upper: Floats

    @classmethod
    def of_pa10(cls) -> Workspace:
        """Return what a person's right arm can copy of a PA-10 on the wall."""
        return cls(*(np.radians(np.array(row, dtype=np.float64)) for row in _PA10))

    @classmethod
    def of(cls, arm: Chain, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Workspace:
        """Check the ends of a box against the limits of an arm."""
        ends = [
            as_floats(f'The {name} end of the workspace', value, (len(arm.names),))
            for name, value in (('lower', lower), ('upper', upper))
        ]
        wrong = (ends[0] > ends[1]) | (ends[0] < arm.lower) | (ends[1] > arm.upper)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise BadInput(
                f'The workspace of joint {arm.names[i]} is {ends[0][i]:.3f} to {ends[1][i]:.3f} '
                f'rad; it must rise and lie inside {arm.lower[i]:.3f} to {arm.upper[i]:.3f}.'
            )
        return cls(*ends)

    @property
    def middle(self) -> Floats:
        """The posture (n,) in the middle."""
        return 0.5 * (self.lower + self.upper)

    def fill(self, power: int) -> Floats:
        """Return 2**power postures spread evenly over the box, always the same, the middle first.

        Sobol's sequence, not scrambled.
        """
        free = np.flatnonzero(self.upper > self.lower)
        postures = np.repeat(self.lower[None], 2**power, axis=0)
        if len(free):
            even = qmc.Sobol(len(free), scramble=False).random_base2(power)
            # Its first point is a corner; the middle is a better start.
            even[0] = 0.5
            postures[:, free] += even * (self.upper - self.lower)[free]
        return postures


def farthest_first(
    points: Floats, count: int, usable: Callable[[int], bool] = lambda index: True
) -> list[int]:
    """Order points (m, d) so that each is as far as possible from all before it.

    Whatever number of them is taken from the front, no ordering leaves less than half the gap
    that these leave. Begins with the usable point nearest to the mean. Those that are not usable,
    which is asked only when their turn comes, and those equal to earlier ones are left out, so
    fewer than `count` may be returned.
    """
    gaps = np.full(len(points), np.inf)
    order: list[int] = []
    for first in np.argsort(((points - points.mean(axis=0)) ** 2).sum(axis=1), kind='stable'):
        if usable(int(first)):
            order.append(int(first))
            break
        gaps[first] = 0.0
    while order and len(order) < count:
        gaps = np.minimum(gaps, ((points - points[order[-1]]) ** 2).sum(axis=1))
        while True:
            following = int(np.argmax(gaps))
            if gaps[following] <= 0.0:
                return order
            if usable(following):
                break
            gaps[following] = 0.0
        order.append(following)
    return order


def spread(count: int, workspace: Workspace, router: Router) -> Floats:
    """Return postures (count, n) spread over a workspace, the most different ones first.

    Difference is distance of the arm's links in space, not of joint values: it is what a person
    sees and copies. Each posture can be taken, and reached from the home posture of the router.
    More of them begin with the same ones, so that a session can be continued with a greater count.
    """
    if not 1 <= count <= MOST:
        raise BadInput(f'count is {count}; choose from 1 to {MOST} postures.')
    arm = router.chain
    Workspace.of(arm, workspace.lower, workspace.upper)
    pool = workspace.fill(_POOL)
    points = arm.link_positions(pool).reshape(len(pool), -1)

    def usable(index: int) -> bool:
        posture = pool[index]
        return not router.fault(posture) and router.route(router.home, posture) is not None

    order = farthest_first(points, count, usable)
    if len(order) < count:
        raise BadInput(
            f'The workspace has only {len(order)} different postures that the arm can take, not '
            f'{count}; widen it.'
        )
    return pool[order]


def read_postures(path: str | Path, router: Router) -> Floats:
    """Return the postures (k, n) of a table with columns q1, q2, …, in radians.

    Other columns are ignored, so that the `labels.csv` of a data set will do.
    """
    path, arm = Path(path), router.chain
    columns = joint_columns(len(arm.names))
    _, rows = read_table(path, read_bytes(path), columns)
    if not 1 <= len(rows) <= MOST:
        raise BadInput(f'{path} has {len(rows)} postures; it must have 1 to {MOST}.')
    postures = np.empty((len(rows), len(columns)))
    for row, (line, cells) in enumerate(rows):
        for i, cell in enumerate(cells):
            value = finite_cell(path, line, columns[i], cell)
            if not arm.lower[i] - 1e-6 <= value <= arm.upper[i] + 1e-6:
                raise BadInput(
                    f'{path}, line {line}: {columns[i]} is {value:.3f} rad, but joint '
                    f'{arm.names[i]} turns from {arm.lower[i]:.3f} to {arm.upper[i]:.3f}.'
                )
            postures[row, i] = value
        fault = router.fault(postures[row])
        if fault:
            raise BadInput(f'{path}, line {line}: {fault}; change or delete this posture.')
    return postures
