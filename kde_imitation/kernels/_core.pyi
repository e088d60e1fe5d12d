"""The compiled module has the classes and functions of its NumPy twin."""

from kde_imitation.kernels._twin import ArmMap as ArmMap
from kde_imitation.kernels._twin import ChainMap as ChainMap
from kde_imitation.kernels._twin import Coder as Coder
from kde_imitation.kernels._twin import Evaluator as Evaluator
from kde_imitation.kernels._twin import Map as Map
from kde_imitation.kernels._twin import ProjectedMap as ProjectedMap
from kde_imitation.kernels._twin import TensorMap as TensorMap
from kde_imitation.kernels._twin import gram as gram
from kde_imitation.kernels._twin import probe_overlaps as probe_overlaps
from kde_imitation.kernels._twin import probe_reading as probe_reading
from kde_imitation.kernels._twin import shape_contexts as shape_contexts
