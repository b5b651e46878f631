"""The label that every paper formula carries, and the conversion most of them use."""

from __future__ import annotations

import math
from typing import Any

LABEL = "paper accounting, not a guarantee of this software"

Claim = dict[str, Any]


def claim(epsilon: Any, reason: str, **more: Any) -> Claim:
    """What a paper would have stated, under the label."""
    return {"epsilon": epsilon, "note": f"{LABEL}: {reason}", **more}


def mironov(mu: float, delta: float) -> float:
    """Mironov's 2017 conversion of a Gaussian's Renyi curve, in closed form."""
    rho = mu * mu / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
