"""What `kde_imitation teach` can be told; light, so that `--help` is quick."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ['Options', 'add_arguments']


@dataclass(frozen=True)
class Options:
    """What the command was told; see `kde_imitation teach --help`."""

    source: str = '0'
    output: Path = Path('demonstrations')
    postures: str = 'spread'
    count: int | None = None
    countdown: float = 0.0
    auto: bool = False
    arm: str = 'auto'
    background: Path | None = None
    skin: str = 'face'
    leave_time: float = 5.0
    view: Path | None = None
    headless: bool = False
    model: Path | None = None
    train: bool = True
    report: bool = True

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Options:
        """Take what was told from among the arguments of the command line."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(arguments, name) for name in names})


def add_arguments(teach: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser; their defaults are those of `Options`."""

    def add(flag: str, meaning: str, **details: Any) -> None:
        name = details.setdefault('dest', flag.removeprefix('--').replace('-', '_'))
        teach.add_argument(flag, default=getattr(Options, name), help=meaning, **details)

    add(
        '--source',
        "a camera ('0', '/dev/video0', an address), a video, a folder of pictures, or 'demo' "
        'for the bundled clip; a data set with labels plays the person (default: 0)',
    )
    add(
        '--output',
        'data set to write; one that is there goes on (default: demonstrations)',
        type=Path,
        metavar='FOLDER',
    )
    add(
        '--postures',
        'table with columns q1, … in radians (default: spread over what an arm can copy)',
        metavar='FILE',
    )
    add('--count', 'so many postures (default: 50)', type=int, metavar='N')
    add(
        '--countdown',
        'store a pair so long after the arm is at rest (default: 0, wait for a key)',
        type=float,
        metavar='SECONDS',
    )
    add('--auto', 'store a pair as soon as the person holds still', action='store_true')
    add(
        '--arm',
        'what shows the postures (default: mujoco; none where a data set plays the person)',
        choices=('auto', 'mujoco', 'none'),
    )
    add('--background', 'picture of the room without a person', type=Path, metavar='FILE')
    add(
        '--skin',
        "where the colour of skin is taken from: 'face', 'none', or a rectangle in pixels as "
        "'left,top,width,height' (default: face)",
    )
    add(
        '--leave-time',
        'how long you have to leave the picture (default: 5)',
        type=float,
        metavar='SECONDS',
    )
    add('--view', 'PNG file with arm and camera, kept up to date', type=Path, metavar='FILE')
    add('--headless', 'no window', action='store_true')
    add('--model', 'file to write (default: FOLDER.npz)', type=Path, metavar='MODEL')
    add('--no-train', 'only record demonstrations', dest='train', action='store_false')
    add('--no-report', 'train without a report', dest='report', action='store_false')
