"""How the gradient of one example is shortened, by public settings. Plan and projection read the same bound.

flat        g * min(1, C / ||g||)
per layer   the same in each layer, with C_l of a public split, sum of C_l^2 = C^2
automatic   g * C / (||g|| + gamma)                                  (Bu et al. 2023), below C for every g

Top-k clipping is in topk.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.privacy.bounds import Bound


class Clip(ABC):
    """Factors by which examples are shortened, from the norms of their layers."""

    whole_rows: ClassVar[bool] = False  # `keep` changes rows, so that each must be materialised
    by_layer: ClassVar[bool] = True  # `weights` looks at more than the sum of its columns, and they may differ

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What one example may add."""

    @abstractmethod
    def weights(self, squared: Tensor) -> Tensor:
        """(B, layers) squared norms in float64 -> (B, layers) factors."""

    def keep(self, rows: Tensor) -> Tensor:
        """The coordinates that stay, the others zero; all of them unless a clip says otherwise."""
        return rows


@dataclass(frozen=True)
class Flat(Clip):
    """Norms above `threshold` are brought down to it, and all is scaled so that the threshold becomes `norm`.

    With `norm=1.0` fixed and a threshold that moves (see `QuantileClip`) the plan's bound stays the same; the released
    sum times the threshold is the gradient.

    >>> Flat(1.0).weights(torch.tensor([[16.0], [0.25]])).flatten().tolist()
    [0.25, 1.0]
    """

    norm: float
    threshold: float | None = None

    by_layer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(norm=self.norm, threshold=self.threshold or self.norm)

    @property
    def bound(self) -> Bound:
        return Bound(self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        length = squared.sum(1, keepdim=True).sqrt()
        return (self.norm / length.clamp(min=self.threshold or self.norm)).expand_as(squared)


@dataclass(frozen=True)
class PerLayer(Clip):
    """Each layer has its own part of the norm, in proportion to `shares` (equal ones if left out).

    >>> PerLayer(5.0, shares=(3, 4)).weights(torch.tensor([[36.0, 1.0]])).tolist()
    [[0.5, 1.0]]
    """

    norm: float
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        positive(norm=self.norm, **{f"shares[{i}]": s for i, s in enumerate(self.shares)})

    @property
    def bound(self) -> Bound:
        return Bound(self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        shares = self.shares or (1.0,) * squared.shape[1]
        if len(shares) != squared.shape[1]:
            raise ValueError(f"Expected one share for each of {squared.shape[1]} layers, found {len(shares)}.")
        limits = _limits(self.norm, tuple(shares), squared.device)
        return limits / torch.maximum(squared.sqrt(), limits)


@cache  # a copy to a GPU would wait for all that it has to do
def _limits(norm: float, shares: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(shares, dtype=torch.float64, device=device) * (norm / math.hypot(*shares))


@dataclass(frozen=True)
class Automatic(Clip):
    """Normalised gradients: every example counts nearly the same, and there is no threshold to choose.

    >>> float(Automatic(1.0, gamma=1.0).weights(torch.tensor([[9.0]])))
    0.25
    """

    norm: float
    gamma: float = 0.01

    by_layer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive(norm=self.norm, gamma=self.gamma)

    @property
    def bound(self) -> Bound:
        return Bound(self.norm)

    def weights(self, squared: Tensor) -> Tensor:
        return (self.norm / (squared.sum(1, keepdim=True).sqrt() + self.gamma)).expand_as(squared)


@dataclass(frozen=True)
class QuantileClip:
    """A threshold that follows a quantile of the norms (Andrew et al. 2021), between public bounds.

    Inside the barrier each example votes whether its norm lies at or below the threshold: a crossing of its own, with
    sensitivity 1. Outside, the noisy fraction moves the threshold: C <- C exp(-rate (fraction - quantile)).

    >>> QuantileClip(1.0, rate=0.5).votes(torch.tensor([0.5, 1.0, 3.0])).tolist()
    [[1.0], [1.0], [0.0]]
    >>> round(QuantileClip(1.0, rate=0.5).update(0.9).threshold, 4)
    0.8187
    """

    threshold: float
    quantile: float = 0.5
    rate: float = 0.2
    low: float = 1e-3
    high: float = 1e3

    def __post_init__(self) -> None:
        positive(low=self.low, high=self.high, rate=self.rate)
        if not (self.low <= self.threshold <= self.high and 0 < self.quantile < 1):
            raise ValueError(
                f"Expected low <= threshold <= high and a quantile inside (0, 1), found threshold={self.threshold}, "
                f"low={self.low}, high={self.high}, quantile={self.quantile}."
            )

    def votes(self, norms: Tensor) -> Tensor:
        """(B,) norms -> (B, 1) votes, private; a norm that is no number votes no."""
        return (norms <= self.threshold).to(torch.float64)[:, None]

    def update(self, fraction: float) -> QuantileClip:
        """The next threshold, from the released count over the public expected number of examples."""
        share = min(1.0, max(0.0, fraction)) if math.isfinite(fraction) else self.quantile
        moved = self.threshold * math.exp(-self.rate * (share - self.quantile))
        return replace(self, threshold=min(self.high, max(self.low, moved)))


def positive(**values: float) -> None:
    """Refuse settings that are not above 0, or too small or large to be squared."""
    for name, value in values.items():
        # Squares of smaller norms vanish in float32.
        if not 1e-12 <= value < 1e18:
            raise ValueError(f"Expected {name} between 1e-12 and 1e18, found {name}={value}.")
