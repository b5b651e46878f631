"""Every auditor that applies to a subject, in order of cost."""

from __future__ import annotations

import numpy as np

from sfumato.audit.checks import level0, noise_checks
from sfumato.audit.games.end_to_end import RUNS, end_to_end
from sfumato.audit.games.step import DRAWS, step
from sfumato.audit.recording.subject import Finding, Subject


def run_checks(
    subject: Subject, *, level: int = 0, seed: int = 0, draws: int = DRAWS, runs: int = RUNS, alpha: float = 1e-3
) -> list[Finding]:
    """What the auditors up to `level` find. `alpha` is the false-alarm rate of each game of levels 1 and 2."""
    random = np.random.default_rng(seed)
    findings = [check(subject, random) for check in level0.CHECKS]
    findings += noise_checks.calibration(subject, random) + noise_checks.inclusion(subject, random)
    findings.append(noise_checks.support(subject, random))
    if level >= 1:
        findings.append(step(subject, random, draws, alpha))
    if level >= 2:
        findings.append(end_to_end(subject, random, runs, alpha))
    return [f for f in findings if f is not None]
