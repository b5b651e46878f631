"""Held parts again: opened, trained and asked as the method did, on other records.

The state of a part depends on its records, so that a question alone cannot be put to other ones. All that the method
did with the parts is repeated, with the public values that it used then, under one fixed key of the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.audit.recording.recording_barrier import (
    Asked,
    MadeUp,
    Opened,
    Trained,
    frozen_rng,
    made_up,
    with_unit,
    without_unit,
)
from sfumato.audit.recording.subject import Array, Pair, Random
from sfumato.data.private import Records
from sfumato.privacy.partitions import Partitions, PartitionSum
from sfumato.privacy.plan import Plan
from sfumato.types import DataSpec, Unit

KEY = bytes(range(32))
UNITS = 20
KINDS = ("random", "constant", "duplicate")


@dataclass(frozen=True, eq=False)
class Placed:
    """Made-up records under a relation, which says what a unit is recognised by."""

    records: MadeUp
    relation: Relation


class Replay:
    """The history of a crossing's parts, on any records. Each set of records is played once."""

    def __init__(self, asked: Asked, plan: Plan, kinds: tuple[str, ...] = KINDS) -> None:
        assert isinstance(asked.query, PartitionSum) and isinstance(asked.before[0], Opened)
        self.asked = asked
        self.query = asked.query
        self.plan = plan
        self.opened = asked.before[0]
        self._kinds = kinds
        self._answers: dict[Placed, tuple[Array, list[NDArray[np.uint8]]]] = {}
        self._pairs: list[Pair] = []

    def pairs(self, random: Random) -> list[Pair]:
        """The same neighbours for every check, so that they are played once."""
        self._pairs = self._pairs or list(record_pairs(self.plan.data, random, self._kinds))
        return self._pairs

    def parts(self, data: Records, relation: Relation) -> Partitions:
        """Fresh parts around some records."""
        return Partitions(self.opened.model, self.opened.parts, data, self.plan.data, relation, KEY, self.asked.device)

    def total(self, placed: Placed) -> Array:
        """The exact answer."""
        return self._played(placed)[0]

    def teachers(self, placed: Placed) -> list[NDArray[np.uint8]]:
        """State and terms of each part, as bytes."""
        return self._played(placed)[1]

    def _played(self, placed: Placed) -> tuple[Array, list[NDArray[np.uint8]]]:
        if placed not in self._answers:
            with frozen_rng(self.asked.device):
                self._answers[placed] = self._again(self.parts(placed.records.stored(), placed.relation))
        return self._answers[placed]

    def _again(self, parts: Partitions) -> tuple[Array, list[NDArray[np.uint8]]]:
        for action in self.asked.before[1:]:
            if isinstance(action, Trained):
                parts.train(*action.public)
            elif isinstance(action, Asked) and isinstance(action.query, PartitionSum):
                parts.total(action.query, action.use, None, action.public)
        return answered(parts, self.query, self.asked.use, self.asked.public)

    def membership(self, names: Sequence[bytes]) -> list[frozenset[int]]:
        """The parts that hold records of each unit, which is known by a name."""
        records, owner = named_records(self.plan.data, names)
        return members(self.parts(records, self.plan.budget.relation), owner)


def named_records(spec: DataSpec, names: Sequence[bytes]) -> tuple[Records, NDArray[np.int64]]:
    """Blank records of units that are known by a name, and the number of the unit of each."""
    person = spec.unit is Unit.PERSON
    rows = [name.ljust(31, b".") + bytes([i]) for name in names for i in range(1 + person)]
    images = np.zeros((len(rows), *spec.shape), np.uint8)
    owner = np.repeat(np.arange(len(names)), 1 + person)
    records = MadeUp(images, np.zeros(len(rows), np.int64), owner if person else None).stored()
    records.digests = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 32)
    return records, owner


def record_pairs(spec: DataSpec, random: Random, kinds: tuple[str, ...] = KINDS) -> Iterator[Pair]:
    """One unit of each kind removed, replaced by its opposite, or relabelled, among others that stay."""
    base = made_up(spec, random, UNITS)
    for kind in kinds:
        records = with_unit(base, 0, kind, spec, random)
        opposite = with_unit(records, 0, "opposite", spec, random)
        other = np.where(_rows_of(records, 0), (records.labels + 1) % len(spec.classes), records.labels)
        there, gone = (Placed(m, Relation.ADD_REMOVE) for m in (records, without_unit(records, 0)))
        yield Pair(f"removed {kind}", Relation.ADD_REMOVE, there, gone)
        one, *others = (Placed(m, Relation.REPLACE_ONE) for m in (records, opposite, replace(records, labels=other)))
        yield from (
            Pair(f"{how} {kind}", Relation.REPLACE_ONE, one, other)
            for how, other in zip(("replaced", "relabelled"), others, strict=True)
        )


def _rows_of(records: MadeUp, unit: int) -> NDArray[np.bool_]:
    owner = np.arange(len(records.labels)) if records.persons is None else records.persons
    return np.asarray(owner == unit)


def members(parts: Partitions, owner: NDArray[np.int64]) -> list[frozenset[int]]:
    """The parts in which each unit has records; `owner` names the unit of each record."""
    held: list[set[int]] = [set() for _ in range(int(owner.max(initial=-1)) + 1)]
    part = np.repeat(np.arange(parts.parts), np.diff(parts._starts))
    for unit, number in zip(owner[parts._order], part, strict=True):
        held[unit].add(int(number))
    return [frozenset(f) for f in held]


def answered(
    parts: Partitions, query: PartitionSum, use: int, public: tuple[Any, ...]
) -> tuple[Array, list[NDArray[np.uint8]]]:
    """The exact answer to a question, and state and terms of each part."""
    seen: list[Tensor] = []

    def kept(teachers: Any, random: torch.Generator, *given: Any) -> Tensor:
        seen.append(query.contribution(teachers, random, *given))
        return seen[-1]

    total = parts.total(replace(query, contribution=kept), use, None, public)
    states = parts._store.state_dict().values()
    return total.cpu().numpy(), [part for rows, state in zip(seen, states, strict=True) for part in _each(rows, state)]


def _each(rows: Tensor, state: dict[str, Tensor]) -> Iterator[NDArray[np.uint8]]:
    """Of a block: what leads with an axis of parts is theirs, and the rest is everybody's."""
    own = [t for t in (rows, *state.values()) if t.dim() and len(t) == len(rows)]
    shared = [_bytes(t) for t in state.values() if not (t.dim() and len(t) == len(rows))]
    for i in range(len(rows)):
        yield np.concatenate([*(_bytes(t[i]) for t in own), *shared])


def _bytes(value: Tensor) -> NDArray[np.uint8]:
    return value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy()
