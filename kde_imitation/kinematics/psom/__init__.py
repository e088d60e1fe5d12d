"""PSOM+: smooth maps on a grid, learned from exact, noisy, incomplete or scattered data.

The parametrized self-organizing map interpolates values at the nodes of a Cartesian grid by
products of Lagrange polynomials; the "+" chooses the values themselves so that the map is as
smooth as the data allow (Klanke 2007, chapter 3).
"""

from kde_imitation.kinematics.psom.axes import chebyshev_axis, regular_axis
from kde_imitation.kinematics.psom.manifold import ManifoldFit, annealing, fit_manifold
from kde_imitation.kinematics.psom.model import BestMatch, Psom
from kde_imitation.kinematics.psom.roughness import Roughness

__all__ = [
    'BestMatch',
    'ManifoldFit',
    'Psom',
    'Roughness',
    'annealing',
    'chebyshev_axis',
    'fit_manifold',
    'regular_axis',
]
