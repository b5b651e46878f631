"""Whole runs of a federation: the coordinator's road to a release, a site's to its end, and both in one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data import load
from sfumato.errors import InputError, Interrupted
from sfumato.federation import flower
from sfumato.federation.agreement import Agreement
from sfumato.federation.coordinator import Federation
from sfumato.federation.flower.link import need_flower
from sfumato.federation.site import Site, at_site
from sfumato.federation.transport import Carrier, InProcess, Transport
from sfumato.flow.approval import Approval
from sfumato.flow.first_audit import audit_first
from sfumato.flow.flow import rehearsed
from sfumato.flow.proposal import hopeless, propose
from sfumato.flow.synthesize import Learned, Synthesis
from sfumato.privacy.barrier import Barrier
from sfumato.run.run import Run, pick_device

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.release import Release

ADDRESS = "127.0.0.1:9092"
WAIT = 600.0  # seconds until a site counts as missing from a question
SUMS = "sums over this site's records, each with noise and under a mask, for the coordinator of the federation"
Told = Callable[[str], None]


@dataclass(frozen=True)
class _Led:
    """What `Synthesis.learn` starts from: a barrier before all sites."""

    federation: Federation
    run: Run

    def start(self, plan: Any) -> tuple[Barrier, Run]:
        return Barrier.before(self.federation), self.run


def state_of(out: str | Path) -> Path:
    """Where a coordinator keeps what it must not lose until its release is written; all of it is public."""
    place = Path(out).absolute()
    return place.with_name(f".{place.name}.federation")


def coordinate(
    agreement: Agreement,
    transport: Transport,
    out: str | Path,
    run: Run | None = None,
    *,
    count: int = 10_000,
    format: str = "png",
    timeout: float | None = WAIT,
    told: Told = lambda sentence: None,
) -> Release:
    """Lead a run to its release. One that was stopped goes on where it was, if it is called again."""
    run = run or Run()
    folder = state_of(out)
    task = Synthesis(agreement.made, agreement.plan, None, count, Path(out), format)
    written = folder.exists() and task.load(Path(out)) or None
    audited = None if written else _checked(task, run)
    far = Federation(agreement, transport, folder, timeout=timeout, device=run.device, told=told)
    far.join()
    made = written or _learned(task, far, replace(run, folder=folder, odometer=far.odometer), audited)
    for name in far.end():
        told(f"{name} did not hear that the run has ended; what it reserved stays charged, as planned")
    shutil.rmtree(folder)
    return made


def _checked(task: Synthesis, run: Run) -> dict[str, Any]:
    """Audit and rehearse on made-up records, before a site is asked."""
    if task.method.public_data in ("needed", "a network"):
        raise InputError(
            f"{task.method.name} needs public images or a public network, which a federation does not take; take "
            "another method."
        )
    if not state_of(task.out or "").exists():
        task.check()
    audited = audit_first(task.method, task.plan, None, run.device)
    rehearsed(task, run, audited)
    return audited


def _learned(task: Synthesis, far: Federation, run: Run, audited: dict[str, Any] | None) -> Release:
    try:
        learned: Learned = task.learn(_Led(far, run))  # type: ignore[arg-type]
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Interrupted("Stopped. Nothing is lost: call the same command again to go on.") from stopped
    made = task.state(learned, None, audited)
    assert task.out is not None
    task.save(made, task.out)
    return made


@contextmanager
def site(
    agreement: Agreement,
    name: str,
    box: PrivateImages,
    *,
    ledger: str | Path | None = None,
    resume: str | None = None,
    approval: Approval | None = None,
    **how: Any,
) -> Iterator[Site]:
    """A site that its custodian has said yes to; one that goes on was confirmed when it began."""
    if resume is None:
        approval = approval or Approval(yes=True)
        proposal = propose(agreement.plan, box, ledger, made=SUMS, useless=hopeless(agreement.plan))
        approval.admit(proposal)
        approval.confirm(proposal)
    with at_site(agreement, name, box, ledger=ledger, resume=resume, **how) as found:
        yield found


def simulate(
    agreement: Agreement,
    boxes: Mapping[str, PrivateImages],
    out: str | Path,
    run: Run | None = None,
    *,
    ledger: str | Path | None = None,
    approval: Approval | None = None,
    **how: Any,
) -> Release:
    """All sites and the coordinator in one process, for trials: the same messages, masks, shares and charges."""
    missing = [name for name in agreement.sites if name not in boxes]
    if missing:
        raise InputError(f"There are no data for {', '.join(missing)}; put them beside those of the other sites.")
    run = run or Run()
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(
                site(agreement, name, boxes[name], ledger=ledger, approval=approval, device=run.device)
            )
            for name in agreement.sites
        }
        return coordinate(agreement, InProcess(made), out, run, **how)


def carrier() -> Carrier:
    """The transport over a network; refused before anybody is asked where what it needs is not installed."""
    need_flower()
    return flower


def coordinate_far(
    agreement: Agreement, out: str | Path, running: Mapping[str, Any], address: str = ADDRESS, **how: Any
) -> Release:
    """As `coordinate`, with sites that reach this process at `address`."""
    wait = how.get("timeout") or WAIT
    run = Run(**running)
    return carrier().run_coordinator(
        agreement.sites, lambda transport: coordinate(agreement, transport, out, run, **how), address, wait
    )


def serve(
    agreement: Agreement, name: str, data: Any, address: str = ADDRESS, *, read: Mapping[str, Any], **how: Any
) -> dict[str, Any]:
    """Take part until the run ends; what it cost this site."""
    carry = carrier()
    how["device"] = pick_device(how.get("device", "cpu"))
    with boxed_for(agreement, name, data, **read) as box, site(agreement, name, box, **how) as answer:
        how.get("told", print)(f"after a crash, go on with --resume {answer.run}")
        carry.run_site(name, answer, address)
        return {"site": name, "ended": answer.ended, "guarantee": agreement.plan.guarantee()}


def simulate_in(
    agreement: Agreement,
    folder: str | Path,
    out: str | Path,
    running: Mapping[str, Any],
    *,
    read: Mapping[str, Any],
    **how: Any,
) -> Release:
    """As `simulate`, with the data of all sites below one folder, each under the name of its site."""
    places = {name: _place(Path(folder), name) for name in agreement.sites}
    boxes = {name: boxed_for(agreement, name, str(place), **read) for name, place in places.items()}
    return simulate(agreement, boxes, out, Run(**running), **how)


def planned(agreement: Agreement) -> dict[str, Any]:
    """What an agreement asks and costs: the same for all sites, and made without a record."""
    return agreement.plan.to_json() | {"agreement": agreement.digest, "shares": agreement.shares}


def boxed_for(agreement: Agreement, name: str, data: Any, **read: Any) -> PrivateImages:
    """A site's records in their box; their number is private where the plan says so."""
    if name not in agreement.sites:
        raise InputError(f"The plan has no site {name!r}; it has {', '.join(agreement.sites)}.")
    if agreement.spec.count_public:
        return load(data, **read)
    return load(data, private_count=True, records=agreement.records[name], **read)


def _place(folder: Path, name: str) -> Path:
    found = [place for place in (folder / name, folder / f"{name}.npz", folder / f"{name}.parquet") if place.exists()]
    if not found:
        raise InputError(f"{folder} has no data of the site {name}; add a folder {name}, {name}.npz or {name}.parquet.")
    return found[0]
