"""`sfumato sweep`: many runs of a plan file on a pool of workers, in one table and one page.

On public data every run is free and the ledger is not touched. On private data a sweep is one charged selection, made
in this process: workers never hold the ledger, and how many runs there were stays secret.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato.accounting.selection import Runs
from sfumato.data import load
from sfumato.errors import AuditFailed, InputError, OverBudget
from sfumato.evaluate.report import write_page
from sfumato.flow.approval import Approval
from sfumato.flow.cluster import check_pool, make_pool
from sfumato.flow.make import labels_for, make_budget, make_method
from sfumato.flow.pool import Outcome, Pool, time_left
from sfumato.flow.sweep_plan import LAWS, SweepPlan, read
from sfumato.flow.sweep_table import results, write_results
from sfumato.flow.trial import carry_out_trial, check_public
from sfumato.flow.tune import tune_private
from sfumato.release import Release
from sfumato.run.progress import Silent
from sfumato.run.run import Run

RUNS = "runs"  # a file for each run of a free sweep that ended
SELECTION = "selection.json"  # of a private one: that it was begun
RELEASE = "release"
FAILED = "failed"
COUNT = 10_000  # images of a release


def sweep(
    plan: SweepPlan | str | Path,
    out: str | Path = "sweep",
    *,
    workers: int = 2,
    pool: str | Pool[Any] = "local",
    progress: Silent | None = None,
    ledger: str | None = None,
    approval: Approval | None = None,
) -> dict[str, Any] | Release:
    """Make the runs of a plan that `out` does not have yet, and the table of all; of a private one, the release."""
    plan = plan if isinstance(plan, SweepPlan) else read(plan)
    if isinstance(pool, str):
        check_pool(pool, workers)
    for name, settings in plan.methods:
        make_method(name, settings)
    progress = progress or Silent()
    if plan.private:
        if pool != "local":
            raise InputError("A sweep on private data is made in one process, which keeps the books; leave out --pool.")
        with _alone(Path(out), SELECTION) as place:
            return _selected(plan, place, progress, ledger, approval)
    if ledger is not None:
        raise InputError("A sweep on public data has no ledger; leave out --ledger.")
    for data in plan.data:
        check_public(data)
    with _alone(Path(out), RUNS) as place:
        (place / RUNS).mkdir(exist_ok=True)
        return _swept(plan, place, workers, pool, progress)


@contextmanager
def _alone(place: Path, mark: str) -> Iterator[Path]:
    """The folder of a sweep, new or begun, for as long as no other process works in it."""
    if place.is_dir() and any(place.iterdir()) and not (place / mark).exists():
        raise InputError(f"{place} is not empty, and no earlier sweep of this kind; choose another --out.")
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = os.open(place, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{place} cannot be written ({error.strerror}); choose another --out.") from error
    try:
        _lock(lock, place)
        yield place.absolute()
    finally:
        os.close(lock)


def _lock(folder: int, place: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"Another sweep is at work in {place}; wait for it, or choose another --out.") from error


def _swept(plan: SweepPlan, place: Path, workers: int, pool: str | Pool[Any], progress: Silent) -> dict[str, Any]:
    trials = plan.trials()
    missing = {key: asked for key, asked in trials.items() if _kept(place, key) is None}
    if missing:
        made = make_pool(pool, workers, place / "slurm", plan.slurm) if isinstance(pool, str) else pool
        with _scratch(place) as scratch:
            _make(missing, place, made, str(scratch), progress)
    rows = [_read(place, key) or {} for key in trials]
    found = results(rows) | {"made": len(missing), "out": str(place)}
    write_results(place, found)
    return found


def _make(missing: Mapping[str, dict[str, Any]], place: Path, pool: Pool[Any], scratch: str, progress: Silent) -> None:
    """Make what is missing, and write each run as soon as it is there."""
    keys = list(missing)
    tasks = [{"asked": missing[key], "scratch": scratch} for key in keys]
    progress.start("sweep", len(keys))
    start = time.monotonic()
    for done, outcome in enumerate(pool.map(carry_out_trial, tasks), 1):
        key = keys[outcome.number]
        _write(place, key, missing[key], outcome)
        left = (time.monotonic() - start) / done * (len(keys) - done)
        asked = missing[key]
        note = f"{asked['method']}, epsilon {asked['epsilon']:g}, seed {asked['seed']}, {time_left(left)} left"
        progress.advance(done, note)


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """A folder for what workers need and nobody reads; what a killed sweep left goes first."""
    for old in place.glob(".scratch-*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _write(place: Path, key: str, asked: Mapping[str, Any], outcome: Outcome) -> None:
    found = {"state": FAILED, "why": outcome.lost} if outcome.lost else outcome.found
    record = {"id": key, "asked": asked, **found, "tries": outcome.tries}
    write_page(place / RUNS / f"{key}.json", json.dumps(record, indent=1) + "\n", False)


def _read(place: Path, key: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((place / RUNS / f"{key}.json").read_bytes())
        return record if record["id"] == key and record["state"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kept(place: Path, key: str) -> dict[str, Any] | None:
    """A run that need not be made again: one that failed is tried anew."""
    record = _read(place, key)
    return None if record is None or record["state"] == FAILED else record


def _selected(plan: SweepPlan, place: Path, progress: Silent, ledger: str | None, approval: Approval | None) -> Release:
    """The release of a charged selection; one that is there is not charged again."""
    asked = asdict(plan) | {"path": None}
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    mark = place / SELECTION
    if mark.exists():
        return _selected_before(place, digest)
    (name,) = plan.data
    with load(name, size=plan.size, grey=plan.grey, label=plan.label, person=plan.person) as box:
        budget = make_budget(plan.epsilon[0], plan.delta, plan.relation, box.spec.unit)
        labels = labels_for(plan.labels, box.spec, budget)
        methods = [make_method(method, settings, labels, box.spec.classes) for method, settings in plan.methods]
        write_page(mark, json.dumps({"asked": digest}) + "\n", True)
        try:
            return tune_private(
                methods,
                box,
                budget,
                Runs(plan.runs, LAWS[plan.law]),
                Run(device=plan.device, seed=plan.seeds[0], progress=progress),
                out=place / RELEASE,
                count=plan.count or COUNT,
                ledger=ledger,
                approval=approval,
            )
        except (InputError, OverBudget, AuditFailed):
            mark.unlink()  # refused: nothing was spent
            raise


def _selected_before(place: Path, digest: str) -> Release:
    """What a selection wrote; one that was begun and has nothing is not begun again by itself."""
    try:
        same = json.loads((place / SELECTION).read_bytes())["asked"] == digest
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    if not same:
        raise InputError(f"{place} has the selection of another plan; choose another --out.")
    if not (place / RELEASE / "privacy.json").is_file():
        raise InputError(
            f"The selection in {place} was begun and did not end: what it had reserved may be spent, see "
            "`sfumato budget`; choose another --out to charge a new one."
        )
    return Release.load(place / RELEASE)
