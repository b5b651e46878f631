"""How much level 0 of the audit does, counted and not timed."""

from __future__ import annotations

import sys

import pytest

from sfumato import Budget, DataSpec, Method
from sfumato.audit import level0
from sfumato.privacy.plan import Plan

auditing = sys.modules[level0.__module__]  # the package has a function of the module's name


def watched_work(
    patch: pytest.MonkeyPatch, method: Method, spec: DataSpec, budget: Budget, plan: Plan | None = None
) -> tuple[int, int]:
    """What level 0 works on, in numbers that a busy machine does not change: units made up, and crossings watched."""
    units, crossings = [], []
    made_up, learn = auditing.made_up, auditing.learn

    def counted(*given, **more):
        units.append(len((made := made_up(*given, **more)).labels))
        return made

    def learnt(*given, **more):
        crossings.append(len((seen := learn(*given, **more)).barrier.asked))
        return seen

    patch.setattr(auditing, "made_up", counted)
    patch.setattr(auditing, "learn", learnt)
    report = level0(method, spec, budget, plan=plan)
    assert report.verdict == "pass", report.failed
    return max(units), sum(crossings)
