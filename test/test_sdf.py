"""Gazebo's own parser takes the world and the arms, and nothing of them is lost on the way.

The parser comes with Gazebo as `gz sdf`, and on Debian as `ign sdf` (packages ignition-tools and
libsdformat-dev).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import xacro
from conftest import ROOT

from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import expand_xacro, urdf

TOOL = shutil.which('gz') or shutil.which('ign')
pytestmark = pytest.mark.skipif(
    TOOL is None,
    reason='Gazebo\'s parser is not installed; on Debian "make sdformat" brings it',
)

WORLD = ROOT / 'worlds' / 'imitation.sdf'
TERN = ROOT / 'urdf' / 'examples' / 'tern.urdf.xacro'
GAZEBO = {'ros2_control': 'gazebo', 'gazebo': 'true'}
ARMS = {
    'pa10': lambda: urdf(ros2_control='gazebo', gazebo=True),
    'pa10 at the wall': lambda: urdf(
        prefix='left_', lengths='A', mount='wall', ros2_control='gazebo', gazebo=True
    ),
    'pa10 in a namespace': lambda: expand_xacro(
        ROOT / 'urdf' / 'pa10.urdf.xacro', namespace='left', **GAZEBO
    ),
    'tern': lambda: expand_xacro(TERN, **GAZEBO),
}


def sdf(option: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TOOL), 'sdf', option, str(path)], capture_output=True, text=True, timeout=60
    )


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return errors and warnings, but not those of the tool on its own installation."""
    lines = (done.stdout + done.stderr).splitlines()
    return [line for line in lines if line.startswith(('Error', 'Warning'))]


@pytest.fixture(scope='module', params=ARMS)
def converted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ElementTree.Element, ElementTree.Element]:
    """An arm as URDF, and what the parser makes of it."""
    text = ARMS[request.param]()
    path = tmp_path_factory.mktemp('sdf') / 'arm.urdf'
    path.write_text(text)
    checked = sdf('-k', path)
    assert checked.returncode == 0
    assert 'Valid.' in checked.stdout
    assert complaints(checked) == []
    printed = sdf('-p', path)
    assert complaints(printed) == []
    model = ElementTree.fromstring(printed.stdout).find('model')
    assert model is not None
    return ElementTree.fromstring(text), model


def number(element: ElementTree.Element, path: str) -> float:
    return float(element.findtext(path, 'nan'))


def test_masses_and_inertias_survive(
    converted: tuple[ElementTree.Element, ElementTree.Element],
) -> None:
    root, model = converted
    bodies = {one.get('name'): one for one in root.findall('link[inertial]')}
    links = {one.get('name'): one for one in model.findall('link')}
    assert set(links) == set(bodies), 'frames without a body are merged into their parents'
    for name, body in bodies.items():
        for tag, attribute, path in (
            ('mass', 'value', 'mass'),
            *(('inertia', axis, f'inertia/{axis}') for axis in ('ixx', 'iyy', 'izz', 'ixy')),
        ):
            given = float(body.find(f'inertial/{tag}').get(attribute))  # type: ignore[union-attr, arg-type]
            assert number(links[name], f'inertial/{path}') == pytest.approx(given, abs=1e-12)


def test_limits_and_axes_survive(
    converted: tuple[ElementTree.Element, ElementTree.Element],
) -> None:
    root, model = converted
    chain = Chain.from_urdf(ElementTree.tostring(root, encoding='unicode'))
    joints = {one.get('name'): one for one in model.findall('joint')}
    moving = [name for name, one in joints.items() if one.get('type') == 'revolute']
    assert moving == list(chain.names)
    for limit, expected in (
        *(('lower', chain.lower), ('upper', chain.upper)),
        *(('velocity', chain.velocity), ('effort', chain.effort)),
    ):
        found = [number(joints[name], f'axis/limit/{limit}') for name in moving]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    for joint in root.findall('joint[@type="revolute"]'):
        axis = joints[joint.get('name')].findtext('axis/xyz', '').split()
        given = joint.find('axis').get('xyz').split()  # type: ignore[union-attr]
        np.testing.assert_allclose([float(x) for x in axis], [float(x) for x in given])


def test_the_arm_stays_fixed_to_the_world(
    converted: tuple[ElementTree.Element, ElementTree.Element],
) -> None:
    _, model = converted
    (mount,) = [one for one in model.findall('joint') if one.findtext('parent') == 'world']
    assert mount.get('type') == 'fixed'


def test_the_plugin_survives_with_its_controllers_and_namespace(
    converted: tuple[ElementTree.Element, ElementTree.Element],
) -> None:
    root, model = converted
    (given,), (found,) = root.findall('gazebo/plugin'), model.findall('plugin')
    assert found.get('name') == 'gz_ros2_control::GazeboSimROS2ControlPlugin'
    assert found.get('filename') == given.get('filename') == 'gz_ros2_control-system'
    assert Path(found.findtext('parameters', '')).is_file()
    assert found.findtext('ros/namespace') == given.findtext('ros/namespace')


def test_every_shape_survives_and_the_pa10_keeps_its_friction(
    converted: tuple[ElementTree.Element, ElementTree.Element],
) -> None:
    root, model = converted
    for tag in ('collision', 'visual'):
        shapes = [shape for link in model.findall('link') for shape in link.findall(tag)]
        assert len(shapes) == len(root.findall(f'link/{tag}'))
        if tag == 'collision' and root.get('name') == 'pa10':
            assert {number(shape, 'surface/friction/ode/mu') for shape in shapes} == {0.4}


def test_the_world_is_valid_and_has_what_a_spawned_arm_needs() -> None:
    checked = sdf('-k', WORLD)
    assert checked.returncode == 0
    assert complaints(checked) == []
    world = ElementTree.fromstring(sdf('-p', WORLD).stdout).find('world')
    assert world is not None
    assert number(world, 'physics/max_step_size') == 0.001
    plugins = {(one.get('filename'), one.get('name')) for one in world.findall('plugin')}
    assert plugins == {
        ('gz-sim-physics-system', 'gz::sim::systems::Physics'),
        ('gz-sim-user-commands-system', 'gz::sim::systems::UserCommands'),
        ('gz-sim-scene-broadcaster-system', 'gz::sim::systems::SceneBroadcaster'),
    }
    assert world.find('model/link/collision/geometry/plane') is not None
    assert world.find('light') is not None


def test_a_broken_world_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / 'broken.sdf'
    file.write_text(WORLD.read_text().replace('<normal>0 0 1</normal>', '<normal>up</normal>'))
    assert complaints(sdf('-k', file)) != []


def test_an_arm_that_hangs_on_nothing_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / 'broken.urdf'
    text = xacro.process_file(str(TERN)).toxml()
    file.write_text(text.replace('<parent link="forearm"/>', '<parent link="nothing"/>'))
    assert sdf('-k', file).returncode != 0
