"""DPAF, theorem 6: three kinds of subsampled Gaussian steps added up in Renyi DP."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.accounting.claims.label import Claim, claim
from sfumato.accounting.profile import RenyiCurve


def dpaf_step(order: int, rate: float, multiplier: float) -> float:
    """The subsampled bound that the paper prints as its theorem 4, for whole orders of at least 2.

    For a Gaussian the divergence of infinite order is infinite, so each inner minimum is 2.
    """

    def full(j: int) -> float:
        return j / (2 * multiplier**2)

    second = math.log(min(4 * math.expm1(min(full(2), 700.0)), 2 * math.exp(min(full(2), 700.0))))
    logs = [0.0, 2 * math.log(rate) + _log_choose(order, 2) + second]
    for j in range(3, order + 1):
        logs.append(j * math.log(rate) + _log_choose(order, j) + (j - 1) * full(j) + math.log(2))
    top = max(logs)
    return (top + math.log(math.fsum(math.exp(x - top) for x in logs))) / (order - 1)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def dpaf(steps: Sequence[tuple[int, float, float]], delta: float = 1e-5) -> Claim:
    """Theorem 6 for (times, rate, sigma over sensitivity) of conv1, conv2* and DPAGG."""
    orders = tuple(range(2, 129))
    values = tuple(math.fsum(t * dpaf_step(o, q, nu) for t, q, nu in steps) for o in orders)
    reason = (
        "unsound: non-private tail (conv1 is trained through layers that are not private), non-separable clipping "
        "(conv2* clips gradients that all depend on the whole batch), correlated sampling (shared batches are added as "
        "independent ones), and a theorem for replace-one without replacement used for add-remove on shuffled batches"
    )
    return claim(RenyiCurve(tuple(map(float, orders)), values, "mironov").epsilon(delta), reason)
