"""The queue: one run at a time, first come first served. The disk is the truth, and a killed server loses nothing.

A job is a folder: `job.json` says what is asked, `started` that it was begun and by which process, `progress.jsonl` and
`result.json` are the worker's. The worker holds the lock on `lock` for as long as it lives, through a handle that it
inherits; so a new server sees who is still at work.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from sfumato.ledger.durable import locked, replace
from sfumato.studio.store import ID, new_id, now

QUEUED, RUNNING, DONE, FAILED, STOPPED, LOST = "waiting", "running", "done", "failed", "stopped", "lost"
TAIL = 4096  # bytes from the end of the progress that are read


@dataclass(frozen=True)
class Job:
    """One entry of the queue, as it stands on the disk."""

    id: str
    asked: dict[str, Any]
    state: str
    result: dict[str, Any]
    progress: dict[str, Any]

    @property
    def percent(self) -> int | None:
        """How far the stage is, where that is public."""
        done, total = self.progress.get("done"), self.progress.get("total")
        return min(100, round(100 * done / total)) if total and done is not None else None

    def live(self) -> dict[str, Any]:
        """What changes while it runs, for pages that are open."""
        told = {key: self.progress.get(key) for key in ("stage", "done", "total", "note", "picture")}
        return {"id": self.id, "state": self.state, "percent": self.percent, **told}


class Jobs:
    """The queue in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[bytes]] = []
        self._ended: dict[str, Job] = {}  # of which nothing changes any more

    def add(self, kind: str, title: str, by: str, **asked: Any) -> str:
        """Put a job at the end of the queue."""
        name = new_id()
        hidden = self.folder / f".{name}"
        hidden.mkdir(mode=0o700)
        replace(
            hidden / "job.json", json.dumps({"kind": kind, "title": title, "by": by, "when": now(), **asked}).encode()
        )
        hidden.rename(self.folder / name)
        return name

    def all(self) -> list[Job]:
        """Every job, oldest first."""
        return [self.find(name) for name in sorted(os.listdir(self.folder)) if ID.fullmatch(name)]

    def find(self, name: str) -> Job:
        """One job."""
        if name in self._ended:
            return self._ended[name]
        place = self.place(name)
        result = _read(place / "result.json")
        state = self._state(place, result)
        job = Job(name, _read(place / "job.json"), state, result, _last(place))
        if result:
            self._ended[name] = job
        return job

    def place(self, name: str) -> Path:
        """The folder of a job."""
        place = self.folder / name
        if not ID.fullmatch(name) or not place.is_dir():
            raise HTTPException(404, "There is no such run in the queue.")
        return place

    def _state(self, place: Path, result: dict[str, Any]) -> str:
        if result:
            return str(result["state"])
        if not (place / "started").exists():
            return QUEUED
        return RUNNING if locked(place / "lock") else LOST

    def step(self) -> str | None:
        """Begin the next job if none is running; the name of what was begun."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]
            jobs = self.all()
            if any(job.state == RUNNING for job in jobs):
                return None
            waiting = [job for job in jobs if job.state == QUEUED]
            if not waiting:
                return None
            self._begin(self.place(waiting[0].id))
            return waiting[0].id

    def _begin(self, place: Path) -> None:
        """A process of its own session, which a signal to the server does not reach; it inherits the lock."""
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with (place / "words").open("wb") as words:
                child = subprocess.Popen(
                    [sys.executable, "-m", "sfumato.studio.worker", str(place)],
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            replace(place / "started", str(child.pid).encode())
            self._children.append(child)
        finally:
            os.close(lock)

    def stop(self, name: str) -> None:
        """Ask a job to end: one that waits leaves the queue, one at work keeps a checkpoint and can be resumed."""
        with self._lock:
            job = self.find(name)
            place = self.place(name)
            if job.state == QUEUED:
                words = "Taken out of the queue before it began; nothing was charged."
                replace(place / "result.json", json.dumps({"state": STOPPED, "words": words}).encode())
            elif job.state == RUNNING:
                os.kill(int((place / "started").read_text()), signal.SIGINT)

    def live(self) -> list[dict[str, Any]]:
        """All that changes, for open pages."""
        return [job.live() for job in self.all()]


def _read(path: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
        return value
    except (OSError, ValueError):
        return {}


def _last(place: Path) -> dict[str, Any]:
    """The last whole line of the progress."""
    try:
        with (place / "progress.jsonl").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - TAIL))
            lines = file.read().split(b"\n")[:-1]
        return dict(json.loads(lines[-1])) if lines else {}
    except (OSError, ValueError):
        return {}
