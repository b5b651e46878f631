"""The gallery: seeded faults (bugs), each beside a control (its twin) that differs in the fault alone.

The same auditors look at both. They must catch the bug by the check that is meant to and pass the twin; two
sound oddities must pass altogether. What a bug is planted in is a mechanism (`Subject`), or a whole method.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sfumato.accounting.tradeoff import SIGNIFICANCE
from sfumato.audit.check_method import check
from sfumato.audit.checks.run_checks import run_checks
from sfumato.audit.gallery import correlated, data, gradients, leaks, noises, runs, sampling, together, votes
from sfumato.audit.gallery.common import Bug
from sfumato.audit.recording.subject import Finding, Subject

__all__ = ["BUGS", "Bug", "control_alarms", "findings_of", "run"]

_SHELVES = (noises, votes, gradients, sampling, data, runs, leaks, together, correlated)
BUGS: tuple[Bug, ...] = tuple(sorted((b for shelf in _SHELVES for b in shelf.BUGS), key=lambda bug: bug.id))
GAMES = 2 * 2 * sum(bug.level > 0 for bug in BUGS)  # at most a step and an end-to-end game for each bug and twin
ALPHA = SIGNIFICANCE / GAMES


def findings_of(bug: Bug, planted: bool, seed: int) -> list[Finding]:
    """What the auditors find in a bug, or in its twin."""
    subject = bug.build(planted)
    if isinstance(subject, Subject):
        return run_checks(subject, level=bug.level, seed=seed, draws=bug.draws, runs=bug.runs, alpha=ALPHA)
    rows = check(subject, level=bug.level, seed=seed).rows
    return [replace(f, check=f.check.rpartition(": ")[2]) for f in rows]  # without the name of the crossing


def run(seed: int = 0, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """One row a bug: whether it was caught by a check that must catch it, while its twin passes."""
    wanted = None if only is None else set(only)
    return [_row(bug, seed) for bug in BUGS if wanted is None or bug.id in wanted]


def _row(bug: Bug, seed: int) -> dict[str, Any]:
    findings = findings_of(bug, True, seed)
    twin = findings_of(bug, False, seed)
    convicting = [f for f in findings if not f.ok and (not bug.by or f.check in bug.by)]
    verdict = "caught" if convicting else "pass"
    twin_verdict = "pass" if all(f.ok for f in twin) else "caught"
    shown = convicting[0] if convicting else max(findings, key=lambda f: f.level)
    return {
        "id": bug.id,
        "name": bug.name,
        "expected": bug.expected,
        "verdict": verdict,
        "twin": twin_verdict,
        "ok": verdict == bug.expected and twin_verdict == "pass",
        "level": shown.level,
        "by": sorted({f.check for f in convicting}),
        "detail": f"{shown.check}: {shown.detail}",
        "twin_detail": "; ".join(f"{f.check}: {f.detail}" for f in twin if not f.ok) or "nothing found",
    }


def control_alarms(seeds: Iterable[int], *, twins: bool = False) -> list[str]:
    """False alarms of the two sound oddities over many seeds; with `twins`, those of all correct twins."""
    subjects = [(bug, not twins) for bug in BUGS if twins or not bug.by]
    return [
        f"{bug.id}, seed {seed}: {f.check}, {f.detail}"
        for seed in seeds
        for bug, planted in subjects
        for f in findings_of(bug, planted, seed)
        if not f.ok
    ]
