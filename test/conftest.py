"""What tests share: source files and commands, threads, and the world of the nodes."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from node_bench import World

# A change is judged on the same examples each time; by hand, new ones are sought in every run.
settings.register_profile('steady', derandomize=True, deadline=None)
settings.register_profile('searching', deadline=None)
settings.load_profile('steady' if os.environ.get('CI') else 'searching')

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = 'kde_imitation'


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slow installation checks first, so that a parallel run does not end with them."""
    items.sort(key=lambda item: item.get_closest_marker('install') is None)


@pytest.fixture
def ros() -> Iterator[World]:
    """Lend a test of a node a ROS context and a DDS domain of its own."""
    from node_bench import world  # skips where ROS 2 is not installed

    with world() as made:
        yield made


def source_files() -> list[Path]:
    """List the files of the checkout, relative to it, without what was built or downloaded."""
    listing = subprocess.run(
        [
            *('git', '-c', f'safe.directory={ROOT}', 'ls-files', '-z'),
            *('--cached', '--others', '--exclude-standard'),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = [name for name in listing.stdout.split('\0') if name]
    if 'setup.py' in names:
        return [Path(name) for name in sorted(set(names)) if (ROOT / name).is_file()]
    # An unpacked archive has no history to ask; leave out what .gitignore names.
    patterns = [line.strip('/') for line in (ROOT / '.gitignore').read_text().split()]
    files = (path.relative_to(ROOT) for path in sorted(ROOT.rglob('*')) if path.is_file())
    return [
        file
        for file in files
        if not any(fnmatch.fnmatch(part, pattern) for part in file.parts for pattern in patterns)
    ]


def in_threads(work: Callable[[], Any], count: int = 4) -> list[Any]:
    """Do the same work in threads that begin together; return what each of them found."""
    begin = threading.Barrier(count, timeout=30.0)

    def together() -> Any:
        begin.wait()
        return work()

    with ThreadPoolExecutor(count) as pool:
        started = [pool.submit(together) for _ in range(count)]
    return [each.result() for each in started]


def clean_environ(**changes: str) -> dict[str, str]:
    """Return the variables of this process without those that would lend a check its packages."""
    foreign = ('PYTHON', 'KDE_IMITATION', 'AMENT', 'COLCON', 'ROS_', 'VIRTUAL_ENV', 'MAKE')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, 'PIP_DISABLE_PIP_VERSION_CHECK': '1', 'PIP_NO_INPUT': '1', **changes}


def run(
    command: Sequence[str | Path],
    folder: Path,
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without a terminal, and return its status and its output."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=clean_environ() if environ is None else dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
