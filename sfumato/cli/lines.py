"""Progress for a log: a line when a stage begins, and one now and then."""

from __future__ import annotations

import contextlib
import sys

from sfumato.run.progress import Silent, Throttle

SECONDS = 15.0


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a run does not end because nobody reads its log
        print(line, file=sys.stderr)


class Lines(Silent):
    """Writes plain lines on standard error; all values in them are public."""

    def __init__(self) -> None:
        self._what = ""
        self._total = ""
        self._throttle = Throttle(SECONDS)

    def start(self, what: str, total: int | None) -> None:
        self._what = what
        self._total = f" of {total}" if total else ""
        _say(f"{what} ...")

    def advance(self, done: int, note: str = "") -> None:
        if self._throttle.due():
            _say(f"{self._what} {done}{self._total} {note}".rstrip())


def display(as_json: bool) -> Silent:
    """A bar for a person, a line now and then for a log, nothing beside JSON."""
    from sfumato.run.progress import Bar

    if as_json:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
