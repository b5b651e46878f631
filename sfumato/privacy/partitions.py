"""Parts of the data with a private state of their own (teachers, critics), built inside from a public model.

A unit lies in exactly one part, by a keyed hash of its identity, and a part sees nobody else's records: so one unit
changes one part's terms, whatever the state has become. Nothing about a part is returned; a `PartitionSum` asks all
parts one question, and its answer passes the barrier like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.data.private import Records
from sfumato.privacy.block_store import BlockStore, DivisibleBlock, TeacherBlock
from sfumato.privacy.bounds import AnyBound
from sfumato.types import DataSpec, Unit


def part_of(identities: Iterable[bytes], parts: int, key: bytes) -> NDArray[np.int64]:
    """Part number of each identity: the first 8 bytes of keyed BLAKE2b, modulo `parts`.

    The key is random and independent of the data. Sizes vary; equal identities share a part.

    >>> part_of([b"a", b"b", b"a"], 10, bytes(32)).tolist()[::2] == [part_of([b"a"], 10, bytes(32))[0]] * 2
    True
    """
    if parts < 1:
        raise ValueError(f"Expected parts of at least 1, found parts={parts}.")
    digests = b"".join(hashlib.blake2b(i, key=key, digest_size=8).digest() for i in identities)
    return (np.frombuffer(digests, dtype=">u8") % np.uint64(parts)).astype(np.int64)


class TeacherModel(Protocol):
    """Public: how the blocks of a block of parts are made, and how many records a part brings to each update."""

    @property
    def teacher_batch(self) -> int:
        """Records of each part in one update: the same for all, so that no part's size shows in another's numbers."""

    def block(self, parts: int, device: str) -> int:
        """How many parts make one block; from public facts alone."""

    def make(self, count: int, random: torch.Generator, device: str) -> TeacherBlock:
        """The state of `count` parts before they have seen a record."""


class PartitionHandle:
    """A handle on parts behind the barrier: shows how many there are, and nothing else."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: int) -> None:
        self.parts = parts


@dataclass(frozen=True, eq=False)
class PartitionSum:
    """Sums over all parts of bounded terms, one sum for each of `queries` questions.

    `contribution(teachers, random, *public)` gives (parts of the block, queries, *shape): one term a part and question.
    Each question is charged as one use of its crossing.
    """

    held: PartitionHandle
    contribution: Callable[..., Tensor]
    bound: AnyBound
    shape: tuple[int, ...]
    queries: int = 1

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""
        return (self.queries, *self.shape)


class HeldState(Protocol):
    """What a checkpoint asks of what is behind a handle."""

    parts: int

    @property
    def bytes(self) -> int:
        """Size of the state that is here."""

    def state_dict(self) -> dict[str, Any]:
        """All of it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As it was."""


class Partitions:
    """What is behind a handle: the partition, the state of each part, and the way they read their records."""

    def __init__(
        self,
        model: TeacherModel,
        parts: int,
        data: Records | None,
        spec: DataSpec,
        relation: Relation,
        key: bytes,
        device: str,
        mine: Callable[[int], bool] = lambda block: True,
    ) -> None:
        self._model = model
        self.parts = parts
        self._spec = spec
        self._device = device
        self._mine = mine
        self._data = data
        self._relation = relation
        self._updates = 0
        self._open(key, model.block(parts, device))

    def _open(self, key: bytes, block: int) -> None:
        self._key = key
        self._block = max(1, min(block, self.parts))
        self._order, self._starts = self._partition()
        self._pixels = _nearby(self._data, self._order, self._device)
        counts = [min(self._block, self.parts - first) for first in range(0, self.parts, self._block)]
        mine = [b for b in range(len(counts)) if self._mine(b)] if self._data is not None else []
        self._store = BlockStore(
            lambda b: self._model.make(counts[b], self._random("init", b, "cpu"), self._device),
            {b: counts[b] for b in mine},
            self._device,
        )

    def _partition(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows in the order of their parts, and where each part begins."""
        if self._data is None:
            return np.empty(0, np.int64), np.zeros(self.parts + 1, np.int64)
        part = part_of(identities(self._data, self._spec, self._relation), self.parts, self._key)
        if self._spec.unit is Unit.PERSON:
            assert self._data.persons is not None
            part = part[self._data.persons]
        order = np.argsort(part, kind="stable")
        return order, np.searchsorted(part[order], np.arange(self.parts + 1))

    def _random(self, what: str, number: int, device: str) -> torch.Generator:
        """Randomness of a part's own business: secret, and independent of the data."""
        digest = hashlib.blake2b(f"{what}/{number}".encode(), key=self._key, digest_size=8).digest()
        return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)

    @torch.no_grad()
    def train(self, *public: Any) -> None:
        """One update of every part on records of its own."""
        for block in self._store:
            with self._store.teachers(block, keep=True) as teachers:
                teachers.update(*self._records(block), *public)
        self._updates += 1

    def _records(self, block: int) -> tuple[Tensor, Tensor]:
        """The next `teacher_batch` records of each part, going round; a part without records gets blank ones."""
        first = block * self._block
        last = min((block + 1) * self._block, self.parts)
        sizes = np.diff(self._starts)[first:last, None]
        steps = self._updates * self._model.teacher_batch + np.arange(self._model.teacher_batch)
        rows = (self._starts[first:last, None] + steps % np.maximum(sizes, 1)).ravel()
        rows = np.where(np.repeat(sizes > 0, self._model.teacher_batch, 1).ravel(), rows, 0)
        images, labels = self._read(rows)
        blank = torch.from_numpy(np.repeat(sizes == 0, self._model.teacher_batch, 1)).to(self._device)
        images = images.view(len(sizes), -1, *self._spec.shape).masked_fill_(blank[..., None, None, None], 0)
        return images, labels.view(len(sizes), -1).masked_fill_(blank, 0)

    def _read(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        assert self._data is not None
        labels = torch.from_numpy(self._data.labels[self._order[rows]]).to(self._device)
        if self._pixels is None:
            found = torch.from_numpy(self._data.read(self._order[rows])).to(self._device)
        else:
            found = self._pixels[torch.from_numpy(rows).to(self._device)]
        return found.to(torch.float32).div_(255), labels

    @torch.no_grad()
    def total(self, query: PartitionSum, use: int, taking_part: Tensor | None, public: tuple[Any, ...]) -> Tensor:
        """The exact sums; `taking_part` (parts, queries) leaves some out."""
        shape = query.answer_shape(0)
        total = torch.zeros(shape, dtype=torch.float64, device=self._device)
        present = torch.from_numpy(np.diff(self._starts) > 0).to(self._device)[:, None]
        present = present.expand(-1, query.queries) if taking_part is None else present & taking_part.to(self._device)
        for block in self._store:
            mask = present[block * self._block : (block + 1) * self._block]
            drawn = None if taking_part is None else taking_part[block * self._block : (block + 1) * self._block].any(1)
            with self._store.teachers(block, keep=False) as teachers:
                rows = _asked(
                    teachers, drawn, query.contribution, self._random(f"use {use}", block, self._device), public
                )
            if rows.shape != (len(mask), *shape):
                raise ValueError(f"Expected terms of shape {(len(mask), *shape)}, found {tuple(rows.shape)}.")
            terms = query.bound.project(rows.flatten(0, 1)).view_as(rows)
            terms = terms.masked_fill_(~mask.view(*mask.shape, *[1] * len(query.shape)), 0)
            total += terms.sum(0, dtype=torch.float64)
        return total

    @property
    def bytes(self) -> int:
        """Size of the state of all parts on this rank."""
        return sum(t.nbytes for state in self._store.state_dict().values() for t in state.values())

    def state_dict(self) -> dict[str, Any]:
        """Everything, for a checkpoint, which is private."""
        key = torch.frombuffer(bytearray(self._key), dtype=torch.uint8)
        return {"key": key, "block": self._block, "updates": self._updates, "states": self._store.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As it was: the same key, so that every unit stays in its part, and the same blocks."""
        self._open(bytes(state["key"].cpu().numpy().tobytes()), int(state["block"]))
        self._updates = int(state["updates"])
        self._store.load_state_dict(state["states"])


def _asked(
    teachers: TeacherBlock,
    drawn: Tensor | None,
    contribution: Callable[..., Tensor],
    random: torch.Generator,
    public: Any,
) -> Tensor:
    """Terms of a block; of those that were drawn alone, where a block can be split. The draw does not know the data."""
    if drawn is None or not isinstance(teachers, DivisibleBlock):
        return contribution(teachers, random, *public)
    which = drawn.nonzero()[:, 0]
    size = 1 << max(0, len(which) - 1).bit_length()  # a power of two: few shapes, since kernels are made for each
    if size >= len(drawn):
        return contribution(teachers, random, *public)
    filled = which[torch.arange(size) % max(1, len(which))] if len(which) else torch.zeros(size, dtype=torch.int64)
    rows = contribution(teachers.some(filled), random, *public)
    terms = rows.new_zeros((len(drawn), *rows.shape[1:]))
    terms[which.to(rows.device)] = rows[: len(which)]
    return terms


def identities(data: Records, spec: DataSpec, relation: Relation) -> Sequence[bytes]:
    """What a unit is recognised by, whatever the others are.

    Under replace-one a unit keeps its place and changes its content; elsewhere units come and go, and places shift.
    """
    if spec.unit is Unit.RECORD:
        if relation is Relation.REPLACE_ONE:
            return [i.to_bytes(8, "big") for i in range(len(data))]
        return [bytes(d) for d in data.digests]
    assert data.persons is not None
    people = int(data.persons.max(initial=-1)) + 1
    if relation is Relation.REPLACE_ONE:
        return [i.to_bytes(8, "big") for i in range(people)]
    return list(_contents(data, data.persons, people))


def _contents(data: Records, persons: NDArray[np.int64], people: int) -> Iterator[bytes]:
    """A digest of each person's records, in an order of their own."""
    order = np.argsort(persons, kind="stable")
    starts = np.searchsorted(persons[order], np.arange(people + 1))
    for first, last in zip(starts[:-1], starts[1:], strict=True):
        yield hashlib.blake2b(b"".join(sorted(bytes(data.digests[i]) for i in order[first:last]))).digest()


def _nearby(data: Records | None, order: NDArray[np.int64], device: str) -> Tensor | None:
    """All images on the device in the order of the parts, where they fit easily: each update reads most of them."""
    if data is None or not device.startswith("cuda"):
        return None
    if len(data) * int(np.prod(data.shape)) > torch.cuda.mem_get_info(device)[0] // 8:
        return None
    return torch.from_numpy(data.read(order)).to(device)


_INSIDE: WeakKeyDictionary[PartitionHandle, Any] = WeakKeyDictionary()


def inside(held: PartitionHandle) -> Partitions:
    """Open a handle; for the barrier and for checkpoints alone."""
    parts: Partitions = _INSIDE[held]
    return parts


def hide(parts: HeldState) -> PartitionHandle:
    """A handle on parts, or on what is known here of parts that are held elsewhere."""
    held = PartitionHandle(parts.parts)
    _INSIDE[held] = parts
    return held
