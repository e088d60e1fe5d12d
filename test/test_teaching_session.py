"""A teach-in step by step: what is stored, what is refused and why, and the way back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from teach_bench import Teaching, person, room

from kde_imitation.dataset import Dataset, Recorder
from kde_imitation.errors import BadInput
from kde_imitation.teaching import Session, Stage, TeachSettings, as_skin_source
from kde_imitation.vision import Box, SkinModel

POSTURES = np.zeros((4, 7))
POSTURES[:, 1] = [0.0, 0.5, 1.0, -0.7]


@pytest.fixture
def teaching(tmp_path: Path) -> Iterator[Teaching]:
    made = Teaching(tmp_path / 'taught', POSTURES)
    yield made
    made.close()


def labels(folder: Path) -> np.ndarray:
    return Dataset.open(folder).labels if list(folder.glob('0*.jpg')) else np.empty((0, 7))


# --- the room --------------------------------------------------------------------------------


def test_the_background_is_taken_after_the_person_had_time_to_leave(teaching: Teaching) -> None:
    session = teaching.session
    assert session.sentence.startswith('Leave the picture')
    teaching.see(person(), 3.0)
    assert session.stage is Stage.BACKGROUND, 'not before it is asked for'
    ok, said = teaching.ask('capture')
    assert ok
    assert 'in 1 s' in said
    teaching.see(person(), 0.9)
    teaching.see(room(), 0.5)
    assert session.stage is Stage.COPYING
    assert session.stored == 0
    seen = cv2.imread(str(teaching.recorder.folder / 'background.jpg'))[:, :, ::-1]
    assert np.abs(seen.astype(int) - room()).mean() < 4.0


def test_noise_is_averaged_but_movement_starts_the_background_anew(teaching: Teaching) -> None:
    rng = np.random.default_rng(1)

    def noisy() -> np.ndarray:
        return np.clip(room() + rng.normal(0, 4, room().shape), 0, 255).astype(np.uint8)

    places = iter(range(20, 90, 7))
    teaching.ask('capture')
    teaching.see(room(), 0.9)
    teaching.see(lambda: person(next(places)), 0.9)
    assert teaching.session.stage is Stage.BACKGROUND
    assert 'Something moves' in teaching.session.sentence
    teaching.see(noisy, 0.6)
    assert teaching.session.stage is not Stage.BACKGROUND


def test_a_covered_lens_is_no_background(teaching: Teaching) -> None:
    teaching.ask('capture')
    teaching.see(np.full_like(room(), 3), 3.0)
    assert teaching.session.stage is Stage.BACKGROUND
    assert 'lens covered' in teaching.session.sentence


def test_with_a_countdown_the_background_is_taken_by_itself(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path, POSTURES, countdown=1.0)
    teaching.see(room(), 2.0)
    assert teaching.session.stage is Stage.COPYING


# --- skin ------------------------------------------------------------------------------------


def test_skin_is_taken_from_the_face(tmp_path: Path) -> None:
    data = Dataset.open(ROOT / 'data' / 'actor' / 'teach_A')
    teaching = Teaching(tmp_path, POSTURES, skin='face')
    teaching.session.give_background(data.background)
    assert teaching.session.stage is Stage.SKIN
    assert 'face the camera' in teaching.session.sentence
    teaching.see(data.image(0), 0.5)
    assert teaching.ask('capture')[0]
    stored = np.loadtxt(tmp_path / 'skin.csv', delimiter=',', skiprows=1)
    picked = SkinModel.from_pixels(data.skin)
    off = stored.mean(axis=0) - picked.mean
    assert off @ np.linalg.solve(picked.covariance, off) < 2.0, 'like the pixels picked by hand'
    assert teaching.session.stage is Stage.COPYING


def test_skin_may_come_from_a_rectangle_or_be_left_out(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path / 'box', POSTURES, skin=as_skin_source('58, 22,8,8'))
    teaching.empty_room()
    teaching.see(person(), 0.5)
    assert teaching.ask('capture')[0]
    stored = np.loadtxt(tmp_path / 'box' / 'skin.csv', delimiter=',', skiprows=1)
    np.testing.assert_array_equal(stored, np.tile([220, 180, 150], (64, 1)))
    teaching = Teaching(tmp_path / 'none', POSTURES, skin='face')
    teaching.empty_room()
    assert teaching.ask('skip') == (True, 'The colour of skin is left out.')
    assert teaching.session.stage is Stage.COPYING
    assert as_skin_source('1,2,3,4') == Box(top=2, left=1, height=4, width=3)
    with pytest.raises(BadInput, match="skin is 'hand'"):
        as_skin_source('hand')


# --- a pair ----------------------------------------------------------------------------------


def test_a_person_who_holds_still_is_stored_with_the_posture(teaching: Teaching) -> None:
    teaching.empty_room()
    assert teaching.session.sentence.endswith(
        'Posture 1 of 4: copy the arm and hold still; then press space.'
    )
    teaching.see(person(), 0.5)
    assert teaching.ask('capture') == (True, 'Posture 1 of 4 is stored as 0000.jpg.')
    np.testing.assert_array_equal(labels(teaching.recorder.folder), POSTURES[:1])
    assert teaching.session.index == 1


def moving() -> Any:
    places = iter(range(30, 80, 4))
    return lambda: person(next(places))


def with_company() -> np.ndarray:
    picture = person(30)
    picture[30:, 90:108] = (40, 60, 120)
    return picture


@pytest.mark.parametrize(
    ('picture', 'said'),
    [
        (room(), 'No person is seen'),
        (np.zeros_like(room()), 'lens covered'),
        (person(left=0), 'cut off at the left edge'),
        (person(left=128 - 24), 'cut off at the right edge'),
        (person(top=0), 'cut off at the upper edge'),
        (moving(), 'You are moving'),
        (with_company(), 'else is in the picture'),
        (person()[:90], 'use the same camera settings'),
    ],
    ids=['nobody', 'black', 'left', 'right', 'top', 'moving', 'two', 'size'],
)
def test_a_bad_picture_is_one_sentence_and_nothing_is_stored(
    teaching: Teaching, picture: Any, said: str
) -> None:
    teaching.empty_room()
    teaching.see(picture, 0.6)
    ok, reason = teaching.ask('capture')
    assert not ok
    assert said in reason
    assert f'Not stored: {reason}' in teaching.session.sentence
    assert sorted(os.listdir(teaching.recorder.folder)) == ['background.jpg']


def test_a_camera_out_of_focus_is_said(tmp_path: Path) -> None:
    data = Dataset.open(ROOT / 'data' / 'actor' / 'teach_A')
    teaching = Teaching(tmp_path, POSTURES)
    teaching.session.give_background(data.background)
    for blur, good in ((1.5, False), (0.3, True)):
        teaching.see(cv2.GaussianBlur(data.image(0), (0, 0), blur), 0.5)
        ok, said = teaching.ask('capture')
        assert ok is good
        assert ('less sharp' in said) is not good


def test_pictures_that_stay_away_are_said(teaching: Teaching) -> None:
    teaching.empty_room()
    teaching.see(person(), 0.5)
    teaching.now += 5.0
    assert teaching.ask('capture') == (False, 'No pictures come in; is the camera on?')


def test_a_countdown_stores_only_when_the_person_holds_still(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path, POSTURES, countdown=1.0)
    teaching.see(room(), 1.4)
    began = teaching.now
    teaching.see(moving(), 1.2)
    assert teaching.session.stored == 0
    assert 'You are moving' in teaching.session.sentence
    while not teaching.session.stored:
        teaching.see(person(), 0.1)
    assert 1.4 < teaching.now - began < 1.8
    before = teaching.now
    while teaching.session.stored < 2:
        assert 'it is stored' in teaching.session.sentence
        teaching.see(person(), 0.1)
    assert teaching.now - before == pytest.approx(1.1, abs=0.11)


def test_pictures_that_will_not_get_better_are_left_out_after_a_while(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path, POSTURES, countdown=0.0, patience=1.0)
    teaching.see(room(), 1.4)
    teaching.see(person(left=0), 1.5)
    assert teaching.session.index == 1
    assert teaching.session.events[-1].startswith('Posture 1 of 4 is left out. You are cut off')


# --- the arm ---------------------------------------------------------------------------------


def test_the_arm_must_have_arrived_and_rest_and_its_own_posture_is_stored(
    tmp_path: Path,
) -> None:
    teaching = Teaching(tmp_path, POSTURES, arm=True)
    teaching.empty_room()
    session = teaching.session
    assert 'no joint states come in' in session.sentence
    np.testing.assert_array_equal(session.goal, POSTURES[0])
    for off in (0.5, 0.3, 0.1):
        teaching.q = POSTURES[0] + off
        teaching.see(person(), 0.1)
        assert teaching.ask('capture') == (
            False,
            'Nothing is stored yet. Posture 1 of 4: wait for the arm.',
        )
    measured = POSTURES[0] + 0.004
    teaching.q = measured
    teaching.see(person(), 0.2)
    assert session.stage is Stage.MOVING, 'there, but not yet at rest'
    teaching.see(person(), 0.4)
    assert session.stage is Stage.COPYING
    assert teaching.ask('capture')[0]
    np.testing.assert_array_equal(labels(tmp_path), [measured])
    assert session.stage is Stage.MOVING
    teaching.see(person(), 25.0)
    assert 'does not get there' in session.sentence


def test_an_arm_that_is_pushed_away_stores_nothing(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path, POSTURES, arm=True, countdown=2.0)
    teaching.q = POSTURES[0]
    teaching.see(room(), 1.5)
    teaching.see(person(), 1.0)
    assert teaching.session.stage is Stage.COPYING
    teaching.q = POSTURES[0] + 0.2
    teaching.see(person(), 3.0)
    assert teaching.session.stored == 0
    assert teaching.session.stage is Stage.MOVING


def test_guided_by_hand_each_rest_in_a_new_posture_is_stored(tmp_path: Path) -> None:
    teaching = Teaching(tmp_path, None, arm=True, countdown=0.5)
    teaching.q = np.full(7, 0.1)
    teaching.see(room(), 1.5)
    assert teaching.session.goal is None
    teaching.see(person(), 4.0)
    assert teaching.session.stored == 1, 'not the same posture again and again'
    assert 'guide the arm by hand' in teaching.session.sentence
    for value in (0.4, 0.7, 1.0):
        teaching.q = np.full(7, value)
        teaching.see(person(), 1.5)
    assert teaching.session.stage is Stage.FINISHED
    np.testing.assert_array_equal(labels(tmp_path)[:, 0], [0.1, 0.4, 0.7, 1.0])
    with pytest.raises(BadInput, match='guided by hand only with an arm'):
        Session(teaching.recorder, None, arm=False)


# --- the way back ----------------------------------------------------------------------------


def test_undo_goes_back_to_the_posture_and_without_pairs_to_the_background(
    teaching: Teaching,
) -> None:
    teaching.empty_room()
    for _ in range(2):
        teaching.see(person(), 0.5)
        assert teaching.ask('capture')[0]
    assert teaching.ask('undo') == (True, '0001.jpg is removed.')
    assert teaching.session.index == 1
    assert teaching.ask('undo') == (True, '0000.jpg is removed.')
    ok, said = teaching.ask('undo')
    assert ok
    assert 'background is taken anew' in said
    teaching.empty_room()
    assert teaching.session.index == 0


def test_the_background_cannot_be_skipped_and_the_end_is_the_end(teaching: Teaching) -> None:
    assert not teaching.ask('skip')[0]
    teaching.empty_room()
    assert teaching.ask('finish')[0]
    for what in ('capture', 'skip', 'undo'):
        ok, said = teaching.ask(what)
        assert not ok
        assert 'holds 0 pairs' in said


ACTIONS = st.lists(st.sampled_from(['capture', 'capture', 'undo', 'skip', 'restart']), max_size=12)


@given(ACTIONS)
@settings(max_examples=25)
def test_any_order_of_storing_skipping_undoing_and_restarting_keeps_the_books(
    actions: list[str],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / 'taught'
        teaching = Teaching(folder, POSTURES)
        teaching.empty_room()
        history: list[tuple[str, int]] = []
        back: int | None = None
        for action in actions:
            used = {index for _, index in history}
            left = [index for index in range(4) if index not in used]
            if action == 'restart':
                teaching.close()
                teaching = Teaching(folder, POSTURES)
                # What was left out is offered again.
                back = None
                history = [one for one in history if one[0] == 'stored']
            elif not left:
                assert teaching.session.stage is Stage.FINISHED
                assert not teaching.ask(action)[0]
            elif action == 'undo':
                if history:
                    _, back = history.pop()
                    assert teaching.ask('undo')[0]
            else:
                present = min(left) if back is None else back
                assert teaching.session.index == present
                teaching.see(person(), 0.5)
                assert teaching.ask(action)[0]
                history.append(('stored' if action == 'capture' else 'skipped', present))
                back = None
            stored = [index for what, index in history if what == 'stored']
            np.testing.assert_array_equal(labels(folder), POSTURES[stored])
        teaching.close()


def test_a_folder_without_its_background_is_not_continued(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.add(person(), POSTURES[0])
        with pytest.raises(BadInput, match=r'holds pairs but no background\.jpg'):
            Session(recorder, POSTURES)


@pytest.mark.parametrize(
    ('values', 'said'),
    [
        ({'countdown': -1.0}, 'countdown is -1'),
        ({'background_frames': 0}, 'background_frames is 0'),
        ({'leave_time': float('nan')}, 'leave_time is nan'),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(values: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        TeachSettings(**values)


# --- a crash ---------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
import numpy as np
from teach_bench import Teaching, person
postures = np.zeros((500, 7)); postures[:, 1] = np.linspace(-1.5, 1.5, 500); postures[:, 0] = 0.5
teaching = Teaching(Path(sys.argv[1]), postures[::2])
teaching.empty_room()
while True:
    teaching.see(person(), 0.5)
    assert teaching.ask('capture')[0]
    print(teaching.session.stored, flush=True)
"""


def test_a_killed_session_has_all_it_said_and_goes_on_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / 'taught'
    child = subprocess.Popen(
        [sys.executable, '-c', CHILD, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT / 'test',
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 7:
            break
    child.send_signal(signal.SIGKILL)
    said = max([int(line), *(int(rest) for rest in child.stdout if rest.endswith('\n'))])
    child.wait()
    child.stdout.close()
    with Recorder(folder) as recorder:
        assert said <= len(recorder) <= said + 1
        Dataset.open(folder).check()
        steps = np.zeros((500, 7))
        steps[:, 1], steps[:, 0] = np.linspace(-1.5, 1.5, 500), 0.5
        session = Session(recorder, steps[::2], TeachSettings(skin='none'), arm=False)
        assert session.index == len(recorder)
