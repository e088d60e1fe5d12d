"""The Makefile and the script of the build server do what they promise on an unready machine."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, clean_environ, run

TARGETS = ('demo', 'test', 'benchmark', 'format', 'clean', 'help')


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return run(['make', *words], ROOT)


def script(path: Path, text: str) -> Path:
    path.write_text(f'#!/bin/sh\n{text}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_make_alone_lists_every_target() -> None:
    done = make()
    assert done.returncode == 0
    for target in TARGETS:
        assert f'make {target}' in done.stdout


def test_the_demo_gets_its_arguments() -> None:
    done = make('--dry-run', '--always-make', 'demo', 'ARGS=--headless --seconds 15')
    assert done.stdout.rstrip().endswith('/kde_imitation demo --headless --seconds 15')


@pytest.mark.parametrize('target', ['demo', 'test'])
def test_an_old_python_is_refused_with_a_sentence(tmp_path: Path, target: str) -> None:
    old = script(tmp_path / 'python3', 'exit 1')
    done = make(target, f'PYTHON={old}', f'VENV={tmp_path / "environment"}')
    assert done.returncode != 0
    assert 'needs Python 3.11 or newer' in done.stderr
    assert str(old) in done.stderr
    assert not (tmp_path / 'environment').exists()


def test_a_compilation_that_fails_stops_the_tests_before_they_run(tmp_path: Path) -> None:
    # An environment that looks installed, has no compiled module, and whose pip cannot make one.
    programs = tmp_path / 'environment' / 'bin'
    programs.mkdir(parents=True)
    script(programs / 'python', 'exit 1')
    script(programs / 'pip', 'test "$KDE_IMITATION_REQUIRE_EXTENSION" = 1 && echo asked; exit 1')
    for tool in ('ruff', 'mypy', 'pytest'):
        script(programs / tool, f'echo {tool} ran')
    (programs.parent / 'installed').touch()
    done = make('test', f'VENV={programs.parent}')
    assert done.returncode != 0
    assert 'asked' in done.stdout
    assert 'ran' not in done.stdout


@pytest.mark.parametrize('failing', ['ruff', 'mypy', 'pytest', None])
def test_every_checker_runs_and_any_failure_fails(tmp_path: Path, failing: str | None) -> None:
    programs = tmp_path / 'environment' / 'bin'
    programs.mkdir(parents=True)
    for tool in ('python', 'pip', 'ruff', 'mypy', 'pytest'):
        script(programs / tool, f'echo {tool} ran; exit {int(tool == failing)}')
    (programs.parent / 'installed').touch()
    done = make('test', f'VENV={programs.parent}')
    assert (done.returncode != 0) == (failing is not None)
    lines = [line for line in done.stdout.splitlines() if line.endswith(' ran')]
    assert lines[-4:] == ['ruff ran', 'ruff ran', 'mypy ran', 'pytest ran']


@pytest.mark.parametrize(
    ('user', 'apt_status', 'apt_calls', 'excused'),
    [
        (0, 0, ['update', 'install'], False),
        (0, 1, ['update'], True),
        (1000, 0, [], True),
    ],
    ids=['root', 'root without a network', 'someone else'],
)
def test_a_missing_osmesa_is_installed_or_excused(
    tmp_path: Path, user: int, apt_status: int, apt_calls: list[str], excused: bool
) -> None:
    programs = tmp_path / 'environment' / 'bin'
    programs.mkdir(parents=True)
    script(programs / 'pip', '')
    script(programs / 'python', 'exit 1')
    script(tmp_path / 'id', f'echo {user}')
    script(tmp_path / 'apt-get', f'echo "apt-get $@"; exit {apt_status}')
    path = f'{tmp_path}{os.pathsep}{os.environ["PATH"]}'
    done = run(['make', 'osmesa', f'VENV={programs.parent}'], ROOT, clean_environ(PATH=path))
    assert done.returncode == 0
    calls = [line.split() for line in done.stdout.splitlines() if line.startswith('apt-get ')]
    assert [words[1] for words in calls] == apt_calls
    assert all('libosmesa6' in words for words in calls if words[1] == 'install')
    assert ('drawn with matplotlib' in done.stderr) == excused


@pytest.mark.parametrize(
    ('user', 'apt_calls', 'excused'),
    [(0, ['update', 'install'], False), (1000, [], True)],
    ids=['root', 'someone else'],
)
def test_a_missing_parser_of_models_is_installed_or_excused(
    tmp_path: Path, user: int, apt_calls: list[str], excused: bool
) -> None:
    for name, text in {'id': f'echo {user}', 'apt-get': 'echo "apt-get $@"'}.items():
        script(tmp_path / name, text)
    for name in ('make', 'sh'):
        (tmp_path / name).symlink_to(shutil.which(name) or '')
    done = run(['make', 'sdformat'], ROOT, clean_environ(PATH=str(tmp_path)))
    assert done.returncode == 0
    calls = [line.split() for line in done.stdout.splitlines() if line.startswith('apt-get ')]
    assert [words[1] for words in calls] == apt_calls
    assert all('libsdformat-dev' in words for words in calls if words[1] == 'install')
    assert ('tests are skipped' in done.stderr) == excused


@pytest.mark.parametrize('status', [0, 2])
def test_the_build_server_script_runs_the_tests_and_hands_on_their_status(
    tmp_path: Path, status: int
) -> None:
    script(tmp_path / 'make', f'echo "$PWD" "$@"; exit {status}')
    path = f'{tmp_path}{os.pathsep}{os.environ["PATH"]}'
    done = run([ROOT / '.ci' / 'run'], tmp_path, clean_environ(CI='true', PATH=path))
    assert done.returncode == status
    assert done.stdout.split() == [str(ROOT), 'sdformat', 'test']
