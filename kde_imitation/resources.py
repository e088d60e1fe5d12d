"""Where the files that are not code lie: URDF, configuration, launch files, pictures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kde_imitation.errors import BadInput

PACKAGE = 'kde_imitation'


@cache
def share_folder() -> Path:
    """Return the folder that holds `urdf/`, `config/` and `launch/`.

    One rule serves every way of installing: going up from this module, the first folder that is
    the source tree, or that has `share/kde_imitation` below it as wheels and colcon put it.
    """
    for folder in Path(__file__).resolve().parents:
        for candidate in (folder, folder / 'share' / PACKAGE):
            if (candidate / 'package.xml').is_file() and (candidate / 'urdf').is_dir():
                return candidate
    raise BadInput(
        f'The share folder of {PACKAGE} was not found above {Path(__file__).parent}; '
        'install the package again with "pip install ." or "colcon build".'
    )


def share_file(*parts: str) -> Path:
    """Return the path of a shared file, or say which one is missing."""
    path = share_folder().joinpath(*parts)
    if not path.exists():
        raise BadInput(f'{path} is missing; install {PACKAGE} again.')
    return path
