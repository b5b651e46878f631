"""Audits of DataLens, whose parts have a private state, and of methods that get such parts wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from sfumato import Budget, DataLens, DataSpec, KernelVotes, Relation, Unit
from sfumato.accounting import accountant
from sfumato.accounting.tradeoff import curve_of, held_out
from sfumato.audit import check
from sfumato.audit.gallery.votes import _Slots
from sfumato.audit.recording.parts import Blind, Wild, play_votes, turned_subject, votes_subject
from sfumato.audit.recording.recording_barrier import learn, made_up
from sfumato.data.labels import LabelPrior
from sfumato.methods.teachers.datalens import COMPRESSIONS
from sfumato.privacy.mechanisms import DiscreteGaussian
from tests.audit_work import recorded_work

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
TINY = {"teachers": 6, "topk": 10, "steps": 6, "batch": 4, "teacher_batch": 2, "latent": 4}


def failing(report):
    return {row.check for row in report.rows if not row.ok}


def asked_of(method):
    plan = method.plan(SPEC, Budget(4.0))
    return learn(method.small(), plan, made_up(SPEC, np.random.default_rng(0))).barrier.asked[0], plan


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_every_compression_passes_level_0(compress):
    report = check(DataLens(**TINY, compress=compress))
    assert report.verdict == "pass", report.failed
    assert {"votes: teachers moved", "votes: teachers touched", "votes: paired partition"} <= {
        row.check for row in report.rows
    }


@pytest.mark.parametrize("settings", [{}, {"share": 0.5}, {"order": "paper"}], ids=str)
def test_datalens_passes_every_level(settings):
    report = check(DataLens(**TINY | settings), level=2, draws=20_000, runs=800)
    assert report.verdict == "pass", report.failed
    found = {row.check for row in report.rows}
    assert {"votes: step audit", "whole plan"} <= found
    if "share" in settings:
        assert {"votes: inclusion independence", "votes: private state"} <= found


def test_kernel_votes_pass_every_level():
    few = {"teachers": 6, "teacher_batch": 2, "frequencies": 40, "steps": 6, "batch": 4, "fakes": 8, "latent": 4}
    report = check(KernelVotes(**few), level=2, draws=20_000, runs=800)
    assert report.verdict == "pass", report.failed
    assert {"votes: step audit", "whole plan"} <= {row.check for row in report.rows}


def test_votes_and_a_label_histogram_are_played_together():
    report = check(DataLens(**TINY, labels=LabelPrior("private", fraction=0.3)), level=2, draws=20_000, runs=800)
    assert report.verdict == "pass", report.failed
    assert {"votes: step audit", "labels: step audit", "whole plan"} <= {row.check for row in report.rows}


def test_persons_lie_in_one_part_with_all_their_records():
    spec = replace(SPEC, unit=Unit.PERSON)
    report = check(DataLens(**TINY), spec=spec, budget=Budget(4.0, unit=Unit.PERSON))
    assert report.verdict == "pass", report.failed


def test_level0_is_small_for_real_shapes(monkeypatch):
    method, spec, budget = DataLens(), DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789")), Budget(1.0)
    units, crossings = recorded_work(monkeypatch, method.small(), spec, budget, method.plan(spec, budget))
    assert 1 <= units <= 200 and 1 <= crossings <= 100  # whatever the number of records


class Meddling:
    """Between DataLens and the barrier: does one thing wrong."""

    def __init__(self, barrier, wrong):
        self._barrier, self._wrong, self._seen = barrier, wrong, []
        self.spec, self.plan = barrier.spec, barrier.plan

    def hold(self, recipe, parts):
        return self._barrier.hold(_Slots(recipe, shared=True) if self._wrong == "moments handed on" else recipe, parts)

    def train(self, held, x, y):
        self._barrier.train(held, x + self._seen[-1] if self._seen and self._wrong == "trains on a leak" else x, y)

    def release(self, name, query, *public):
        said = query.contribution

        def leaking(block, random, *given):
            self._seen.append(block.directions(*given[:2]).abs().mean())
            return said(block, random, *given)

        def mixing(block, random, *given):
            rows = said(block, random, *given)
            return rows.roll(1, 0) + rows

        def unpacked(block, random, *given):
            return said(block.teachers, random, *given)

        wrong = {"trains on a leak": leaking, "terms mix": mixing, "moments handed on": unpacked}
        query = replace(query, contribution=wrong.get(self._wrong, said))
        if self._wrong == "another bound":
            query = replace(query, bound=replace(query.bound, most=query.bound.most + 1))
        return self._barrier.release(name, query, *public)


class Quiet(DiscreteGaussian):
    """Declares one scale and draws another."""

    def __call__(self, value, bound, noise):
        return DiscreteGaussian(self.multiplier / 3)(value, bound, noise)


@dataclass(frozen=True, kw_only=True)
class Wrong(DataLens):
    wrong: str = ""
    name: ClassVar[str] = "wrong"

    def plan(self, spec, budget):
        plan = super().plan(spec, budget)
        votes = plan.crossings["votes"]
        changed = {
            "a third of the noise": replace(votes, mechanism=Quiet(votes.mechanism.multiplier)),
            "not as held": replace(votes, held=False),
        }
        return replace(plan, crossings={"votes": changed.get(self.wrong, votes)})

    def learn(self, barrier, run, public=None):
        return super().learn(Meddling(barrier, self.wrong), run, public)


@pytest.mark.parametrize(
    ("wrong", "caught_by"),
    [
        ("trains on a leak", {"fixed tape", "blind barrier"}),
        ("terms mix", {"votes: teachers moved"}),
        ("moments handed on", {"votes: teachers moved"}),
        ("another bound", {"learns"}),
        ("not as held", {"learns"}),
        ("a third of the noise", {"votes: noise scale"}),
    ],
)
def test_a_mistake_is_caught(wrong, caught_by):
    report = check(Wrong(**TINY, wrong=wrong))
    assert caught_by <= failing(report), report.rows


def test_the_wrapper_itself_does_no_harm():
    assert check(Wrong(**TINY)).verdict == "pass"


def test_too_little_noise_shows_at_every_level():
    report = check(Wrong(**TINY, wrong="a third of the noise"), level=2, draws=5000, runs=800)
    assert {"votes: noise scale", "votes: step audit", "whole plan"} <= failing(report)


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_part_that_turns_over_attains_the_declared_sensitivity(compress):
    asked, plan = asked_of(DataLens(**TINY, compress=compress))
    wild = Wild(asked, plan)
    moved = np.linalg.norm((wild.total("huge") - wild.total("turned"))[0])
    assert moved == pytest.approx(plan.crossings["votes"].event(Relation.ADD_REMOVE).sensitivity, rel=1e-3)
    assert np.isfinite(wild.total("nan")).all() and np.isfinite(wild.total("infinite")).all()


def test_a_whole_part_as_a_canary_attains_the_claim():
    asked, plan = asked_of(DataLens(teachers=6, topk=9, batch=4, sigma=210.0))
    times = plan.crossings["votes"].times
    profile = accountant.profile([plan.crossings["votes"].event(Relation.ADD_REMOVE)])
    with_, without = (play_votes(asked, plan, times, present, 4000) for present in (True, False))
    assert times > 800 and profile.mu == pytest.approx(2 * (9 * times) ** 0.5 / 210, rel=1e-3)
    assert (with_.mean() - without.mean()) / without.std() == pytest.approx(profile.mu, rel=0.12)  # 4 in its own error
    curve = curve_of(profile)
    errors = held_out(without, with_, curve, 1e-3)
    assert not curve.refuted_by(errors) and errors.mu > 0.6 * profile.mu


def test_a_part_that_was_not_drawn_does_not_show():
    asked, plan = asked_of(DataLens(**TINY | {"share": 0.5}))
    wild = Wild(asked, plan)
    (taking, one), (_, two) = *wild.without("huge"), *wild.without("turned")
    assert wild.who not in taking and np.array_equal(one, two)
    assert turned_subject(asked, plan).history is not None


def test_each_question_draws_its_own_teachers():
    asked, plan = asked_of(DataLens(**TINY | {"share": 0.5}))
    drawn = Blind(asked, plan).asked(200, 8)
    assert len({tuple(d) for d in drawn}) == 8 and all(60 < len(d) < 140 for d in drawn)


def test_queries_side_by_side_are_judged_one_by_one():
    asked, plan = asked_of(DataLens(**TINY))
    subject = votes_subject(asked, plan)
    assert subject.queries == 4 and subject.release(None).shape == (4, 64)
    assert subject.declared[Relation.ADD_REMOVE] == pytest.approx(2 * 10**0.5)
    assert torch.is_tensor(asked.public[0]) and asked.use == 4
