"""Private Evolution as its paper accounts for it."""

from __future__ import annotations

import math

from sfumato.accounting.claims.label import Claim, claim
from sfumato.accounting.gaussian import epsilon_of


def private_evolution(sigma: float, delta: float, *, rounds: int) -> Claim:
    """T Gaussian histograms, in each of which a record has one vote: exact, under add-remove.

    >>> round(private_evolution(16.6843, 1e-5, rounds=20)["epsilon"], 3)
    1.0
    """
    reason = "sensitivity 1 under add-remove for each of the histograms; exact for Gaussian noise on real numbers"
    return claim(epsilon_of(delta, math.sqrt(rounds) / sigma), reason, sensitivity=1.0)
