"""The audit that comes before every reservation: a method that does other than it declares is refused.

It is made on made-up records and on the device of the run, in a process that does not hold the private set.
"""

from __future__ import annotations

from typing import Any

from sfumato.audit import apart
from sfumato.audit.recording.subject import Finding
from sfumato.data.public import PublicImages
from sfumato.errors import AuditFailed
from sfumato.flow.make import Learner
from sfumato.privacy.plan import Plan
from sfumato.release.files.names import hide_paths

LONGEST = 200  # letters of what a check saw
EXAMINED = "sfumato.flow.verbs_audit.examined"  # by name: it is imported by the process that audits
_AUDITED: dict[Any, tuple[Finding, ...]] = {}


def audit_first(
    method: Learner, plan: Plan, public: PublicImages | None, device: str, verb: str = "synthesize"
) -> dict[str, Any]:
    """Refuse a method that is caught; each kind of run is audited once a process. What the statement says of it."""
    shape = (plan.data.shape, len(plan.data.classes), plan.data.unit, plan.data.count_public, plan.budget.relation)
    kind = device.split(":")[0]  # of several alike any will do
    asked = (type(method), tuple(sorted(method.settings().items())), plan.labels["kind"], shape, kind, verb)
    if asked in _AUDITED:
        return passed(device, _AUDITED[asked])
    report = apart.level0_apart(EXAMINED, method, plan, public, verb, device=device)
    if report.failed:
        why = f"{report.failed[0].check}, {report.failed[0].detail}"
        raise AuditFailed(f"{plan.method} is refused by its audit before anything is spent: {why}.")
    _AUDITED[asked] = report.rows
    return passed(device, report.rows)


def passed(device: str, rows: tuple[Finding, ...] = ()) -> dict[str, Any]:
    """What the statement says of a level 0 that found nothing: what was checked, and what was seen."""
    found = {
        "levels": [0],
        "verdict": "pass",
        "records": "made up: no private data were used",
        "audited_on": device.split(":")[0],
    }
    checks = [{"check": row.check, "seen": hide_paths(row.detail)[:LONGEST]} for row in rows]
    return found | {"checks": checks} if checks else found
