"""Who takes part, heard through the barrier itself: records that are their own numbers, asked by the real crossings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from sfumato.audit.checks.level0 import seeded
from sfumato.audit.checks.noise_checks import RARE
from sfumato.audit.recording.recording_barrier import opened
from sfumato.audit.recording.subject import Finding, Inclusion
from sfumato.data.private import PrivateImages, Records
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import AnyBound, BatchBound, Bound, BoundedSum
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import BLOCK
from sfumato.privacy.plan import Plan
from sfumato.types import Unit

Members = NDArray[np.int64]
RECORDS = 2  # of a person
SEEN = 30  # appearances of all units together that are expected in an event, at least
EVENTS = 300  # in which few records are followed one by one
FEWEST_EVENTS = 40  # where an event is a long cycle of uses
# records that are followed, and the rate below which there are no more of them
FEW = 300
FEWEST = 1 / 300
REPLAYED = 8  # events that are drawn again under one seed
ORDERED = 20  # events whose places are looked at
TURNS = 120  # in which all crossings are asked, one after the other


class _Numbered:
    """Pixels that are the number of their record, times a step, in four bytes; a blank place has none."""

    shape = (1, 1, 4)

    def __init__(self, step: int = 1) -> None:
        self._step = step

    def read(self, rows: Any) -> np.ndarray:
        numbers = (np.asarray(rows) * self._step + 1).astype("<u4")
        return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, *self.shape)

    def close(self) -> None:
        """Nothing to free."""


def _numbers(images: Tensor) -> Members:
    flat = images.double().mul(255).round().to(torch.uint8).reshape(-1, 4).cpu().numpy()
    numbers = np.ascontiguousarray(flat).view("<u4").ravel().astype(np.int64) - 1
    return numbers[numbers >= 0] // RECORDS


@dataclass(eq=False)
class Ear:
    """A query that hears which records it is asked about, and answers nothing."""

    bound: AnyBound
    heard: list[Members] = field(default_factory=list)
    rows_of_pages: set[int] = field(default_factory=set)
    by_class: ClassVar[bool] = False

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        return (1,)

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        self._hear(images)
        return torch.zeros(len(images), 1, dtype=torch.float64)

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        self._hear(images)
        return torch.zeros(1, dtype=torch.float64)

    def _hear(self, images: Tensor) -> None:
        self.heard.append(_numbers(images))
        self.rows_of_pages.add(len(images))

    @property
    def query(self) -> Any:
        """As the barrier takes it, of the kind that the bound is for."""
        if isinstance(self.bound, BatchBound):
            return BatchValue(lambda images, labels: self.rows(images, labels)[0], self.bound, (1,))
        if isinstance(self.bound, Bound) and self.bound.slack:
            return self
        return BoundedSum(self.rows, self.bound, (1,))


class Listening:
    """A real barrier around numbered records; `members(name)` is who took part in one more event of a crossing."""

    def __init__(self, plan: Plan, units: int) -> None:
        self._plan = opened(plan)
        self.units = units
        persons = np.repeat(np.arange(units), RECORDS)
        labels = np.zeros(len(persons), np.int64)
        numbers = np.ascontiguousarray(np.arange(len(persons), dtype="<u4"))
        digests = np.pad(numbers.view(np.uint8).reshape(-1, 4), ((0, 0), (0, 28)))
        if plan.data.unit is Unit.PERSON:
            inside = Records(_Numbered(), labels, persons, digests)
        else:
            inside = Records(_Numbered(RECORDS), labels[:units], None, digests[:units])
        self._barrier = Barrier(PrivateImages(plan.data, inside), plan.data, Odometer(self._plan), microbatch=1 << 20)
        self._ears = {name: Ear(crossing.bound) for name, crossing in plan.crossings.items()}

    def members(self, name: str) -> Members:
        """Of one release; where classes take turns, of a whole cycle of them."""
        return np.concatenate([self.of_use(name) for _ in range(self._plan.crossings[name].cycle)])

    def of_use(self, name: str) -> Members:
        """Of one release."""
        ear = self._ears[name]
        ear.heard.clear()
        self._barrier.release(name, ear.query)
        numbers = np.concatenate([np.zeros(0, np.int64), *ear.heard])
        return np.array(list(dict.fromkeys(numbers.tolist())), dtype=np.int64)  # a person once, in the order of places

    def shapes(self, name: str) -> set[int]:
        """How many rows the pages had on which a crossing was asked."""
        return self._ears[name].rows_of_pages


def inclusion_of(name: str, plan: Plan) -> Inclusion:
    """Who takes part in the uses of one crossing."""
    rate = plan.crossings[name].sampler.rate
    listening = Listening(plan, max(200, int(np.ceil(SEEN / rate))))
    cycle = plan.crossings[name].cycle
    return Inclusion(lambda uses: [listening.of_use(name) for _ in range(uses)], listening.units, rate, cycle=cycle)


def singly(plan: Plan) -> Iterator[Finding]:
    """Each record by itself: its own rate, samples that are empty as often as they should be, and no public seed."""
    for name, crossing in plan.crossings.items():
        rate = crossing.sampler.rate
        if rate == 1 or crossing.held:
            continue
        few = Listening(plan, max(1, round(1 / rate)) if rate > FEWEST else FEW)
        drawn = [few.members(name) for _ in range(max(FEWEST_EVENTS, EVENTS // crossing.cycle))]
        yield _each(name, rate, few.units, drawn)
        yield _empty(name, rate, few.units, drawn)
        yield _seeded(name, rate, plan)
        yield _places(name, rate, plan)


def _each(name: str, rate: float, units: int, drawn: list[Members]) -> Finding:
    times = np.bincount(np.concatenate(drawn), minlength=units)
    p = min(1.0, units * min(stats.binomtest(int(t), len(drawn), rate).pvalue for t in (times.min(), times.max())))
    said = f"'{name}': of {units} records the rarest took part {times.min()} and the commonest {times.max()} times"
    said = f"{said} in {len(drawn)} events, {len(drawn) * rate:.1f} expected of each"
    return Finding("inclusion of each", 0, bool(p > RARE), said)


def _empty(name: str, rate: float, units: int, drawn: list[Members]) -> Finding:
    empty = sum(not len(d) for d in drawn)
    chance = (1 - rate) ** units
    p = stats.binomtest(empty, len(drawn), chance).pvalue
    said = f"'{name}': {empty} of {len(drawn)} samples of {units} records are empty, {len(drawn) * chance:.1f} expected"
    return Finding("empty samples", 0, bool(p > RARE), said)


def _seeded(name: str, rate: float, plan: Plan) -> Finding:
    seen = []
    for _ in range(2):
        with seeded(0):
            listening = Listening(plan, max(200, int(np.ceil(SEEN / rate))))
            seen.append([listening.members(name) for _ in range(REPLAYED)])
    same = all(np.array_equal(np.sort(a), np.sort(b)) for a, b in zip(*seen, strict=True))
    sizes = all(len(a) == len(b) for a, b in zip(*seen, strict=True))
    said = "who takes part" if same else "how many take part"
    said = f"the same user seed repeats {said}" if same or sizes else "who takes part has no public seed"
    return Finding("inclusion replay", 0, not (same or sizes), f"'{name}': {said}")


def _places(name: str, rate: float, plan: Plan) -> Finding:
    """One public shape whatever is drawn, and places that have nothing to do with the order of the file."""
    share = plan.crossings[name].share
    listening = Listening(plan, max(8, round(2 * BLOCK / share)))  # numbers on either side of a whole block
    drawn = [d for d in (listening.of_use(name) for _ in range(ORDERED)) if len(d) >= 8]
    in_order = sum(bool((np.diff(d) > 0).all()) for d in drawn)
    shapes = len(listening.shapes(name))
    fixed = isinstance(plan.crossings[name].bound, BatchBound) or shapes <= 1
    said = f"'{name}': {shapes} shapes of pages, {in_order} of {len(drawn)} samples in the order of the file"
    free = isinstance(plan.crossings[name].bound, BatchBound) or in_order <= len(drawn) // 2
    return Finding("places", 0, fixed and free, said)


def across(plan: Plan) -> Iterator[Finding]:
    """Crossings that sample draw apart: who took part in one says nothing of who takes part in the next."""
    rates = {n: c.sampler.rate for n, c in plan.crossings.items() if c.sampler.rate < 1 and not c.held}
    if len(rates) < 2:
        return
    listening = Listening(plan, max(200, int(np.ceil(SEEN / min(rates.values())))))
    drawn: dict[str, list[Members]] = {name: [] for name in rates}
    for _ in range(TURNS):
        for name in rates:
            drawn[name].append(listening.members(name))
    for one, two in combinations(rates, 2):
        both = _shared(drawn[one], drawn[two])
        trials = TURNS * listening.units
        p = stats.binomtest(both, trials, rates[one] * rates[two]).pvalue
        said = (
            f"'{one}' and '{two}' share {both} members, {trials * rates[one] * rates[two]:.1f} expected if drawn apart"
        )
        yield Finding("inclusion across noisy queries", 0, bool(p > RARE), said)


def _shared(one: Sequence[Members], two: Sequence[Members]) -> int:
    return sum(len(np.intersect1d(a, b)) for a, b in zip(one, two, strict=True))
