"""Budgets for early stopping and for choices made after seeing earlier releases.

A filter is set once, from the budget alone. It admits a release while the sum of what is spent stays within it,
whatever the releases so far made the analyst ask: this is sound for Gaussian DP (Smith and Thakurta 2022) and for
Renyi DP at one order fixed in advance (Feldman and Zrnic 2021), and for no (epsilon, delta) accountant in general.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sfumato.accounting import accountant, gaussian
from sfumato.accounting.events import AnyEvent

ROUNDING = 1 - 1e-12  # sums of floats may be off by a few ulps; never in favour of the user


class Exhausted(RuntimeError):
    """The filter does not admit the release."""


@dataclass
class GaussianFilter:
    """Stops before the sum of mu^2 exceeds `mu`^2 or the sum of slacks exceeds `slack`.

    Events that are not plain Gaussians enter as the Gaussian that dominates them, at a share of the slack.
    """

    mu: float
    slack: float = 0.0
    slack_each: float = 0.0
    _squares: list[float] = field(default_factory=list, repr=False)
    _slacks: list[float] = field(default_factory=list, repr=False)

    @classmethod
    def within(cls, epsilon: float, delta: float) -> GaussianFilter:
        """For plain Gaussians only, all of delta going to them."""
        return cls(gaussian.mu_of(epsilon, delta))

    @property
    def spent(self) -> float:
        """mu of everything charged so far."""
        return math.sqrt(math.fsum(self._squares))

    def admits(self, event: AnyEvent) -> bool:
        """Whether the event still fits."""
        square, slack = self._cost(event)
        fits = math.fsum([*self._squares, square]) <= self.mu**2 * ROUNDING
        return fits and math.fsum([*self._slacks, slack]) <= self.slack

    def charge(self, event: AnyEvent) -> None:
        """Record the event, which must come before its release; Exhausted where it does not fit."""
        if not self.admits(event):
            raise Exhausted(f"Expected at most mu={self.mu:g} in all; this release would exceed it.")
        square, slack = self._cost(event)
        self._squares.append(square)
        self._slacks.append(slack)

    def _cost(self, event: AnyEvent) -> tuple[float, float]:
        if not event.exact and self.slack_each <= 0:
            raise ValueError("Expected slack_each above 0 for events that are not plain Gaussians.")
        mu, slack = accountant.dominating_gaussian([event], self.slack_each)
        return mu * mu, slack


@dataclass
class RenyiFilter:
    """Stops before the sum of Renyi divergences at `order` exceeds `budget`. The order is fixed beforehand."""

    order: float
    budget: float
    _spent: list[float] = field(default_factory=list, repr=False)

    @classmethod
    def within(cls, epsilon: float, delta: float, order: float) -> RenyiFilter:
        """The divergence that (epsilon, delta) allows at this order."""
        budget = epsilon - math.log(1 / delta) / (order - 1) - math.log1p(-1 / order) + math.log(order) / (order - 1)
        if budget <= 0:
            raise ValueError(f"Expected an order at which (epsilon, delta) leaves room, found order={order:g}.")
        return cls(order, budget)

    @property
    def spent(self) -> float:
        """Divergence charged so far."""
        return math.fsum(self._spent)

    def admits(self, event: AnyEvent) -> bool:
        """Whether the event still fits."""
        return math.fsum([*self._spent, self._cost(event)]) <= self.budget * ROUNDING

    def charge(self, event: AnyEvent) -> None:
        """Record the event, which must come before its release; Exhausted where it does not fit."""
        if not self.admits(event):
            raise Exhausted(f"Expected at most {self.budget:g} at order {self.order:g}; this would exceed it.")
        self._spent.append(self._cost(event))

    def _cost(self, event: AnyEvent) -> float:
        value = accountant.renyi([event], self.order)
        if value is None:
            raise ValueError("Expected an event with a Renyi formula; subsampling under replace-one has none.")
        return value
