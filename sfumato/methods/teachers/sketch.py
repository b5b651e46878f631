"""Votes in a count sketch, after FetchSGD (Wang et al. 2021, algorithm 7), with the noise where it protects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.methods.teachers.rotation import public_signs
from sfumato.methods.teachers.votes import TopKSigns, largest
from sfumato.privacy.bounds import Bound


@dataclass(frozen=True)
class Sketch:
    """A vote of `TopKSigns`, folded into `rows` tables of `columns` buckets by public hashes and signs.

    Sizes are those of the official code of DataLens. Buckets that no pixel falls in are left out: they would hold
    noise alone.

    Algorithm 7 picks the largest coordinates of the exact sum and adds noise to those. One teacher can swap them all,
    so that this is not private. Here the noise goes on the sum of sketches, and picking comes after it. A sketch has
    length sqrt(rows k) on average and is cut to that, as votes which meet in a bucket may add up to more.
    """

    votes: TopKSigns
    rows: int = 20
    columns: int = 10_000
    keep: int = 0  # largest pixels kept of the released sum; 0 for all
    seed: int = 0  # public, of the hashes

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or self.keep < 0:
            raise ValueError(
                f"Expected rows and columns from 1 and keep from 0, found {self.rows}, {self.columns} and {self.keep}."
            )

    @property
    def gain(self) -> float:
        """Of a median of normal numbers, about: exact for one, and in the limit of many."""
        return math.sqrt(math.pi / (2 * self.rows + math.pi - 2))

    def bound(self, d: int) -> Bound:
        """A ball; longer sketches are cut by projection."""
        return Bound(math.sqrt(self.rows * self.votes.bound(d).most))

    def shape(self, d: int) -> tuple[int, ...]:
        """The tables, as wide as the row with the most buckets in use."""
        return (self.rows, int(hashes(self.seed, self.rows, self.columns, d)[0].max()) + 1)

    def encode(self, directions: Tensor, random: torch.Generator) -> Tensor:
        """Sketches (count, m, rows, columns) in float32, which whole numbers this small fill exactly."""
        return self.fold(*self.votes.choose(directions, random), directions.shape[-1])

    def fold(self, places: Tensor | None, values: Tensor, d: int) -> Tensor:
        """The sketch of rows that hold `values` at `places` (None for all) and zero elsewhere; linear."""
        buckets, signs = (table.to(values.device) for table in hashes(self.seed, self.rows, self.columns, d))
        tables = torch.zeros(*values.shape[:-1], *self.shape(d), device=values.device)
        for row in range(self.rows):
            where = buckets[row].expand(values.shape) if places is None else buckets[row][places]
            sign = signs[row] if places is None else signs[row][places]
            tables[..., row, :].scatter_add_(-1, where, (values * sign).to(tables))
        return tables

    def decode(self, noisy: Tensor, d: int, voters: int = 0) -> Tensor:
        """For each pixel the median of its estimates, then the `keep` largest. What is left is the caller's."""
        buckets, signs = (table.to(noisy.device) for table in hashes(self.seed, self.rows, self.columns, d))
        estimates = noisy.gather(-1, buckets.expand(*noisy.shape[:-1], d)) * signs
        middle = estimates.sort(-2).values[..., (self.rows - 1) // 2 : self.rows // 2 + 1, :]  # one, or two
        found = middle.mean(-2)
        if not 0 < self.keep < d:
            return found
        places = largest(found.abs(), self.keep)
        return torch.zeros_like(found).scatter_(-1, places, found.gather(-1, places))


@lru_cache(maxsize=8)
def hashes(seed: int, rows: int, columns: int, d: int) -> tuple[Tensor, Tensor]:
    """Bucket and sign of each pixel in each row of the sketch; independent, not secret, the same for all teachers.

    Buckets are counted among those of their row that are in use.
    """
    random = torch.Generator().manual_seed(seed)
    drawn = torch.randint(columns, (rows, d), generator=random)
    buckets = torch.stack([row.unique(return_inverse=True)[1] for row in drawn])
    return buckets, public_signs(int(torch.randint(2**62, (), generator=random)), (rows, d))
