"""What happened to the data, in absolute numbers: the only input of every accountant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sfumato.accounting.budget import Relation

MechanismName = Literal["gaussian", "discrete-gaussian", "laplace", "discrete-laplace", "mixture"]


@dataclass(frozen=True)
class Event:
    """`times` noisy releases of a bounded sum.

    `sensitivity` is the change that one unit can cause under `relation`, in L2 (in L1 for Laplace noise);
    `bound` is the norm of one unit's term, which the subsampled pairs need instead. Both are absolute, as is
    `sigma`: standard deviation, parameter of the discrete Gaussian, or scale of the Laplace noise.
    `shift` describes the worst integer neighbour of a discrete query: (how many coordinates, by how much);
    `shifts` lists several where it is not plain which of them is the worst.
    `cap` and `records` make Poisson sampling truncated: no more than `cap` of the public number `records`.
    `mixture` is for a mechanism whose neighbour is a mixture: (shift, probability) pairs, the rest unmoved.
    `held` says that the terms are those of parts, one of which a unit may change at will under either relation:
    subsampled, they take the pair of replace-one.
    """

    mechanism: MechanismName
    sigma: float
    sensitivity: float
    bound: float
    relation: Relation
    rate: float = 1.0
    times: int = 1
    shift: tuple[int, int] = (1, 1)
    shifts: tuple[tuple[int, int], ...] = ()
    cap: int | None = None
    records: int | None = None
    mixture: tuple[tuple[float, float], ...] = ()
    held: bool = False

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.sensitivity > 0 and self.bound > 0):
            raise ValueError(f"Expected sigma, sensitivity and bound above 0, found {self}.")
        if not 0 < self.rate <= 1 or self.times < 0:
            raise ValueError(f"Expected a rate in (0, 1] and times of at least 0, found {self}.")
        object.__setattr__(self, "relation", Relation(self.relation))
        for name in ("shifts", "mixture"):  # lists, where the event comes from JSON
            object.__setattr__(self, name, tuple((a, b) for a, b in getattr(self, name)))
        object.__setattr__(self, "shift", (self.shift[0], self.shift[1]))
        _check_served(self)

    @property
    def exact(self) -> bool:
        """Whether the event is a plain Gaussian, for which the closed formula is tight."""
        return self.mechanism == "gaussian" and self.rate == 1.0

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of all `times` together, before any amplification."""
        return math.sqrt(self.times) * self.sensitivity / self.sigma

    @property
    def pair(self) -> Relation:
        """The relation whose pair a subsampled release is accounted with."""
        return Relation.REPLACE_ONE if self.held else self.relation

    @property
    def patterns(self) -> tuple[tuple[int, int], ...]:
        """The integer neighbours that a discrete query is charged for."""
        return self.shifts or (self.shift,)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `Event(**d)` turns back; fields that do not apply are left out."""
        pairs = {name: [list(pair) for pair in getattr(self, name)] for name in ("shifts", "mixture")}
        found = asdict(self) | {"relation": str(self.relation), "shift": list(self.shift), **pairs}
        return {k: v for k, v in found.items() if k not in _RARE or v}


_RARE = ("shifts", "cap", "records", "mixture", "held")


def _check_served(event: Event) -> None:
    """Refuse the combinations for which no sound pair is at hand."""
    if event.mechanism == "discrete-laplace" and event.rate < 1:
        raise ValueError("Expected everyone to take part under whole-number Laplace noise: no other pair is served.")
    if event.mechanism == "laplace" and event.rate < 1 and event.pair is not Relation.ADD_REMOVE:
        raise ValueError("Expected add-remove for subsampled Laplace noise: no other pair is served.")
    if (event.cap is None) != (event.records is None):
        raise ValueError("Expected cap and records together: truncated Poisson sampling needs both.")
    if event.cap is not None and not (event.mechanism == "gaussian" and event.rate < 1 and event.cap >= 1):
        raise ValueError("Expected a cap of at least 1 on a subsampled Gaussian only.")
    if (event.mechanism == "mixture") != bool(event.mixture):
        raise ValueError("Expected shifts and probabilities for a mixture, and for no other mechanism.")
    if event.mixture:
        _check_mixture(event)


def _check_mixture(event: Event) -> None:
    if event.relation is not Relation.ADD_REMOVE or event.rate < 1:
        raise ValueError("Expected a mixture under add-remove with rate=1: its probabilities are the sampling.")
    if any(not 0 < p <= 1 or not 0 < c <= event.sensitivity for c, p in event.mixture):
        raise ValueError(f"Expected shifts in (0, sensitivity] with probabilities in (0, 1], found {event.mixture}.")
    if math.fsum(p for _, p in event.mixture) > 1 + 1e-12:
        raise ValueError(f"Expected probabilities of at most 1 in all, found {event.mixture}.")


@dataclass(frozen=True)
class Selected:
    """The best of a random number of runs; the others are never seen. Each run consists of `events`.

    The number follows a truncated negative binomial of this `shape` (1 geometric, 0 logarithmic) or, with an
    infinite shape, a Poisson law. The score that picks must be public or be among `events`.
    """

    events: tuple[Event, ...]
    mean: float
    shape: float
    times: int = 1

    def __post_init__(self) -> None:
        if not self.events or len({e.relation for e in self.events}) > 1:
            raise ValueError("Expected the events of one run, all under one relation.")
        if not (self.mean >= 1 and self.shape >= 0 and self.times >= 0):
            raise ValueError(f"Expected mean >= 1, shape >= 0 and times >= 0, found {self.mean}, {self.shape}.")

    @property
    def relation(self) -> Relation:
        """The relation of the runs."""
        return self.events[0].relation

    @property
    def exact(self) -> bool:
        """Selection has no exact formula here."""
        return False

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; the shape of the Poisson law is the word "poisson"."""
        shape: float | str = "poisson" if math.isinf(self.shape) else self.shape
        runs = {"mean": self.mean, "shape": shape, "times": self.times}
        return {"mechanism": "selected", "events": [e.to_json() for e in self.events], **runs}


AnyEvent = Event | Selected


def event_from_json(found: dict[str, Any]) -> AnyEvent:
    """The event that `to_json` wrote."""
    if found.get("mechanism") != "selected":
        return Event(**found)
    shape = math.inf if found["shape"] == "poisson" else float(found["shape"])
    events = tuple(Event(**e) for e in found["events"])
    return Selected(events, float(found["mean"]), shape, int(found["times"]))


def combined_multiplier(multipliers: Iterable[float]) -> float:
    """One noise multiplier for several queries on the same subsample, which are one event and not several.

    >>> round(combined_multiplier([1.07] * 32), 3)
    0.189
    """
    return 1 / math.sqrt(math.fsum(nu**-2 for nu in multipliers))
