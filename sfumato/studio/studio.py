"""The parts of a studio, and the one place where they are put together."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato import api
from sfumato.studio.jobs import Job, Jobs
from sfumato.studio.looks import Looks
from sfumato.studio.roots import Roots
from sfumato.studio.sessions import Sessions
from sfumato.studio.sets import Sets
from sfumato.studio.settings import Settings
from sfumato.studio.store import Shelf


@dataclass(frozen=True)
class Studio:
    """What the pages work with."""

    settings: Settings
    sessions: Sessions
    born: str = field(default_factory=lambda: secrets.token_hex(8))  # tells this studio from the one before it

    @cached_property
    def roots(self) -> Roots:
        """Folders that data may lie in."""
        return Roots((*self.settings.roots, self.settings.folder))

    @cached_property
    def looks(self) -> Looks:
        """The releases."""
        return Looks(self.settings.folder)

    @cached_property
    def sets(self) -> Sets:
        """Declared data."""
        return Sets(self.settings)

    @cached_property
    def plans(self) -> Shelf:
        """Plans that were handed in."""
        return Shelf(self.settings.state / "plans")

    @cached_property
    def jobs(self) -> Jobs:
        """The queue."""
        return Jobs(self.settings.state / "jobs")

    @property
    def uploads(self) -> Path:
        """Where uploads lie for as long as they are looked at."""
        place = self.settings.state / "uploads"
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def stale(self, found: dict[str, Any]) -> bool:
        """Whether a run on a declared set ended since its account was looked at."""
        looked = datetime.fromisoformat(found["looked"]).timestamp()
        ended = [job for job in self.jobs.all() if job.result and _data_of(job) == found["source"]]
        return any((self.jobs.place(job.id) / "result.json").stat().st_mtime > looked for job in ended)

    def step(self) -> None:
        """Keep the queue moving, and the accounts of declared sets up to date."""
        self.jobs.step()
        for found in self.sets.all():
            if self.stale(found):
                self.sets.look_again_or_leave(found["id"])

    def unfinished(self) -> list[dict[str, Any]]:
        """The product's own unfinished runs that nobody works on, whoever began them."""
        busy = {job.asked.get("run") for job in self.jobs.all() if job.state in ("running", "waiting")}
        found = [run for run in api.unfinished_runs() if run["run"] not in busy]
        return [run | {"name": Path(str(run["out"] or "a run from Python")).name} for run in found]


def _data_of(job: Job) -> str | None:
    """The data that a run was begun on."""
    found = job.asked.get("request", job.asked).get("data")
    return found if job.asked["kind"] in ("synthesize", "resume") else None
