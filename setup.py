"""Build of kde_imitation: the compiled hot loops, and the files that go to the share folder.

The other metadata stands in setup.cfg and the version in package.xml, because
`colcon build --symlink-install` runs this file from a folder that has both, but no pyproject.toml.
"""

import importlib.util
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

PACKAGE = 'kde_imitation'
SHARED_FOLDERS = ('launch', 'urdf', 'config', 'rviz', 'worlds', 'model', 'clip')


def version():
    return ElementTree.parse('package.xml').findtext('version')


def long_description():
    # Behind the symbolic link through which colcon may run this file.
    return Path(__file__).resolve().with_name('README.md').read_text(encoding='utf-8')


def data_files():
    """Map each share folder to its files, for the layout that ROS 2 tools expect."""
    entries = [
        ('share/ament_index/resource_index/packages', [f'resource/{PACKAGE}']),
        (f'share/{PACKAGE}', ['package.xml', 'LICENSE']),
    ]
    for top in SHARED_FOLDERS:
        for folder, below, names in os.walk(top):
            below[:] = sorted(name for name in below if name != '__pycache__')
            files = [os.path.join(folder, name) for name in sorted(names) if name[0] != '.']
            if files:
                entries.append((f'share/{PACKAGE}/{folder}', files))
    return entries


def hot_loops():
    """Describe the module that is compiled where Cython and a compiler are present.

    Without them the package installs all the same and the NumPy twin of the module serves. Set
    KDE_IMITATION_REQUIRE_EXTENSION=1 to make a failed compilation an error.
    """
    return Extension(
        f'{PACKAGE}.kernels._core',
        [f'{PACKAGE}/kernels/_core.pyx'],
        depends=[
            f'{PACKAGE}/kernels/_{part}.pxi'
            for part in ('search', 'maps', 'sums', 'vision', 'arm', 'room', 'view')
        ],
        extra_compile_args=['-O3', '-fno-math-errno', '-fno-trapping-math'],
        optional=os.environ.get('KDE_IMITATION_REQUIRE_EXTENSION') != '1',
    )


class BuildExtension(build_ext):
    """Compile outside the source tree, and say what follows where that fails."""

    def initialize_options(self):
        super().initialize_options()
        self.cython_c_in_temp = True

    def build_extension(self, extension):
        if importlib.util.find_spec('Cython') is None:
            raise CompileError('Cython is not installed')
        super().build_extension(extension)

    def run(self):
        super().run()
        for extension in self.extensions:
            if not Path(self.get_ext_fullpath(extension.name)).exists():
                print(
                    f'warning: {extension.name} was not compiled; its NumPy twin will serve, '
                    'with the same results but more slowly.',
                    file=sys.stderr,
                )


setup(
    version=version(),
    long_description=long_description(),
    # Not in setup.cfg: colcon cannot read what setuptools makes of it there.
    python_requires='>=3.11',
    data_files=data_files(),
    ext_modules=[hot_loops()],
    cmdclass={'build_ext': BuildExtension},
)
