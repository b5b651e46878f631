"""Dense votes in whole numbers: levels after D2P-Fed (Wang et al. 2021, algorithms 5 and 6), and a sounder rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.methods.teachers.rotation import Rotation
from sfumato.methods.teachers.votes import check_clip, clipped, finite, unit
from sfumato.privacy.bounds import Bound, IntegerBound


@dataclass(frozen=True)
class Levels:
    """Every pixel votes for one of `levels` whole numbers in a row, rounded up or down at random without bias.

    A direction is clipped, rotated if asked, divided by its largest entry and spread over the levels. All pixels
    vote, so that two votes differ by (levels - 1) sqrt(d), not by the paper's levels sqrt(k), which takes a sparsity
    for granted that this vote does not have. Spacing is 1; algorithm 5's own levels and bins do not fit each other.
    """

    levels: int = 4  # as in the official code; the paper does not say
    clip: float = 0.0  # 0 for none; the paper has 1e-5
    rotate: bool = False  # as in the official code, which leaves out the paper's rotation
    seed: int = 0  # public, of the rotation

    def __post_init__(self) -> None:
        if not 2 <= self.levels <= 255:
            raise ValueError(f"Expected levels from 2 to 255, found levels={self.levels}.")
        check_clip(self.clip)

    @property
    def low(self) -> int:
        """The lowest level. An odd number of levels lies evenly around zero."""
        return -((self.levels - 1) // 2)

    def bound(self, d: int) -> IntegerBound:
        """All entries may be other than zero."""
        return IntegerBound(self.shape(d)[0], low=self.low, high=self.low + self.levels - 1)

    def shape(self, d: int) -> tuple[int, ...]:
        """One level a pixel; after a rotation there are as many as the next power of two."""
        return (Rotation(d, self.seed).size if self.rotate else d,)

    @property
    def gain(self) -> float:
        """Levels are spread over [-1, 1]."""
        return 2 / (self.levels - 1)

    def printed_sensitivity(self, k: int) -> float:
        """What section 5.3 of the DataLens paper says, for comparison: too small by far for this dense vote."""
        return self.levels * math.sqrt(k)

    def encode(self, directions: Tensor, random: torch.Generator) -> Tensor:
        """Levels as int8."""
        rows = unit(clipped(finite(directions), self.clip))
        if self.rotate:
            rows = unit(Rotation(rows.shape[-1], self.seed).turn(rows))
        draw = torch.rand(rows.shape, generator=random, dtype=rows.dtype, device=rows.device)
        level = rows.add_(1).mul_((self.levels - 1) / 2).add_(draw).floor_().clamp_(0, self.levels - 1).add_(self.low)
        return level.to(torch.int8)

    def decode(self, noisy: Tensor, d: int, voters: int = 0) -> Tensor:
        """Sum of the divided directions. Where levels are even, zero lies between two and `voters` must be known."""
        middle = self.low + (self.levels - 1) / 2
        if middle and voters < 1:
            raise ValueError(f"Expected voters of at least 1 for levels={self.levels}, an even number.")
        total = (noisy - voters * middle) / ((self.levels - 1) / 2)
        return Rotation(d, self.seed).back(total) if self.rotate else total


@dataclass(frozen=True)
class Lattice:
    """Whole numbers within a ball (Kairouz, Liu and Steinke 2021, conditional randomised rounding).

    A direction is cut to length `norm`, rotated by one public rotation, divided by `spacing` and rounded up or down
    at random, again where the outcome is longer than `rounded_norm` says, and towards zero in the end. `slack` is
    their beta: a first rounding is too long with at most this probability. Tries share one draw, each shifted by a
    fixed part of 1, so that the random numbers taken do not depend on the data.
    """

    norm: float
    spacing: float
    slack: float = math.exp(-0.5)
    seed: int = 0  # public, of the rotation
    tries: int = 2

    def __post_init__(self) -> None:
        # Whole numbers up to 2^16 and the sums of their products are exact enough in float32.
        if not (math.isfinite(self.norm) and 0 < self.spacing <= self.norm <= 2**16 * self.spacing):
            raise ValueError(
                f"Expected norm from 1 to 65536 spacings, found norm={self.norm} and spacing={self.spacing}."
            )
        if not (0 < self.slack < 1 and self.tries >= 1):
            raise ValueError(f"Expected 0 < slack < 1 and tries from 1, found {self.slack} and {self.tries}.")

    @property
    def gain(self) -> float:
        """A row of length `norm` counts for 1."""
        return self.spacing / self.norm

    def bound(self, d: int) -> Bound:
        """The ball of the rounded rows, in units of the spacing."""
        return Bound(rounded_norm(self.norm / self.spacing, self.shape(d)[0], self.slack))

    def shape(self, d: int) -> tuple[int, ...]:
        """As many numbers as the next power of two."""
        return (Rotation(d, self.seed).size,)

    def encode(self, directions: Tensor, random: torch.Generator) -> Tensor:
        """Whole numbers as int32."""
        d = directions.shape[-1]
        rows = Rotation(d, self.seed).turn(in_ball(finite(directions), self.norm / self.spacing, self.spacing))
        draw = torch.rand(rows.shape, generator=random, dtype=rows.dtype, device=rows.device)
        limit = self.bound(d).norm
        chosen = _if_short(rows.trunc(), limit, 0.0)
        for i in reversed(range(self.tries)):
            chosen = _if_short(draw.add(i / self.tries).frac_().add_(rows).floor_(), limit, chosen)
        return chosen.to(torch.int32)

    def decode(self, noisy: Tensor, d: int, voters: int = 0) -> Tensor:
        """Sum of the cut directions, in units of `norm`."""
        return Rotation(d, self.seed).back(noisy) * (self.spacing / self.norm)


def rounded_norm(length: float, d: int, slack: float) -> float:
    """How long a row of `d` numbers may be after randomised rounding: all it can be, or less with most of the luck.

    >>> round(rounded_norm(10.0, 64, 0.5), 4)
    11.5102
    """
    longest = (length + math.sqrt(d)) ** 2
    likely = length**2 + d / 4 + math.sqrt(2 * math.log(1 / slack)) * (length + math.sqrt(d) / 2)
    return math.sqrt(min(longest, likely))


def in_ball(rows: Tensor, radius: float, spacing: float) -> Tensor:
    """Rows divided by `spacing`, cut to length `radius`; huge and tiny ones too."""
    heading = unit(rows)
    length = torch.linalg.vector_norm(heading, dim=-1, keepdim=True).clamp(min=1)
    peak = rows.abs().amax(-1, keepdim=True).double() / spacing
    return heading * torch.minimum(peak, (radius / length).double()).to(rows)


def _if_short(rounding: Tensor, norm: float, otherwise: Tensor | float) -> Tensor:
    """Rows of `rounding` that are no longer than `norm`, and `otherwise` for those that are."""
    short = torch.linalg.vector_norm(rounding, dim=-1, keepdim=True, dtype=torch.float64) <= norm
    return torch.where(short, rounding, otherwise)
