"""A teach-in from the empty room to the last posture: what comes next, and what to say."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.control import Answer
from kde_imitation.dataset import Dataset, Recorder, read_image
from kde_imitation.dataset.folder import BACKGROUND, SKIN
from kde_imitation.errors import BadInput, KdeImitationError
from kde_imitation.teaching.looking import Observer, box_pixels, face_pixels
from kde_imitation.teaching.plan import SAME, Plan
from kde_imitation.teaching.room import RoomWatch
from kde_imitation.teaching.settings import TeachSettings, as_skin_source
from kde_imitation.teaching.watching import ArmWatch, PictureWatch
from kde_imitation.vision import Box, Silhouette
from kde_imitation.vision.background import Picture

__all__ = ['Session', 'Stage', 'TeachSettings', 'as_skin_source']

# After so long the person is told that the arm does not arrive, seconds.
_LATE = 20.0
# A clock that goes back by more, seconds, was set anew, as that of a simulation.
_SET_BACK = 1.0
_LEAVE = 'Leave the picture, so that only the room is seen'


class Stage(StrEnum):
    """What the session waits for."""

    BACKGROUND = 'background'
    SKIN = 'skin'
    MOVING = 'moving'
    COPYING = 'copying'
    FINISHED = 'finished'


class Session:
    """Leads a person through a teach-in, and stores a pair only if it is good.

    First the background is taken, then, if wanted, the colours of skin; then the arm shows one
    posture after the other. A folder that has some of this already is continued: its background
    and skin are kept, and postures for which it has a label are not shown again. All times are in
    seconds, of any clock.

    Parameters
    ----------
    recorder : Recorder
    postures : (k, n) array or None
        To be shown, in this order. None: the arm is guided by hand, and its joint values are
        stored.
    settings : TeachSettings, optional
    arm : bool
        Whether there is an arm, whose joint values come in. Without one, the person copies what is
        shown by other means.
    wanted : int, optional
        After so many pairs a session with an arm that is guided by hand is finished.

    Attributes
    ----------
    stage : Stage
    events : list of str
        What was stored, left out or taken back, one sentence each.
    """

    def __init__(
        self,
        recorder: Recorder,
        postures: npt.ArrayLike | None,
        settings: TeachSettings | None = None,
        arm: bool = True,
        wanted: int = 50,
    ) -> None:
        if postures is None and not arm:
            raise BadInput('Postures can be guided by hand only with an arm that tells its own.')
        self.recorder = recorder
        self.settings = TeachSettings() if settings is None else settings
        self.postures = (
            None if postures is None else as_floats('postures', postures, (None, recorder.joints))
        )
        self.has_arm = arm
        self._arm, self._pictures = ArmWatch(recorder.joints), PictureWatch()
        self._observer: Observer | None = None
        self._since = self._now = -np.inf
        self._due: float | None = None
        self._room = RoomWatch(self.settings.background_frames)
        self._note = self._reason = ''
        self.events: list[str] = []
        self._last_label: Floats | None = None
        self.stage = Stage.BACKGROUND
        self._resume(wanted)

    def _resume(self, wanted: int) -> None:
        """Take what the folder has already."""
        folder, joints = self.recorder.folder, self.recorder.joints
        stored = len(self.recorder) > 0
        labels = Dataset.open(folder, joints).labels if stored else np.empty((0, joints))
        self.plan = Plan(self.postures, wanted, labels)
        if (folder / BACKGROUND).exists():
            self._observer = Observer(read_image(folder / BACKGROUND))
            self._after_background()
        elif stored:
            raise BadInput(
                f'{folder} holds pairs but no {BACKGROUND}; bring that picture back, or record '
                'into another folder.'
            )

    # --- what is so ---

    @property
    def stored(self) -> int:
        """How many pairs the folder holds."""
        return len(self.recorder)

    @property
    def total(self) -> int:
        """How many pairs there are to be."""
        return self.plan.total

    @property
    def index(self) -> int | None:
        """Which posture it is about, from 0; None before and after the postures."""
        return self.plan.index if self.stage in (Stage.MOVING, Stage.COPYING) else None

    @property
    def goal(self) -> Floats | None:
        """The posture (n,) that the arm is to take now, if any."""
        return None if self.index is None else self.plan.goal

    @property
    def sentence(self) -> str:
        """What to tell the person now: what came of the last thing, and what comes next."""
        return f'{self._note} {self.guidance}'.lstrip()

    @property
    def guidance(self) -> str:
        """What comes next."""
        say = {
            Stage.BACKGROUND: self._say_background,
            Stage.SKIN: self._say_skin,
            Stage.MOVING: self._say_moving,
            Stage.COPYING: self._say_copying,
            Stage.FINISHED: self._say_finished,
        }
        return say[self.stage]()

    def _say_background(self) -> str:
        if self._due is None:
            return f'{_LEAVE}; {self.settings.capture} and go.'
        wait = self._due - self._now
        if wait > 0.0:
            return f'{_LEAVE}; it is taken in {np.ceil(wait):.0f} s.'
        return f'{_LEAVE}; it is being taken.'

    def _say_skin(self) -> str:
        where = (
            f'Bring your skin to the rectangle at {self.settings.skin.left}, '
            f'{self.settings.skin.top}'
            if isinstance(self.settings.skin, Box)
            else 'Step into the picture, stand upright and face the camera'
        )
        return f'{where}; {self._when()}.'

    def _say_moving(self) -> str:
        if self.postures is None:
            return f'{self.plan}: guide the arm by hand to a posture and let it rest.'
        if not self._arm.fresh(self._now, self.settings.joint_timeout):
            return f'{self.plan}: no joint states come in; start the arm or its driver.'
        if self._now - self._since > _LATE:
            return (
                f'{self.plan}: the arm does not get there; is it enabled and free to move? '
                'Or skip this posture.'
            )
        return f'{self.plan}: wait for the arm.'

    def _say_copying(self) -> str:
        return f'{self.plan}: copy the arm and hold still; {self._when()}.'

    def _say_finished(self) -> str:
        return f'Finished: {self.recorder.folder} holds {self.stored} pairs.'

    def _when(self) -> str:
        if self.settings.countdown is None:
            return f'then {self.settings.capture}'
        wait = np.inf if self._due is None else self._due - self._now
        if not np.isfinite(wait):
            return f'{self.settings.countdown:.0f} s later it is stored'
        return f'it is stored in {np.ceil(wait):.0f} s' if wait > 0.0 else 'it is stored now'

    # --- what comes in ---

    def on_joint_values(self, q: npt.ArrayLike, now: float) -> None:
        """Take the joint values (n,) of the arm."""
        self._arm.receive(q, now, self.settings.rest_time)
        self._tick(now)

    def on_picture(self, picture: npt.ArrayLike, now: float) -> None:
        """Take a picture (h, w, 3)."""
        self._pictures.receive(picture, now, self.settings.still_time)
        self._tick(now)
        if self.stage is Stage.BACKGROUND:
            self._watch_room()
        elif self._waits and self._due is not None and self._now >= self._due:
            self._store()

    def step(self, now: float) -> None:
        """Let time pass; call it a few times a second."""
        self._tick(now)

    def give_background(self, picture: npt.ArrayLike) -> None:
        """Take a picture (h, w, 3) of the room that was made before."""
        if self.stage is Stage.BACKGROUND:
            self._take_background(np.asarray(picture, dtype=np.uint8))

    def _tick(self, now: float) -> None:
        if now < self._now - _SET_BACK:
            self._now, self._due = now, None
            self._since = now
        self._now = max(now, self._now)
        if self._since == -np.inf:
            self._since = self._now
        if self.stage is Stage.BACKGROUND and self._due is None and self._by_itself:
            self._due = self._now + self.settings.leave_time
        if self.stage is Stage.SKIN and self._due is None and self._by_itself:
            self._begin_countdown()
        if self.stage is Stage.MOVING and self._arrived():
            self._enter(Stage.COPYING)
            if self._by_itself:
                self._begin_countdown()
        elif self.stage is Stage.COPYING and not self._arrived():
            self._enter(Stage.MOVING)
        patience = self.settings.patience
        if not self._waits or self._due is None or patience is None:
            return
        if self._now > self._due + patience:
            self._leave_out(f' {self._reason}')

    @property
    def _waits(self) -> bool:
        """Whether something is to be stored."""
        return self.stage in (Stage.SKIN, Stage.COPYING)

    @property
    def _by_itself(self) -> bool:
        return self.settings.countdown is not None

    def _begin_countdown(self) -> None:
        self._due = self._now + (self.settings.countdown or 0.0)

    def _enter(self, stage: Stage) -> None:
        self.stage, self._since, self._due = stage, self._now, None

    def _log(self, event: str) -> Answer:
        self.events.append(event)
        self._note = event
        return Answer(True, event)

    # --- the room ---

    def _watch_room(self) -> None:
        if self._due is None or self._now < self._due:
            return
        assert self._pictures.picture is not None
        room = self._room.add(self._pictures.picture, self._pictures.now, self._now)
        self._note = self._room.trouble
        if room is not None:
            self._take_background(room)

    def _take_background(self, picture: Picture) -> None:
        try:
            Observer(picture)
            self.recorder.set_background(picture)
            # As it is stored, for training will see no other.
            self._observer = Observer(read_image(self.recorder.folder / BACKGROUND))
        except BadInput as error:
            self._room.begin()
            self._note = str(error)
            return
        self._log('The background is taken.')
        self._after_background()

    def _after_background(self) -> None:
        self._room.begin()
        known = (self.recorder.folder / SKIN).exists() or len(self.recorder) > 0
        if self.settings.skin == 'none' or known:
            self._next()
        else:
            self._enter(Stage.SKIN)

    # --- postures ---

    def _next(self) -> None:
        """Go to the next posture, or to the end."""
        more = self.plan.advance()
        self._enter(Stage.MOVING if more else Stage.FINISHED)
        if np.isfinite(self._now):
            self._tick(self._now)

    def _arrived(self) -> bool:
        if not self.has_arm:
            return True
        settings = self.settings
        if not (
            self._arm.fresh(self._now, settings.joint_timeout)
            and self._arm.rests(settings.rest_time, settings.rest_speed)
        ):
            return False
        assert self._arm.q is not None
        if self.goal is not None:
            return bool(np.abs(self._arm.q - self.goal).max() <= settings.tolerance)
        # Guided by hand: not before it has left the posture of the last pair.
        last = self._last_label
        moved = last is None or np.abs(self._arm.q - last).max() > SAME
        return bool(moved or not self._by_itself)

    # --- storing ---

    def _refusal(self) -> tuple[str, Silhouette | None]:
        """Say why nothing can be stored now; nothing if it can, and who is seen."""
        settings = self.settings
        if not self._pictures.fresh(self._now, settings.picture_timeout):
            return 'No pictures come in; is the camera on?', None
        assert self._observer is not None
        picture = self._pictures.picture
        assert picture is not None
        if picture.shape != self._observer.background.shape:
            height, width = self._observer.background.shape[:2]
            return (
                f'The pictures have {picture.shape[1]} × {picture.shape[0]} pixels, but that of '
                f'the background has {width} × {height}; use the same camera settings.',
                None,
            )
        person = self._observer.look(picture)
        before = self._pictures.before(settings.still_time)
        return self._observer.refusal(person, self._pictures.now, before), person

    def _store(self) -> Answer:
        try:
            self._reason, person = self._refusal()
            if not self._reason:
                assert person is not None
                return self._store_skin(person) if self.stage is Stage.SKIN else self._store_pair()
        except KdeImitationError as error:
            self._reason = str(error)
        self._note = f'Not stored: {self._reason}'
        return Answer(False, self._reason)

    def _store_skin(self, person: Silhouette) -> Answer:
        source = self.settings.skin
        assert self._pictures.picture is not None
        pixels = (
            box_pixels(self._pictures.picture, source)
            if isinstance(source, Box)
            else face_pixels(person)
        )
        self.recorder.set_skin(pixels)
        answer = self._log(f'The colour of skin is taken from {len(pixels)} pixels.')
        self._next()
        return answer

    def _store_pair(self) -> Answer:
        q = self._arm.q if self.has_arm else self.goal
        assert q is not None
        assert self._pictures.picture is not None
        name = self.recorder.add(self._pictures.picture, q)
        self._last_label = q
        answer = self._log(f'{self.plan} is stored as {name}.')
        self.plan.store()
        self._next()
        return answer

    # --- what the person wants ---

    def capture(self, now: float) -> Answer:
        """Store what is seen now; in the beginning, let the background be taken."""
        self._tick(now)
        if self.stage is Stage.FINISHED:
            return Answer(False, self._say_finished())
        if self.stage is Stage.MOVING:
            return Answer(False, f'Nothing is stored yet. {self._say_moving()}')
        if self.stage is Stage.BACKGROUND:
            self._room.begin()
            self._note = ''
            self._due = self._now + self.settings.leave_time
            return Answer(True, self._say_background())
        return self._store()

    def skip(self, now: float) -> Answer:
        """Leave out the posture, or the colour of skin; it is offered again in a later session."""
        self._tick(now)
        if self.stage is Stage.BACKGROUND:
            return Answer(False, f'The background cannot be left out. {self._say_background()}')
        if self.stage is Stage.FINISHED:
            return Answer(False, self._say_finished())
        return self._leave_out()

    def _leave_out(self, why: str = '') -> Answer:
        skin = self.stage is Stage.SKIN
        answer = self._log(f'{"The colour of skin" if skin else self.plan} is left out.{why}')
        if not skin:
            self.plan.skip()
        self._next()
        return answer

    def undo(self, now: float) -> Answer:
        """Take back the last pair, or the last posture left out; without any, the background."""
        self._tick(now)
        if self.stage is Stage.FINISHED:
            return Answer(False, f'{self._say_finished()} Start again to change it.')
        if not self.plan.last:
            self._note = ''
            self._enter(Stage.BACKGROUND)
            return Answer(True, f'The background is taken anew. {self._say_background()}')
        stored = self.plan.last == 'stored'
        try:
            removed = self.recorder.undo() if stored else ''
        except BadInput as error:
            return Answer(False, str(error))
        self.plan.undo()
        self._last_label = None
        answer = self._log(
            f'{removed} is removed.' if stored else f'{self.plan} is shown after all.'
        )
        self._enter(Stage.MOVING)
        self._tick(now)
        return answer

    def finish(self, now: float) -> Answer:
        """End the session; what is stored stays."""
        self._tick(now)
        self._note = ''
        self._enter(Stage.FINISHED)
        return Answer(True, self._say_finished())
