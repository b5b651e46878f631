"""How much of Poisson's amplification a shuffled epoch really has: a lower bound on its true epsilon."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr


def shuffled_at_least(sigma: float, batches: int, delta: float) -> float:
    """No claim below this epsilon can hold for one shuffled epoch of `batches` noisy sums.

    The record adds +1 and all others -1, against the record zeroed out: the mixtures of N(2 e_t, sigma^2) and of
    N(e_t, sigma^2) over the batch t it falls in. The event is that the largest coordinate passes a threshold.
    """
    thresholds = np.linspace(0.0, 2 + 12 * sigma, 60_001)
    others = (batches - 1) * log_ndtr(thresholds / sigma)
    with_record = -np.expm1(log_ndtr((thresholds - 2) / sigma) + others)
    without = -np.expm1(log_ndtr((thresholds - 1) / sigma) + others)
    usable = (with_record > delta) & (without > 0)
    if not usable.any():
        return 0.0
    return max(0.0, float(np.max(np.log((with_record[usable] - delta) / without[usable]))))


def unamplified_mu(sigma: float, epochs: int) -> float:
    """Shuffled epochs, charged soundly: one plain Gaussian each (public size; `sigma` relative to the change)."""
    return math.sqrt(epochs) / sigma
