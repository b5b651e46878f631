"""The folders of unfinished runs: where they lie, and what each was asked for. Nothing slow is imported for it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sfumato.errors import InputError

MANIFEST = ("run", "token", "next", "request", "ledger", "plan", "data", "weights")
FILE = "manifest.json"
CHECKPOINT = "checkpoint.safetensors"


def runs_folder() -> Path:
    """Where the private folders of unfinished runs are kept."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.environ.get("SFUMATO_RUNS") or Path(home).expanduser() / "sfumato" / "runs")


def known_runs() -> list[str]:
    """The names of the unfinished runs, in order."""
    return sorted(path.name for path in runs_folder().glob("[!.]*")) if runs_folder().is_dir() else []


def read_manifest(name: str) -> tuple[Path, dict[str, Any]]:
    """The folder of an unfinished run, by its name or path, and what lies in its manifest."""
    folder = Path(name) if os.sep in name else runs_folder() / name
    try:
        manifest = dict.fromkeys(MANIFEST) | json.loads((folder / FILE).read_text())
        if set(manifest) != set(MANIFEST):
            raise ValueError("unknown keys")
    except (OSError, ValueError, TypeError) as error:
        known = known_runs()
        hint = f"unfinished runs: {', '.join(known)}" if known else "there is no unfinished run"
        raise InputError(f"There is no run '{name}' to resume; {hint}.") from error
    return folder, manifest


def asked_of(name: str) -> dict[str, Any]:
    """What was asked for when an unfinished run began, without taking it over; empty for one begun from Python."""
    return dict(read_manifest(name)[1]["request"] or {})
