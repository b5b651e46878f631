"""What a person sees while a run goes on. Only public values come here: steps, epsilon so far, time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Silent:
    """Shows nothing; the base of every display."""

    def start(self, what: str, total: int | None) -> None:
        """A stage begins; `total` is None where even the length is private or unknown."""

    def advance(self, done: int, note: str = "") -> None:
        """`done` of the stage's total are finished."""

    def picture(self, path: Path) -> None:
        """A new preview lies at `path`; made from released values, so it may be shown."""

    def close(self) -> None:
        """The display ends."""


class Bar(Silent):
    """A rich progress bar on standard error: stage, steps, epsilon so far, time left."""

    def __init__(self, epsilon: Callable[[], float] | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("[bold]{task.description:<12}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bar.start()
        self._task: Any = None

    def start(self, what: str, total: int | None) -> None:
        self._finish()
        self._bar.start()  # again, where it was closed for a question
        self._task = self._bar.add_task(what, total=total, note="")

    def advance(self, done: int, note: str = "") -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done, note=note)

    def _finish(self) -> None:
        if self._task is not None:
            task = self._bar.tasks[-1]
            self._bar.update(self._task, completed=task.total if task.total is not None else task.completed)

    def close(self) -> None:
        self._finish()
        self._bar.stop()


class Recorder(Silent):
    """Keeps every line, without times: for tests that compare what two runs would show."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def start(self, what: str, total: int | None) -> None:
        self.lines.append(("start", what, total))

    def advance(self, done: int, note: str = "") -> None:
        self.lines.append(("advance", done, note))

    def picture(self, path: Path) -> None:
        self.lines.append(("picture", hashlib.sha256(path.read_bytes()).hexdigest()))


class Throttle:
    """True at most once every `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether enough time has passed since the last True."""
        if time.monotonic() - self._last < self._seconds:
            return False
        self._last = time.monotonic()
        return True

    def at_least(self, seconds: float) -> None:
        """Wait longer from now on, where `seconds` is longer."""
        self._seconds = max(self._seconds, seconds)
        self._last = time.monotonic()
