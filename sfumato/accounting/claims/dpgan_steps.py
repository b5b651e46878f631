"""DPGAN (Xie et al. 2018), theorem 1: the noise that a number of critic steps asks for."""

from __future__ import annotations

import math

from sfumato.accounting.claims.label import Claim, claim


def dpgan(rate: float, sigma: float, steps: int, delta: float) -> Claim:
    """Epsilon = 2 q sqrt(T log(1/delta)) / sigma, where sigma is relative to the clipping norm.

    >>> round(dpgan(128 / 60_000, 1.0, 450_000, 1e-5)["epsilon"], 3)
    9.712
    """
    reason = (
        "the moments accountant's asymptotic rule with its unnamed constant taken as 2; it holds for small epsilon "
        "alone, and the papers' batches are shuffled, not drawn by coins; the revision counts by Renyi DP, which is "
        "given here as the second opinion"
    )
    return claim(2 * rate * math.sqrt(steps * math.log(1 / delta)) / sigma, reason, steps=steps)
