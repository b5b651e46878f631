"""Progress for a log: a line when a stage begins, and one now and then."""

from __future__ import annotations

import sys

from sfumato.run.progress import Silent, Throttle

SECONDS = 15.0


class Lines(Silent):
    """Writes plain lines on standard error; all values in them are public."""

    def __init__(self) -> None:
        self._what, self._total = "", ""
        self._throttle = Throttle(SECONDS)

    def start(self, what: str, total: int | None) -> None:
        self._what, self._total = what, f" of {total}" if total else ""
        print(f"{what} ...", file=sys.stderr)

    def advance(self, done: int, note: str = "") -> None:
        if self._throttle.due():
            print(f"{self._what} {done}{self._total} {note}".rstrip(), file=sys.stderr)
