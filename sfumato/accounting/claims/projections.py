"""DP-SWD: the paper's random bound on projected records, and a bound that cannot fail."""

from __future__ import annotations

import math
from typing import Any

from sfumato.accounting.claims.label import Claim, claim, mironov


def swd_bound(projections: int, dimensions: int, delta: float) -> float:
    """w(k, delta): squared change of the projected records, with probability 1 - delta for one fixed pair.

    >>> round(swd_bound(1000, 784, 1e-5), 2)
    9.22
    """
    k = projections
    d = dimensions
    log = math.log(1 / delta)
    return k / d + 2 / 3 * log + 2 / d * math.sqrt(k * (d - 1) / (d + 2) * log)


def dp_swd(sigma: float, projections: int, dimensions: int, delta: float = 1e-5, *, releases: int = 1) -> Claim:
    """Half of delta for the bound, half for the Gaussian, as printed."""
    mu = math.sqrt(releases * swd_bound(projections, dimensions, delta / 2)) / sigma
    reason = (
        "incomplete: the bound holds for one fixed pair of neighbours and its delta is due once for each fresh "
        "projection; it needs records that differ by at most 1, where two of unit norm may differ by 2"
    )
    return claim(mironov(mu, delta / 2), reason)


def projection_sensitivity(projection: Any, diameter: float) -> float:
    """Change of projected records for a public projection: its spectral norm times the records' diameter.

    The projection does not depend on data, so this holds with certainty and is smaller besides.
    """
    import numpy as np

    return float(np.linalg.norm(np.asarray(projection, dtype=np.float64), 2)) * diameter
