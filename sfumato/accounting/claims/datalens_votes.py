"""DataLens, theorem 3: one query of TopAgg, and what it composes to."""

from __future__ import annotations

import math

from sfumato.accounting.claims.label import Claim, claim, mironov


def datalens(k: float, sigma: float, delta: float, *, queries: int = 1) -> Claim:
    """Epsilon of `queries` synthetic samples: min over orders of 2 k lambda Q / sigma^2 + ln(1/delta) / (lambda - 1).

    >>> round(datalens(200, 5000, 1e-5)["epsilon"], 5)
    0.02716
    """
    reason = (
        "theorem 3 is for one query and is composed here; sound for votes of disjoint teachers but loose (the 2017 "
        "conversion), with orders above 1 although the theorem says from 1 on; tuning on private data is not charged"
    )
    return claim(mironov(2 * math.sqrt(k * queries) / sigma, delta), reason, queries=queries)


def datalens_queries(k: float, sigma: float, epsilon: float, delta: float = 1e-5) -> int:
    """Most synthetic samples that theorem 3 allows.

    >>> datalens_queries(200, 5000, 1.0)
    1301
    """
    log = math.log(1 / delta)
    # rho + 2 sqrt(rho log) = epsilon at sqrt(rho) = sqrt(log + epsilon) - sqrt(log), written without cancellation.
    root = epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))
    return math.floor(root**2 * sigma**2 / (2 * k))
