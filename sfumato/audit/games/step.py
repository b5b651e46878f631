"""Level 1: one release, audited in the open (Nasr et al. 2023).

Two neighbouring inputs with the worst difference u that was found; the statistic <output, u>/(sigma |u|) is
N(0, 1) against N(mu, 1). The threshold, half-way between the two exact answers, is fixed before a draw is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.accounting import gaussian
from sfumato.accounting.tradeoff import Curve, Errors, count, gaussian_curve, roc
from sfumato.audit.checks.level0 import furthest, worst
from sfumato.audit.recording.subject import Array, Finding, Random, Subject

DRAWS = 50_000


@dataclass(frozen=True, eq=False)
class Played:
    """A game between two inputs: counted errors, what the claim allows, and points for a picture."""

    errors: Errors
    curve: Curve
    points: list[tuple[float, float]]

    @property
    def ok(self) -> bool:
        """Whether the claim stands."""
        return not self.curve.refuted_by(self.errors)

    def said(self, delta: float = 1e-5) -> str:
        """The outcome in words."""
        n = self.errors.negatives
        claim = self.curve.mu
        if claim is None:
            allowed = self.curve.fnr(self.errors.fpr)
            return (
                f"false positives below {self.errors.fpr:.4g}, false negatives below {self.errors.fnr:.4g} where "
                f"the claim allows no less than {allowed:.4g} ({n} runs a side)"
            )
        low = self.errors.epsilon(delta)
        claimed = gaussian.epsilon_of(delta, claim)
        return (
            f"mu at least {self.errors.mu:.4g}, claimed {claim:.4g}; epsilon at least {low:.3g}, claimed "
            f"{claimed:.3g} at delta {delta:g} ({n} draws a side)"
        )


def project(subject: Subject, data: object, exact: Array, direction: Array, draws: int) -> Array:
    """`draws` releases of `data`, as lengths along a unit vector."""
    if subject.projected is not None:
        return subject.projected(exact, direction, draws)
    assert subject.release is not None
    return np.array([float((subject.release(data) * direction).sum()) for _ in range(draws)])


def play(subject: Subject, random: Random, draws: int = DRAWS, alpha: float = 1e-3) -> Played | None:
    """The step game; None where the mechanism lacks a part, or no neighbour moves its answer."""
    if subject.pairs is None or subject.exact is None or subject.sigma is None or subject.release is None:
        return None
    pair, ratio, _ = worst(subject, random)
    if pair is None or not 0 < ratio < np.inf:
        return None
    one = subject.exact(pair.one)
    two = subject.exact(pair.two)
    gap = furthest(two - one, subject.queries)
    direction = gap / np.linalg.norm(gap)
    without = project(subject, pair.one, one, direction, draws)
    with_ = project(subject, pair.two, two, direction, draws)
    threshold = float(((one + two) / 2 * direction).sum())
    curve = (
        subject.curve(pair.relation)
        if subject.curve is not None
        else gaussian_curve(subject.declared[pair.relation] / subject.sigma)
    )
    return Played(count(without, with_, threshold, alpha), curve, roc(without, with_))


def step(subject: Subject, random: Random, draws: int = DRAWS, alpha: float = 1e-3) -> Finding | None:
    """The step game as a finding."""
    played = play(subject, random, draws, alpha)
    return None if played is None else Finding("step audit", 1, played.ok, played.said())
