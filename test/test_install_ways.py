"""Every way of installing the package works: wheel, editable, colcon, and without a compiler.

All checks work outside the checkout, in one virtual environment that each of them finds with the
dependencies of kde_imitation, from the package index, but without kde_imitation. They stay in one
file so that a parallel run gives them to one worker.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PACKAGE, ROOT, clean_environ, run, source_files

pytestmark = pytest.mark.install

SHARED_FOLDERS = ('launch', 'urdf', 'config', 'rviz', 'worlds', 'model', 'clip')
# Modules of the optional extras; without them a module may stop at its import, with their name.
OPTIONAL = ('mujoco', 'ruckig', 'viser', 'rclpy', 'launch', 'launch_ros')
COLCON = ('colcon-core', 'colcon-ros', 'colcon-library-path', 'ros-ament-index-python')
REQUIRED = {'KDE_IMITATION_REQUIRE_EXTENSION': '1'}
NO_COMPILER = {'CC': shutil.which('false') or ''}

BUILD_MODES = pytest.mark.parametrize(
    'options', [(), ('--symlink-install',)], ids=['copied', 'linked']
)


def output_of(
    command: Sequence[str | Path],
    folder: Path,
    environ: Mapping[str, str] | None = None,
    fails: bool = False,
) -> str:
    """Run a command that must succeed, or must fail, and return all that it wrote."""
    done = run(command, folder, environ)
    if (done.returncode != 0) != fails:
        pytest.fail(
            f'{" ".join(map(str, command))}\nended with status {done.returncode}.\n'
            f'{done.stdout[-6000:]}\n{done.stderr[-6000:]}\n'
            'If the lines above speak of connections or of versions not found: the installation '
            'checks need a package index that pip can reach.',
            pytrace=False,
        )
    return done.stdout + done.stderr


def copy_source(folder: Path) -> Path:
    """Copy the source files, so that no check builds inside the checkout or on old leavings."""
    for file in source_files():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    return folder


def shared_files(folder: Path) -> set[str]:
    """Return the files below `folder` that belong in the share folder, relative to it."""
    return {
        str(path.relative_to(folder))
        for top in SHARED_FOLDERS
        for path in (folder / top).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }


@dataclass(frozen=True)
class Distributions:
    """What `python -m build` makes: a source archive, and a wheel built from that archive."""

    archive: Path
    wheel: Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside the checkout."""

    folder: Path

    def program(self, name: str) -> Path:
        return self.folder / 'bin' / name

    def pip(self, *words: str | Path, fails: bool = False, **changes: str) -> str:
        command = [self.program('python'), '-m', 'pip', *words]
        return output_of(command, self.folder, clean_environ(**changes), fails)

    def evaluate(self, code: str, environ: Mapping[str, str] | None = None) -> str:
        """Return what Python code prints there, stripped."""
        return output_of([self.program('python'), '-c', code], self.folder, environ).strip()

    def share_folder(self, environ: Mapping[str, str] | None = None) -> Path:
        code = 'from kde_imitation.resources import share_folder as found; print(found())'
        return Path(self.evaluate(code, environ))

    def type_marker(self, environ: Mapping[str, str] | None = None) -> Path:
        code = 'from importlib.resources import files; print(files("kde_imitation") / "py.typed")'
        return Path(self.evaluate(code, environ))

    def version(self) -> subprocess.CompletedProcess[str]:
        return run([self.program(PACKAGE), '--version'], self.folder)

    def has_package(self) -> bool:
        code = f'import importlib.util as u; print(u.find_spec({PACKAGE!r}) is not None)'
        return self.evaluate(code) == 'True'

    def remove_package(self) -> None:
        if self.has_package():
            self.pip('uninstall', '--yes', PACKAGE)
        assert not self.has_package(), f'{PACKAGE} survived "pip uninstall" in {self.folder}'


@pytest.fixture(scope='module')
def workshop() -> Iterator[Path]:
    """Lend a folder outside the checkout, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=f'{PACKAGE}_install_') as folder:
        yield Path(folder).resolve()


@pytest.fixture
def source(workshop: Path) -> Iterator[Path]:
    """Lend a new copy of the source files."""
    with tempfile.TemporaryDirectory(prefix='source_', dir=workshop) as folder:
        yield copy_source(Path(folder, PACKAGE))


@pytest.fixture(scope='module')
def distributions(workshop: Path) -> Distributions:
    """Build the source archive, and from it the wheel, insisting on the compiled module."""
    tree = copy_source(workshop / 'tree')
    folder = workshop / 'dist'
    command = [sys.executable, '-m', 'build', '--outdir', folder, tree]
    output_of(command, workshop, clean_environ(**REQUIRED))
    (archive,) = folder.glob('*.tar.gz')
    (wheel,) = folder.glob('*.whl')
    return Distributions(archive, wheel)


@pytest.fixture(scope='module')
def environment(workshop: Path, distributions: Distributions) -> Environment:
    """Make an empty virtual environment and install the wheel there with its dependencies."""
    environment = Environment(workshop / 'environment')
    output_of([sys.executable, '-m', 'venv', environment.folder], workshop)
    assert not environment.has_package()
    environment.pip('install', '--no-compile', distributions.wheel)
    return environment


@pytest.fixture
def bare(environment: Environment) -> Iterator[Environment]:
    """Lend the environment without kde_imitation."""
    environment.remove_package()
    yield environment
    environment.remove_package()


# --- a wheel ---------------------------------------------------------------------------------


@pytest.fixture
def with_wheel(bare: Environment, distributions: Distributions) -> Environment:
    bare.pip('install', '--no-deps', distributions.wheel)
    return bare


def test_the_wheel_holds_the_modules_the_compiled_one_and_no_more(
    distributions: Distributions,
) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith(f'{PACKAGE}/')}
    compiled = {name for name in packed if name.endswith('.so')}
    assert len(compiled) == 1
    assert re.fullmatch(rf'{PACKAGE}/kernels/_core\.cpython-\d+.*\.so', *compiled)
    assert packed - compiled == {
        str(file)
        for file in source_files()
        if file.parts[0] == PACKAGE and (file.suffix in ('.py', '.pyi') or file.name == 'py.typed')
    }


def test_the_source_archive_holds_what_a_build_needs(distributions: Distributions) -> None:
    with tarfile.open(distributions.archive) as archive:
        packed = {name.partition('/')[2] for name in archive.getnames()}
    wanted = shared_files(ROOT) | {
        *('setup.py', 'setup.cfg', 'pyproject.toml', 'package.xml', 'MANIFEST.in'),
        *('README.md', 'LICENSE', 'CHANGELOG.rst', f'resource/{PACKAGE}'),
        f'{PACKAGE}/kernels/_core.pyx',
    }
    assert wanted - packed == set()


def test_the_command_of_the_wheel_runs_compiled_and_without_complaint(
    with_wheel: Environment,
) -> None:
    version = re.search(r'<version>(.+)</version>', (ROOT / 'package.xml').read_text())
    assert version is not None
    done = with_wheel.version()
    assert done.stderr == ''
    assert done.stdout == f'{PACKAGE} {version[1]}, hot loops: compiled (Cython)\n'


def test_the_wheel_brings_every_shared_file(with_wheel: Environment) -> None:
    share = with_wheel.share_folder()
    assert share == with_wheel.folder / 'share' / PACKAGE
    assert shared_files(share) == shared_files(ROOT)
    assert (share / 'package.xml').read_bytes() == (ROOT / 'package.xml').read_bytes()
    index = with_wheel.folder / 'share/ament_index/resource_index/packages'
    assert (index / PACKAGE).is_file()


def test_the_wheel_is_marked_as_typed(with_wheel: Environment) -> None:
    marker = with_wheel.type_marker()
    assert with_wheel.folder in marker.parents
    assert marker.is_file()


def test_the_declared_dependencies_suffice_to_import_every_module(
    with_wheel: Environment,
) -> None:
    with_wheel.pip('check')
    code = f"""
import importlib, pkgutil, kde_imitation
for module in pkgutil.walk_packages(kde_imitation.__path__, 'kde_imitation.', onerror=print):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        cause = error.__cause__ or error
        if (cause.name or '').partition('.')[0] not in {OPTIONAL!r}:
            print(module.name, repr(error))
"""
    assert with_wheel.evaluate(code) == ''


# --- editable --------------------------------------------------------------------------------


def test_an_editable_installation_follows_the_source_tree(bare: Environment, source: Path) -> None:
    bare.pip('install', '--no-deps', '--editable', source, **REQUIRED)
    done = bare.version()
    assert done.stderr == ''
    assert done.stdout.endswith('hot loops: compiled (Cython)\n')
    assert bare.share_folder() == source

    with (source / PACKAGE / 'errors.py').open('a') as module:
        module.write('\nFOLLOWED = True\n')
    assert bare.evaluate('from kde_imitation.errors import FOLLOWED as f; print(f)') == 'True'


# --- without a compiler ----------------------------------------------------------------------


def test_without_a_compiler_the_numpy_twin_serves_and_says_so(
    bare: Environment, source: Path
) -> None:
    build = bare.pip('install', '--verbose', '--no-deps', source, **NO_COMPILER)
    assert build.count('its NumPy twin will serve') == 1

    done = bare.version()
    assert done.stdout.endswith('hot loops: NumPy twin\n')
    assert done.stderr.count('Warning') == 1
    assert done.stderr.count('built without its compiled module') == 1
    code = 'from kde_imitation.kernels import _twin, backend; print(backend.core is _twin)'
    assert bare.evaluate(f'import warnings; warnings.simplefilter("ignore"); {code}') == 'True'


def test_without_a_compiler_a_required_compiled_module_is_an_error(
    bare: Environment, source: Path
) -> None:
    output = bare.pip('install', '--no-deps', source, fails=True, **NO_COMPILER, **REQUIRED)
    assert re.search(rf'error: command .*{NO_COMPILER["CC"]}', output, re.IGNORECASE)
    assert not bare.has_package()


# --- colcon ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workspace:
    """A colcon workspace whose only package is this one."""

    environment: Environment
    folder: Path

    @property
    def prefix(self) -> Path:
        return self.folder / 'install' / PACKAGE

    def build(self, *options: str, fails: bool = False, **changes: str) -> str:
        colcon = self.environment.program('colcon')
        command = [colcon, 'build', *options, '--event-handlers', 'console_direct+']
        return output_of(command, self.folder, clean_environ(**changes), fails)

    def sourced(self) -> dict[str, str]:
        """Return the variables after `. install/setup.sh`."""
        output = output_of(['sh', '-c', '. install/setup.sh && env -0'], self.folder)
        pairs = (line.partition('=') for line in output.split('\0') if line)
        return {name: value for name, _, value in pairs}

    def version(self) -> subprocess.CompletedProcess[str]:
        command = [self.prefix / 'lib' / PACKAGE / PACKAGE, '--version']
        return run(command, self.folder, self.sourced())


@pytest.fixture(scope='module')
def colcon(environment: Environment) -> Environment:
    environment.pip('install', *COLCON, 'cython')
    return environment


@pytest.fixture
def workspace(colcon: Environment, bare: Environment, workshop: Path) -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory(prefix='workspace_', dir=workshop) as folder:
        copy_source(Path(folder, 'src', PACKAGE))
        yield Workspace(colcon, Path(folder))


@pytest.fixture
def no_cython(colcon: Environment) -> Iterator[None]:
    colcon.pip('uninstall', '--yes', 'cython')
    yield
    colcon.pip('install', 'cython')


def console_scripts() -> list[str]:
    settings = configparser.ConfigParser()
    settings.read(ROOT / 'setup.cfg')
    lines = settings['options.entry_points']['console_scripts'].strip().splitlines()
    return sorted(line.partition('=')[0].strip() for line in lines)


@BUILD_MODES
def test_a_sourced_workspace_has_the_package_its_files_and_its_executables(
    workspace: Workspace, options: tuple[str, ...]
) -> None:
    workspace.build(*options, **REQUIRED)
    environ = workspace.sourced()

    code = 'import ament_index_python as a; print(a.get_package_share_directory("kde_imitation"))'
    share = Path(workspace.environment.evaluate(code, environ))
    assert share == workspace.prefix / 'share' / PACKAGE
    assert shared_files(share) == shared_files(ROOT)
    for name in (*shared_files(share), 'package.xml'):
        assert (share / name).read_bytes() == (ROOT / name).read_bytes()
    marker = workspace.environment.type_marker(environ)
    assert workspace.folder in marker.parents
    assert marker.is_file()
    used = workspace.environment.share_folder(environ)
    assert used == (workspace.folder / 'src' / PACKAGE if options else share)

    executables = sorted((workspace.prefix / 'lib' / PACKAGE).iterdir())
    assert [path.name for path in executables] == console_scripts()
    assert all(os.access(path, os.X_OK) for path in executables)
    done = workspace.version()
    assert done.stderr == ''
    assert done.stdout.endswith('hot loops: compiled (Cython)\n')


@BUILD_MODES
def test_a_workspace_without_cython_uses_the_numpy_twin(
    workspace: Workspace, no_cython: None, options: tuple[str, ...]
) -> None:
    assert workspace.build(*options).count('failed: Cython is not installed') == 1
    done = workspace.version()
    assert done.stdout.endswith('hot loops: NumPy twin\n')
    assert done.stderr.count('built without its compiled module') == 1

    refused = workspace.build(*options, fails=True, **REQUIRED)
    assert 'error: Cython is not installed' in refused
