"""Keys and live text of a teach-in, with or without a terminal."""

from __future__ import annotations

import contextlib
import select
import sys
import termios
import tty
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.status import Status

from kde_imitation.teaching import Session, Stage

__all__ = ['KEYS', 'Teller', 'keys_of']

KEYS = {' ': 'capture', 'u': 'undo', 's': 'skip', 'q': 'finish'}


@contextlib.contextmanager
def keys_of(stream: TextIO | None = None) -> Iterator[TextIO | None]:
    """Let a terminal give each key at once, and put it back afterwards; None if it is none."""
    stream = sys.stdin if stream is None else stream
    if not stream.isatty():
        yield None
        return
    before = termios.tcgetattr(stream)
    try:
        tty.setcbreak(stream)
        yield stream
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def pressed(stream: TextIO | None) -> str | None:
    """Return what the key means that was pressed, if one was: a method of `Session`."""
    if stream is None or not select.select([stream], [], [], 0.0)[0]:
        return None
    return KEYS.get(stream.read(1).lower())


class Teller:
    """Tells the person what to do: one line that changes, or into a file one line a change."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line: Status | None = None
        self._told: tuple[str, Stage] | None = None
        self._events = 0
        if console.is_terminal:
            self._line = console.status('')

    def __enter__(self) -> Teller:
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.stop()

    def say(self, sentence: str) -> None:
        """Print something to stay."""
        self._console.print(sentence, soft_wrap=True, highlight=False)

    def show(self, session: Session, trouble: str = '') -> None:
        """Tell what is so now."""
        for event in session.events[self._events :]:
            self.say(event)
        self._events = len(session.events)
        text = trouble or f'{session.stored} stored. {session.sentence}'
        if self._line is not None:
            self._line.update(text)
            return
        # Without a terminal a countdown would fill pages.
        state = (trouble, session.stage)
        if state != self._told and (trouble or session.stage in (Stage.BACKGROUND, Stage.SKIN)):
            self.say(trouble or session.guidance)
        self._told = state
