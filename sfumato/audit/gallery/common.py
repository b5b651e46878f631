"""What the planted bugs share: vectors as records, neighbours of every awkward kind, and real parts to build on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from sfumato.accounting.budget import Budget, Relation
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.methods.base import Method
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.bounds import AnyBound, Bound
from sfumato.privacy.mechanisms import Mechanism
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.types import DataSpec

SPEC = DataSpec("made up", 100, (1, 8, 8), ("0", "1"))
KINDS = ("random", "antipodal", "zero", "constant", "nan", "infinite", "huge", "tiny", "tie", "duplicate")


@dataclass(frozen=True)
class Bug:
    """A planted bug: `build(True)` has it, `build(False)` is the twin; `by` names the checks that must convict."""

    id: str
    name: str
    build: Callable[[bool], Subject | Method]
    by: tuple[str, ...] = ()  # none: a control, which must pass
    level: int = 1  # auditors are run up to here
    draws: int = 500
    runs: int = 800

    @property
    def expected(self) -> str:
        """What the auditors must say of it."""
        return "caught" if self.by else "pass"


@lru_cache(maxsize=1)
def noise() -> Any:
    """The noise source of a real barrier: the gallery has none of its own."""
    return behind(Barrier(None, SPEC, odometer({"sum": crossing(Bound(1.0), 1.0)}))).noise


def odometer(crossings: dict[str, Crossing]) -> Odometer:
    """A real odometer for these crossings."""
    return Odometer(Plan("gallery", {}, SPEC, Budget(1.0), crossings))


def declared(bound: Bound) -> dict[Relation, float]:
    """The sensitivities that a bound declares."""
    return {relation: bound.sensitivity(relation) for relation in Relation}


def clipped(data: Array, bound: Bound) -> Array:
    """The sum of records, each projected by the real bound."""
    return bound.project(torch.from_numpy(data)).sum(0).numpy()


def add_noise(value: Array, mechanism: Mechanism, bound: AnyBound) -> Array:
    """A value with noise of a real mechanism."""
    return mechanism(torch.from_numpy(np.asarray(value, dtype=np.float64)), bound, noise()).numpy()


def record(kind: str, d: int, random: Random) -> Array:
    """One awkward record."""
    vector = random.normal(size=d) * 3
    values = {"zero": 0.0, "constant": 2.0, "nan": np.nan, "infinite": np.inf, "huge": 1e200, "tiny": 1e-200}
    if kind in values:
        return np.full(d, values[kind])
    return np.sign(vector) * 3 if kind == "tie" else vector


def vector_pairs(d: int, sizes: tuple[int, ...] = (1, 2, 12), changed: int = 0) -> Callable[[Random], Iterator[Pair]]:
    """Neighbours under both relations: one awkward record among few or many ordinary ones."""

    def pairs(random: Random) -> Iterator[Pair]:
        for size in sizes:
            for kind in KINDS:
                one = random.normal(size=(size, d)) * 3
                one[changed] = one[-1] if kind == "duplicate" else record(kind, d, random)
                two = one.copy()
                two[changed] = -one[changed] if kind == "antipodal" else record("random", d, random)
                yield Pair(kind, Relation.REPLACE_ONE, one, two, changed)
                yield Pair(kind, Relation.ADD_REMOVE, one, np.delete(one, changed, 0), changed)
            same = np.tile(record("tie", d, random) * 3, (size, 1))  # all alike: nothing cancels
            yield Pair("duplicate", Relation.ADD_REMOVE, same, same[1:], changed)

    return pairs


def change(data: Array, j: int, random: Random, kind: str) -> Array:
    """The records with another one at j."""
    records = data.copy()
    records[j] = {"zero": 0.0, "huge": 1e6, "tiny": -1e6}.get(kind, random.normal(size=data.shape[1]) * 3)
    return records


def normal_batch(n: int, d: int) -> Callable[[Random], Array]:
    """Ordinary records."""
    return lambda random: random.normal(size=(n, d))
