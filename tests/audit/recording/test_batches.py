"""Audits of one value of a whole sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from sfumato import Budget, DataSpec, Method, Relation
from sfumato.audit import check
from sfumato.audit.recording.batches import anything_subject, value_subject
from sfumato.audit.recording.recording_barrier import learn, made_up
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))


@dataclass(frozen=True, kw_only=True)
class Middle(Method):
    """The spread of a sample around its own mean, which no record has alone."""

    wrong: str = ""
    name: ClassVar[str] = "middle"

    def crossings(self, spec, z):
        return {"value": crossing(BatchBound(1.0), z, Poisson(1 / 3), times=3)}

    def learn(self, barrier, run, public=None):
        seen = [torch.zeros(64)]

        def value(images, labels):
            flat = images.flatten(1).float()
            seen.append(seen[-1] + flat.sum(0))
            return flat.std(0, unbiased=False) * 10 + (seen[-2] if self.wrong == "remembers" else 0)

        net, query = torch.nn.Linear(64, 1), BatchValue(value, BatchBound(1.0), (64,))
        torch.nn.init.zeros_(net.bias)
        net.weight.data.zero_()
        for _ in range(3):
            net.weight.data += barrier.release("value", query).float()
        return net


def test_a_value_of_a_sample_passes_every_level():
    report = check(Middle(), level=2, draws=20_000, runs=600)
    assert report.verdict == "pass", report.failed
    assert {"value: step audit", "whole plan", "value: inclusion sizes"} <= {row.check for row in report.rows}


def test_a_value_that_remembers_is_caught():
    failed = {row.check for row in check(Middle(wrong="remembers")).failed}
    assert "value: private state" in failed


@pytest.mark.parametrize("relation", list(Relation))
def test_the_worst_value_turns_round_in_the_ball_under_either_relation(relation):
    method = Middle()
    plan = method.plan(SPEC, Budget(4.0, relation=relation))
    asked = learn(method, plan, made_up(SPEC, np.random.default_rng(0))).barrier.asked[0]
    wild, own = anything_subject(asked, plan), value_subject(asked, plan)
    pairs = {(p.kind, p.relation): p for p in wild.pairs(np.random.default_rng(0))}
    turned = pairs["turned", relation]
    moved = np.linalg.norm(wild.exact(turned.one) - wild.exact(turned.two))
    assert moved == pytest.approx(2, rel=1e-5) and moved <= wild.declared[relation]
    assert np.isfinite(wild.exact(pairs["nan", relation].two)).all() and own.rows is None
