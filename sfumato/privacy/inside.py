"""What lies behind a barrier: the records, the noise, the odometer's counts, and how a sum is formed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.data.private import PrivateImages, Records, records
from sfumato.errors import OverBudget
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import Bound, BoundedSum, Summed
from sfumato.privacy.noise import Noise
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import BLANK, Pages
from sfumato.privacy.partitions import PartitionHandle, Partitions, PartitionSum, TeacherModel, hide, inside
from sfumato.privacy.plan import Crossing
from sfumato.privacy.ranks import Alone, Ranks
from sfumato.privacy.samplers import FullBatch
from sfumato.remembered import attach
from sfumato.types import DataSpec, Unit

PEOPLE = 128  # persons whose terms are held at once
REMEMBERED = 2**33  # bytes of features that are kept, at most; of more, they are computed each time

Units = NDArray[np.int64]
Summable = BoundedSum | Summed
Query = BoundedSum | Summed | PartitionSum | BatchValue
Tick = Callable[[str, float | None], None]  # told the crossing and the fraction done; None where that is private


class Lot:
    """Who takes part in a use of a crossing, and at which places: a fresh secret draw each time."""

    def units(self, crossing: Crossing, name: str, use: int, count: int, noise: Noise) -> Units:
        """Which of `count` units, or of so many parts, take part."""
        return crossing.sampler.draw(count, noise)

    def placed(self, pages: Pages, units: Units, ordered: bool, noise: Noise) -> Units:
        """(pages, rows): the units at their places; where number and order are public, one after the other."""
        return pages.in_order(units) if ordered else pages.dealt(units, noise)


class Inside:
    """The private side of a barrier; see `Barrier`, which is what a method holds."""

    def __init__(
        self,
        data: PrivateImages | None,
        spec: DataSpec,
        odometer: Odometer,
        *,
        noise: Noise | None = None,
        device: str = "cpu",
        microbatch: int = 1024,
        tick: Tick = lambda crossing, fraction: None,
        ranks: Ranks | None = None,
        lot: Lot | None = None,
        heard: Callable[[str, Tensor], None] = lambda name, total: None,  # of auditors, whose records are made up
    ) -> None:
        self.spec = spec
        self.odometer = odometer
        self._lot = lot or Lot()
        self._heard = heard
        self.noise = noise or Noise(fast=device.startswith("cuda"))
        self.ranks = ranks or Alone()
        self.sums = Sums(None if data is None else records(data), spec, device, microbatch, tick)
        self._released = dict(odometer.used)  # counted here too: what a method does to the odometer shows

    def release(self, name: str, query: Query, *public: Any) -> Tensor:
        """The noisy answer to `query`, in float64. Charged before a record is read."""
        crossing = self._charged(name, query)
        total = self._on_grid(name, crossing, query, public)
        self._heard(name, total)
        answer = self.ranks.same(crossing.mechanism(total, crossing.bound, self.noise))
        self.odometer.answered(name, answer)
        return answer

    def _on_grid(self, name: str, crossing: Crossing, query: Query, public: tuple[Any, ...]) -> Tensor:
        """The exact sum, on the grid that its noise lies on."""
        with apart():
            total = self.total(name, crossing, query, public)
        # With several ranks each has a part of the sum; one of them adds the noise, and all get the same answer.
        total = self.ranks.sum(total)
        if isinstance(query, BoundedSum | PartitionSum):
            return total  # terms that were projected one by one lie on the grid already
        return torch.round(total / crossing.bound.grid) * crossing.bound.grid

    def _charged(self, name: str, query: Query) -> Crossing:
        held = isinstance(query, PartitionSum)
        uses = query.queries if isinstance(query, PartitionSum) else 1
        if self._released != dict(self.odometer.used):
            raise OverBudget("The odometer's counts were changed by something other than the barrier; the run stops.")
        crossing = self.odometer.charge(name, uses)
        self._released[name] += uses
        if query.bound != crossing.bound or held != crossing.held:
            raise ValueError(
                f"Expected {crossing.bound} as planned for crossing '{name}', found {query.bound}"
                f"{', of held parts' if held else ''}."
            )
        if (
            isinstance(query.bound, Bound)
            and not isinstance(query, BoundedSum | PartitionSum)
            and not query.bound.slack
        ):
            raise ValueError("Expected a bound with slack for a query that sums its own terms, found none.")
        return crossing

    def total(self, name: str, crossing: Crossing, query: Query, public: tuple[Any, ...]) -> Tensor:
        """The exact answer, over a fresh sample."""
        if isinstance(query, PartitionSum):
            return self._of_parts(name, crossing, query, public)
        units = self._lot.units(crossing, name, self.odometer.used[name], self.sums.units, self.noise)
        if isinstance(query, BatchValue):  # cannot be dealt out: one block, and ranks without it add nothing
            return self.sums.value(name, query, units if self.ranks.owns(0) else units[:0], public)
        ordered = isinstance(crossing.sampler, FullBatch) and self.spec.count_public
        placed = self._lot.placed(self._pages(crossing, ordered), units, ordered, self.noise)
        return self.sums.total(name, query, self.ranks.share(placed), len(units), public, paced=ordered)

    def _pages(self, crossing: Crossing, ordered: bool) -> Pages:
        """From public facts: the expected number of units, and how many may be held at once."""
        expected = crossing.sampler.rate * self.spec.records
        most = min(self.sums.microbatch, PEOPLE) if self.spec.unit is Unit.PERSON else self.sums.microbatch
        if ordered:
            return Pages.holding(self.spec.records, most, self.ranks.size)
        return Pages.sampled(expected, most, self.ranks.size)

    def _of_parts(self, name: str, crossing: Crossing, query: PartitionSum, public: tuple[Any, ...]) -> Tensor:
        parts = inside(query.held)
        taking_part = None
        use = self.odometer.used[name]
        if crossing.sampler.rate < 1:  # a draw of its own for each question
            taking_part = torch.zeros(parts.parts, query.queries, dtype=torch.bool)
            for i in range(query.queries):
                drawn = self._lot.units(crossing, name, use - i, parts.parts, self.noise)
                taking_part[torch.from_numpy(drawn), i] = True
            taking_part = self.ranks.same(taking_part)
        return parts.total(query, use, taking_part, public)

    def hold(self, model: TeacherModel, parts: int) -> PartitionHandle:
        """Split the data into `parts` by a secret hash, each with a private state made by a public model."""
        key = self.ranks.same(torch.frombuffer(bytearray(self.noise.take(32)), dtype=torch.uint8))
        relation = self.odometer.plan.budget.relation
        sums = self.sums
        made = Partitions(
            model, parts, sums.data, self.spec, relation, bytes(key.tolist()), sums.device, self.ranks.owns
        )
        return hide(made)

    def train(self, held: PartitionHandle, *public: Any) -> None:
        """One update of every held part, on its own records. Returns nothing, and costs nothing."""
        with apart():
            inside(held).train(*public)


class Sums:
    """Sums of bounded terms over units, a page at a time."""

    def __init__(self, data: Records | None, spec: DataSpec, device: str, microbatch: int, tick: Tick) -> None:
        self.data = data
        self._spec = spec
        self.device = device
        self.microbatch = microbatch
        # The pace of a set whose size is private is private too.
        self._tick: Tick = tick if spec.count_public else lambda crossing, fraction: tick(crossing, None)
        self._by_person = data is not None and spec.unit is Unit.PERSON
        self._known: dict[Any, Tensor | None] = {}  # features of all records, by the map that gave them
        if self._by_person:
            assert data is not None and data.persons is not None
            self._order = np.argsort(data.persons, kind="stable")
            self._starts = np.searchsorted(data.persons[self._order], np.arange(data.persons.max(initial=-1) + 2))

    @property
    def units(self) -> int:
        """How many there are; private where the count is."""
        if self.data is None:
            return 0
        return len(self._starts) - 1 if self._by_person else len(self.data)

    def total(
        self, name: str, query: Summable, pages: Units, units: int, public: tuple[Any, ...], paced: bool = False
    ) -> Tensor:
        """The sum over the units on these pages, which are some of `units` in all.

        Progress is told page by page where their number is public: a sample may need one more than another.
        """
        total = torch.zeros(query.answer_shape(len(self._spec.classes)), dtype=torch.float64, device=self.device)
        # A query that sums by itself has slack for so many terms. Where the true count is far above the declared one
        # there may be more, and each is brought onto the grid by itself.
        most = getattr(query.bound, "most", None)
        singly = isinstance(query, BoundedSum) or (most is not None and units > most)
        self._tick(name, 0.0)
        for number, page in enumerate(pages):
            self._add(total, query, page, singly, public)  # a blank one too: an empty sample is computed like another
            if paced:
                self._tick(name, (number + 1) / len(pages))
        self._tick(name, 1.0)
        return total

    @torch.no_grad()
    def _add(self, total: Tensor, query: Summable, page: Units, singly: bool, public: tuple[Any, ...]) -> None:
        if self._by_person:
            self._add_people(total, query, page, public)
            return
        images, labels, there = self._batch(page)
        self._attach(query, page, images)
        if not singly:
            assert not isinstance(query, BoundedSum)
            total += query.total(images, labels, *public, there=there)
            return
        terms = query.bound.project(query.rows(images, labels, *public))
        terms = terms.masked_fill_(~there.view(-1, *[1] * (terms.dim() - 1)), 0)
        if query.by_class:
            total.index_add_(0, labels, terms.to(total))
        else:
            total += terms.sum(0)

    def _add_people(self, total: Tensor, query: Summable, page: Units, public: tuple[Any, ...]) -> None:
        """One bounded term a person: the mean over that person's records (votes: their sum), projected as a whole.

        A person keeps a place on the page: the first records of all stand there, then the second ones, and so on.
        """
        owned = [self._order[self._starts[p] : self._starts[p + 1]] if p != BLANK else self._order[:0] for p in page]
        counts = torch.tensor([len(rows) for rows in owned], dtype=torch.float64, device=total.device)
        terms = total.new_zeros((len(page), *total.shape))
        for turn in range(int(counts.max())):
            rows = np.array([o[turn] if turn < len(o) else BLANK for o in owned])
            images, labels, there = self._batch(rows)
            self._attach(query, rows, images)
            raw = torch.nan_to_num(query.rows(images, labels, *public).double(), nan=0.0, posinf=0.0, neginf=0.0)
            raw = raw.masked_fill_(~there.view(-1, *[1] * (raw.dim() - 1)), 0)
            if query.by_class:
                place = torch.arange(len(page), device=labels.device) * len(total) + labels
                terms.flatten(0, 1).index_add_(0, place, raw)
            else:
                terms += raw
        if not query.bound.integer:
            terms /= counts.clamp(min=1).view(-1, *[1] * total.dim())
        total += query.bound.project(terms).sum(0)

    def _batch(self, rows: Units) -> tuple[Tensor, Tensor, Tensor]:
        """Images in [0, 1], labels, and which places hold a record; a fixed public scaling, never one learned."""
        there = rows != BLANK
        shape = self._spec.shape if self.data is None else self.data.shape
        pixels = np.zeros((len(rows), *shape), np.uint8)
        labels = np.zeros(len(rows), np.int64)
        if self.data is not None and there.any():
            read = self.data.read(rows[there])
            pixels = pixels.astype(read.dtype, copy=False)
            pixels[there] = read
            labels[there] = self.data.labels[rows[there]]
        # With a private count a matrix product may round otherwise where a record is missing. In float64 that is far
        # below the grid.
        exact = torch.float32 if self._spec.count_public else torch.float64
        images = torch.from_numpy(pixels).to(self.device).to(exact).div_(255)
        return images, torch.from_numpy(labels).to(self.device), torch.from_numpy(there).to(self.device)

    def _attach(self, query: Summable, rows: Units, images: Tensor) -> None:
        """Hand a query what its fixed map has of these records; of a blank place, nothing."""
        sees = getattr(query, "sees", None)
        if sees is None or self.data is None:
            return
        if sees not in self._known:
            self._known[sees] = self._features(sees, len(self.data))
        known = self._known[sees]
        if known is not None:
            found = known[torch.from_numpy(np.maximum(rows, 0)).to(known.device)]
            attach(images, sees, found.masked_fill_(torch.from_numpy(rows == BLANK).to(found.device)[:, None], 0))

    def _features(self, sees: Any, count: int) -> Tensor | None:
        """What a fixed map has of all records, a page after the other; None where that is too much to keep."""
        if not count or 2 * count * sees.width > REMEMBERED:
            return None
        known = torch.empty(count, sees.width, dtype=torch.float16, device=self.device)
        for first in range(0, count, self.microbatch):
            # Every page has the same shape, the last one too.
            rows = np.arange(first, first + self.microbatch)
            images, _, _ = self._batch(np.where(rows < count, rows, BLANK))
            known[first : first + self.microbatch] = sees(images)[: count - first]
            self._tick("features", min(1.0, (first + self.microbatch) / count))
        return known

    @torch.no_grad()
    def value(self, name: str, query: BatchValue, units: Units, public: tuple[Any, ...]) -> Tensor:
        """One value of all records of these units, read in one piece."""
        self._tick(name, 0.0)
        found = torch.zeros(query.answer_shape(len(self._spec.classes)), dtype=torch.float64, device=self.device)
        if len(units):
            owned = [self._order[self._starts[p] : self._starts[p + 1]] for p in units] if self._by_person else [units]
            images, labels, _ = self._batch(np.concatenate(owned))
            found += query.value(images, labels, *public)
        self._tick(name, 1.0)
        return found


@contextmanager
def apart() -> Iterator[None]:
    """Records are computed by kernels that are picked by shape alone, and sums are formed in full float32.

    An autotuned kernel may be another one tomorrow, and a sum of products in TensorFloat-32 rounds by more than its
    slack. Convolutions may use it: what one record gives is rounded once, and then measured and added as it is.
    """
    cudnn = torch.backends.cudnn
    precision = torch.get_float32_matmul_precision()
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark = False
    cudnn.deterministic = True
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before
        torch.set_float32_matmul_precision(precision)
