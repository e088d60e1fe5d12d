"""The compiled module has the classes of its NumPy twin."""

from kde_imitation.kernels._twin import ArmMap as ArmMap
from kde_imitation.kernels._twin import ChainMap as ChainMap
from kde_imitation.kernels._twin import Map as Map
from kde_imitation.kernels._twin import ProjectedMap as ProjectedMap
from kde_imitation.kernels._twin import TensorMap as TensorMap
