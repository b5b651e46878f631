"""From events to a guarantee: the exact Gaussian formula where it applies, privacy loss distributions elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from sfumato.accounting import gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event

INTERVAL = 1e-4  # finest discretisation of privacy losses; rounding is pessimistic, so this costs tightness only


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
class LossDistribution:
    """A composed privacy loss distribution of dp-accounting; an upper bound by construction."""

    pld: Any
    interval: float
    mu: None = None

    @property
    def name(self) -> str:
        return f"PLD (dp-accounting, interval {self.interval:.2g})"

    def delta(self, epsilon: float) -> float:
        return float(self.pld.get_delta_for_epsilon(epsilon))

    def epsilon(self, delta: float) -> float:
        return max(0.0, float(self.pld.get_epsilon_for_delta(delta)))


def profile(events: Sequence[Event]) -> Profile:
    """The guarantee of `events` together, by the tightest sound accountant.

    >>> from sfumato.accounting.budget import Relation
    >>> e = Event("gaussian", 5000, 2 * 200**0.5, 200**0.5, Relation.ADD_REMOVE, times=1301)
    >>> round(profile([e]).epsilon(1e-5), 3)
    0.742
    """
    used = tuple(e for e in events if e.times)
    if len({e.relation for e in used}) > 1:
        raise ValueError("Expected all events under one relation; convert them before composing.")
    if all(e.exact for e in used):
        return ExactGaussian(math.sqrt(sum(e.mu**2 for e in used)))
    interval = _interval(used)
    return LossDistribution(_compose(used, interval), interval)


def _interval(events: Sequence[Event]) -> float:
    """Coarser where epsilon is large: the relative error stays the same and the work does too."""
    added = [replace(e, relation=Relation.ADD_REMOVE) for e in events]  # a rough size is enough, for either relation
    return INTERVAL * max(1.0, (epsilon_by_renyi(added, 1e-5) or 0.0) / 2)


@lru_cache(maxsize=256)
def _compose(events: tuple[Event, ...], interval: float) -> Any:
    total = None
    plain = [e for e in events if e.exact]
    if plain:  # one Gaussian for all of them: no discretisation error is added up
        mu = math.sqrt(sum(e.mu**2 for e in plain))
        total = _gaussian_pld(1 / mu, 1.0, Relation.ADD_REMOVE, interval)
    for event in (e for e in events if not e.exact):
        one = _event_pld(event, interval)
        total = one if total is None else total.compose(one)
    return total


def _event_pld(event: Event, interval: float) -> Any:
    if event.mechanism == "discrete-gaussian":
        from dp_accounting.pld import privacy_loss_distribution as pld

        coordinates, by = event.shift
        one = pld.from_discrete_gaussian_mechanism(
            event.sigma, sensitivity=by, value_discretization_interval=interval, use_connect_dots=True
        )
        return one.self_compose(coordinates * event.times)
    # The library's own pairs for both relations take the norm of one record's term.
    one = _gaussian_pld(event.sigma / event.bound, event.rate, event.relation, interval)
    return one.self_compose(event.times)


def _gaussian_pld(multiplier: float, rate: float, relation: Relation, interval: float = INTERVAL) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    pairs = {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }
    return pld.from_gaussian_mechanism(
        multiplier, sampling_prob=rate, value_discretization_interval=interval, neighboring_relation=pairs[relation]
    )


def dominating_gaussian(events: Sequence[Event], slack: float) -> tuple[float, float]:
    """The least (mu, slack used) such that all events together are no worse than "with probability
    `slack` everything is revealed, otherwise a mu-Gaussian".

    By Blackwell's theorem it is enough that delta(eps) <= slack + (1 - slack) delta_mu(eps) for all eps >= 0 in
    both directions. This is what lets whole runs of any kind compose under a Gaussian-DP filter.
    """
    run = profile(events)
    if run.mu is not None:
        return run.mu, 0.0
    top = run.epsilon(slack)
    grid = np.linspace(0.0, top, 401)
    # Between two grid points delta only falls, so left values against right values cover the whole interval;
    # beyond `top` the slack alone is enough.
    left = np.array([run.delta(float(e)) for e in grid[:-1]])

    def covered(mu: float) -> bool:
        right = np.array([gaussian.delta_of(float(e), mu) for e in grid[1:]])
        return bool(np.all(left <= slack + (1 - slack) * right))

    low, high = 0.0, 1e-3
    while not covered(high):
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        mid = (low + high) / 2
        low, high = (low, mid) if covered(mid) else (mid, high)
    return high, slack


ORDERS = (*np.arange(1.05, 12, 0.05).tolist(), *map(float, range(12, 64)), *(2.0**i for i in range(6, 13)))


def renyi(events: Sequence[Event], order: float) -> float | None:
    """Renyi divergence bound at `order`; None where no sound formula is at hand (Poisson under replace-one)."""
    total = 0.0
    for e in (e for e in events if e.times):
        if e.rate == 1.0:  # the discrete Gaussian obeys the same bound as the continuous one
            total += e.mu**2 * order / 2
        elif e.relation is Relation.ADD_REMOVE:
            total += e.times * _poisson_renyi(e.rate, e.sigma / e.bound, order)
        else:
            return None
    return total


@lru_cache(maxsize=4096)
def _poisson_renyi(rate: float, multiplier: float, order: float) -> float:
    from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([order])
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)))
    return float(accountant._rdp[0])


def epsilon_by_renyi(events: Sequence[Event], delta: float, conversion: str = "balle") -> float | None:
    """Epsilon through Renyi DP: "balle" (Canonne et al. 2020) as a second opinion, "mironov" for paper mode."""
    best = math.inf
    for order in ORDERS:
        value = renyi(events, order)
        if value is None:
            return None
        gain = math.log((order - 1) / order) - math.log(order) / (order - 1) if conversion == "balle" else 0.0
        best = min(best, value + math.log(1 / delta) / (order - 1) + gain)
    return max(0.0, best)
