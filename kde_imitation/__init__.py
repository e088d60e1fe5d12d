"""A robot arm copies a person's arm, by kernel dependency estimation from few demonstrations.

The rooms, each knowing only those before it: `kernels`, `learning`, `vision`, `kinematics`,
`control`, `simulation`, `dataset`, then the command line. Everything here works without ROS.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version('kde_imitation')
except PackageNotFoundError:  # run straight from a source tree that was never installed
    __version__ = 'unknown'

__all__ = ['__version__']
