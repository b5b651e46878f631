"""Auditing: what can refute a privacy claim. A pass says that nothing was found, not that nothing is there.

`check(method)` audits any method on made-up records; `gallery.run()` proves the auditors on planted bugs;
`attack(release, members, nonmembers)` attacks a release with records that were, and were not, behind it.
"""

from __future__ import annotations

from sfumato.audit.check_method import check, level0
from sfumato.audit.games.attack import attack
from sfumato.audit.recording.subject import Finding, Subject
from sfumato.audit.report import Report

__all__ = [
    "Finding",
    "Report",
    "Subject",
    "attack",
    "check",
    "level0",
]
