"""Chooses the compiled hot loops, or their NumPy twin where they were not built.

Set `KDE_IMITATION_BACKEND` to `numpy` to force the twin, or to `cython` to insist on the
compiled module.
"""

from __future__ import annotations

import os
import warnings
from types import ModuleType

from kde_imitation.errors import BadInput, MissingExtra
from kde_imitation.kernels import _twin

__all__ = ['BACKEND', 'core', 'describe']

VARIABLE = 'KDE_IMITATION_BACKEND'


def _choose() -> tuple[str, ModuleType]:
    wanted = os.environ.get(VARIABLE, 'auto')
    if wanted not in ('auto', 'cython', 'numpy'):
        raise BadInput(f'{VARIABLE} is {wanted!r}; use auto, cython or numpy.')
    if wanted == 'numpy':
        return 'numpy', _twin
    try:
        from kde_imitation.kernels import _core
    except ImportError as error:
        if wanted == 'cython':
            raise MissingExtra(
                f'{VARIABLE}=cython, but the compiled module is missing ({error}); '
                'install a C compiler and then kde_imitation again.'
            ) from error
        warnings.warn(
            'kde_imitation was built without its compiled module: the NumPy twin serves, '
            'with the same results but more slowly. Install a C compiler, then '
            'kde_imitation again.',
            stacklevel=2,
        )
        return 'numpy', _twin
    return 'cython', _core


BACKEND, core = _choose()


def describe() -> str:
    """Say in a few words which back end serves."""
    return 'compiled (Cython)' if BACKEND == 'cython' else 'NumPy twin'
