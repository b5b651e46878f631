"""A rehearsal touches no private record, is short, and tries what the run will do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato import DPMERF, Budget, DataSpec, InputError, Run, Unit
from sfumato.api import budget_of, make_plan, synthesize
from sfumato.data.labels import LabelPrior
from sfumato.data.private import Records
from sfumato.data.public import PublicImages
from sfumato.flow.first_audit import passed
from sfumato.flow.flow import rehearsed
from sfumato.flow.rehearsal import RECORDS, Rehearsing, Stage, rehearse, trying
from sfumato.flow.synthesize import Synthesis
from sfumato.methods import find, names
from sfumato.networks.generator import BATCHES
from sfumato.privacy.barrier import Barrier
from sfumato.types import Images
from tests.made_up import arrays, box
from tests.methods.test_contract import TINY

SPEC = DataSpec("arrays", 60, (1, 8, 8), ("0", "1", "2"))


# By person one method of each kind of query is enough.
CASES = [(name, Unit.RECORD) for name in names()] + [(name, Unit.PERSON) for name in ("dp-merf", "datalens", "dpdm")]


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_every_method_can_be_rehearsed_and_every_crossing_is_tried(name, unit):
    method = find(name)(**TINY[name], labels=LabelPrior("private", fraction=0.3))
    spec = replace(SPEC, unit=unit)
    plan, seen = make_plan(method, spec, Budget(2.0, unit=unit)), []

    def after(stage, learned, run):
        seen.append((stage.complete, len(learned.sample(2, seed=1)), run.folder))

    rehearse(method, plan, Run(device="cpu"), after=after)
    assert seen == [(True, 2, None)]


def test_no_private_record_is_read_and_nothing_of_the_run_is_changed(monkeypatch):
    private, read, counts = box(), Records.read, []
    monkeypatch.setattr(Records, "read", lambda self, rows: counts.append(len(self)) or read(self, rows))
    run, method = Run(device="cpu", seed=5), DPMERF(features=20, steps=50, batch=4, latent=4, width=8)
    rehearsed(Synthesis(method, make_plan(method, private.spec, Budget(1.0))), run, passed("cpu"))
    assert set(counts) == {RECORDS} and not run.kept and not run.pictures and run.odometer is None
    assert BATCHES.get() == 16


def test_loops_are_cut_short_but_for_the_beginnings_of_their_stages():
    brief = Rehearsing(device="cpu")
    assert list(brief.steps(1000)) == [0, 1] and list(brief.rounds(1000)) == [0, 1] and list(brief.steps(0)) == []
    assert list(brief.steps(1000, stages=(0, 7, 1000))) == [0, 1, 7, 8] and list(brief.steps(1)) == [0]
    assert list(Run(device="cpu").rounds(3)) == [0, 1, 2]


def test_private_first_layers_and_the_game_after_them_are_both_tried():
    method = find("dpaf")(**TINY["dpaf"], conv1="private")
    plan, tried = make_plan(method, SPEC, Budget(4.0)), []
    rehearse(method, plan, Run(device="cpu"), after=lambda stage, *_: tried.append(dict(stage.odometer.used)))
    assert all(tried[0].values()) and set(tried[0]) == set(plan.crossings)


def test_records_are_worked_on_although_a_sampler_would_hardly_draw_one(monkeypatch):
    method, read, rows = find("dpdm")(**TINY["dpdm"]), Records.read, []
    plan = make_plan(replace(method, embedding_share=0.0), replace(SPEC, records=1_000_000), Budget(2.0))
    monkeypatch.setattr(Records, "read", lambda self, drawn: rows.append(len(drawn)) or read(self, drawn))
    rehearse(replace(method, embedding_share=0.0), plan, Run(device="cpu"))
    assert sum(rows) >= RECORDS


def test_public_data_reach_the_rehearsal():
    images = Images(np.zeros((9, 1, 6, 6), np.uint8), np.arange(9) % 3, SPEC.classes)
    method = find("dpdm")(**TINY["dpdm"])
    with pytest.raises(InputError, match="public images of 1x8x8"):
        plan = make_plan(replace(method, embedding_share=0.0), SPEC, Budget(1.0))
        task = Synthesis(replace(method, embedding_share=0.0), plan, PublicImages(images, "made up"))
        rehearsed(task, Run(device="cpu"), passed("cpu"))


def test_it_runs_where_the_run_will():
    plan = make_plan(DPMERF(features=20), SPEC, Budget(1.0))
    sums = Stage(plan, Run(device="meta", microbatch=7))._real.sums
    assert (sums.device, sums.microbatch) == ("meta", 7)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            "lower --microbatch .* or choose --device cpu. Nothing was spent",
        ),
        (OSError(12, "Cannot allocate memory"), "not enough memory on cuda:0"),
        (ModuleNotFoundError("No module named 'a.b'", name="a.b"), "needs the package 'a'"),
        (PermissionError(13, "Permission denied", "/weights"), "/weights cannot be used .Permission denied"),
        (IndexError("3"), r"made-up images of 1x8x8 with these settings \(IndexError: 3\); choose others"),
    ],
)
def test_what_goes_wrong_gets_one_sentence_with_a_remedy(error, words):
    plan = make_plan(DPMERF(features=20), SPEC, Budget(1.0))
    with pytest.raises(InputError, match=words), trying(plan, "cuda:0", 64):
        raise error


def test_a_throw_away_ledger_needs_no_rehearsal(monkeypatch):
    monkeypatch.setattr("sfumato.flow.flow.rehearsed", lambda *_, **__: pytest.fail("nothing is at stake"))
    method = DPMERF(features=20, steps=2, batch=4, latent=4, width=8)
    assert len(synthesize(method, "digits", Budget(1.0), Run(device="cpu"), count=2).images) == 2


def test_a_rehearsal_that_fails_leaves_no_trace(monkeypatch):
    monkeypatch.setattr("sfumato.flow.flow.audit_first", lambda *_: passed("cpu"))
    monkeypatch.setattr(Barrier, "release", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(InputError, match="`microbatch`"):
        synthesize(DPMERF(features=20, steps=2), arrays(), Budget(1.0), Run(device="cpu"))
    assert budget_of(arrays())["history"] == []
