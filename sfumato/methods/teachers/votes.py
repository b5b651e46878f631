"""What one teacher says about one fake image: the sparse sign vote of DataLens (Wang et al. 2021, algorithm 2).

A compression turns the direction in which a teacher would move each pixel into a row with a known bound. The rows
are projected by that bound and summed over teachers behind the barrier; `decode` works on the released sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from sfumato.privacy.bounds import Bound, IntegerBound


class Compression(Protocol):
    """Public settings of a vote. Rows depend on their own teacher and image and on public numbers alone."""

    def bound(self, d: int) -> IntegerBound | Bound:
        """What one teacher's row about one image of `d` pixels obeys after projection."""

    def shape(self, d: int) -> tuple[int, ...]:
        """Shape of one row, and so of the answer to one query."""

    def encode(self, directions: Tensor, random: torch.Generator) -> Tensor:
        """Rows (count, m, *shape) for directions (count, m, d); `random` lives on the device of `directions`."""

    def decode(self, noisy: Tensor, d: int, voters: int = 0) -> Tensor:
        """The released sum (m, *shape) back as (m, d) pixels, where one teacher counts for at most about 1 a pixel."""

    @property
    def gain(self) -> float:
        """Deviation of the noise in a decoded pixel, as a part of that in the sum."""


@dataclass(frozen=True)
class TopKSigns:
    """Each teacher votes +1 or -1 on the `most` pixels that it would move furthest, and 0 elsewhere.

    A direction is clipped to [-clip, clip] and divided by its largest entry; then pixel x is +1 with probability
    (1 + x)/2, which makes the vote unbiased, or sign(x) where not `stochastic`. Two votes differ by at most
    2 sqrt(most). Without `sparse` all pixels vote. Entries that are no finite number, and zeros, vote nothing.

    >>> direction = torch.tensor([[[0.1, -3.0, float("nan"), 2.0]]])
    >>> TopKSigns(2, stochastic=False).encode(direction, torch.Generator()).tolist()
    [[[0, -1, 0, 1]]]
    """

    most: int
    clip: float = 0.0  # 0 for none; the paper has 1e-5
    stochastic: bool = True
    sparse: bool = True
    gain: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"Expected most of at least 1, found most={self.most}.")
        check_clip(self.clip)

    def bound(self, d: int) -> IntegerBound:
        """At most `most` entries of -1 or +1."""
        return IntegerBound(self._kept(d))

    def shape(self, d: int) -> tuple[int, ...]:
        """One vote a pixel."""
        return (d,)

    def encode(self, directions: Tensor, random: torch.Generator) -> Tensor:
        """Votes as int8, of the shape of `directions`."""
        places, signs = self.choose(directions, random)
        votes = torch.zeros(directions.shape, dtype=torch.int8, device=directions.device)
        return signs if places is None else votes.scatter_(-1, places, signs)

    def decode(self, noisy: Tensor, d: int, voters: int = 0) -> Tensor:
        """The sum as it is."""
        return noisy

    def choose(self, directions: Tensor, random: torch.Generator) -> tuple[Tensor | None, Tensor]:
        """Places of the kept pixels (None for all of them) and the votes there."""
        values = finite(directions)
        k = self._kept(directions.shape[-1])
        # Only what is kept is clipped, divided and drawn for: a seventeenth of all pixels for CelebA.
        places = largest(values.abs(), k) if k < values.shape[-1] else None
        return places, self._signs(values if places is None else values.gather(-1, places), random)

    def _kept(self, d: int) -> int:
        return min(self.most, d) if self.sparse else d

    def _signs(self, kept: Tensor, random: torch.Generator) -> Tensor:
        """Equation 1. A pixel that stays where it is votes nothing, also where it is among the largest."""
        if not self.stochastic:
            return kept.sign().to(torch.int8)
        chance = (1 + unit(clipped(kept, self.clip))) / 2
        up = torch.rand(kept.shape, generator=random, dtype=kept.dtype, device=kept.device) < chance
        return (2 * up.to(torch.int8) - 1) * (kept != 0)


def largest(values: Tensor, k: int) -> Tensor:
    """Places of the k largest entries of each row, in no order; exactly k also where entries tie."""
    return values.topk(k, dim=-1, sorted=False).indices


def finite(directions: Tensor) -> Tensor:
    """In float32 or float64, with zeros for what is no finite number."""
    values = directions if directions.dtype == torch.float64 else directions.float()
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def clipped(values: Tensor, clip: float) -> Tensor:
    """Entries within [-clip, clip]; 0 leaves them alone."""
    return values.clamp(-clip, clip) if clip else values


def unit(values: Tensor) -> Tensor:
    """Each row divided by its largest magnitude; a row of zeros stays one."""
    peak = values.abs().amax(-1, keepdim=True)
    return values / torch.where(peak > 0, peak, 1.0)


def check_clip(clip: float) -> None:
    """Refuse a limit that is no finite number from 0 on."""
    if not (math.isfinite(clip) and clip >= 0):
        raise ValueError(f"Expected a finite clip of at least 0 (0 for none), found clip={clip}.")
