"""Unfinished runs: what they cost is what the ledger charged, and discarding never makes anything cheaper."""

from __future__ import annotations

import os

import pytest

from sfumato import DPMERF, Budget, InputError, Run, synthesize
from sfumato.api import budget_of
from sfumato.errors import Interrupted
from sfumato.ledger.job import Job
from sfumato.ledger.manifest import known_runs, read_manifest
from sfumato.ledger.reservation import charged
from sfumato.ledger.unfinished import described, discard, moved, unfinished
from tests.made_up import arrays
from tests.test_api import TINY, Stop


@pytest.fixture
def stopped() -> str:
    """A run that was stopped after its crossing."""
    with pytest.raises(Interrupted) as stop:
        synthesize(DPMERF(**TINY), arrays(), Budget(2.0), Run(progress=Stop()), count=3)
    return str(stop.value).split("resume=")[1]


def reserved(killed: bool = True) -> str:
    """A run whose process was killed between its reservation and its first crossing."""
    from sfumato import load
    from sfumato.flow.make import make_plan

    box = load(arrays())
    job = Job.create({}, None)
    holding = charged(make_plan(DPMERF(**TINY), box.spec, Budget(2.0)), box, job)
    holding.__enter__()
    if killed:
        job.close()
    KEPT.append(holding)
    return job.folder.name


KEPT: list[object] = []  # a context manager that is thrown away would give its reservation back


def test_nothing_is_unfinished_at_first():
    assert unfinished() == [] and known_runs() == []


def test_a_stopped_run_tells_what_it_was_charged(stopped):
    (one,) = unfinished()
    assert (one["run"], one["state"], one["from_python"], one["checkpoint"]) == (stopped, "begun", True, True)
    assert one["charged"] == {"epsilon": pytest.approx(2.0), "delta": 1e-5, "relation": "add-remove"}
    assert one["method"] == "dp-merf" and one["ledger"] == os.environ["SFUMATO_LEDGER"]


def test_what_has_crossed_stays_spent_when_it_is_discarded(stopped):
    before = budget_of(arrays())["spent"]
    assert before > 1.9
    gone = discard(stopped)
    assert gone["given_back"] is False and known_runs() == []
    assert budget_of(arrays())["spent"] == before
    with pytest.raises(InputError, match="no run"):
        described(stopped)


def test_what_nothing_crossed_for_is_given_back():
    name = reserved()
    assert described(name)["state"] == "reserved" and described(name)["charged"]["epsilon"] == pytest.approx(2.0)
    assert discard(name)["given_back"] is True and known_runs() == []
    assert budget_of(arrays())["spent"] == 0.0


def test_a_run_at_work_is_seen_and_left_alone():
    name = reserved(killed=False)
    assert described(name)["state"] == "running"
    with pytest.raises(InputError, match="still going"):
        discard(name)
    assert known_runs() == [name]


def test_a_run_without_its_ledger_is_unknown(stopped, monkeypatch, tmp_path):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "none.sqlite"))
    one = described(stopped)
    assert (one["state"], one["charged"], one["ledger"]) == ("unknown", None, None)
    assert not (tmp_path / "none.sqlite").exists()  # asking makes no ledger
    with pytest.raises(InputError, match="no ledger"):
        described(stopped, tmp_path / "none.sqlite")


def test_a_ledger_that_was_moved_is_taken_if_it_knows_the_run(stopped, monkeypatch, tmp_path):
    old = os.environ["SFUMATO_LEDGER"]
    new = tmp_path / "moved.sqlite"
    os.rename(old, new)
    synthesize(DPMERF(**TINY), arrays(seed=1), Budget(1.0), count=3)  # makes a ledger that does not know the run
    job = Job.find(stopped)
    try:
        with pytest.raises(InputError, match="does not know the run"):
            moved(job, old)
        moved(job, new)
    finally:
        job.close()
    assert read_manifest(stopped)[1]["ledger"] == str(new) and described(stopped)["state"] == "begun"


def test_a_folder_that_is_no_run_is_passed_over(stopped):
    (read_manifest(stopped)[0].parent / "notes").mkdir()
    assert [one["run"] for one in unfinished()] == [stopped]
