"""What the package says of itself agrees: versions, dependencies, rooms, documents."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import sys
from pathlib import Path

import pytest
from catkin_pkg.changelog import get_changelog_from_path
from catkin_pkg.package import Package, parse_package
from catkin_pkg.package_version import get_forthcoming_label
from conftest import PACKAGE, ROOT, source_files
from docutils.core import publish_doctree
from docutils.nodes import system_message

from kde_imitation import cli

# pip's name on the left, the rosdep key on the right.
ROSDEP = {
    'cython': 'cython3',
    'setuptools': 'python3-setuptools',
    'numpy': 'python3-numpy',
    'scipy': 'python3-scipy',
    'opencv-python-headless': 'python3-opencv',
    'scikit-image': 'python3-skimage',
    'scikit-learn': 'python3-sklearn',
    'pin': 'pinocchio',
    'xacro': 'xacro',
    'pyyaml': 'python3-yaml',
    'matplotlib': 'python3-matplotlib',
    'rich': 'python3-rich',
    'mujoco': 'python3-mujoco-pip',
    'ros-jazzy-rclpy': 'rclpy',
    'ros-jazzy-sensor-msgs': 'sensor_msgs',
    'ros-jazzy-std-msgs': 'std_msgs',
    'ros-jazzy-std-srvs': 'std_srvs',
    'ros-jazzy-trajectory-msgs': 'trajectory_msgs',
    'ros-jazzy-diagnostic-msgs': 'diagnostic_msgs',
    'ros-jazzy-visualization-msgs': 'visualization_msgs',
    'ros-jazzy-geometry-msgs': 'geometry_msgs',
    'ros-jazzy-rosgraph-msgs': 'rosgraph_msgs',
    'ros-jazzy-rcl-interfaces': 'rcl_interfaces',
    'ros-jazzy-builtin-interfaces': 'builtin_interfaces',
    'pytest': 'python3-pytest',
    'pytest-benchmark': 'python3-pytest-benchmark',
    'pytest-xdist': 'python3-pytest-xdist',
    'hypothesis': 'python3-hypothesis',
    'build': 'python3-build',
    'catkin-pkg': 'python3-catkin-pkg-modules',
    'docutils': 'python3-docutils',
}
# rosdep has no Python module under any key: the user installs them with pip.
PIP_ONLY = {'ruckig', 'viser', 'rosbags'}
# Run by `make test` in its own environment; `colcon test` does without them.
MAKE_ONLY = {'ruff', 'mypy', 'types-pyyaml', 'pymanopt', 'dask'}
# Used by launch files and by people, never imported by the library.
ROS_ONLY = {
    *('launch', 'launch_ros', 'ros2launch'),
    *('robot_state_publisher', 'joint_state_publisher', 'joint_state_publisher_gui', 'rviz2'),
    *('ros2bag', 'ros_gz_sim', 'ros_gz_bridge', 'gz_ros2_control', 'controller_manager'),
    *('joint_state_broadcaster', 'forward_command_controller', 'joint_trajectory_controller'),
    'launch_pytest',
}

# A room knows only the rooms before it; the ground floor is open to all.
GROUND_FLOOR = ('__init__', 'errors', 'checks', 'resources')
ROOMS = (
    *('kernels', 'learning', 'vision', 'kinematics', 'control', 'simulation'),
    *('imitation', 'dataset', 'teaching', 'nodes', 'benchmarks', 'commands', 'cli'),
)
ROS_MODULE = re.compile(
    r'rclpy|rcl_interfaces|builtin_interfaces|std_srvs|\w+_msgs|launch\w*|ament_\w+|tf2_\w+|cv_bridge'
)

DOCUMENTS = sorted(
    file
    for file in source_files()
    if file.suffix == '.md' and (len(file.parts) == 1 or file.parts[0] == 'docs')
)


# --- versions and dependencies -------------------------------------------------------------


@pytest.fixture(scope='module')
def manifest() -> Package:
    warnings: list[str] = []
    package = parse_package(str(ROOT / 'package.xml'), warnings=warnings)
    assert warnings == []
    return package


def requirements() -> set[str]:
    """Return the pip names of everything setup.cfg and pyproject.toml ask for."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / 'setup.cfg')
    lines = settings['options']['install_requires'].split('\n')
    for extra in settings['options.extras_require'].values():
        lines += extra.split('\n')
    build = re.search(r'requires = \[(.*)\]', (ROOT / 'pyproject.toml').read_text())
    assert build is not None
    lines += [word.strip(" '") for word in build[1].split(',')]
    names = {re.split(r'[\[<>=!~; ]', line)[0].lower() for line in lines}
    return names - {'', PACKAGE}


def test_the_manifest_is_a_valid_ament_python_package(manifest: Package) -> None:
    manifest.validate()
    assert manifest.package_format == 3
    assert manifest.name == PACKAGE
    assert manifest.get_build_type() == 'ament_python'
    assert [(ROOT / licence.file).is_file() for licence in manifest.licenses] == [True]


def test_the_installed_version_is_that_of_the_manifest(manifest: Package) -> None:
    from kde_imitation import __version__

    assert __version__ == manifest.version, 'run "make install" after a change of version'


@pytest.mark.filterwarnings('ignore::DeprecationWarning:catkin_pkg')
def test_the_changelog_is_clean_and_knows_the_version(manifest: Package) -> None:
    text = (ROOT / 'CHANGELOG.rst').read_text()
    tree = publish_doctree(text, settings_overrides={'report_level': 5})
    assert [node.astext() for node in tree.findall(system_message)] == []
    assert tree['title'] == f'Changelog for package {PACKAGE}'
    changelog = get_changelog_from_path(str(ROOT / 'CHANGELOG.rst'), package_name=PACKAGE)
    released = [version for version, _, _ in changelog.foreach_version()]
    if released:
        assert released[0] == manifest.version
    else:
        assert get_forthcoming_label(text) == 'Forthcoming'


def test_every_dependency_of_pip_has_its_place_in_the_manifest(manifest: Package) -> None:
    asked = requirements()
    assert asked == set(ROSDEP) | PIP_ONLY | MAKE_ONLY
    named = {
        dependency.name
        for kind in ('buildtool_depends', 'build_depends', 'exec_depends', 'test_depends')
        for dependency in getattr(manifest, kind)
    }
    assert named == set(ROSDEP.values()) | ROS_ONLY


def test_the_manual_names_what_rosdep_cannot_install() -> None:
    manual = (ROOT / 'docs' / 'install.md').read_text()
    commands = [line for line in manual.splitlines() if 'pip install' in line]
    for name in PIP_ONLY:
        assert any(name in command.split() for command in commands), name


def test_the_manifest_names_every_package_that_launch_files_use(manifest: Package) -> None:
    named = {dependency.name for dependency in manifest.exec_depends} | {PACKAGE}
    for path in (*sorted((ROOT / 'launch').glob('*.py')), ROOT / PACKAGE / 'nodes/launching.py'):
        tree = ast.parse(path.read_text())
        used = {module.partition('.')[0] for module in imported(tree, ())}
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == 'package':
                assert isinstance(node.value, ast.Constant), f'{path.name}: a computed package'
                used.add(node.value.value)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == 'FindPackageShare':
                used.add(ast.literal_eval(node.args[0]))
        used -= {'yaml'} if 'python3-yaml' in named else set()
        assert used - named - set(sys.stdlib_module_names) == set(), path.name


def test_c_code_in_cython_sources_is_ascii() -> None:
    """Cython 3.0, which Ubuntu 24.04 has, cannot write other letters into its C file."""
    blocks = [
        (path.name, code)
        for path in sorted((ROOT / PACKAGE / 'kernels').glob('*.p[xy][ix]'))
        for code in re.findall(r'cdef extern from \*:\s*"""(.*?)"""', path.read_text(), re.DOTALL)
    ]
    assert len(blocks) >= 5
    assert [name for name, code in blocks if not code.isascii()] == []


# --- rooms -----------------------------------------------------------------------------------


def imported(tree: ast.AST, parents: tuple[str, ...]) -> set[str]:
    """Return the full names of the modules that a file below the packages `parents` imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else ()
            prefix = '.'.join((*base, *([node.module] if node.module else [])))
            found |= {f'{prefix}.{alias.name}' for alias in node.names}
    return found


def room_faults(folder: Path) -> list[str]:
    """Return one sentence for each import below `folder` that breaks the order of the rooms."""
    faults = []
    for path in sorted(folder.rglob('*.py')):
        file = path.relative_to(folder)
        room = file.parts[0].removesuffix('.py')
        if room not in ROOMS + GROUND_FLOOR:
            faults.append(f'{file} is in no known room.')
            continue
        known = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ()
        parents = (PACKAGE, *file.parent.parts)
        for name in sorted(imported(ast.parse(path.read_text()), parents)):
            top, _, rest = name.partition('.')
            target = rest.partition('.')[0]
            if top == PACKAGE and target in ROOMS and target not in known:
                faults.append(f'{file} imports {name}, a later room.')
            if room != 'nodes' and ROS_MODULE.fullmatch(top):
                faults.append(f'{file} imports {name}, but ROS belongs in nodes/.')
    return faults


def test_rooms_know_only_earlier_rooms_and_ros_stays_in_the_nodes() -> None:
    assert room_faults(ROOT / PACKAGE) == []


@pytest.mark.parametrize(
    ('file', 'code', 'fault'),
    [
        ('kernels/a.py', 'from kde_imitation.kinematics import pa10', 'a later room'),
        ('kernels/a.py', 'from kde_imitation import kinematics', 'a later room'),
        ('kernels/a.py', 'from ..kinematics.pa10 import x', 'a later room'),
        ('kernels/a.py', 'def f():\n    import kde_imitation.control.limits', 'a later room'),
        ('errors.py', 'from kde_imitation import kernels', 'a later room'),
        ('control/a.py', 'import rclpy.node', 'ROS belongs in nodes/'),
        ('cli.py', 'from sensor_msgs.msg import Image', 'ROS belongs in nodes/'),
        ('cellar/a.py', '', 'no known room'),
    ],
)
def test_a_broken_order_of_rooms_is_seen(tmp_path: Path, file: str, code: str, fault: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(code)
    faults = room_faults(tmp_path)
    assert len(faults) == 1
    assert fault in faults[0]


@pytest.mark.parametrize(
    ('file', 'code'),
    [
        ('kinematics/a.py', 'from kde_imitation.kernels.backend import core'),
        ('kinematics/psom/a.py', 'from . import b\nfrom .. import pa10\nfrom ... import kernels'),
        ('nodes/a.py', 'import rclpy'),
        ('cli.py', 'from kde_imitation.benchmarks import report'),
        ('control/a.py', 'from kde_imitation.errors import BadInput'),
    ],
)
def test_a_kept_order_of_rooms_passes(tmp_path: Path, file: str, code: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(code)
    assert room_faults(tmp_path) == []


# --- documents -------------------------------------------------------------------------------


CALL = re.compile(rf'(\$ )?(\w+=\S+ )*(make|ros2|(\S*bin/)?{PACKAGE})( |$)')


def shown_commands(text: str) -> list[str]:
    """Return the calls of this package in the code blocks and code spans of a Markdown text."""
    blocks = re.findall(r'^ *```[^\n]*\n(.*?)^ *```', text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r'^ *```.*?^ *```', '', text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace('\\\n', ' ').splitlines()]
    lines += re.findall(r'`([^`\n]+)`', prose)
    parts = [part.strip() for line in lines for part in re.split(r'&&|\|\|?|;', line)]
    return [part for part in parts if CALL.match(part)]


def command_fault(command: str) -> str | None:
    """Say what is wrong with a shown call, or nothing."""
    words = shlex.split(command.removeprefix('$ '), comments=True)
    while '=' in words[0]:
        words.pop(0)
    for stop in ('>', '2>'):
        words = words[: words.index(stop)] if stop in words else words
    if words[:1] == ['make']:
        targets = re.findall(r'^([a-z]+):.*##', (ROOT / 'Makefile').read_text(), re.MULTILINE)
        unknown = {word for word in words[1:] if '=' not in word} - set(targets)
        if unknown:
            return f'the Makefile has no target {", ".join(sorted(unknown))}'
        passed = [word.removeprefix('ARGS=') for word in words if word.startswith('ARGS=')]
        target = next((word for word in words[1:] if word in ('demo', 'benchmark')), None)
        return command_fault(f'{PACKAGE} {target} {passed[0]}') if passed and target else None
    if words[:3] == ['ros2', 'launch', PACKAGE]:
        missing = not words[3:] or not (ROOT / 'launch' / words[3]).is_file()
        return f'launch/ has no {" ".join(words[3:4])}' if missing else None
    if words[:3] == ['ros2', 'run', PACKAGE]:
        words = words[3:]
    if len(words) < 2 or Path(words[0]).name != PACKAGE:
        return None  # the name alone, or another's command
    try:
        arguments = cli.build_parser().parse_args(words[1:])
    except SystemExit as stop:
        return None if stop.code == 0 else 'the parser refuses it'
    unknown = set(getattr(arguments, 'names', None) or ()) - set({**cli.BENCHMARKS, **cli.GROUPS})
    return f'there is no benchmark {", ".join(sorted(unknown))}' if unknown else None


@pytest.mark.parametrize(
    ('text', 'commands'),
    [
        ("```python\nimport kde_imitation  # the arm's\n```", []),
        ('```\nkde_imitation/   kernels/ control/\n```', []),
        ('`cd ws && kde_imitation demo; make test`', ['kde_imitation demo', 'make test']),
        ('Run `.venv/bin/kde_imitation demo`.', ['.venv/bin/kde_imitation demo']),
    ],
)
def test_calls_are_told_from_other_code(text: str, commands: list[str]) -> None:
    assert shown_commands(text) == commands


@pytest.mark.parametrize('document', DOCUMENTS, ids=str)
def test_every_command_shown_is_accepted(document: Path) -> None:
    commands = shown_commands((ROOT / document).read_text())
    faults = {command: command_fault(command) for command in commands}
    assert {command: fault for command, fault in faults.items() if fault} == {}


@pytest.mark.parametrize(
    ('text', 'fault'),
    [
        ('Run `kde_imitation dance`.', 'the parser refuses it'),
        ('```\n$ kde_imitation demo --colour red\n```', 'the parser refuses it'),
        ('```sh\nkde_imitation demo \\\n  --seconds soon\n```', 'the parser refuses it'),
        ('`KDE_IMITATION_BACKEND=numpy kde_imitation dance`', 'the parser refuses it'),
        ('`ros2 run kde_imitation kde_imitation dance`', 'the parser refuses it'),
        ('`kde_imitation benchmark dancing`', 'there is no benchmark dancing'),
        ('`make dance`', 'the Makefile has no target dance'),
        ('`make demo ARGS="--colour red"`', 'the parser refuses it'),
        ('`ros2 launch kde_imitation dance.launch.py`', 'launch/ has no dance.launch.py'),
        ('`kde_imitation demo --headless --seconds 5  # five seconds`', None),
        ('`kde_imitation --help`', None),
        ('`make demo ARGS="--headless --seconds 15"`', None),
        ('`ros2 topic list`', None),
        ('`kde_imitation`', None),
    ],
)
def test_a_wrong_command_is_seen(text: str, fault: str | None) -> None:
    (command,) = shown_commands(text)
    assert command_fault(command) == fault


def broken_links(document: Path) -> list[str]:
    """Return the relative targets of links and images that do not exist."""
    text = re.sub(r'^ *```.*?^ *```', '', document.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r'\]\(<?([^)\s>]+)', text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    paths = [t.partition('#')[0] for t in targets if not re.match(r'[a-z]+:|#', t)]
    return [path for path in paths if not (document.parent / path).exists()]


@pytest.mark.parametrize('document', DOCUMENTS, ids=str)
def test_every_link_and_picture_exists(document: Path) -> None:
    assert broken_links(ROOT / document) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / 'here.md').write_text(
        '[a](gone.md#part) ![b](gone.png) <img src="gone.svg"> [c](here.md) [d](#part) '
        '[e](https://example.org/page)'
    )
    assert broken_links(tmp_path / 'here.md') == ['gone.md', 'gone.png', 'gone.svg']


# --- nothing of the machine ------------------------------------------------------------------

# In brackets, so that this file does not name what it forbids.
MACHINE_PATH = re.compile(r'/(wor[k]|roo[t]|hom[e])/|/op[t]/(pypi|wheels)|(^|\W)[A-Z]:\\User[s]')
REGISTRY = re.compile(r'extra-index-ur[l]|find-link[s]|pypi\.or[g]|pythonhoste[d]|artifactor[y]')

# A checkout right below / may be named by a common word.
CHECKOUT = re.compile(re.escape(str(ROOT)) + r'\b' if len(ROOT.parts) > 2 else r'(?!)')


def machine_words(text: str) -> list[str]:
    """Return the lines that name a place on one machine, or a host that serves packages."""
    return [
        line
        for line in text.splitlines()
        if MACHINE_PATH.search(line) or REGISTRY.search(line) or CHECKOUT.search(line)
    ]


def test_no_file_names_a_place_on_one_machine_or_a_registry() -> None:
    found = {
        str(file): machine_words((ROOT / file).read_text(errors='ignore'))
        for file in source_files()
    }
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    'line',
    [
        'see ' + '/wo' + 'rk/kde_imitation/setup.py',
        'cd ' + '/ho' + 'me/someone/catkin_ws',
        'pip install --extra-index' + '-url file:///somewhere',
        'https://py' + 'pi.org/simple',
    ],
)
def test_a_place_on_one_machine_is_seen(line: str) -> None:
    assert machine_words(f'first\n{line}\nlast') == [line]
