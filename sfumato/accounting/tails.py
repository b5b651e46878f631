"""Reading a discretised loss distribution at any epsilon or delta, by sums made once.

The library walks over all losses in Python for each question; a picture of the whole curve asks hundreds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.signal import lfilter


class Tail:
    """One direction: masses at losses of at least 0 and the mass that is lost outright."""

    def __init__(self, pmf: Any) -> None:
        dense = pmf.to_dense_pmf()
        skip = max(0, -int(dense._lower_loss))
        probs = np.asarray(dense._probs, dtype=np.float64)[skip:]
        losses = (np.arange(len(probs)) + int(dense._lower_loss) + skip) * float(dense._discretization)
        # Sums from the far end: smallest first, and each knot counts what lies at it and beyond.
        self.losses = losses
        self.upper = np.cumsum(probs[::-1])[::-1] + float(dense._infinity_mass)
        # The same with each mass weighed by e^(knot - loss): a running sum that fades, and never leaves floats.
        fading = math.exp(-float(dense._discretization))
        self.lower = lfilter([1.0], [1.0, -fading], probs[::-1])[::-1] if len(probs) else probs
        self.infinite = float(dense._infinity_mass)
        self.deltas = self.upper - self.lower

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at an epsilon of at least 0."""
        at = int(np.searchsorted(self.losses, epsilon))
        if at == len(self.losses):
            return self.infinite
        nearer = math.exp(epsilon - float(self.losses[at]))
        return max(self.infinite, float(self.upper[at] - nearer * self.lower[at]))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of at least 0 with no more than this delta."""
        if delta < self.infinite:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # Beyond the last knot that is still above delta the curve is straight in e^epsilon.
        above = np.flatnonzero(self.deltas > delta)
        at = int(above[-1]) + 1 if len(above) else 0
        if at == len(self.losses) or self.lower[at] <= 0:
            return float(self.losses[min(at, len(self.losses) - 1)])
        start = float(self.losses[at - 1]) if at else 0.0
        share = max(self.upper[at] - delta, 1e-300) / self.lower[at]
        return max(start, float(self.losses[at]) + math.log(share))


def both_tails(pld: Any) -> tuple[Tail, ...]:
    """The one or two directions of a distribution."""
    return (Tail(pld._pmf_remove),) if pld._symmetric else (Tail(pld._pmf_remove), Tail(pld._pmf_add))
