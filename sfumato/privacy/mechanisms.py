"""The noise that a crossing adds: its scale comes from the bound it is called with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import torch
from torch import Tensor

from sfumato.privacy.banded import ONE, Banded
from sfumato.privacy.bounds import AnyBound
from sfumato.privacy.cycle import Cycle
from sfumato.privacy.noise import Noise


@dataclass(frozen=True)
class Gaussian:
    """Noise on every coordinate, in whole steps of the bound's public grid, too fine to matter."""

    multiplier: float
    kind: ClassVar[Literal["gaussian"]] = "gaussian"

    def std(self, bound: AnyBound) -> float:
        """Absolute standard deviation."""
        return self.multiplier * bound.norm

    def __call__(self, value: Tensor, bound: AnyBound, noise: Noise) -> Tensor:
        # The value lies on the grid and so does the noise: neighbours have the same support, and nothing rounds.
        steps = noise.gaussian(tuple(value.shape), self.std(bound) / bound.grid, value.device)
        return value + steps * bound.grid


@dataclass(frozen=True)
class DiscreteGaussian:
    """Whole-number noise for whole-number queries: exact, with no floating point to attack."""

    multiplier: float
    kind: ClassVar[Literal["discrete-gaussian"]] = "discrete-gaussian"

    def std(self, bound: AnyBound) -> float:
        """Parameter sigma of the discrete Gaussian."""
        return self.multiplier * bound.norm

    def __call__(self, value: Tensor, bound: AnyBound, noise: Noise) -> Tensor:
        drawn = noise.discrete_gaussian(self.std(bound), tuple(value.shape))
        return value + torch.from_numpy(drawn).to(value.device, torch.float64)


FINE = 2**16  # of a step of whole numbers: the grid of scales of Laplace noise, so that they are fractions


@dataclass(frozen=True)
class DiscreteLaplace:
    """Whole-number Laplace noise for whole-number queries; its scale is a fraction, rounded up."""

    multiplier: float
    kind: ClassVar[Literal["discrete-laplace"]] = "discrete-laplace"

    def std(self, bound: AnyBound) -> float:
        """Scale of the noise; its standard deviation is about 1.4 times as much."""
        return math.ceil(self.multiplier * bound.norm * FINE) / FINE

    def __call__(self, value: Tensor, bound: AnyBound, noise: Noise) -> Tensor:
        drawn = noise.discrete_laplace(Fraction(self.std(bound)), tuple(value.shape))
        return value + torch.from_numpy(drawn).to(value.device, torch.float64)


@dataclass(frozen=True)
class BandedGaussian:
    """Gaussian noise of which each use takes back a part of the last ones; `multiplier` is that of Z (see `banded`)."""

    multiplier: float
    matrix: Banded
    kind: ClassVar[Literal["gaussian"]] = "gaussian"

    def std(self, bound: AnyBound) -> float:
        """Absolute standard deviation of Z."""
        return self.multiplier * bound.norm

    def column_norm(self, uses: int) -> float:
        """What a unit's term is stretched by in C x, of so many uses."""
        return self.matrix.column_norm(uses)

    def __call__(self, value: Tensor, bound: AnyBound, noise: Noise, cycle: Cycle | None = None) -> Tensor:
        """The value with the noise of the next use; without a cycle, of a first one."""
        spread = self.std(bound) / bound.grid * ONE
        z = noise.gaussian(tuple(value.shape), spread, value.device).to(torch.int64)
        past = [] if cycle is None else [e.to(value.device) for e in cycle.past]
        e = self.matrix.noise(z, past)
        if cycle is not None:
            cycle.remember(e, self.matrix.bands - 1)
        return value + e.to(torch.float64) * bound.grid


Mechanism = Gaussian | DiscreteGaussian | DiscreteLaplace | BandedGaussian


def mechanism_for(bound: AnyBound, multiplier: float) -> Mechanism:
    """The discrete Gaussian where terms are whole numbers, the continuous one elsewhere."""
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise ValueError(f"Expected a finite multiplier above 0, found multiplier={multiplier}.")
    return DiscreteGaussian(multiplier) if bound.integer else Gaussian(multiplier)
