"""What one teacher says about the gradient of one fake image: its direction, or a vote on a projection of it.

G-PATE (Long et al., NeurIPS 2021): for a public matrix R of d x p independent N(0, 1) entries, a teacher with the
direction u (length one) finds u R, cuts each number to [-c, c], and votes for the bin that it falls in, one of B in
each of the p dimensions. A row has p ones, or none where there is no direction. Whatever the teacher has become, it
moves one vote in each dimension: Delta = sqrt(2 p) for all counts, and sqrt(p) for the count of one named bin in each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.methods.teachers.votes import finite
from sfumato.privacy.bounds import IntegerBound

NOBODY = -1


def unit_length(directions: Tensor) -> Tensor:
    """Each (..., d) scaled to length one. Zeros stay zeros; what is no finite number counts as zero.

    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, float("nan")]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    values = finite(directions)
    values = values / _positive(values.abs().amax(-1, keepdim=True))  # first, or squares vanish or overflow
    return values / _positive(torch.linalg.vector_norm(values, dim=-1, keepdim=True))


def clipped_length(directions: Tensor, norm: float) -> Tensor:
    """Each (..., d) brought down to `norm` where it is longer; what is no finite number counts as zero."""
    values = finite(directions)
    lengths: Tensor = torch.linalg.vector_norm(values, dim=-1, keepdim=True)
    return unit_length(values) * lengths.clamp(max=norm)


def _positive(lengths: Tensor) -> Tensor:
    return torch.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True)
class Binned:
    """Votes on bins of a projection; all of it public but the directions.

    >>> votes, matrix = Binned(dimensions=1, bins=4, clip=1.0), torch.tensor([[1.0], [0.0]])
    >>> votes.encode(torch.tensor([[[-2.0, 0.0], [1.0, 9.0], [0.0, 0.0]]]), matrix).tolist()
    [[[[1, 0, 0, 0]], [[0, 0, 1, 0]], [[0, 0, 0, 0]]]]
    """

    dimensions: int  # p
    bins: int  # B
    clip: float  # c
    unit: bool = True  # a direction is brought to length one first; else c is in units of the gradient

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.bins < 2 or not (math.isfinite(self.clip) and self.clip > 0):
            raise ValueError(f"Expected dimensions of at least 1, bins of at least 2 and clip above 0, found {self}.")

    @property
    def histogram(self) -> IntegerBound:
        """What a row of counts obeys: (dimensions, bins), a vote in each dimension."""
        return IntegerBound(self.dimensions, low=0)

    @property
    def confirmation(self) -> IntegerBound:
        """What a row of agreements with one named bin a dimension obeys: they have nowhere else to go."""
        return IntegerBound(self.dimensions, low=0, coordinates=self.dimensions)

    def matrix(self, d: int, random: torch.Generator) -> Tensor:
        """R, from public randomness."""
        return torch.randn(d, self.dimensions, generator=random)

    def chosen(self, directions: Tensor, matrix: Tensor) -> Tensor:
        """The bin of each teacher, image and dimension (count, m, p); NOBODY where there is no direction."""
        ways = unit_length(directions) if self.unit else finite(directions)
        # Cut before it is made whole, since a huge number has no place among those.
        place = ((ways @ matrix.to(ways) / self.clip + 1) * self.bins / 2).floor().clamp(0, self.bins - 1)
        return place.nan_to_num(0.0).long().masked_fill((ways == 0).all(-1, keepdim=True), NOBODY)

    def encode(self, directions: Tensor, matrix: Tensor) -> Tensor:
        """Votes (count, m, p, bins), as int8."""
        bins = torch.arange(self.bins, device=directions.device)
        return (self.chosen(directions, matrix)[..., None] == bins).to(torch.int8)

    def agree(self, directions: Tensor, matrix: Tensor, named: Tensor) -> Tensor:
        """Whether each teacher is for the named bins (m, p): (count, m, p) of 0 and 1, as int8."""
        return (self.chosen(directions, matrix) == named).to(torch.int8)

    def decode(self, named: Tensor, answered: Tensor, matrix: Tensor) -> Tensor:
        """Directions (m, d) from bins (m, p): R (centres) / p, with nothing in dimensions that are not answered.

        The mean of R R' / p is the identity, so that over many matrices every direction comes back.
        """
        centres = ((named + 0.5) * 2 / self.bins - 1) * self.clip * answered
        return centres.to(matrix) @ matrix.T / self.dimensions

    def mean(self, noisy: Tensor, matrix: Tensor) -> Tensor:
        """Directions (m, d) from noisy counts (m, p, bins): R (sum over bins of centre times count) / p."""
        centres = ((torch.arange(self.bins, device=noisy.device) + 0.5) * 2 / self.bins - 1) * self.clip
        return (noisy * centres).sum(-1).to(matrix) @ matrix.T / self.dimensions
