"""Who takes part in a crossing, and the secret choices of a selection. Each states the law that is charged.

Only these samplers exist. How many runs a selection makes, and which settings each of them draws, is part of its
mechanism: a method has no use for `draw_count` and `draw_index`, and the audit refuses one that imports them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.selection import Runs
from sfumato.privacy.noise import Noise

MOST_RUNS = 1_000_000  # of a selection


@dataclass(frozen=True)
class FullBatch:
    """All units, every time: no amplification is claimed."""

    rate: float = 1.0

    def __post_init__(self) -> None:
        if self.rate != 1.0:
            raise ValueError(f"Expected rate=1 for everyone, found rate={self.rate}; use Poisson(rate).")

    def draw(self, units: int, noise: Noise) -> NDArray[np.int64]:
        """Indices of the units that take part."""
        return np.arange(units)

    def __str__(self) -> str:
        return "no subsampling"


@dataclass(frozen=True)
class Poisson:
    """Each unit enters by its own coin of probability `rate`, fresh at each step.

    A binomial count and then a uniform subset of that size is the same law, at a cost that follows the batch
    and not the data. An empty batch is a batch.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError(f"Expected a rate between 0 and 1, found rate={self.rate}.")

    def draw(self, units: int, noise: Noise) -> NDArray[np.int64]:
        """Sorted indices of the units that take part."""
        from scipy.stats import binom

        count = int(binom.ppf(noise.uniform(1)[0], units, self.rate)) if units else 0
        return _subset(units, count, noise)

    def __str__(self) -> str:
        return f"Poisson({self.rate:g})"


@dataclass(frozen=True)
class CyclicPoisson:
    """Units have one of `cycle` classes for good; of the class whose turn it is each enters by a coin of its own.

    In use t that is class t modulo the cycle, so that a unit takes part in uses that are a cycle or more apart.
    """

    rate: float
    cycle: int

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1 or self.cycle < 2:
            raise ValueError(f"Expected a rate between 0 and 1 and a cycle of at least 2, found {self}.")

    def turn(self, use: int) -> int:
        """The class of a use; uses are counted from 1."""
        return (use - 1) % self.cycle

    def draw(self, units: int, noise: Noise) -> NDArray[np.int64]:
        """Sorted indices of those that take part, among the units of the class whose turn it is."""
        return Poisson(self.rate).draw(units, noise)

    def __str__(self) -> str:
        return f"Poisson({self.rate:g}) in each cycle of {self.cycle} classes in turn"


Sampler = FullBatch | Poisson | CyclicPoisson


def expected_batch(batch: int, units: int) -> Sampler:
    """A Poisson sample of `batch` of `units` on average; all of them where there are no more.

    >>> str(expected_batch(600, 60_000)), str(expected_batch(600, 500))
    ('Poisson(0.01)', 'no subsampling')
    """
    return Poisson(batch / units) if batch < units else FullBatch()


def _subset(units: int, count: int, noise: Noise) -> NDArray[np.int64]:
    """A uniform subset of `count` of `units`: draw until enough are distinct, from the smaller side."""
    if count > units // 2:
        left_out = np.zeros(units, dtype=bool)
        left_out[_subset(units, units - count, noise)] = True
        return np.flatnonzero(~left_out)
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < count:
        more = noise.below(units, count - len(chosen))
        chosen = np.unique(np.concatenate([chosen, more]))  # every newcomer is uniform over what is left
    return chosen


def draw_count(runs: Runs, noise: Noise | None = None) -> int:
    """The number of runs, by inversion of its law."""
    u = float((noise or Noise()).uniform(1)[0])
    total = 0.0
    for k in range(MOST_RUNS):
        total += runs.pmf(k)
        if u < total:
            return k
    return MOST_RUNS


def draw_index(count: int, noise: Noise | None = None) -> int:
    """A uniform choice among `count`."""
    return int((noise or Noise()).below(count, 1)[0])
