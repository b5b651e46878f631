"""The audit that comes before every reservation: a method that does other than it declares is refused.

It is made on made-up records and on the device of the run, in a process that does not hold the private set.
"""

from __future__ import annotations

from typing import Any

from sfumato.audit import apart
from sfumato.data.public import PublicImages
from sfumato.errors import AuditFailed
from sfumato.flow.make import Learner
from sfumato.privacy.plan import Plan

EXAMINED = "sfumato.flow.verbs_audit.examined"  # by name: it is imported by the process that audits
_AUDITED: set[Any] = set()


def audit_first(
    method: Learner, plan: Plan, public: PublicImages | None, device: str, verb: str = "synthesize"
) -> dict[str, Any]:
    """Refuse a method that is caught; each kind of run is audited once a process. What the statement says of it."""
    shape = (plan.data.shape, len(plan.data.classes), plan.data.unit, plan.data.count_public, plan.budget.relation)
    kind = device.split(":")[0]  # of several alike any will do
    asked = (type(method), tuple(sorted(method.settings().items())), plan.labels["kind"], shape, kind, verb)
    if asked in _AUDITED:
        return passed(device)
    report = apart.level0_apart(EXAMINED, method, plan, public, verb, device=device)
    if report.failed:
        why = f"{report.failed[0].check}, {report.failed[0].detail}"
        raise AuditFailed(f"{plan.method} is refused by its audit before anything is spent: {why}.")
    _AUDITED.add(asked)
    return passed(device)


def passed(device: str) -> dict[str, Any]:
    """What the statement says of a level 0 that found nothing."""
    kind = device.split(":")[0]
    return {"levels": [0], "verdict": "pass", "records": "made up: no private data were used", "audited_on": kind}
