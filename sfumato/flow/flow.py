"""One road for every verb that spends: synthesize, train-classifier, tune --private and publish-accuracy.

    plan        before a record is read; a task is made with its plan, so that an impossible one never gets here
    check       what could not be written, has no room in the account, or cannot come to anything
    audit       level 0 on made-up records, in a process that does not hold the data
    rehearse    on made-up records too, down to the files; from here back all that fails ends with exit status 2
    confirm     whoever answers for the data reads what will be done and says yes
    reserve     the whole plan, in the ledger of the data; given back if nothing crosses
    learn       through the barrier, which is made here alone; from the first crossing on what was reserved is spent
    state       the statement of the plan that was carried out
    write       what leaves, if the reservation is still ours
    commit      and delete every private file of the run

A `Task` says what differs from verb to verb. The order is written here, once: the guarantee rests on it.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from sfumato.data.private import PrivateImages
from sfumato.data.public import PublicImages
from sfumato.flow.approval import Approval
from sfumato.flow.first_audit import audit_first
from sfumato.flow.make import Learner
from sfumato.flow.proposal import hopeless, propose
from sfumato.flow.rehearsal import Expected, elsewhere
from sfumato.ledger.job import Job
from sfumato.ledger.reservation import Charge, charged, costly, finish
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run

Learned = TypeVar("Learned")
Made = TypeVar("Made")
Audited = dict[str, Any] | None  # what the statement says of the audit
Others = dict[str, Any] | None  # what it says of other runs under the name of the data


@dataclass(frozen=True)
class Reserved:
    """Private data behind a reservation: the barrier before them is made here and nowhere else."""

    box: PrivateImages
    run: Run
    charge: Charge
    folder: Path | None  # of checkpoints, where a run can be resumed

    def start(self, plan: Plan, **changes: Any) -> tuple[Barrier, Run]:
        """A barrier and a run that count on one odometer, whose first crossing marks the reservation as begun."""
        odometer = Odometer(plan, self.charge.begin)
        run = replace(self.run, folder=self.folder, odometer=odometer, owned=self.charge.check, **changes)
        if self.folder is not None:
            run.ranks.told(str(self.folder))
        return barrier_before(self.box, run), run


def barrier_before(box: PrivateImages, run: Run) -> Barrier:
    """The barrier of one run; what crosses it is counted on the odometer of the run."""
    return Barrier(
        box, box.spec, run.odometer, device=run.device, microbatch=run.microbatch, tick=run.tick, ranks=run.ranks
    )


class Task(ABC, Generic[Learned, Made]):
    """What is asked for: its plan, what learns behind the barrier, and what is made of it."""

    plan: Plan  # of all that will cross, reserved as one
    out: Path | None  # where what is made is written
    verb: ClassVar[str]
    shows_images: ClassVar[bool] = True  # or a network that knows them: what needs more than a few records

    def check(self) -> None:
        """Refuse what could not be written."""

    @abstractmethod
    def made(self) -> str:
        """What is released, in words, for whoever confirms it."""

    def audits(self) -> Iterable[tuple[Learner, Plan, PublicImages | None]]:
        """What is audited first: a method, the plan of one of its runs, and its public data."""
        return ()

    @abstractmethod
    def rehearse(self, run: Run, complete: Callable[[Learned], None]) -> Expected:
        """Learn briefly from made-up records, and `complete` each time as if it had been in earnest.

        What the run will take, by the rehearsal.
        """

    @abstractmethod
    def learn(self, reserved: Reserved) -> Learned:
        """All that happens behind the barrier."""

    @abstractmethod
    def state(self, learned: Learned, others: Others, audited: Audited) -> Made:
        """What may be published, with its statement."""

    @abstractmethod
    def save(self, made: Made, place: Path) -> None:
        """Write it; it appears whole or not at all."""


class Resumable(Task[Learned, Made]):
    """A task whose run keeps checkpoints, and goes on from them when it was stopped."""

    @abstractmethod
    def digest(self, made: Made) -> str:
        """By which a run that was stopped knows what it wrote."""

    @abstractmethod
    def load(self, place: Path) -> Made | None:
        """What was written there, if it is of this kind."""


def carry_out(
    task: Task[Learned, Made],
    box: PrivateImages,
    run: Run,
    *,
    job: Job | None = None,
    resume: str | None = None,
    ledger: str | Path | None = None,
    approval: Approval | None = None,
) -> Made:
    """Audit, rehearse, confirm, reserve, learn, state, write, commit; what may be published.

    `job` is the folder of a run that is begun or resumed; `resume` names one. Without either a new one is made. A run
    that is resumed was confirmed when it began.
    """
    if job is not None and (before := written_before(task, box, job, ledger)) is not None:
        return before
    task.check()
    begins = costly(box.spec, ledger) and resume is None and (job is None or job.manifest["plan"] is None)
    approval = approval or Approval(yes=True)
    proposal = None
    if begins:
        useless = hopeless(task.plan) if task.shows_images else None
        proposal = propose(task.plan, box, ledger, made=task.made(), out=task.out, useless=useless)
        approval.admit(proposal)
    audited = _audited(task, run.device)
    expected = rehearsed(task, run, audited) if costly(box.spec, ledger) else None
    if proposal is not None:
        approval.confirm(proposal.expecting(expected), run.microbatch)
    job = job or (Job.find(resume) if resume else Job.create({}, str(ledger) if ledger else None))
    resumable = isinstance(task, Resumable)
    with charged(task.plan, box, job, ledger, resumable=resumable) as charge:
        learned = task.learn(Reserved(box, run, charge, job.folder if resumable else None))
        charge.check()
        made = task.state(learned, charge.others(), audited)
        if task.out is not None:
            _write(task, made, job, task.out)
        charge.finish()
    return made


def _audited(task: Task[Learned, Made], device: str) -> Audited:
    audited = None
    for method, plan, public in task.audits():
        audited = audit_first(method, plan, public, device, task.verb)
    return audited


def rehearsed(task: Task[Learned, Made], run: Run, audited: Audited) -> Expected:
    """Try all that a run needs on made-up records, down to its files, which are written elsewhere and thrown away.

    What it will take.
    """

    def complete(learned: Learned) -> None:
        with elsewhere() as folder:
            task.save(task.state(learned, None, audited), folder)

    return task.rehearse(run, complete)


def _write(task: Task[Learned, Made], made: Made, job: Job, place: Path) -> None:
    if isinstance(task, Resumable):
        job.manifest["weights"] = task.digest(made)
        job.store()
    task.save(made, place)


def written_before(task: Task[Learned, Made], box: PrivateImages, job: Job, ledger: str | Path | None) -> Made | None:
    """What this run wrote just before it was stopped, if it got so far; what was half written is removed."""
    place = task.out
    if place is None or not isinstance(task, Resumable):
        return None
    for part in place.absolute().parent.glob(f".{place.name}.*.part"):
        shutil.rmtree(part, ignore_errors=True)
    if job.manifest["weights"] is None:
        return None
    before: Made | None = task.load(place)
    if before is None or task.digest(before) != job.manifest["weights"]:
        return None
    finish(job, box, ledger)
    return before


def assist(method: Learner, plan: Plan, box: PrivateImages, run: Run, public: PublicImages | None = None) -> None:
    """Do the share of a rank other than the first, which holds the reservation and keeps the books."""
    run = replace(run, folder=Path(run.ranks.told("")), odometer=Odometer(plan))
    with run.interruptible():
        method.learn(barrier_before(box, run), run, public)
        run.ranks.wait()
