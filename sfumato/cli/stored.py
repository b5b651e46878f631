"""Where a stopped run will write, for the last lines of a resumed one."""

from __future__ import annotations

import json
import os
from pathlib import Path


def folder_of(run: str) -> str:
    """The folder that the run was begun with; whether the run can be resumed is not judged here."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    runs = Path(os.environ.get("SFUMATO_RUNS") or Path(home).expanduser() / "sfumato" / "runs")
    try:
        manifest = json.loads(((Path(run) if os.sep in run else runs / run) / "manifest.json").read_text())
        return str(manifest["request"]["out"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "release"
