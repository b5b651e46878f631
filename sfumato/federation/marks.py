"""What a site has done, a line for each step, on the disk before the step is seen outside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sfumato.ledger.durable import replace


class Marks:
    """A file to which lines are added, of which the last whole one counts: quicker than a file that is replaced."""

    def __init__(self, path: Path, first: dict[str, Any]) -> None:
        self.now = first | _last(path)
        replace(path, _line(self.now))  # one line again, with the file's name itself on the disk
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def __del__(self) -> None:
        os.close(self._file)

    def put(self, **changes: Any) -> None:
        """Durable when this returns."""
        self.now = self.now | changes
        os.write(self._file, _line(self.now))
        os.fdatasync(self._file)


def _line(state: dict[str, Any]) -> bytes:
    return json.dumps(state).encode() + b"\n"


def _last(path: Path) -> dict[str, Any]:
    """The last line that was written to its end; one that was torn by a crash had no effect outside."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return dict(json.loads(lines[-1])) if lines else {}
