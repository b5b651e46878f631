"""How long a run will take on this device: measured in its rehearsal, and multiplied up.

A rehearsal takes two steps of each loop, on made-up records; the second, which no longer warms anything up, is the
pace. Time behind the barrier grows with the records that a crossing reads and the parts that are held; time outside of
it does not. Nothing of it is computed from data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WITHIN = 1.5  # a measured pace is good for no more than this factor


class Stopwatch:
    """Seconds of a rehearsal, and what they come to in the run that it stands for."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._whole = 0.0  # expected of the loops so far
        self._behind = 0.0  # measured behind the barrier since a step began
        self._scaled = 0.0  # the same, for a whole run
        self._latest = 0.0  # of the last time behind the barrier, for a whole run
        self.last = 0.0  # the same, as measured

    @property
    def expected(self) -> float:
        """Seconds of the whole run, with what was asked outside of loops."""
        return self._whole + self._scaled

    @contextmanager
    def behind(self, factor: float) -> Iterator[None]:
        """What happens behind the barrier, of which a run has `factor` times as much."""
        began = self._clock()
        yield
        self.last = self._clock() - began
        self._behind += self.last
        self._latest = self.last * factor
        self._scaled += self._latest

    def again(self) -> None:
        """Something like the last thing behind the barrier, which a rehearsal leaves out."""
        self._scaled += self._latest

    def paced(self, total: float, steps: Iterator[int]) -> Iterator[int]:
        """The steps of a loop of `total`, of which only the first are taken."""
        self._whole += self._scaled
        pace = 0.0
        for step in steps:
            self._behind = self._scaled = 0.0
            began = self._clock()
            yield step
            pace = self._clock() - began - self._behind + self._scaled
        self._behind = self._scaled = 0.0
        self._whole += total * pace


def in_words(seconds: float) -> str:
    """A range that a measured pace is good for.

    >>> in_words(4), in_words(50), in_words(600), in_words(9000)
    ('a few seconds', '30 to 80 seconds', '7 to 15 minutes', '1.7 to 3.8 hours')
    """
    low, high = seconds / WITHIN, seconds * WITHIN
    if high < 10:
        return "a few seconds"
    if seconds < 90:
        return f"{_whole(low, 10)} to {_whole(high, 10)} seconds"
    if seconds < 5400:
        return f"{_whole(low / 60)} to {_whole(high / 60)} minutes"
    return f"{low / 3600:.1f} to {high / 3600:.1f} hours"


def _whole(value: float, step: int = 1) -> int:
    return max(step, round(value / step) * step)
