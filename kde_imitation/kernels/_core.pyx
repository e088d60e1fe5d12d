# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: language_level=3
"""The hot loops, compiled. `_twin.py` holds the same in NumPy; tests keep them together.

A map f: R^m → R^d with its exact Jacobian, and a bounded Levenberg-Marquardt search for the
input whose image is nearest to a target. Gram matrices, and sums of kernels over many points.
Shape contexts and their code words; what a picture shows before an empty room, and the search for
an arm. All loops run without the GIL on memory taken once a call, so that several threads may use
one map or one sum.
"""

from libc.math cimport NAN, cos, fabs, sin, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from kde_imitation.kernels._twin_arm import bank
from kde_imitation.kernels._twin_view import slice_of

cdef enum:  # sizes of the small arrays kept on the stack
    MAX_INPUTS = 16
    MAX_NODES = 64

# A step that takes off less than this share of the cost is slow.
cdef double FAST = 0.2

include "_search.pxi"
include "_maps.pxi"
include "_sums.pxi"
include "_vision.pxi"
include "_arm.pxi"
include "_room.pxi"
include "_view.pxi"
