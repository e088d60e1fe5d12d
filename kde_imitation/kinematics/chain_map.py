"""The exact arm as a compiled map, for searches that evaluate it thousands of times a second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import ChainMap
from kde_imitation.kernels.backend import core
from kde_imitation.kinematics.chain import Chain

__all__ = ['chain_map']


def chain_map(chain: Chain, points: Sequence[int] | None = None) -> ChainMap:
    """Make the map from postures to link positions, the same as `Chain.link_positions`.

    Parameters
    ----------
    chain : Chain
        All its joints must turn.
    points : sequence of int, optional
        Which of the link positions to give, in this order; negative numbers count from the tip.
        Left out, all of them.

    Returns
    -------
    ChainMap
        `evaluate(q (s, n), jacobian)` gives positions (s, 3 k) and their derivatives (s, 3 k, n).

    Examples
    --------
    >>> from kde_imitation.kinematics.description import urdf
    >>> chain_map(Chain.from_urdf(urdf()), range(2, 7)).evaluate(np.zeros((1, 7)))[0].shape
    (1, 15)
    """
    joints = len(chain.names)
    for name, slide in zip(chain.names, chain._slide):
        if slide.any():
            raise BadInput(
                f'Joint {name!r} slides; a chain map is made of turning joints only. Leave the '
                'joint out of the chain with joints=.'
            )
    carriers = np.arange(joints) if points is None else np.array(points, dtype=object)
    if len(carriers) == 0:
        raise BadInput('points is empty; name at least one link position.')
    for point in carriers:
        if not (isinstance(point, (int, np.integer)) and -joints <= point < joints):
            raise BadInput(
                f'points holds {point!r}; the chain has link positions 0 to {joints - 1}.'
            )
    fixed = chain._rotations[0]
    compiled: ChainMap = core.ChainMap(
        fixed,
        chain._offset,
        chain._turn,
        np.zeros((len(carriers), 3)),
        np.ascontiguousarray(carriers % joints, dtype=np.int32),
    )
    return compiled
