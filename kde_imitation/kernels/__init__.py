"""What "similar" means, and the hot loops that compute it (compiled, with a NumPy twin)."""

from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.combined import Precomputed, WeightedSum
from kde_imitation.kernels.postures import ArmPoints, PoseKernel
from kde_imitation.kernels.vectors import Gaussian, Linear, Polynomial, TotalVariation

__all__ = [
    'ArmPoints',
    'Expansion',
    'Gaussian',
    'Kernel',
    'Linear',
    'Polynomial',
    'PoseKernel',
    'Precomputed',
    'TotalVariation',
    'WeightedSum',
]
