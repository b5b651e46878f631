"""Where units stand while their terms are computed: pages of one public shape, at places that nobody else decides.

The numbers of one record may depend, by rounding, on the shape of the batch in which they are computed (a library picks
its algorithm by shape, and a rounding may switch a ReLU) and on the place within it. So a page always has the same
number of places, those without a record are blank, and a sample is dealt out to places at random. A uniform choice of
places for m units is, for the other m - 1, a uniform choice of places too: with the record and without it the others
stand where they stood, next to a blank.

A sample that is larger than its places, once in 700 steps, goes on to further pages of the same shape: there too a
record more moves one other record to another place, and no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.noise import Noise

BLOCK = 32  # pages have a multiple of this many places, which suits most kernels
ROOM = 3.0  # standard deviations of a Poisson sample that are given places beyond the expected number
BLANK = -1

Units = NDArray[np.int64]


@dataclass(frozen=True)
class Pages:
    """`count` pages of `rows` places; both public.

    >>> Pages.holding(60_000, most=1024)
    Pages(rows=1024, count=59)
    """

    rows: int
    count: int

    @classmethod
    def holding(cls, places: int, most: int) -> Pages:
        """Pages of at most `most` rows with at least so many places."""
        count = max(1, -(-places // most))
        return cls(min(most, -(-max(1, -(-places // count)) // BLOCK) * BLOCK), count)

    @classmethod
    def sampled(cls, expected: float, most: int) -> Pages:
        """Pages for a sample of varying size."""
        return cls.holding(places_for(expected), most)

    def in_order(self, units: Units) -> Units:
        """(pages, rows): the units one after the other; for those whose number and order are public."""
        pages = np.full((-(-len(units) // self.rows), self.rows), BLANK)
        pages.reshape(-1)[: len(units)] = units
        return pages

    def dealt(self, units: Units, noise: Noise) -> Units:
        """(pages, rows): the units at places drawn at random, a sheet of `count` pages after the other."""
        places = self.rows * self.count
        order = units[_shuffled(len(units), noise)] if len(units) > places else units
        sheets = [self._sheet(order[i : i + places], noise) for i in range(0, max(1, len(order)), places)]
        return np.concatenate(sheets)

    def _sheet(self, units: Units, noise: Noise) -> Units:
        sheet = np.full(self.rows * self.count, BLANK)
        sheet[_shuffled(len(sheet), noise)[: len(units)]] = units
        return sheet.reshape(self.count, self.rows)


def places_for(expected: float) -> int:
    """Places that a sample of varying size is given."""
    return math.ceil(expected + ROOM * math.sqrt(expected))


def rows_for(expected: float, most: int, ranks: int) -> int:
    """Rows of a page, `most` or fewer, with which a sample has a page for each rank; a block at least.

    >>> rows_for(256, most=1024, ranks=1), rows_for(256, most=1024, ranks=4)
    (1024, 96)
    """
    if ranks == 1:
        return most
    return min(most, -(-places_for(expected) // (ranks * BLOCK)) * BLOCK)


def _shuffled(count: int, noise: Noise) -> Units:
    """All numbers below `count`, in a secret order; words of 64 bits do not meet."""
    return np.argsort(noise.words(count)).astype(np.int64)
