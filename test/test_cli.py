"""The command line: what it prints, what it refuses, what it writes."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from kde_imitation import cli
from kde_imitation.benchmarks import report
from kde_imitation.benchmarks.report import Table


def test_version_names_the_back_end(capsys):
    assert cli.main(['--version']) == 0
    assert 'hot loops: ' in capsys.readouterr().out


def test_without_a_command_it_prints_help(capsys):
    assert cli.main([]) == 2
    assert 'demo' in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(['benchmark', 'psom', 'telepathy'])
    assert stopped.value.code == 2
    assert 'no benchmark named telepathy; choose from kinematics, psom' in capsys.readouterr().err


def test_bad_arguments_are_one_sentence_and_no_traceback(capsys):
    assert cli.main(['demo', '--headless', '--seconds', '0']) == 1
    error = capsys.readouterr().err
    assert error == 'kde_imitation: seconds must be from 1 to 3600, not 0.\n'


def test_benchmark_writes_every_table(tmp_path, monkeypatch, capsys):
    class Fake:
        @staticmethod
        def run(pictures):
            table = Table('toy', 'A toy table', ['what', 'number'], notes=['a note'])
            table.add('pi', np.float64(np.pi))
            table.add('none', None)
            return [table]

    monkeypatch.setattr(cli.importlib, 'import_module', lambda name: Fake)
    file = tmp_path / 'deep' / 'out.json'
    assert cli.main(['benchmark', 'psom', '--json', str(file)]) == 0
    printed = capsys.readouterr().out
    assert '3.142' in printed
    assert 'a note' in printed
    record = json.loads(file.read_text())
    assert record['tables'][0]['rows'] == [['pi', np.pi], ['none', None]]
    assert record['cores'] == os.cpu_count()


def test_a_group_of_benchmarks_runs_each_of_its_parts_once(monkeypatch):
    seen = []

    class Fake:
        @staticmethod
        def run(pictures):
            return []

    monkeypatch.setattr(cli.importlib, 'import_module', lambda name: seen.append(name) or Fake)
    assert cli.main(['benchmark', 'growth', 'learning']) == 0
    assert [name.rsplit('.', 1)[1] for name in seen] == [
        'growth',
        'regression',
        'preimage',
        'reduced_sets',
    ]


def test_every_benchmark_has_its_module():
    for name in cli.BENCHMARKS:
        assert importlib.util.find_spec(f'kde_imitation.benchmarks.{name}') is not None
    for parts in cli.GROUPS.values():
        assert set(parts) <= set(cli.BENCHMARKS)


def test_timings_are_taken_in_turns():
    order = []
    seconds = report.timings({'a': lambda: order.append('a'), 'b': lambda: order.append('b')}, 20)
    assert ''.join(order) == 'ab' * 22
    assert seconds['a'].shape == (20,)
    assert (seconds['b'] > 0).all()


@pytest.mark.parametrize(
    ('choice', 'expected'),
    [('numpy', 'NumPy twin'), ('fortran', 'use auto, cython or numpy')],
)
def test_the_back_end_can_be_chosen(choice, expected):
    done = subprocess.run(
        [sys.executable, '-m', 'kde_imitation.cli', '--version'],
        env={**os.environ, 'KDE_IMITATION_BACKEND': choice},
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout + done.stderr
    assert (done.returncode == 0) == (choice == 'numpy')
    assert 'Traceback' not in done.stderr


def test_a_legend_below_leaves_the_axes_their_room():
    figure = Figure(figsize=(6, 3))
    for axes in figure.subplots(1, 2):
        axes.plot([0, 1], label='rising')
        axes.set_xlabel('time')
    report.legend_below(figure, ncols=2)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().y0 > 0
    for axes in figure.axes:
        assert axes.get_tightbbox().y0 >= legend.get_window_extent().y1
