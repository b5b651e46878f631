"""A job: the private folder of a run, and its place in the ledger of the data.

The folder is made first, then the budget is reserved, then the first crossing happens. Whatever moment a crash
picks, the ledger shows at least what was touched, and the folder has what is needed to go on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sfumato.errors import InputError, OverBudget
from sfumato.ledger.charge import cost_of, fingerprint
from sfumato.ledger.durable import replace
from sfumato.ledger.manifest import CHECKPOINT, FILE, read_manifest
from sfumato.ledger.manifest import runs_folder as runs_folder
from sfumato.ledger.store import Cost, Ledger, Reservation, new_reservation
from sfumato.privacy.plan import Plan


def _sweep() -> None:
    """Delete what a killed process had begun to delete."""
    for folder in runs_folder().glob(f"{GONE}*"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def unless_refused(job: Job) -> Iterator[Job]:
    """Delete the folder of a new run that is refused, or fails, before it comes to a reservation."""
    try:
        yield job
    except BaseException:
        if job.manifest["plan"] is None:
            job.discard()
        raise


# folders of runs that do not exist yet, or any more
COMING = ".coming-"
GONE = ".gone-"


class Job:
    """One run's folder, lock and token."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self.entered = False  # whether this process holds the reservation
        self._lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise InputError(f"The run {folder.name} is still going in another process; wait for it to end.") from error

    @classmethod
    def create(cls, request: dict[str, Any], ledger: str | None) -> Job:
        """A new folder of mode 0700 with everything that a resumed run must know."""
        reservation = new_reservation()
        folder = runs_folder() / reservation.run
        hidden = folder.with_name(f"{COMING}{folder.name}")
        try:
            hidden.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be made ({error.strerror}); set SFUMATO_RUNS to another.") from error
        job = cls(
            hidden,
            {
                "run": reservation.run,
                "token": reservation.token,
                "next": None,
                "request": request,
                "ledger": ledger,
                "plan": None,
                "data": None,
                "weights": None,
            },
        )
        job.store()
        job.folder = hidden.rename(folder)  # so that a folder of this name always has its manifest
        _sweep()
        return job

    @classmethod
    def find(cls, name: str) -> Job:
        """The folder of an unfinished run, by its name or path."""
        return cls(*read_manifest(name))

    def store(self) -> None:
        """Write the manifest durably."""
        replace(self.folder / FILE, json.dumps(self.manifest).encode())

    def enter(self, ledger: Ledger, plan: Plan, name: str, digests: Any, named: bool = True) -> None:
        """Reserve the whole plan, or take over the reservation of the run that is resumed."""
        self._agree("plan", hashlib.sha256(json.dumps(plan.to_json(), sort_keys=True).encode()).hexdigest())
        self._agree("data", fingerprint(digests, self.manifest["run"]))
        self.store()
        if ledger.knows(self.manifest["run"]):
            self._take_over(ledger)
        elif not ledger.throw_away and (self.folder / CHECKPOINT).exists():
            raise OverBudget(
                f"The ledger does not know the run {self.folder.name}; name the one that it began with, "
                f"as --resume {self.folder.name} --ledger FILE."
            )
        else:
            self._reserve(ledger, plan, name, digests, named)
        self.entered = True

    def _agree(self, what: str, found: str) -> None:
        if self.manifest[what] not in (None, found):
            raise InputError(f"The {what} changed since the run {self.folder.name} began; start a new run.")
        self.manifest[what] = found

    def _reserve(self, ledger: Ledger, plan: Plan, name: str, digests: Any, named: bool) -> None:
        def cost(relation: Any) -> Cost:
            return cost_of(plan, relation)

        ledger.reserve(
            name=name,
            digests=digests,
            budget=plan.budget,
            cost=cost,
            plan_json=json.dumps(plan.to_json()),
            method=plan.method,
            reservation=Reservation(self.manifest["run"], self.manifest["token"]),
            named=named,
        )

    def _take_over(self, ledger: Ledger) -> None:
        """Swap the token. The new one is on the disk before the ledger has it, so no crash can lose the run."""
        run = self.manifest["run"]
        current = self._token(ledger)
        fresh = secrets.token_hex(32)
        self.manifest |= {"token": current, "next": fresh}
        self.store()
        ledger.resume(run, current, fresh)
        self.manifest |= {"token": fresh, "next": None}
        self.store()

    def check(self, ledger: Ledger) -> None:
        """Raise if this run was resumed elsewhere, or its reservation given back."""
        if not ledger.holds(self.manifest["run"], self.manifest["token"]):
            raise OverBudget(
                f"The run {self.folder.name} was resumed by another process, or its reservation was "
                "given back before it began; this one stops."
            )

    def begin(self, ledger: Ledger) -> None:
        """Make it durable, right before the first crossing, that there is one."""
        ledger.begin(self.manifest["run"], self.manifest["token"])

    def give_back(self, ledger: Ledger) -> bool:
        """Return the reservation and delete the folder if nothing has crossed; whether that was so."""
        if not ledger.give_back(self.manifest["run"], self._token(ledger)):
            return False
        self.discard()
        return True

    def finish(self, ledger: Ledger) -> None:
        """Commit what was planned and delete every private file of the run."""
        if ledger.knows(self.manifest["run"]) or not ledger.throw_away:
            ledger.commit(self.manifest["run"], self._token(ledger))
        self.discard()

    def _token(self, ledger: Ledger) -> str:
        """The token that the ledger may hold; the pending one if a crash came right after the swap."""
        pending = self.manifest["next"]
        return str(pending if pending and ledger.holds(self.manifest["run"], pending) else self.manifest["token"])

    def discard(self) -> None:
        """Delete the folder; for runs that ended, or never touched anything."""
        gone = self.folder.with_name(f"{GONE}{self.folder.name}")
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder.rename(gone), ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
