"""The arm that imitates, as the model needs it: limits, points, and the map to search."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import Map
from kde_imitation.kernels.postures import ArmPoints
from kde_imitation.kinematics import description
from kde_imitation.kinematics.learned_arm import LearnedArm

# The second joint is where an arm leaves its column; on the PA-10 both are in the shoulder.
SHOULDER = 1


@dataclass(frozen=True)
class Robot:
    """An arm of two parts.

    Parameters
    ----------
    names : joint names, base to tip
    lower, upper : (n,) arrays
    kinematics : ArmPoints
        Gives the points (…, m, 3) of postures.
    map : Map
        The last points of the same, compiled, for the search of postures.
    elbow, wrist : int
        Which of the points end the upper arm and the forearm.
    header : dict
        What `from_header` makes the same robot of.
    """

    names: tuple[str, ...]
    lower: Floats
    upper: Floats
    kinematics: ArmPoints
    map: Map
    elbow: int
    wrist: int
    header: dict[str, Any]

    @classmethod
    def pa10(cls) -> Robot:
        """Return the PA-10, whose points come from its PSOM+ maps."""
        arm = LearnedArm.of_pa10()
        limits = (arm.lower, arm.upper)
        return cls(description.JOINTS, *limits, arm, arm.map, 2, 4, {'arm': 'pa10'})

    @classmethod
    def from_urdf(
        cls, urdf: str | Path, tip: str, elbow: str, wrist: str, base: str | None = None
    ) -> Robot:
        """Return the arm of a URDF.

        Parameters
        ----------
        urdf : str or Path
            URDF text or file.
        tip : str
            Last link of the arm.
        elbow, wrist : str
            Names of the joints at the end of the upper arm and of the forearm.
        base : str, optional
            First link, unless it is the root of the URDF.
        """
        # Pinocchio is behind these, and the arm of most models does without it.
        from kde_imitation.kinematics.chain import Chain, read_urdf
        from kde_imitation.kinematics.chain_map import chain_map

        text = read_urdf(urdf)
        chain = Chain.from_urdf(text, tip=tip, base=base)
        places = []
        for role, name in (('elbow', elbow), ('wrist', wrist)):
            if name not in chain.names:
                raise BadInput(
                    f'The {role} joint {name!r} is not in the chain to {tip!r}; its joints are '
                    f'{", ".join(chain.names)}.'
                )
            places.append(chain.names.index(name))
        first, second = places
        if not 0 < first < second:
            raise BadInput(
                f'The elbow joint {elbow!r} must come after the first joint and before the wrist '
                f'joint {wrist!r}.'
            )
        header = {
            'arm': 'urdf',
            'urdf': text,
            'tip': tip,
            'elbow': elbow,
            'wrist': wrist,
            'base': base,
        }
        compiled = chain_map(chain, range(2, len(chain.names)))
        return cls(
            chain.names,
            np.asarray(chain.lower),
            np.asarray(chain.upper),
            chain,
            compiled,
            first,
            second,
            header,
        )

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Robot:
        """Return the robot that a model file names."""
        kind = header.get('arm') if isinstance(header, dict) else None
        if kind == 'pa10':
            return cls.pa10()
        if kind == 'urdf':
            text = str(header.get('urdf'))
            if not text.lstrip().startswith('<'):
                # A name would be opened: no file may make us read another.
                raise BadInput("The description of the model's arm is not a URDF text.")
            options = {name: header.get(name) for name in ('tip', 'elbow', 'wrist', 'base')}
            return cls.from_urdf(text, **options)  # type: ignore[arg-type]
        raise BadInput(f'The model is for an arm of kind {kind!r}, which this version lacks.')

    @property
    def joints(self) -> int:
        """Number of joints."""
        return len(self.names)

    def postures(self, name: str, value: npt.ArrayLike) -> Floats:
        """Check postures (n, joints): finite, of this arm, inside its limits."""
        postures = as_floats(name, value, (None, self.joints))
        outside = (postures < self.lower - 1e-6) | (postures > self.upper + 1e-6)
        if outside.any():
            row, joint = np.argwhere(outside)[0]
            raise BadInput(
                f'{name} row {row}: joint {self.names[joint]} at {postures[row, joint]:.3f} rad '
                f'is outside its limits {self.lower[joint]:.3f} to {self.upper[joint]:.3f}.'
            )
        return postures

    def directions(self, postures: npt.ArrayLike) -> Floats:
        """Return unit vectors (n, 2, 3) along upper arm and forearm of postures (n, joints)."""
        points = self.kinematics.link_positions(postures)
        parts = np.stack(
            [
                points[:, self.elbow] - points[:, SHOULDER],
                points[:, self.wrist] - points[:, self.elbow],
            ],
            axis=1,
        )
        length = np.linalg.norm(parts, axis=2, keepdims=True)
        if (length < 1e-6).any():
            raise BadInput(
                'Upper arm or forearm has no length; name other elbow and wrist joints.'
            )
        result: Floats = parts / length
        return result

    def distances(self, predicted: npt.ArrayLike, true: npt.ArrayLike) -> Floats:
        """Return the distances (n, 3) in metres of elbow, wrist and hand."""
        used = [self.elbow, self.wrist, -1]
        gap = self.kinematics.link_positions(predicted) - self.kinematics.link_positions(true)
        return np.asarray(np.linalg.norm(gap[:, used], axis=2))

    def errors(self, predicted: npt.ArrayLike, true: npt.ArrayLike) -> Floats:
        """Return the mean distance (n,) in metres over elbow, wrist and hand."""
        return np.asarray(self.distances(predicted, true).mean(axis=1))
