"""The papers' own formulas, for comparison only. Never a guarantee."""

from __future__ import annotations

import math

LABEL = "paper accounting, not a guarantee of this software"


def mironov(mu: float, delta: float) -> float:
    """Mironov's 2017 conversion of a Gaussian's Renyi curve, in closed form."""
    rho = mu * mu / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def mean_embedding(sigma: float, delta: float, *, records: int) -> dict[str, float | str]:
    """DP-MERF as printed: the mean of unit-norm features has sensitivity 2/m, noise sigma/m, one release.

    `sigma` is the noise on the sum. The number of records cancels, which is why the formula is sound as far as it goes.
    """
    mu = (2 / records) / (sigma / records)
    note = (
        f"{LABEL}: sensitivity 2/m under replace-one with public m, Renyi accounting with the 2017 conversion; "
        "sound but loose, and stated for another relation than add-remove"
    )
    return {"epsilon": mironov(mu, delta), "note": note}
