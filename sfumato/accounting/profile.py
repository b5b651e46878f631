"""The privacy profile of a sequence of releases: what is asked of it, and two of its kinds (the third is in `pld`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from sfumato.accounting import gaussian


class Profile(Protocol):
    """The privacy profile of a sequence of releases."""

    @property
    def name(self) -> str:
        """Which accountant it is."""

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter, where the profile is that of a Gaussian."""

    def delta(self, epsilon: float) -> float:
        """Smallest delta at this epsilon."""

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at this delta."""


@dataclass(frozen=True)
class ExactGaussian:
    """Adaptively composed Gaussians are one Gaussian: mu adds in squares, without loss."""

    mu: float
    name: str = "exact Gaussian"

    def delta(self, epsilon: float) -> float:
        return gaussian.delta_of(epsilon, self.mu)

    def epsilon(self, delta: float) -> float:
        return gaussian.epsilon_of(delta, self.mu)


@dataclass(frozen=True)
class RenyiCurve:
    """Bounds on Renyi divergences at several orders above 1, read by one of two conversions."""

    orders: tuple[float, ...]
    values: tuple[float, ...]
    conversion: str = "balle"
    mu: None = None

    def __post_init__(self) -> None:
        if self.conversion not in ("balle", "mironov"):
            raise ValueError(f'Expected conversion "balle" or "mironov", found {self.conversion!r}.')

    @property
    def name(self) -> str:
        return "RDP (Balle et al.)" if self.conversion == "balle" else "RDP (Mironov 2017)"

    def _gain(self, order: float) -> float:
        if self.conversion == "mironov":
            return 0.0
        return math.log1p(-1 / order) - math.log(order) / (order - 1)

    def delta(self, epsilon: float) -> float:
        logs = (
            (order - 1) * (value - epsilon + self._gain(order))
            for order, value in zip(self.orders, self.values, strict=True)
        )
        return math.exp(min(0.0, min(logs)))

    def epsilon(self, delta: float) -> float:
        found = (
            value + math.log(1 / delta) / (order - 1) + self._gain(order)
            for order, value in zip(self.orders, self.values, strict=True)
        )
        return max(0.0, min(found))
