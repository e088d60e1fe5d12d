"""`kde_imitation teach`: a teach-in without ROS, then training and its report."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TextIO

import numpy as np
from rich.console import Console

from kde_imitation.checks import Floats
from kde_imitation.commands import train
from kde_imitation.commands.shared import require_folder, require_place, wide_console
from kde_imitation.commands.teach_options import Options
from kde_imitation.commands.teach_sources import Source, open_person
from kde_imitation.commands.teach_terminal import Teller, keys_of, pressed
from kde_imitation.commands.teach_view import View
from kde_imitation.control import SelfCollisionGuard
from kde_imitation.dataset import Recorder, read_image
from kde_imitation.errors import BadInput, Unreachable
from kde_imitation.imitation.training import FEWEST_PAIRS
from kde_imitation.kinematics import description
from kde_imitation.kinematics.chain import Chain
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.teaching import (
    Router,
    Session,
    Stage,
    TeachSettings,
    Workspace,
    as_skin_source,
    read_postures,
    spread,
)
from kde_imitation.teaching.settings import beside
from kde_imitation.teaching.shown_arm import PERIOD, ShownArm

__all__ = ['Options', 'run']

# Pictures a second of the session's clock where it need not be that of the wall.
_TICK = 0.1
# A recorded picture that cannot be stored is left out after so long on that clock, seconds.
_PATIENCE = 1.0
COUNT = 50


def run(options: Options, console: Console | None = None) -> int:
    """Lead a person through a teach-in; return 0."""
    say = wide_console() if console is None else console
    model = options.model or beside(options.output, '.npz')
    if options.train:
        require_place(model)
    report = train.default_report(model) if options.report else None
    if options.train and report is not None:
        require_folder(report)
    stored = _teach(options, say)
    if stored < FEWEST_PAIRS:
        say.print(
            f'{stored} pairs are too few to train; {FEWEST_PAIRS} is the least. The same command '
            'goes on where this one stopped.',
            soft_wrap=True,
        )
        return 0
    if not options.train:
        say.print(f'To train: kde_imitation train {options.output} --output {model}')
        return 0
    return train.run([options.output], model, report=report)


def _teach(options: Options, say: Console) -> int:
    """Fill the folder; return how many pairs it holds."""
    urdf = description.urdf(mount='wall')
    chain = Chain.from_urdf(urdf)
    with ExitStack() as stack:
        source = open_person(options.source, len(chain.names), options.count)
        stack.callback(source.close)
        router = Router(chain, Workspace.of_pa10().middle, SelfCollisionGuard(urdf))
        postures = _postures(options, source, router)
        keys = stack.enter_context(keys_of())
        if keys is None and not options.auto and not options.countdown:
            raise BadInput('Keys need a terminal; without one give --auto or --countdown.')
        recorder = stack.enter_context(Recorder(options.output, len(chain.names)))
        arm = _arm(options, source, urdf, router)
        session = Session(recorder, postures, _settings(options, source), arm=arm is not None)
        if options.background is not None:
            session.give_background(read_image(options.background))
        view = stack.enter_context(View(options.view, arm, options.headless, options.output))
        teller = stack.enter_context(Teller(say))
        for sentence in (*recorder.repairs, view.describe()):
            teller.say(sentence)
        if keys is not None:
            teller.say('Keys: space = capture, u = undo, s = skip, q = finish.')
        _lead(
            session, source, arm, _Clock(fast=options.auto and not source.live), keys, teller, view
        )
        teller.show(session)
        teller.say(' '.join(part for part in (source.trouble, session.guidance) if part))
        return session.stored


def _postures(options: Options, source: Source, router: Router) -> Floats:
    if options.postures == 'spread' and source.postures is not None:
        return source.postures
    if options.postures == 'spread':
        count = COUNT if options.count is None else options.count
        return spread(count, Workspace.of_pa10(), router)
    if source.postures is not None:
        raise BadInput(
            f'{options.source} has labels, which say what the person in it copies; leave out '
            '--postures.'
        )
    postures = read_postures(options.postures, router)
    return postures if options.count is None else postures[: options.count]


def _settings(options: Options, source: Source) -> TeachSettings:
    settings = TeachSettings(
        countdown=0.0 if options.auto else options.countdown or None,
        leave_time=options.leave_time,
        skin=as_skin_source(options.skin),
    )
    if source.live:
        return settings
    return replace(
        settings,
        leave_time=0.0,
        background_frames=3 if source.postures is not None else settings.background_frames,
        patience=_PATIENCE if options.auto and source.postures is not None else None,
    )


def _arm(options: Options, source: Source, urdf: str, router: Router) -> ShownArm | None:
    wanted = options.arm
    if wanted == 'auto':
        wanted = 'none' if source.postures is not None else 'mujoco'
    if wanted == 'none':
        return None
    arm = SimulatedArm(urdf, armature=description.armature())
    return ShownArm(arm, description.joint_limits(), router)


class _Clock:
    """The session's time: that of the wall, or as fast as the machine is."""

    def __init__(self, fast: bool) -> None:
        self._fast, self._began = fast, time.monotonic()
        self._ticks = 0

    def tick(self, wait: bool) -> float:
        """Go on, and return the time in seconds."""
        self._ticks += 1
        if self._fast:
            return self._ticks * _TICK
        if wait:
            time.sleep(0.02)
        return time.monotonic() - self._began


def _lead(
    session: Session,
    source: Source,
    arm: ShownArm | None,
    clock: _Clock,
    keys: TextIO | None,
    teller: Teller,
    view: View,
) -> None:
    """Bring session, source and arm together until the session is finished."""
    while session.stage is not Stage.FINISHED:
        # A camera makes its user wait by itself.
        now = clock.tick(wait=not source.live)
        if arm is not None:
            _move(session, arm, now, teller)
        picture = source.picture(session, now)
        if picture is not None:
            session.on_picture(picture, now)
        else:
            session.step(now)
        asked = pressed(keys)
        if asked is not None:
            answer = getattr(session, asked)(now)
            if not answer.ok:
                teller.say(answer.message)
        teller.show(session, source.trouble)
        view.show(session, picture)


def _move(session: Session, arm: ShownArm, now: float, teller: Teller) -> None:
    """Let the arm go on to the session's goal, up to the present."""
    goal = session.goal
    if goal is not None:
        try:
            arm.go_to(goal)
        except Unreachable as error:
            session.skip(now)
            teller.say(str(error))
    for _ in range(min(round((now - arm.time) / PERIOD), 100)):
        arm.step()
    session.on_joint_values(np.asarray(arm.q), now)
