"""Progress for a log: a line when a stage begins, and one now and then."""

from __future__ import annotations

import contextlib
import sys
import time

from sfumato.cli.options import Loudness
from sfumato.run.progress import Silent, Throttle

SECONDS = 15.0
VERBOSE_SECONDS = 2.0


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a run does not end because nobody reads its log
        print(line, file=sys.stderr)


class Lines(Silent):
    """Writes plain lines on standard error; all values in them are public."""

    def __init__(self, seconds: float = SECONDS, clock: bool = False) -> None:
        self._what = ""
        self._total = ""
        self._throttle = Throttle(seconds)
        self._began = time.monotonic() if clock else None

    def start(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = f" of {total}" if total else ""
        _say(f"{self._clock()}{what} ...")

    def advance(self, done: int, note: str = "") -> None:
        if self._throttle.due():
            _say(f"{self._clock()}{self._what} {done}{self._total} {note}".rstrip())

    def _clock(self) -> str:
        """Seconds since the command began, where they are wanted."""
        return "" if self._began is None else f"{time.monotonic() - self._began:8.1f} s  "


def display(as_json: bool, how: Loudness | None = None) -> Silent:
    """A bar for a person, a line now and then for a log, nothing beside JSON or where quiet is asked for."""
    from sfumato.run.progress import Bar

    if as_json or (how and how.quiet):
        return Silent()
    if how and how.verbose:
        return Lines(VERBOSE_SECONDS, clock=True)
    return Bar() if sys.stderr.isatty() else Lines()
