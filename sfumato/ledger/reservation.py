"""A plan that is paid for: reserved in the ledger of the data before the first crossing, committed at the end."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.accounting.budget import Budget
from sfumato.data.private import PrivateImages
from sfumato.errors import InputError, Interrupted, SfumatoError, Unfinished
from sfumato.ledger.charge import account_name, cost_of, digests_of, is_named
from sfumato.ledger.job import Job, unless_refused
from sfumato.ledger.store import Ledger, default_path
from sfumato.privacy.plan import Plan
from sfumato.types import DataSpec


def open_ledger(spec: DataSpec, path: str | Path | None) -> Ledger:
    """The ledger of the data; sets that are public as a whole get a throw-away one unless a file is named."""
    return Ledger(path or (None if spec.public else default_path()))


def costly(spec: DataSpec, path: str | Path | None) -> bool:
    """Whether a run on such data spends something that lasts, so that it is worth a rehearsal."""
    return path is not None or not spec.public


@dataclass(frozen=True)
class Charge:
    """A reservation that this process holds."""

    job: Job
    ledger: Ledger
    box: PrivateImages

    def check(self) -> None:
        """Raise if the run was resumed elsewhere."""
        self.job.check(self.ledger)

    def begin(self) -> None:
        """For the odometer of the run, which calls it before the first crossing: from here on it stays spent."""
        self.job.begin(self.ledger)

    def finish(self) -> None:
        """Commit, and delete every private file of the run."""
        self.job.finish(self.ledger)

    def others(self) -> dict[str, Any] | None:
        """Other runs under the name of these data, for the statement; None where the ledger is thrown away.

        Which accounts share a record with the data is not asked: an answer would tell of that record. Data that go
        by their content are not spoken of at all.
        """
        if self.ledger.throw_away:
            return None
        if not is_named(self.box):
            return {"named": False}
        told = self.ledger.told(account_name(self.box))
        return told | {"runs": [run for run in told["runs"] if run["run"] != self.job.manifest["run"]]}


def give_back_unbegun(ledger: Ledger) -> None:
    """Return what processes had reserved that were killed before their first crossing.

    That nothing crossed is in the ledger; that the process is gone shows in the lock of its folder, which we hold for
    that moment. A run whose folder is not here is left alone: it may be alive on another machine.
    """
    for run in ledger.unbegun():
        try:
            job = Job.find(run)
        except InputError:
            continue
        try:
            job.give_back(ledger)
        finally:
            job.close()


def finish(job: Job, box: PrivateImages, path: str | Path | None) -> None:
    """Commit a run that was stopped after it had written all that it was asked for."""
    with open_ledger(box.spec, path) as ledger:
        job.finish(ledger)


def shown(box: PrivateImages, total: Budget | None, path: str | Path | None) -> dict[str, Any]:
    """What the custodian sees of the accounts of these data; with `total`, the grant is set first."""
    with open_ledger(box.spec, path) as ledger:
        give_back_unbegun(ledger)
        name = account_name(box)
        digests = digests_of(box)
        if total is not None:
            ledger.set_total(name, digests, total, named=is_named(box))
        return ledger.show(name, digests) | {"throw_away": not costly(box.spec, path)}


def foreseen(plan: Plan, box: PrivateImages, path: str | Path | None) -> dict[str, Any]:
    """What a plan would take of the account of these data and leave of it; raises as a reservation would.

    Nothing is spent, and a ledger that is not there yet is not made for it; what killed processes had reserved is
    given back first.
    """
    place = Path(path or default_path())
    known = None
    if costly(box.spec, path) and place.exists():
        with open_ledger(box.spec, path) as ledger:
            give_back_unbegun(ledger)
            known = ledger.foreseen(
                name=account_name(box),
                digests=digests_of(box),
                budget=plan.budget,
                cost=functools.partial(cost_of, plan),
                named=is_named(box),
            )
    opened = {"account": box.spec.name, "total": plan.budget.epsilon, "delta": plan.budget.delta, "runs": 0}
    first = {**opened, "cost": plan.epsilon(), "remaining": plan.budget.epsilon, "afterwards": 0.0}
    where = str(place.absolute()) if costly(box.spec, path) else None
    said = {"opened": known is None, "named": is_named(box), "ledger": where, "new": not place.exists()}
    return (known or first) | said


@contextmanager
def charged(
    plan: Plan, box: PrivateImages, job: Job, path: str | Path | None = None, *, resumable: bool = True
) -> Iterator[Charge]:
    """Reserve `plan`, or take over the reservation of a resumed job; refused plans leave nothing behind.

    What fails before the first crossing gives the reservation back. What fails later leaves it spent, and never ends
    as a wrong input would: exit status 2 means that nothing was spent.
    """
    with unless_refused(job):
        ledger = open_ledger(box.spec, path)
    try:
        give_back_unbegun(ledger)
        _enter(job, ledger, plan, box)
        yield Charge(job, ledger, box)
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Interrupted(_stopped(job, ledger, resumable)) from stopped
    except BaseException as error:
        if _gave_back(job, ledger) or not job.entered or ledger.throw_away or not _foreseeable(error):
            raise
        raise Unfinished(f"{_sentence(error)} {_spent(job, resumable)}") from error
    finally:
        _put_away(job, ledger, resumable)
        ledger.close()


def _gave_back(job: Job, ledger: Ledger) -> bool:
    with suppress(SfumatoError):  # a ledger that cannot be written now gives it back when it is next opened
        return job.entered and job.give_back(ledger)
    return False


def _put_away(job: Job, ledger: Ledger, resumable: bool) -> None:
    """Let go of a run; its folder goes too where it came to no reservation, or none that could be used any more."""
    if job.manifest["plan"] is None:
        job.discard()
    elif not resumable:
        with suppress(SfumatoError):  # unbegun ones are given back by their folder when the ledger is next opened
            if job.manifest["run"] not in ledger.unbegun():
                job.discard()
    job.close()


def _stopped(job: Job, ledger: Ledger, resumable: bool) -> str:
    if _gave_back(job, ledger):
        return "Stopped before anything crossed: what was reserved is given back. Start a new run."
    if not resumable:
        return "Stopped. What was reserved stays spent; this kind of run cannot be resumed."
    return f"Stopped. Nothing is lost: go on with {_how(job)}"


def _how(job: Job) -> str:
    return f"{'--resume ' if job.manifest['request'] else 'resume='}{job.folder.name}"


def _foreseeable(error: BaseException) -> bool:
    """Whether a command line would end with exit status 2: a wrong input, a full disk, or no memory."""
    if isinstance(error, InputError | MemoryError | OSError) and not isinstance(error, BrokenPipeError):
        return True
    return isinstance(error, RuntimeError) and re.search("allocate memory|out of memory", str(error)) is not None


def _sentence(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    return "The run ended for want of memory." if not isinstance(error, OSError) else f"The run ended ({error})."


def _spent(job: Job, resumable: bool) -> str:
    if not resumable:
        return "What was reserved stays spent; this kind of run cannot be resumed."
    return f"What was reserved stays spent, and nothing is lost: go on with {_how(job)}"


def _enter(job: Job, ledger: Ledger, plan: Plan, box: PrivateImages) -> None:
    try:
        job.enter(ledger, plan, account_name(box), digests_of(box), is_named(box))
    except SfumatoError:
        if not (job.folder / "checkpoint.safetensors").exists():
            job.discard()
        raise
