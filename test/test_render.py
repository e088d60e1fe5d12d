"""Pictures of the simulated arm: shaded ones, plain ones where OpenGL is missing, animations."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from kde_imitation.errors import BadInput
from kde_imitation.simulation import render
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.simulation.render import Camera, Renderer, gl_library, write_animation

BENT = np.radians([30, 45, 0, 60, 0, 45, 0])
# From the side, level with the middle: the picture is then a scale drawing of x and z.
SIDE = Camera(target=(0.0, 0.0, 0.65), distance=2.4, azimuth=90.0, elevation=0.0)


@pytest.fixture
def arm():
    return SimulatedArm()


needs_gl = pytest.mark.skipif(
    gl_library() is None, reason='neither EGL nor OSMesa draws on this machine'
)
libraries = pytest.mark.parametrize(
    'library', [pytest.param('auto', marks=needs_gl), 'matplotlib']
)


def arm_pixels(arm, library, camera=SIDE):
    """Where a picture shows the arm: what changes when it is moved out of the way."""
    with Renderer(arm, 160, 120, camera, library) as renderer:
        here = renderer.picture().astype(int)
        posture = arm.q
        arm.reset(np.clip(np.radians([0, -91, 0, 0, 0, 0, 0]), arm.chain.lower, arm.chain.upper))
        away = renderer.picture().astype(int)
        arm.reset(posture)
    return np.abs(here - away).sum(axis=2) > 30


@libraries
@pytest.mark.parametrize('mount', ['floor', 'wall'])
def test_a_picture_has_the_size_asked_for_and_something_in_it(library, mount):
    with Renderer(SimulatedArm.pa10(mount=mount), 200, 150, library=library) as renderer:
        picture = renderer.picture()
    assert picture.shape == (150, 200, 3)
    assert picture.dtype == np.uint8
    assert picture.std() > 5


@libraries
def test_the_same_posture_gives_the_same_picture_and_another_one_another(arm, library):
    with Renderer(arm, 160, 120, library=library) as renderer:
        first = renderer.picture()
        arm.reset(BENT)
        second = renderer.picture()
        arm.reset(np.zeros(7))
        np.testing.assert_array_equal(renderer.picture(), first)
    assert (first != second).any(axis=2).mean() > 0.01


@libraries
def test_the_hand_is_drawn_up_when_it_is_up_and_to_its_side_when_it_is_there(arm, library):
    rows, columns = np.nonzero(arm_pixels(arm, library))
    assert rows.min() < 20
    assert abs(columns[rows < 50].mean() - 80) < 4
    # Looking along y, x points to the right.
    arm.reset(np.array([0, np.pi / 2, 0, 0, 0, 0, 0]))
    rows, columns = np.nonzero(arm_pixels(arm, library))
    assert columns.max() > 125


@needs_gl
def test_shaded_and_plain_drawing_show_the_arm_in_the_same_place(arm):
    arm.reset(np.radians([0, 50, 0, 60, 0, 0, 0]))
    shaded, plain = (arm_pixels(arm, library) for library in ('auto', 'matplotlib'))
    # Perspectives and thickness differ a little; every joint's line must be inside the body.
    rows, columns = np.nonzero(plain[:80])
    near = [
        shaded[max(r - 6, 0) : r + 7, max(c - 6, 0) : c + 7].any() for r, c in zip(rows, columns)
    ]
    assert len(near) > 100
    assert np.mean(near) > 0.95


@needs_gl
def test_the_renderer_says_which_library_draws(arm):
    with Renderer(arm, 64, 48) as renderer:
        assert renderer.library == gl_library()
        assert renderer.describe() == f'Pictures are drawn by MuJoCo with {renderer.library}.'


def test_without_opengl_the_drawing_is_plain_and_says_so(arm, monkeypatch):
    monkeypatch.setattr(render, 'gl_library', lambda: None)
    with Renderer(arm, 64, 48) as renderer:
        assert renderer.library == 'matplotlib'
        assert 'because no OpenGL library draws here' in renderer.describe()
        assert renderer.picture().shape == (48, 64, 3)


def test_a_plain_drawing_that_was_asked_for_does_not_complain(arm):
    with Renderer(arm, 64, 48, library='matplotlib') as renderer:
        assert renderer.describe() == 'Pictures are plain drawings by Matplotlib, as asked.'


@needs_gl
def test_two_renderers_draw_in_turns(arm):
    other = SimulatedArm.pa10(mount='wall')
    with Renderer(arm, 100, 80) as one, Renderer(other, 60, 90) as two:
        first = one.picture()
        assert two.picture().shape == (90, 60, 3)
        np.testing.assert_array_equal(one.picture(), first)


def run_probe(folder, **environment):
    """Ask a fresh process which library it finds, where PyOpenGL may be a broken one."""
    code = (
        'from kde_imitation.simulation.arm import SimulatedArm;'
        'from kde_imitation.simulation.render import Renderer, gl_library;'
        'arm = SimulatedArm(); r = Renderer(arm, 32, 32); p = r.picture();'
        'print(gl_library(), r.library, p.shape[0])'
    )
    variables = {
        k: v for k, v in os.environ.items() if k not in ('MUJOCO_GL', 'PYOPENGL_PLATFORM')
    }
    return subprocess.run(
        [sys.executable, '-c', code],
        env={**variables, **environment, 'PYTHONPATH': str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    'failure', ['raise AttributeError("no library")', 'import os; os.abort()']
)
def test_a_broken_opengl_leaves_the_process_alive_and_the_drawing_plain(failure, tmp_path):
    broken = tmp_path / 'OpenGL'
    broken.mkdir()
    (broken / '__init__.py').write_text(failure)
    done = run_probe(tmp_path)
    assert done.stdout.split() == ['None', 'matplotlib', '32'], done.stderr


def test_mujoco_gl_switches_shaded_pictures_off(tmp_path):
    done = run_probe(tmp_path, MUJOCO_GL='disable')
    assert done.stdout.split() == ['None', 'matplotlib', '32'], done.stderr


@pytest.mark.parametrize('library', ['egl', 'osmesa'])
def test_mujoco_gl_chooses_the_library_and_an_end_without_close_is_quiet(library, tmp_path):
    done = run_probe(tmp_path, MUJOCO_GL=library)
    if done.stdout.split()[0] == 'None' and library != gl_library():
        assert done.stdout.split() == ['None', 'matplotlib', '32']
        pytest.skip(f'{library} does not draw on this machine')
    assert done.stdout.split() == [library, library, '32'], done.stderr
    assert done.stderr == ''


def test_closing_twice_does_no_harm(arm):
    renderer = Renderer(arm, 32, 32)
    renderer.close()
    renderer.close()


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'width': 8}, 'width is 8 pixels; use 16 to 4096'),
        ({'height': 5000}, 'height is 5000 pixels'),
        ({'library': 'vulkan'}, "library is 'vulkan'; use auto, egl, osmesa, glfw or matplotlib"),
    ],
)
def test_a_renderer_that_cannot_be_made_is_refused_with_a_sentence(arm, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        Renderer(arm, **options)


def test_a_library_that_does_not_draw_is_refused_with_a_sentence(arm, monkeypatch):
    monkeypatch.setattr(render, '_draws', lambda library: False)
    with pytest.raises(BadInput, match='osmesa cannot draw here; use library="auto"'):
        Renderer(arm, library='osmesa')


def moving_square(count=5):
    pictures = np.full((count, 40, 60, 3), 255, dtype=np.uint8)
    for i, picture in enumerate(pictures):
        picture[10:20, 8 * i : 8 * i + 10] = (200, 30, 30)
    return pictures


@pytest.mark.parametrize('name', ['arm.gif', 'folder/arm.png'])
def test_an_animation_holds_its_pictures_and_their_pace(tmp_path, name):
    path = tmp_path / name
    pictures = moving_square()
    write_animation(path, iter(pictures), per_second=20)
    with Image.open(path) as animation:
        assert animation.n_frames == 5
        assert animation.info['loop'] == 0
        for i, picture in enumerate(pictures):
            animation.seek(i)
            assert animation.info['duration'] == pytest.approx(50)
            read = np.asarray(animation.convert('RGB')).astype(int)
            # Two colours: neither format has to give one up.
            assert np.abs(read - picture).max() <= (8 if path.suffix == '.gif' else 0)


@pytest.mark.parametrize(
    ('path', 'pictures', 'per_second', 'sentence'),
    [
        ('arm.mp4', moving_square(), 25, 'must end in .gif or .png'),
        ('arm.gif', [], 25, 'at least one picture'),
        ('arm.gif', [np.zeros((4, 4), np.uint8)], 25, r'Picture 0 must be \(height, width, 3\)'),
        ('arm.gif', [np.zeros((4, 4, 3))], 25, 'of float64'),
        ('arm.gif', [*moving_square(1), np.zeros((9, 9, 3), np.uint8)], 25, 'is 9 x 9, but the'),
        ('arm.gif', moving_square(), 0, 'per_second is 0'),
    ],
)
def test_an_animation_that_cannot_be_written_is_refused(
    tmp_path, path, pictures, per_second, sentence
):
    with pytest.raises(BadInput, match=sentence):
        write_animation(tmp_path / path, pictures, per_second)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_of_an_animation_is_one_sentence(tmp_path):
    (tmp_path / 'arm.gif').mkdir()
    with pytest.raises(BadInput, match='cannot be written'):
        write_animation(tmp_path / 'arm.gif', moving_square())
