"""A plan: every crossing a method will make, made from public facts before a record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from sfumato.accounting import accountant
from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.events import AnyEvent, Event, Selected
from sfumato.accounting.gaussian import mu_of
from sfumato.accounting.selection import Runs
from sfumato.accounting.two_parts import two_parts
from sfumato.privacy.bounds import AnyBound, Bound
from sfumato.privacy.mechanisms import BandedGaussian, DiscreteLaplace, Mechanism, mechanism_for
from sfumato.privacy.samplers import CyclicPoisson, FullBatch, Sampler
from sfumato.types import DataSpec

MOVED = 2.0**-10  # of a bound: what a term may change by at another place; measured on a GPU, 2^-12 at most
CURVE_DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)


@dataclass(frozen=True)
class Crossing:
    """One kind of passage through the barrier, used `times` times. Its event is derived, never typed.

    `held` terms are those of parts with a private state: a unit lies in one part and may change that part's term in
    any way, so two terms stand against each other under either relation. Parts of a plan under add-remove know their
    units by content: there a replaced unit leaves one part and joins another. So do classes of a cycle.
    """

    bound: AnyBound
    mechanism: Mechanism
    sampler: Sampler = field(default_factory=FullBatch)
    times: int = 1
    held: bool = False

    def __post_init__(self) -> None:
        if self.cycle > 1 and (self.held or not isinstance(self.bound, Bound)):
            raise ValueError("Expected sums of bounded terms of single units for classes that take turns.")
        if self._bands > self.cycle:
            raise ValueError(
                f"Expected classes that take turns, at least as many as bands={self._bands}, "
                f"found {self.sampler}: a unit would meet its own noise again."
            )

    @property
    def cycle(self) -> int:
        """Uses of which a unit may take part in one."""
        return self.sampler.cycle if isinstance(self.sampler, CyclicPoisson) else 1

    @property
    def share(self) -> float:
        """Of all units, those that are expected in one use."""
        return self.sampler.rate / self.cycle

    @property
    def _bands(self) -> int:
        return self.mechanism.matrix.bands if isinstance(self.mechanism, BandedGaussian) else 1

    def event(self, relation: Relation, times: int | None = None, planned: Relation | None = None) -> Event:
        """What the accountant sees under `relation`; `planned` is the relation that parts are made for."""
        change = Relation.REPLACE_ONE if self.held else relation
        # A sample that overflows its places moves one other record to another place, where it may round otherwise.
        moved = self.sampler.rate < 1 and not self.held and isinstance(self.bound, Bound) and not self.bound.slack
        room = 1 + MOVED if moved else 1.0
        uses = self.times if times is None else times
        if isinstance(self.mechanism, BandedGaussian):
            room *= self.mechanism.column_norm(uses)
        event = Event(
            self.mechanism.kind,
            sigma=self.mechanism.std(self.bound),
            sensitivity=self._moved(change) * room,
            bound=self.bound.sensitivity(Relation.ADD_REMOVE) * room,
            relation=relation,
            rate=self.sampler.rate,
            times=-(-uses // self.cycle),  # a unit takes part once in a cycle
            shifts=self.bound.shifts(change),
            held=self.held,
        )
        known = self.held or self.cycle > 1
        moves = known and relation is Relation.REPLACE_ONE and planned is Relation.ADD_REMOVE
        return two_parts(event) if moves else event

    def _moved(self, change: Relation) -> float:
        """Distance between the sums of two neighbours: in L1 for Laplace noise, otherwise in L2."""
        if isinstance(self.mechanism, DiscreteLaplace):
            return float(max(n * by for n, by in self.bound.shifts(change)))
        return self.bound.sensitivity(change)

    def scaled(self, factor: float) -> Crossing:
        """With so many times the noise."""
        if factor == 1:
            return self
        return replace(self, mechanism=replace(self.mechanism, multiplier=self.mechanism.multiplier * factor))

    def to_json(self, relation: Relation) -> dict[str, Any]:
        """Absolute numbers; `multiplier` is sigma / sensitivity."""
        event = self.event(relation)
        return {
            "mechanism": event.mechanism,
            "sigma": event.sigma,
            "sensitivity": event.sensitivity,
            "multiplier": event.sigma / event.sensitivity,
            "bound": self.bound.norm,
            "sampling": f"{self.sampler}{' of parts' if self.held and self.sampler.rate < 1 else ''}",
            "times": event.times,  # cycles, where classes take turns
        }


def crossing(
    bound: AnyBound, multiplier: float, sampler: Sampler | None = None, times: int = 1, held: bool = False
) -> Crossing:
    """A crossing with the mechanism that fits its bound."""
    return Crossing(bound, mechanism_for(bound, multiplier), sampler or FullBatch(), times, held)


@dataclass(frozen=True)
class Plan:
    """What will be asked, under which guarantee, and what the paper would have claimed."""

    method: str
    settings: Mapping[str, Any]
    data: DataSpec
    budget: Budget
    crossings: Mapping[str, Crossing]
    paper: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=lambda: {"kind": "uniform", "weights": None})
    deviations: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # more public numbers of this method's plan
    selection: Runs | None = None  # the crossings are made in a random number of runs, and the best is kept

    def __post_init__(self) -> None:
        # Whoever is shown a plan may not change it.
        object.__setattr__(self, "crossings", MappingProxyType(dict(self.crossings)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuilt, (values | {"crossings": dict(self.crossings)},)

    def events(self, relation: Relation | None = None, used: Mapping[str, int] | None = None) -> tuple[AnyEvent, ...]:
        """Events of the whole plan, or of the part of one run that `used` counts."""
        relation = relation or self.budget.relation
        counts = {name: c.times if used is None else used.get(name, 0) for name, c in self.crossings.items()}
        events = tuple(c.event(relation, counts[name], self.budget.relation) for name, c in self.crossings.items())
        if self.selection is None or used is not None:
            return events
        return (Selected(events, self.selection.mean, self.selection.shape),)

    def profile(self, relation: Relation | None = None) -> accountant.Profile:
        """The privacy profile of the whole plan."""
        return accountant.profile(self.events(relation))

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon of the whole plan."""
        return self.profile().epsilon(self.budget.delta if delta is None else delta)

    def guarantee(self, delta: float | None = None) -> dict[str, Any]:
        """The stated guarantee."""
        profile = self.profile()
        delta = self.budget.delta if delta is None else delta
        return {
            "epsilon": profile.epsilon(delta),
            "delta": delta,
            "relation": str(self.budget.relation),
            "unit": str(self.budget.unit),
            "accountant": profile.name,
            "mu": profile.mu,
            "discretisation": getattr(profile, "interval", None),
        }

    def curve(self) -> list[list[float]]:
        """[delta, epsilon] pairs for a picture of the whole trade-off."""
        profile = self.profile()
        deltas = sorted({*CURVE_DELTAS, self.budget.delta, self.data.records**-1.1}, reverse=True)
        return [[d, profile.epsilon(d)] for d in deltas if 0 < d < 1]

    def large_delta(self) -> tuple[str, ...]:
        """A warning of a delta that would allow a record in so many to be published."""
        if self.budget.delta <= 1 / self.data.records:
            return ()
        found = f"delta={self.budget.delta:g} is above 1/{self.data.records}, one over the number of units; take less."
        return (found,)

    def to_json(self) -> dict[str, Any]:
        """Everything about the plan; all of it public."""
        relation = self.budget.relation
        return {
            "method": self.method,
            "settings": dict(self.settings),
            "data": self.data.to_json(),
            "guarantee": self.guarantee(),
            "curve": self.curve(),
            "crossings": [{"name": n, **c.to_json(relation)} for n, c in self.crossings.items()],
            "events": [event.to_json() for event in self.events()],
            "second_opinion": {
                "accountant": "RDP (Balle et al.)",
                "epsilon": accountant.epsilon_by_renyi(self.events(), self.budget.delta),
            },
            **self.facts,
            "paper": dict(self.paper),
            "labels": dict(self.labels),
            "deviations": list(self.deviations),
            "warnings": list(self.warnings),
        }


def _rebuilt(values: dict[str, Any]) -> Plan:
    """As another process takes it."""
    return Plan(**values)


def events_of(crossings: Mapping[str, Crossing], relation: Relation) -> list[AnyEvent]:
    """What the accountant sees of crossings that are made under `relation`."""
    return [c.event(relation, planned=relation) for c in crossings.values()]


@dataclass(frozen=True)
class BudgetShare:
    """A crossing that takes a fixed share of the budget, counted in squared mu."""

    bound: AnyBound
    share: float
    times: int = 1

    def crossing(self, budget: Budget) -> Crossing:
        """With the noise at which all its uses have mu^2 = share * mu(budget)^2."""
        mu = math.sqrt(self.share) * mu_of(budget.epsilon, budget.delta)
        sigma = self.bound.sensitivity(budget.relation) * math.sqrt(self.times) / mu
        return crossing(self.bound, sigma / self.bound.norm, times=self.times)
