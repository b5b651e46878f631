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

from sfumato.audit.chance import RARE
from sfumato.audit.checks import seeded
from sfumato.audit.subject import Finding, Inclusion
from sfumato.audit.watch import opened
from sfumato.data.private import PrivateImages, Records
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import AnyBound, Ball, Bound, BoundedSum
from sfumato.privacy.ledger import Ledger
from sfumato.privacy.plan import Plan
from sfumato.types import Unit

Members = NDArray[np.int64]
SEEN = 30  # appearances of all units together that are expected in an event, at least
EVENTS = 400  # in which few records are followed one by one
FEW, FEWEST = 300, 1 / 300  # records that are followed, and the rate below which there are no more of them
TURNS = 300  # in which all crossings are asked, one after the other


class _Numbered:
    """Pixels that are the number of their record, in four bytes; a blank place has none."""

    shape = (1, 1, 4)

    def read(self, rows: Any) -> np.ndarray:
        numbers = (np.asarray(rows) + 1).astype("<u4")
        return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, *self.shape)

    def close(self) -> None:
        """Nothing to free."""


def _numbers(images: Tensor) -> Members:
    flat = images.double().mul(255).round().to(torch.uint8).reshape(-1, 4).cpu().numpy()
    found = np.ascontiguousarray(flat).view("<u4").ravel().astype(np.int64) - 1
    return found[found >= 0]


@dataclass(eq=False)
class _Ear:
    """A query that hears which records it is asked about, and answers nothing."""

    bound: AnyBound
    heard: list[Members] = field(default_factory=list)
    by_class: ClassVar[bool] = False

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        return (1,)

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        self.heard.append(_numbers(images))
        return torch.zeros(len(images), 1, dtype=torch.float64)

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        self.heard.append(_numbers(images))
        return torch.zeros(1, dtype=torch.float64)

    @property
    def query(self) -> Any:
        """As the barrier takes it, of the kind that the bound is for."""
        if isinstance(self.bound, Ball):
            return BatchValue(lambda images, labels: self.rows(images, labels)[0], self.bound, (1,))
        if isinstance(self.bound, Bound) and self.bound.slack:
            return self
        return BoundedSum(self.rows, self.bound, (1,))


class Listening:
    """A real barrier around numbered records; `members(name)` is who took part in one more use of a crossing."""

    def __init__(self, plan: Plan, units: int) -> None:
        self._plan, self.units = opened(plan), units
        persons = np.arange(units) if plan.data.unit is Unit.PERSON else None
        inside = Records(_Numbered(), np.zeros(units, np.int64), persons, np.zeros((units, 32), np.uint8))  # type: ignore[arg-type]
        self._barrier = Barrier(PrivateImages(plan.data, inside), plan.data, Ledger(self._plan), microbatch=1 << 20)
        self._ears = {name: _Ear(crossing.bound) for name, crossing in plan.crossings.items()}

    def members(self, name: str) -> Members:
        """Of one release."""
        ear = self._ears[name]
        ear.heard.clear()
        self._barrier.release(name, ear.query)
        return np.concatenate([np.zeros(0, np.int64), *ear.heard])


def inclusion_of(name: str, plan: Plan) -> Inclusion:
    """Who takes part in the uses of one crossing."""
    rate = plan.crossings[name].sampler.rate
    listening = Listening(plan, max(200, int(np.ceil(SEEN / rate))))
    return Inclusion(lambda events: [listening.members(name) for _ in range(events)], listening.units, rate)


def singly(plan: Plan) -> Iterator[Finding]:
    """Each record by itself: its own rate, samples that are empty as often as they should be, and no public seed."""
    for name, crossing in plan.crossings.items():
        rate = crossing.sampler.rate
        if rate == 1 or crossing.held:
            continue
        few = Listening(plan, max(1, round(1 / rate)) if rate > FEWEST else FEW)
        drawn = [few.members(name) for _ in range(EVENTS)]
        yield _each(name, rate, few.units, drawn)
        yield _empty(name, rate, few.units, drawn)
        yield _seeded(name, rate, plan)


def _each(name: str, rate: float, units: int, drawn: list[Members]) -> Finding:
    times = np.bincount(np.concatenate(drawn), minlength=units)
    p = min(1.0, units * min(stats.binomtest(int(t), len(drawn), rate).pvalue for t in (times.min(), times.max())))
    said = f"'{name}': of {units} records the rarest took part {times.min()} and the commonest {times.max()} times"
    said = f"{said} in {len(drawn)} events, {len(drawn) * rate:.1f} expected of each"
    return Finding("inclusion of each", 0, bool(p > RARE), said)


def _empty(name: str, rate: float, units: int, drawn: list[Members]) -> Finding:
    empty, chance = sum(not len(d) for d in drawn), (1 - rate) ** units
    p = stats.binomtest(empty, len(drawn), chance).pvalue
    said = f"'{name}': {empty} of {len(drawn)} samples of {units} records are empty, {len(drawn) * chance:.1f} expected"
    return Finding("empty samples", 0, bool(p > RARE), said)


def _seeded(name: str, rate: float, plan: Plan) -> Finding:
    seen = []
    for _ in range(2):
        with seeded(0):
            listening = Listening(plan, max(200, int(np.ceil(SEEN / rate))))
            seen.append([listening.members(name) for _ in range(3)])
    same = all(np.array_equal(np.sort(a), np.sort(b)) for a, b in zip(*seen, strict=True))
    said = "the same user seed repeats who takes part" if same else "who takes part has no public seed"
    return Finding("inclusion replay", 0, not same, f"'{name}': {said}")


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
        both, trials = _shared(drawn[one], drawn[two]), TURNS * listening.units
        p = stats.binomtest(both, trials, rates[one] * rates[two]).pvalue
        said = (
            f"'{one}' and '{two}' share {both} members, {trials * rates[one] * rates[two]:.1f} expected if drawn apart"
        )
        yield Finding("inclusion across crossings", 0, bool(p > RARE), said)


def _shared(one: Sequence[Members], two: Sequence[Members]) -> int:
    return sum(len(np.intersect1d(a, b)) for a, b in zip(one, two, strict=True))
