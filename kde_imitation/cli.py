"""The command line: `kde_imitation train`, `predict`, `evaluate`, `teach`, `demo`, `benchmark`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from kde_imitation import __version__
from kde_imitation.commands.teach_options import add_arguments as add_teach_arguments
from kde_imitation.errors import KdeImitationError

Commands: TypeAlias = 'argparse._SubParsersAction[argparse.ArgumentParser]'

BENCHMARKS = {
    'kinematics': "inverse kinematics in TRAC-IK's table form",
    'psom': 'PSOM+ tables 3.1 to 3.3, the fish bowl, the two-part arm model',
    'psom_speed': 'PSOM+ time and memory',
    'kernels': 'kernel expansions against scikit-learn, NumPy and the limit of the core',
    'regression': 'rank-constrained regression: figures 2.2 to 2.7, posture to joints',
    'preimage': 'pre-images: constrained against SciPy, super-resolution, digits, paths',
    'reduced_sets': 'reduced sets: figures 4.1, 4.3, 4.5 to 4.7, time against points',
    'growth': 'time of kernel dependency estimation against points, features and rank',
    'accuracy': 'error of postures on people and movements that were not taught',
    'vision': 'picture to joint goal: time, invariance, odd pictures, memory',
    'following': 'the whole stack: raising and waving as joint trajectories, nodes killed',
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
    from kde_imitation.nodes.demo import run

    return run(
        seconds=arguments.seconds,
        report=arguments.report,
        output=arguments.output,
        headless=arguments.headless,
        source=arguments.source,
        model=arguments.model,
        record=arguments.record,
    )


def _train(arguments: argparse.Namespace) -> int:
    from kde_imitation.commands import train

    report = arguments.report or train.default_report(arguments.output)
    robot = train.robot_of(
        arguments.urdf, arguments.tip, arguments.elbow, arguments.wrist, arguments.base
    )
    return train.run(
        arguments.datasets,
        arguments.output,
        pairs=arguments.pairs,
        features=arguments.features,
        report=None if arguments.no_report else report,
        robot=robot,
    )


def _predict(arguments: argparse.Namespace) -> int:
    from kde_imitation.commands import predict

    return predict.run(arguments.model, arguments.folder, arguments.csv, arguments.sequence)


def _evaluate(arguments: argparse.Namespace) -> int:
    from kde_imitation.commands import evaluate

    return evaluate.run(
        arguments.model, arguments.dataset, arguments.json, arguments.pictures, arguments.sequence
    )


def _teach(arguments: argparse.Namespace) -> int:
    from kde_imitation.commands import teach
    from kde_imitation.commands.teach_options import Options

    return teach.run(Options.of(arguments))


def _add_train(commands: Commands) -> None:
    train = commands.add_parser('train', help='learn a model from demonstrations')
    train.add_argument(
        'datasets',
        nargs='+',
        type=Path,
        metavar='DATASET',
        help='folders of pictures; those without labels.csv serve unpaired',
    )
    train.add_argument('--output', type=Path, required=True, metavar='MODEL', help='file to write')
    train.add_argument('--pairs', type=int, metavar='N', help='the first N labelled rows only')
    train.add_argument(
        '--features',
        choices=('arm', 'thesis'),
        default='arm',
        help='what is read from a picture (default: arm; thesis is the baseline)',
    )
    told = train.add_mutually_exclusive_group()
    told.add_argument(
        '--report', type=Path, metavar='FOLDER', help='of the report (default: MODEL_report)'
    )
    told.add_argument('--no-report', action='store_true', help='write the model only')
    own = train.add_argument_group('an arm other than the PA-10')
    own.add_argument('--urdf', type=Path, metavar='FILE', help='its description')
    own.add_argument('--tip', metavar='LINK', help='last link of the arm')
    own.add_argument('--elbow', metavar='JOINT', help='joint at the end of the upper arm')
    own.add_argument('--wrist', metavar='JOINT', help='joint at the end of the forearm')
    own.add_argument('--base', metavar='LINK', help='first link, unless it is the root')
    train.set_defaults(run=_train)


def _add_model_users(commands: Commands) -> None:
    predict = commands.add_parser('predict', help='the postures for the pictures of a folder')
    evaluate = commands.add_parser('evaluate', help='the error of a model on a data set')
    for parser in (predict, evaluate):
        parser.add_argument('model', type=Path, metavar='MODEL', help='a file that train wrote')
    predict.add_argument('folder', type=Path, metavar='FOLDER', help='of pictures 0000.jpg, …')
    predict.add_argument(
        '--csv', type=Path, required=True, metavar='OUT', help='table to write: frame,q1,…,novelty'
    )
    predict.set_defaults(run=_predict)
    evaluate.add_argument('dataset', type=Path, metavar='DATASET', help='pictures with labels.csv')
    evaluate.add_argument(
        '--json', type=Path, metavar='OUT', help='write all numbers to this file'
    )
    evaluate.add_argument(
        '--pictures', type=Path, metavar='FOLDER', help='draw worst and best pictures into it'
    )
    evaluate.set_defaults(run=_evaluate)
    for parser in (predict, evaluate):
        parser.add_argument(
            '--sequence',
            choices=('auto', 'yes', 'no'),
            default='auto',
            help='whether the pictures show one movement, whose neighbours help each other '
            '(default: auto, the pictures decide)',
        )


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog='kde_imitation',
        description="A robot arm copies a person's arm seen by one camera.",
    )
    parser.add_argument('--version', action='store_true', help='version and back end, then stop')
    commands = parser.add_subparsers(dest='command', metavar='COMMAND')

    _add_train(commands)
    _add_model_users(commands)
    teach = commands.add_parser('teach', help='record demonstrations, then train')
    add_teach_arguments(teach)
    teach.set_defaults(run=_teach)

    demo = commands.add_parser('demo', help='a simulated PA-10 copies a person')
    demo.add_argument(
        '--headless', action='store_true', help='no window; for machines without a screen'
    )
    demo.add_argument('--seconds', type=float, default=20.0, help='how long to run (1 to 3600)')
    demo.add_argument('--report', type=Path, help='write the measurements to this JSON file')
    demo.add_argument(
        '--source', default='demo', help='camera, video or folder instead of the bundled clip'
    )
    demo.add_argument(
        '--model', default='demo', help='a file that train wrote instead of the bundled model'
    )
    demo.add_argument(
        '--record', type=Path, metavar='FOLDER', help='record all topics into this folder (MCAP)'
    )
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
    except KeyboardInterrupt:
        print('kde_imitation: stopped.', file=sys.stderr)
        return 130


if __name__ == '__main__':
    sys.exit(main())
