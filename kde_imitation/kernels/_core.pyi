"""The compiled module has the classes and functions of its NumPy twin."""

from kde_imitation.kernels._twin import ArmMap as ArmMap
from kde_imitation.kernels._twin import ArmSearch as ArmSearch
from kde_imitation.kernels._twin import ChainMap as ChainMap
from kde_imitation.kernels._twin import Coder as Coder
from kde_imitation.kernels._twin import Evaluator as Evaluator
from kde_imitation.kernels._twin import Map as Map
from kde_imitation.kernels._twin import ProjectedMap as ProjectedMap
from kde_imitation.kernels._twin import TensorMap as TensorMap
from kde_imitation.kernels._twin import beside_body as beside_body
from kde_imitation.kernels._twin import correlate as correlate
from kde_imitation.kernels._twin import coverage as coverage
from kde_imitation.kernels._twin import fit_light as fit_light
from kde_imitation.kernels._twin import gram as gram
from kde_imitation.kernels._twin import median_ratios as median_ratios
from kde_imitation.kernels._twin import probe_overlaps as probe_overlaps
from kde_imitation.kernels._twin import probe_reading as probe_reading
from kde_imitation.kernels._twin import relative_to_face as relative_to_face
from kde_imitation.kernels._twin import sample_colours as sample_colours
from kde_imitation.kernels._twin import scores_beyond as scores_beyond
from kde_imitation.kernels._twin import shape_contexts as shape_contexts
from kde_imitation.kernels._twin import unlike as unlike
