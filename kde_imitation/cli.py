"""The command line: `kde_imitation demo`, `kde_imitation benchmark`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from kde_imitation import __version__
from kde_imitation.errors import KdeImitationError

BENCHMARKS = {
    'kinematics': "inverse kinematics in TRAC-IK's table form",
    'psom': 'PSOM+ tables 3.1 to 3.3, the fish bowl, the two-part arm model',
    'psom_speed': 'PSOM+ time and memory',
    'kernels': 'kernel expansions against scikit-learn, NumPy and the limit of the core',
    'regression': 'rank-constrained regression: figures 2.2 to 2.7, posture to joints',
    'preimage': 'pre-images: constrained against SciPy, super-resolution, digits, paths',
    'reduced_sets': 'reduced sets: figures 4.1, 4.3, 4.5 to 4.7, time against points',
    'growth': 'time of kernel dependency estimation against points, features and rank',
}
GROUPS = {'learning': ('regression', 'preimage', 'reduced_sets', 'growth')}


def _version() -> str:
    from kde_imitation.kernels.backend import describe

    return f'kde_imitation {__version__}, hot loops: {describe()}'


def _benchmark(arguments: argparse.Namespace) -> int:
    from kde_imitation.benchmarks.report import print_table, write_json

    console = Console(width=max(Console().width, 110))
    tables = []
    wanted = [part for name in arguments.names for part in GROUPS.get(name, (name,))]
    for name in dict.fromkeys(wanted or BENCHMARKS):
        console.rule(f'{name}: {BENCHMARKS[name]}')
        module = importlib.import_module(f'kde_imitation.benchmarks.{name}')
        for table in module.run(arguments.pictures):
            print_table(table, console)
            tables.append(table)
        if arguments.json:
            write_json(tables, arguments.json)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from kde_imitation.simulation.demo import run

    return run(
        seconds=arguments.seconds,
        report=arguments.report,
        output=arguments.output,
        headless=arguments.headless,
    )


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog='kde_imitation',
        description="A robot arm copies a person's arm seen by one camera.",
    )
    parser.add_argument('--version', action='store_true', help='version and back end, then stop')
    commands = parser.add_subparsers(dest='command', metavar='COMMAND')

    demo = commands.add_parser('demo', help='a simulated PA-10 follows a path')
    demo.add_argument(
        '--headless', action='store_true', help='no window; for machines without a screen'
    )
    demo.add_argument('--seconds', type=float, default=20.0, help='how long to run (1 to 3600)')
    demo.add_argument('--report', type=Path, help='write the measurements to this JSON file')
    demo.add_argument(
        '--output', type=Path, default=Path('out'), help='folder for pictures (default: out)'
    )
    demo.set_defaults(run=_demo)

    bench = commands.add_parser('benchmark', help='repeat the published measurements')
    bench.add_argument(
        'names',
        nargs='*',
        metavar='NAME',
        help='; '.join(f'{name}: {what}' for name, what in BENCHMARKS.items())
        + ''.join(f'; {name}: {", ".join(parts)}' for name, parts in GROUPS.items()),
    )
    bench.add_argument('--json', type=Path, help='write all tables to this file')
    bench.add_argument('--pictures', type=Path, help='draw the figures into this folder')
    bench.set_defaults(run=_benchmark)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 on success, 1 on failure, 2 on a wrong call."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None and not arguments.version:
        parser.print_help()
        return 2
    unknown = set(getattr(arguments, 'names', [])) - set(BENCHMARKS) - set(GROUPS)
    if unknown:
        names = ', '.join(sorted(unknown))
        parser.error(
            f'no benchmark named {names}; choose from {", ".join([*BENCHMARKS, *GROUPS])}'
        )
    try:
        if arguments.version:
            print(_version())
            return 0
        return int(arguments.run(arguments))
    except KdeImitationError as error:
        print(f'kde_imitation: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
