"""The barrier: private data behind it, one way through, every crossing charged first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.data.private import PrivateImages, Records, records
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import Bound, BoundedSum, Summed
from sfumato.privacy.held import Held, Parts, PartSum, Recipe, hide, inside
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.noise import Noise
from sfumato.privacy.plan import Crossing
from sfumato.privacy.ranks import Alone, Ranks
from sfumato.types import DataSpec, Unit

PEOPLE = 128  # persons whose terms are held at once

Rows = NDArray[np.int64]
Query = BoundedSum | Summed
Tick = Callable[[str, float | None], None]  # told the crossing and the fraction done; None where that is private


class Barrier:
    """Holds private data; `release` is the only thing that returns a value computed from it.

    Without data (`None`) it is blind: every answer is noise around zero, of the same public shape. A method
    that finishes against a blind barrier has no other road to the data.
    """

    def __init__(
        self,
        data: PrivateImages | None,
        spec: DataSpec,
        ledger: Ledger,
        *,
        noise: Noise | None = None,
        device: str = "cpu",
        microbatch: int = 1024,
        tick: Tick = lambda crossing, fraction: None,
        ranks: Ranks | None = None,
    ) -> None:
        self.spec, self.ledger = spec, ledger
        self.noise = noise or Noise(fast=device.startswith("cuda"))
        self._ranks = ranks or Alone()
        self._inside = _Inside(None if data is None else records(data), spec, device, microbatch, tick)

    def release(self, name: str, query: BoundedSum | Summed | PartSum | BatchValue, *public: Any) -> Tensor:
        """The noisy answer to `query`, in float64. Charged before a record is read."""
        held = isinstance(query, PartSum)
        crossing = self.ledger.charge(name, query.queries if isinstance(query, PartSum) else 1)
        if query.bound != crossing.bound or held != crossing.held:
            raise ValueError(f"Expected {crossing.bound} as planned for crossing '{name}', found {query.bound}"
                             f"{', of held parts' if held else ''}.")  # fmt: skip
        if isinstance(query.bound, Bound) and not isinstance(query, BoundedSum | PartSum) and not query.bound.slack:
            raise ValueError("Expected a bound with slack for a query that sums its own terms, found none.")
        if isinstance(query, PartSum):
            total = self._of_parts(name, crossing, query, public)
        else:
            taking_part = crossing.sampler.draw(self._inside.units, self.noise)
            if isinstance(query, BatchValue):  # cannot be dealt out: one block, and ranks without it add nothing
                mine = taking_part if self._ranks.owns(0) else taking_part[:0]
            else:
                mine = self._ranks.share(taking_part)
            total = self._inside.total(name, query, mine, public)
        # With several ranks each has a part of the sum; one of them adds the noise, and all get the same answer.
        total = self._ranks.sum(total)
        if not isinstance(query, BoundedSum | PartSum):
            # Terms that were projected one by one lie on the grid already. The noise lies on it, so others must too.
            total = torch.round(total / crossing.bound.grid) * crossing.bound.grid
        return self._ranks.same(crossing.mechanism(total, crossing.bound, self.noise))

    def hold(self, recipe: Recipe, parts: int) -> Held:
        """Split the data into `parts` by a secret hash, each with a private state made by a public recipe."""
        key = self._ranks.same(torch.frombuffer(bytearray(self.noise.take(32)), dtype=torch.uint8))
        data, relation = self._inside.data, self.ledger.plan.budget.relation
        made = Parts(recipe, parts, data, self.spec, relation, bytes(key.tolist()), self._inside.device,
                     self._ranks.owns)  # fmt: skip
        return hide(made)

    def train(self, held: Held, *public: Any) -> None:
        """One update of every held part, on its own records. Returns nothing, and costs nothing."""
        inside(held).train(*public)

    def _of_parts(self, name: str, crossing: Crossing, query: PartSum, public: tuple[Any, ...]) -> Tensor:
        parts, taking_part = inside(query.held), None
        if crossing.sampler.rate < 1:  # a draw of its own for each question
            taking_part = torch.zeros(parts.parts, query.queries, dtype=torch.bool)
            for i in range(query.queries):
                taking_part[torch.from_numpy(crossing.sampler.draw(parts.parts, self.noise)), i] = True
            taking_part = self._ranks.same(taking_part)
        return parts.total(query, self.ledger.used[name], taking_part, public)


class _Inside:
    """The private side: sums of bounded terms over units, in chunks."""

    def __init__(self, data: Records | None, spec: DataSpec, device: str, microbatch: int, tick: Tick) -> None:
        self.data, self._spec, self.device, self._microbatch = data, spec, device, microbatch
        # The pace of a set whose size is private is private too.
        self._tick: Tick = tick if spec.count_public else lambda crossing, fraction: tick(crossing, None)
        self._by_person = data is not None and spec.unit is Unit.PERSON
        if self._by_person:
            assert data is not None and data.persons is not None
            self._order = np.argsort(data.persons, kind="stable")
            self._starts = np.searchsorted(data.persons[self._order], np.arange(data.persons.max(initial=-1) + 2))

    @property
    def units(self) -> int:
        if self.data is None:
            return 0
        return len(self._starts) - 1 if self._by_person else len(self.data)

    def total(self, name: str, query: BoundedSum | Summed | BatchValue, units: NDArray[np.int64],
              public: tuple[Any, ...]) -> Tensor:  # fmt: skip
        self._tick(name, 0.0)
        shape = query.answer_shape(len(self._spec.classes))
        total = torch.zeros(shape, dtype=torch.float64, device=self.device)
        if isinstance(query, BatchValue):
            total += self._value(query, units, public) if len(units) else 0
            self._tick(name, 1.0)
            return total
        add = self._add_people if self._by_person else self._add_records
        for start in range(0, len(units), self._microbatch):
            add(total, query, units[start : start + self._microbatch], public)
            self._tick(name, min(1.0, (start + self._microbatch) / len(units)))
        return total

    @torch.no_grad()
    def _value(self, query: BatchValue, units: NDArray[np.int64], public: tuple[Any, ...]) -> Tensor:
        """One value of all records of these units, read in one piece."""
        rows = units
        if self._by_person:
            rows = np.concatenate([self._order[self._starts[p] : self._starts[p + 1]] for p in units])
        return query.value(*self._batch(rows), *public)

    @torch.no_grad()
    def _add_records(self, total: Tensor, query: Query, rows: Rows, public: tuple[Any, ...]) -> None:
        images, labels = self._batch(rows)
        if not isinstance(query, BoundedSum):
            total += query.total(images, labels, *public)
            return
        terms = query.bound.project(query.rows(images, labels, *public))
        if query.by_class:
            total.index_add_(0, labels, terms.to(total))
        else:
            total += terms.sum(0)

    @torch.no_grad()
    def _add_people(self, total: Tensor, query: Query, people: Rows, public: tuple[Any, ...]) -> None:
        """One bounded term a person: the mean over that person's records (votes: their sum), projected as a whole."""
        for piece in np.array_split(people, -(-len(people) // PEOPLE)):
            owned = [self._order[self._starts[p] : self._starts[p + 1]] for p in piece]
            rows, owner = np.concatenate(owned), np.repeat(np.arange(len(piece)), [len(o) for o in owned])
            terms = total.new_zeros((len(piece), *total.shape))
            for start in range(0, len(rows), self._microbatch):
                cut = slice(start, start + self._microbatch)
                images, labels = self._batch(rows[cut])
                raw = torch.nan_to_num(query.rows(images, labels, *public).double(), nan=0.0, posinf=0.0, neginf=0.0)
                target = torch.from_numpy(owner[cut]).to(labels)
                if query.by_class:
                    terms.flatten(0, 1).index_add_(0, target * len(total) + labels, raw)
                else:
                    terms.index_add_(0, target, raw)
            if not query.bound.integer:
                counts = torch.tensor([max(1, len(o)) for o in owned], dtype=torch.float64, device=total.device)
                terms /= counts.view(-1, *[1] * total.dim())
            total += query.bound.project(terms).sum(0)

    def _batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Images in [0, 1]: a fixed public scaling, never one learned from the data."""
        assert self.data is not None
        pixels = torch.from_numpy(self.data.read(rows)).to(self.device)
        # With a private count a missing record moves the others to other places of a batch, where a matrix product
        # may round otherwise. In float64 that is far below the grid; with a public count places do not move.
        exact = torch.float32 if self._spec.count_public else torch.float64
        return pixels.to(exact).div_(255), torch.from_numpy(self.data.labels[rows]).to(self.device)
