"""A mechanism as an auditor sees it: what it can be asked, and what it claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.accountant import Profile
from sfumato.accounting.budget import Relation
from sfumato.accounting.tradeoff import Curve

REACH = 20  # of whole-number noise, in its scale
Array = NDArray[np.float64]
Random = np.random.Generator
Data = Any  # whatever the mechanism takes: an array of vectors, made-up images


@dataclass(frozen=True)
class Finding:
    """What one check found, in a sentence with the number that decided."""

    check: str
    level: int
    ok: bool
    detail: str


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring inputs that differ in the unit `changed`."""

    kind: str
    relation: Relation
    one: Data
    two: Data
    changed: int = 0


@dataclass(frozen=True, eq=False)
class Rows:
    """Per-record quantities: `of(data)` gives one row a record, `change(data, j, how)` another record j."""

    of: Callable[[Data], Array]
    batch: Callable[[Random], Data]
    change: Callable[[Data, int, Random, str], Data]
    jacobian: Callable[[Data], Array] | None = None  # entry (i, j): how much row i moves with record j
    alone: Callable[[Data, int], Data] | None = None  # the data with record i alone


@dataclass(frozen=True, eq=False)
class Inclusion:
    """Who takes part: `draw(events)` gives the members of each charged event; `law` is "poisson" or "one".

    Where classes take turns an event is a whole `cycle` of uses, and `draw` gives the members of each use.
    """

    draw: Callable[[int], Sequence[NDArray[np.int64]]]
    units: int
    rate: float
    law: str = "poisson"
    cycle: int = 1


@dataclass(frozen=True, eq=False)
class Subject:
    """Everything optional but the name: a check applies where the parts that it needs are given.

    `exact` is the answer before noise and `release` the noisy one; `declared` the sensitivity that is charged.
    `taped(data)` is all that becomes public when every noisy answer is replaced by a fixed tape; `history` the steps'
    exact answers under such a tape, each with the units that took part in it.
    """

    name: str
    relation: Relation = Relation.ADD_REMOVE
    queries: int = 1  # answers that come side by side, each with the declared sensitivity
    declared: Mapping[Relation, float] = field(default_factory=dict)
    sigma: float | None = None
    discrete: bool = False
    laplace: bool = False  # whole-number noise of this law, `sigma` being its scale; otherwise Gaussian
    grid: float | None = None
    curve: Callable[[Relation], Curve] | None = None  # what one release claims, where it is not quite Gaussian
    pairs: Callable[[Random], Iterable[Pair]] | None = None
    exact: Callable[[Data], Array] | None = None
    release: Callable[[Data], Array] | None = None
    anew: Callable[[], Array] | None = None  # nothing but noise, of a barrier made for the purpose
    projected: Callable[[Array, Array, int], Array] | None = None  # draws of <exact + noise, direction>
    nothing: Sequence[Data] = ()  # inputs whose exact answer is zero
    rows: Rows | None = None
    prepared: Rows | None = None
    history: Callable[[Data], Sequence[tuple[frozenset[int], Array]]] | None = None
    taped: Callable[[Data], Array] | None = None
    taped_pairs: Callable[[Random], Iterable[Pair]] | None = None
    entry: Callable[..., Any] | None = None  # what works on the public side; its parameters are looked at
    parts: Callable[[Sequence[bytes]], Sequence[frozenset[int]]] | None = None
    teachers: Callable[[Data], Sequence[NDArray[Any]]] | None = None  # state and votes of each, to be compared
    inclusion: Inclusion | None = None
    counted: Callable[[], tuple[int, int]] | None = None  # (noise vectors drawn, events charged)
    golden: Callable[[], Sequence[tuple[str, float, float]]] | None = None  # (what, computed, known)
    looks: Callable[[], tuple[int, bool]] | None = None  # looks at the test set, and whether a choice came after one
    outcomes: Callable[[Data, int], Sequence[Any]] | None = None  # many releases of a mechanism with few outcomes
    play: Callable[[bool, int], Array] | None = None  # whole runs without or with the canary: one statistic a run
    profile: Profile | None = None  # what `play` claims
    epsilon: float | None = None  # what `outcomes` claims, at delta
    delta: float = 0.0

    def masses(self) -> tuple[Array, Array]:
        """Values of whole-number noise near zero, and their chances."""
        assert self.sigma is not None
        far = int((2 if self.laplace else 1) * REACH * self.sigma) + 10
        y = np.arange(-far, far + 1, dtype=np.float64)
        mass = np.exp(-np.abs(y) / self.sigma) if self.laplace else np.exp(-(y**2) / (2 * self.sigma**2))
        return y, mass / mass.sum()
