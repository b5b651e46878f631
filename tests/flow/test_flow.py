"""The order that the guarantee rests on, which every verb that spends goes through."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import DPMERF, Budget, InputError, Run
from sfumato.api import budget_of, make_plan
from sfumato.data.private import Records
from sfumato.errors import AuditFailed, Unfinished
from sfumato.flow import flow
from sfumato.flow.publish import Publication
from sfumato.flow.request import Request, carry_out
from sfumato.flow.synthesize import Synthesis
from sfumato.flow.train_classifier import Training
from sfumato.flow.tune import Selection
from sfumato.ledger.job import Job, runs_folder
from sfumato.methods import Method
from sfumato.privacy.odometer import Odometer
from tests.made_up import arrays, box

TINY = DPMERF(features=20, steps=2, batch=4, latent=4, width=8)


def task(**options):
    return Synthesis(TINY, make_plan(TINY, box().spec, Budget(2.0)), count=3, **options)


def noted(monkeypatch, order, owner, name, word):
    before = getattr(owner, name)

    def told(*given, **more):
        order.append(word)
        return before(*given, **more)

    monkeypatch.setattr(owner, name, told)


def test_the_order_of_a_run(monkeypatch, tmp_path):
    order: list[str] = []
    for owner, name, word in (
        (Synthesis, "check", "check"),
        (flow, "audit_first", "audit"),
        (flow, "rehearsed", "rehearse"),
        (Job, "enter", "reserve"),
        (flow, "barrier_before", "barrier"),
        (Job, "begin", "begin"),
        (Synthesis, "state", "state"),
        (Synthesis, "save", "save"),
        (Job, "finish", "commit"),
    ):
        noted(monkeypatch, order, owner, name, word)
    flow.carry_out(task(out=tmp_path / "release"), box(), Run(device="cpu"))
    rehearsal = ["rehearse", "state", "save"]
    assert order == ["check", "audit", *rehearsal, "reserve", "barrier", "begin", "state", "save", "commit"]


@pytest.mark.parametrize("step", ["audit_first", "rehearsed"])
def test_what_is_refused_before_the_reservation_reads_and_reserves_nothing(monkeypatch, step):
    def refused(*_):
        raise AuditFailed("No.")

    monkeypatch.setattr(flow, step, refused)
    monkeypatch.setattr(Records, "read", lambda *_: pytest.fail("a record was read"))
    if step == "audit_first":
        monkeypatch.setattr(flow, "rehearsed", lambda *_: pytest.fail("it was refused already"))
    with pytest.raises(AuditFailed):
        flow.carry_out(task(), box(), Run(device="cpu"))
    monkeypatch.undo()
    assert budget_of(arrays())["history"] == []


def test_nothing_leaves_a_run_that_lost_its_reservation(monkeypatch, tmp_path):
    monkeypatch.setattr(flow, "rehearsed", lambda *_: None)
    monkeypatch.setattr(Job, "check", lambda *_: (_ for _ in ()).throw(InputError("Resumed elsewhere.")))
    with pytest.raises(Unfinished, match="stays spent"):
        flow.carry_out(task(out=tmp_path / "release"), box(), Run(device="cpu"))
    assert not (tmp_path / "release").exists()


def test_a_method_is_built_once_and_planned_once(monkeypatch, tmp_path):
    images, labels = arrays()
    np.savez(tmp_path / "set.npz", images=images, labels=labels)
    counts: list[str] = []
    noted(monkeypatch, counts, Method, "plan", "plan")
    settings = {name: str(value) for name, value in TINY.settings().items() if name in ("features", "steps", "batch")}
    request = Request(
        data=str(tmp_path / "set.npz"),
        method="dp-merf",
        epsilon=2.0,
        settings=settings,
        count=3,
        out=str(tmp_path / "release"),
        device="cpu",
    )
    learned: list[Method] = []
    learn = DPMERF.learn
    monkeypatch.setattr(DPMERF, "learn", lambda self, *given: learned.append(self) or learn(self, *given))
    carry_out(request)
    assert counts == ["plan"]
    assert len({id(method) for method in learned}) == 1 and len(learned) == 2  # rehearsed, then in earnest


def test_a_run_that_cannot_be_resumed_leaves_no_folder(monkeypatch, tmp_path):
    plan = make_plan(TINY, box().spec, Budget(2.0))
    query = None
    once = Publication(plan, query, {}, tmp_path / "out")  # type: ignore[arg-type]
    monkeypatch.setattr(flow, "rehearsed", lambda *_: None)

    def failed(self, reserved):
        reserved.charge.begin()
        raise MemoryError

    monkeypatch.setattr(Publication, "learn", failed)
    with pytest.raises(Unfinished, match="cannot be resumed"):
        flow.carry_out(once, box(), Run(device="cpu"))
    assert list(runs_folder().iterdir()) == []
    assert budget_of(arrays())["spent"] == pytest.approx(2.0, rel=1e-3)


def test_what_can_be_resumed():
    assert issubclass(Synthesis, flow.Resumable) and issubclass(Training, flow.Resumable)
    assert not issubclass(Selection, flow.Resumable) and not issubclass(Publication, flow.Resumable)


def test_a_barrier_counts_on_the_odometer_that_marks_the_reservation():
    seen = []

    class Charge:
        def begin(self):
            seen.append("begun")

        def check(self):
            pass

    made = task()
    barrier, run = flow.Reserved(box(), Run(device="cpu"), Charge(), None).start(made.plan)  # type: ignore[arg-type]
    assert isinstance(run.odometer, Odometer) and barrier.plan is made.plan and seen == []
    run.odometer.charge("embedding")
    assert seen == ["begun"]
