"""Secret choices that are part of a mechanism: how many runs a selection makes, and which settings it draws."""

from __future__ import annotations

from sfumato.accounting.selection import Runs
from sfumato.privacy.noise import Noise

MOST = 1_000_000


def draw_count(runs: Runs, noise: Noise | None = None) -> int:
    """The number of runs, by inversion of its law."""
    u = float((noise or Noise()).uniform(1)[0])
    total = 0.0
    for k in range(MOST):
        total += runs.pmf(k)
        if u < total:
            return k
    return MOST


def draw_index(count: int, noise: Noise | None = None) -> int:
    """A uniform choice among `count`."""
    return int((noise or Noise()).below(count, 1)[0])
