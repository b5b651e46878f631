"""How much level 0 of the audit does, counted and not timed."""

from __future__ import annotations

import pytest

from sfumato import Budget, DataSpec, Method
from sfumato.audit import check_method, level0
from sfumato.privacy.plan import Plan


def recorded_work(
    patch: pytest.MonkeyPatch, method: Method, spec: DataSpec, budget: Budget, plan: Plan | None = None
) -> tuple[int, int]:
    """What level 0 works on, in numbers that a busy machine does not change: units made up, and crossings recorded."""
    units, crossings = [], []
    made_up, learn = check_method.made_up, check_method.learn

    def counted(*given, **more):
        units.append(len((made := made_up(*given, **more)).labels))
        return made

    def learnt(*given, **more):
        crossings.append(len((seen := learn(*given, **more)).barrier.asked))
        return seen

    patch.setattr(check_method, "made_up", counted)
    patch.setattr(check_method, "learn", learnt)
    report = level0(method, spec, budget, plan=plan)
    assert report.verdict == "pass", report.failed
    return max(units), sum(crossings)
