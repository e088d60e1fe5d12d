"""What `kde_imitation teach` can be told; light, so that `--help` is quick."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

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
    """Add the arguments of the command to its parser."""
    teach.add_argument(
        '--source',
        default='0',
        help="a camera ('0', '/dev/video0', an address), a video, a folder of pictures, or 'demo' "
        'for the bundled clip; a data set with labels plays the person (default: 0)',
    )
    teach.add_argument(
        '--output',
        type=Path,
        default=Path('demonstrations'),
        metavar='FOLDER',
        help='data set to write; one that is there goes on (default: demonstrations)',
    )
    teach.add_argument(
        '--postures',
        default='spread',
        metavar='FILE',
        help='table with columns q1, … in radians (default: spread over what an arm can copy)',
    )
    teach.add_argument('--count', type=int, metavar='N', help='so many postures (default: 50)')
    teach.add_argument(
        '--countdown',
        type=float,
        default=0.0,
        metavar='SECONDS',
        help='store a pair so long after the arm is at rest (default: 0, wait for a key)',
    )
    teach.add_argument(
        '--auto', action='store_true', help='store a pair as soon as the person holds still'
    )
    teach.add_argument(
        '--arm',
        choices=('auto', 'mujoco', 'none'),
        default='auto',
        help='what shows the postures (default: mujoco; none where a data set plays the person)',
    )
    teach.add_argument(
        '--background', type=Path, metavar='FILE', help='picture of the room without a person'
    )
    teach.add_argument(
        '--skin',
        default='face',
        help="where the colour of skin is taken from: 'face', 'none', or a rectangle in pixels as "
        "'left,top,width,height' (default: face)",
    )
    teach.add_argument(
        '--leave-time',
        type=float,
        default=5.0,
        metavar='SECONDS',
        help='how long you have to leave the picture (default: 5)',
    )
    teach.add_argument(
        '--view', type=Path, metavar='FILE', help='PNG file with arm and camera, kept up to date'
    )
    teach.add_argument('--headless', action='store_true', help='no window')
    teach.add_argument(
        '--model', type=Path, metavar='MODEL', help='file to write (default: FOLDER.npz)'
    )
    teach.add_argument(
        '--no-train', dest='train', action='store_false', help='only record demonstrations'
    )
    teach.add_argument(
        '--no-report', dest='report', action='store_false', help='train without a report'
    )
