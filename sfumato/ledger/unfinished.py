"""Unfinished runs, as their owner sees them: what each was asked for, what it costs, and what can be done with it.

Nothing here reads data. What a run costs is what its ledger has charged for it; a run that nothing crossed is given
back, and a run that has crossed stays charged in full, whether it is resumed, discarded or left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.ledger.durable import locked
from sfumato.ledger.job import Job
from sfumato.ledger.manifest import CHECKPOINT, FILE, known_runs, read_manifest
from sfumato.ledger.store import Ledger, default_path

STATES = {
    "running": "a process is at work on it",
    "reserved": "reserved, nothing crossed: discarding gives all of it back",
    "begun": "charged in full: resume it, there is nothing more to pay",
    "returned": "given back",
    "committed": "finished and charged; what is left is a folder to discard",
    "unknown": "in no ledger that is here: nothing was charged, or to a ledger elsewhere",
}


def unfinished(ledger: str | Path | None = None) -> list[dict[str, Any]]:
    """Every unfinished run, oldest first."""
    found = []
    for name in known_runs():
        try:
            found.append(described(name, ledger))
        except InputError:
            continue  # a folder that another process is just deleting, or that is not a run
    return sorted(found, key=lambda run: str(run["began"]))


def described(name: str, ledger: str | Path | None = None) -> dict[str, Any]:
    """One unfinished run: what it was asked for, its state, and what its ledger has charged for it."""
    folder, manifest = read_manifest(name)
    asked = manifest["request"] or {}
    books = _books(manifest, ledger)
    with _opened(books) as opened:
        entry = opened.run(manifest["run"]) if opened else None
    state = "running" if locked(folder) else entry["status"] if entry else "unknown"
    began = datetime.fromtimestamp((folder / FILE).stat().st_mtime, UTC).isoformat(timespec="seconds")
    return {
        "run": manifest["run"],
        "began": entry["time"] if entry else began,
        "data": asked.get("data"),
        "method": asked.get("method") or (entry["method"] if entry else None),
        "out": asked.get("out"),
        "ledger": None if books is None else str(books),
        "state": state,
        "meaning": STATES[state],
        "charged": entry["charged"] if entry and entry["status"] != "returned" else None,
        "checkpoint": (folder / CHECKPOINT).exists(),
        "from_python": not asked,
    }


def discard(name: str, ledger: str | Path | None = None) -> dict[str, Any]:
    """Delete the folder of a run with its checkpoint; what nothing crossed for is given back, the rest stays spent."""
    before = described(name, ledger)
    with closing(Job.find(name)) as job, _opened(_books(job.manifest, ledger)) as opened:
        given_back = before["state"] == "reserved" and opened is not None and job.give_back(opened)
        if not given_back:
            job.discard()
    return before | {"given_back": given_back}


def _books(manifest: dict[str, Any], named: str | Path | None) -> Path | None:
    """The ledger file of a run, where it is there; a run on a public set has none."""
    path = Path(named or manifest["ledger"] or default_path())
    if named is not None and not path.is_file():
        raise InputError(f"There is no ledger {path}; name the file that the run began with, or leave out --ledger.")
    return path if path.is_file() else None


@contextmanager
def _opened(path: Path | None) -> Iterator[Ledger | None]:
    if path is None:
        yield None
        return
    with Ledger(path) as ledger:
        yield ledger


def moved(job: Job, ledger: str | Path) -> None:
    """Note that the books of a run lie elsewhere now; refused where that ledger does not know it."""
    path = Path(ledger).absolute()
    with _opened(_books(job.manifest, path)) as opened:
        if opened is None or not opened.knows(job.manifest["run"]):
            raise InputError(
                f"The ledger {path} does not know the run {job.folder.name}; name the one that it began with."
            )
    asked = job.manifest["request"]
    job.manifest |= {"ledger": str(path), "request": asked and asked | {"ledger": str(path)}}
    job.store()
