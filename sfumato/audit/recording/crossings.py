"""A crossing that a method made, as a subject: the real query, barrier, sampler and mechanism on made-up records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.tradeoff import Curve, curve_of
from sfumato.audit.checks.inclusion import inclusion_of
from sfumato.audit.recording.correlation import Plain, classes_of
from sfumato.audit.recording.recording_barrier import (
    Asked,
    MadeUp,
    Told,
    few,
    frozen_rng,
    made_up,
    opened,
    with_unit,
    without_unit,
)
from sfumato.audit.recording.subject import Array, Pair, Random, Rows, Subject
from sfumato.privacy.banded import ONE
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.inside import Inside
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.pages import Pages
from sfumato.privacy.plan import Crossing, Plan
from sfumato.privacy.samplers import FullBatch
from sfumato.types import DataSpec

KINDS = ("random", "antipodal", "zero", "white", "constant", "tie", "duplicate")
WILD = ("nan", "infinite", "huge", "tiny", "opposite")  # rows that a contribution might return, right or wrong
NARROW = 16  # coordinates that are drawn as they are; wider differences are drawn along themselves
PLACES = 8  # on a page of an auditor's own barriers
PAGE = 128  # records of a crowd that are summed at once
WHOLE = 2e7  # values of whole-number noise that are drawn as they are


def claims(name: str, plan: Plan) -> dict[str, Any]:
    """What a crossing says of itself, as a subject has it."""
    crossing = plan.crossings[name]
    discrete = crossing.mechanism.kind != "gaussian"

    def curve(relation: Relation) -> Curve:
        return curve_of(accountant.profile([replace(crossing, sampler=FullBatch()).event(relation, 1)]))

    return dict(
        relation=plan.budget.relation,
        # In L2, whatever the noise: that is how answers are compared.
        declared={r: _distance(crossing, r) for r in Relation},
        sigma=crossing.mechanism.std(crossing.bound),
        discrete=discrete,
        laplace=crossing.mechanism.kind == "discrete-laplace",
        curve=curve if discrete else None,  # smooth enough for a Gaussian only where its scale is large
        grid=crossing.bound.grid / (ONE if crossing.cycle > 1 else 1),
    )


def _distance(crossing: Crossing, relation: Relation) -> float:
    event = crossing.event(relation, 1)
    if event.mechanism != "discrete-laplace":
        return event.sensitivity
    return max(math.sqrt(n) * by for n, by in event.patterns)


def subject_of(asked: Asked, plan: Plan) -> Subject:
    """The crossing as a subject."""
    query = asked.query
    assert isinstance(query, BoundedSum)
    crossing = plan.crossings[asked.name]
    spec = plan.data
    inside = Around(asked, plan)
    return Subject(
        name=asked.name,
        pairs=lambda random: image_pairs(spec, random),
        exact=inside.exact,
        release=inside.release,
        anew=inside.anew,
        projected=inside.projected,
        nothing=(None,),
        rows=inside.rows(spec, lambda records: _jacobian(query, records, asked.public, asked.device)),
        inclusion=inclusion_of(asked.name, plan) if crossing.sampler.rate < 1 else None,
        parts=classes_of(asked.name, plan),
        **claims(asked.name, plan),
    )


def wild_subject(asked: Asked, plan: Plan) -> Subject:
    """The same crossing with rows of the worst kind in place of the method's own: the bound must hold regardless."""
    query = asked.query
    assert isinstance(query, BoundedSum)
    spec = plan.data
    shape = query.shape
    crossing = plan.crossings[asked.name]

    def exact(data: tuple[MadeUp, dict[int, str]]) -> Array:
        records, wild = data

        def rows(images: Tensor, labels: Tensor, *public: object) -> Tensor:
            out = torch.ones((len(images), *shape), device=images.device)
            return torch.stack(
                [_wild(out[i], wild.get(round(float(images[i, 0, 0, 0]) * 255), "")) for i in range(len(out))]
            )

        return Around(replace(asked, query=replace(query, contribution=rows)), plan).exact(records)

    def pairs(random: Random) -> Iterator[Pair]:
        records = made_up(spec, random, 3)
        records.images[:, 0, 0, 0] = (0 if records.persons is None else records.persons) + np.arange(
            len(records.images)
        ) * (records.persons is None)
        for kind in WILD:
            yield Pair(kind, Relation.REPLACE_ONE, (records, {}), (records, {0: kind}))
            gone = without_unit(records, 0)
            yield Pair(kind, Relation.ADD_REMOVE, (records, {0: kind}), (gone, {}))

    declared = {r: crossing.event(r, 1).sensitivity for r in Relation}
    return Subject(name=f"{asked.name}, wild rows", declared=declared, pairs=pairs, exact=exact)


VALUES = {"nan": torch.nan, "infinite": torch.inf, "huge": 1e30, "tiny": 1e-30, "opposite": -1.0, "turned": -1e30}


def _wild(row: Tensor, kind: str) -> Tensor:
    return row * 0 + VALUES[kind] if kind else row


def along(crossing: Crossing, noise: Any, exact: Array, direction: Array, n: int, device: str = "cpu") -> Array:
    """Draws of the real mechanism along a direction: on its few coordinates, or, since Gaussian noise looks the same
    from every side, on the length along it."""
    used = np.flatnonzero(direction)
    bound = crossing.bound
    if len(used) <= NARROW or (bound.integer and n * len(used) <= WHOLE):
        value = torch.from_numpy(np.tile(exact.ravel()[used], (n, 1)))
        return crossing.mechanism(value.to(device), bound, noise).cpu().numpy() @ direction.ravel()[used]
    on_grid = np.rint(float((exact * direction).sum()) / bound.grid) * bound.grid
    value = torch.full((n,), on_grid, dtype=torch.float64, device=device)
    return crossing.mechanism(value, bound, noise).cpu().numpy()


def everyone(asked: Asked, plan: Plan, records: MadeUp, query: Any = None) -> Tensor:
    """The exact answer if all take part, each unit at a place of its own."""
    inner = Inside(records.box(plan.data), plan.data, Odometer(plan), device=asked.device)
    query = query or asked.query
    units = np.arange(inner.sums.units)
    if isinstance(query, BatchValue):
        return inner.sums.value(asked.name, query, units, asked.public)
    places = int(records.units.max(initial=0)) + 1
    pages = Pages.holding(places, most=PLACES if places <= 2 * PLACES else PAGE)
    placed = Told(records.units).placed(pages, units, ordered=True, noise=inner.noise)
    return inner.sums.total(asked.name, query, placed, len(units), asked.public)


@dataclass(frozen=True, eq=False)
class _Nothing:
    """A question with the bound and the answer of another, to which every record adds nothing."""

    query: Any
    by_class: ClassVar[bool] = False

    @classmethod
    def of(cls, query: Any) -> Any:
        """Of sums; other questions are not put where there are no data."""
        if isinstance(query, BoundedSum):
            return replace(query, contribution=lambda images, *_: images.new_zeros(len(images), *query.shape))
        return query if isinstance(query, BatchValue) else cls(query)

    @property
    def bound(self) -> Any:
        return self.query.bound

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        return tuple(self.query.answer_shape(classes))

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        return torch.zeros(self.answer_shape(0), dtype=torch.float64, device=images.device)


class Around:
    """Barriers around one crossing, opened for repetition."""

    def __init__(self, asked: Asked, plan: Plan) -> None:
        self._asked = asked
        self._plan = opened(plan)
        self._blind = self._barrier(None)
        self._plain = Plain(self._crossing)

    @property
    def _crossing(self) -> Crossing:
        return self._plan.crossings[self._asked.name]

    def _barrier(self, records: MadeUp | None) -> Barrier:
        spec = few(self._plan.data)
        box = None if records is None else records.box(spec)
        return Barrier(box, spec, Odometer(self._plan), device=self._asked.device, microbatch=PLACES)

    def exact(self, records: MadeUp) -> Array:
        """The answer if everyone takes part, as the mechanism gets it."""
        grid = self._crossing.bound.grid
        with frozen_rng(self._asked.device):
            total = everyone(self._asked, self._plan, records)
        return (torch.round(total / grid) * grid).cpu().numpy()

    def release(self, records: MadeUp | None) -> Array:
        """The noisy answer; without data, to a question of the same shape that takes no time."""
        if records is None:
            return self._plain(self._noise(self._blind))
        answer = self._barrier(records).release(self._asked.name, self._asked.query, *self._asked.public)
        return answer.cpu().numpy()

    def anew(self) -> Array:
        """Noise of a barrier that was just made."""
        return self._noise(self._barrier(None))

    def _noise(self, blind: Barrier) -> Array:
        return blind.release(self._asked.name, _Nothing.of(self._asked.query), *self._asked.public).cpu().numpy()

    def projected(self, exact: Array, direction: Array, n: int) -> Array:
        """Draws along a direction."""
        return along(self._crossing, behind(self._blind).noise, exact, direction, n, self._asked.device)

    def rows(self, spec: DataSpec, jacobian: Callable[[MadeUp], Array]) -> Rows:
        """What each record contributes."""
        query = self._asked.query
        public = self._asked.public
        device = self._asked.device

        def of(records: MadeUp) -> Array:
            return np.asarray(contributions(query, records, public, device).cpu(), dtype=np.float64)

        def change(records: MadeUp, j: int, random: Random, kind: str) -> MadeUp:
            images = records.images.copy()
            labels = records.labels.copy()
            images[j] = {"zero": 0, "huge": 255}.get(kind, random.integers(0, 256, images[j].shape, dtype=np.uint8))
            labels[j] = (labels[j] + 1) % len(spec.classes)
            return replace(records, images=images, labels=labels)

        def alone(records: MadeUp, i: int) -> MadeUp:
            return MadeUp(records.images[i : i + 1], records.labels[i : i + 1])

        return Rows(of, lambda random: made_up(spec, random, 6), change, jacobian, alone)


def tensors(records: MadeUp, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Images and labels as a query gets them."""
    return torch.from_numpy(records.images).to(device).float().div_(255), torch.from_numpy(records.labels).to(device)


def contributions(query: Any, records: MadeUp, public: tuple[Any, ...], device: str = "cpu") -> Tensor:
    """Rows as the barrier would get them; any randomness of the contribution's own is held still."""
    with frozen_rng(device), torch.no_grad():
        ask = query.value if isinstance(query, BatchValue) else query.rows
        rows: Tensor = ask(*tensors(records, device), *public)
        return rows


def _jacobian(query: BoundedSum, records: MadeUp, public: tuple[Any, ...], device: str) -> Array:
    """Size of the derivative of each row by each image; zeros where the contribution has none."""
    images, labels = tensors(records, device)
    images.requires_grad_()
    n = len(images)
    sizes = np.zeros((n, n))
    with frozen_rng(device), torch.enable_grad():
        rows = query.contribution(images, labels, *public)
        if not rows.requires_grad:
            return sizes
        for i in range(n):
            (g,) = torch.autograd.grad(
                rows[i].double().square().sum() + rows[i].double().sum(), images, retain_graph=True, allow_unused=True
            )
            if g is not None:
                sizes[i] = g.flatten(1).abs().amax(1).cpu().numpy()
    return sizes


def image_pairs(spec: DataSpec, random: Random, units: int = 4, kinds: tuple[str, ...] = KINDS) -> Iterator[Pair]:
    """Neighbours under both relations, one unit of each kind against others."""
    base = made_up(spec, random, units)
    for kind in kinds:
        one = with_unit(base, 0, kind, spec, random)
        yield Pair(kind, Relation.ADD_REMOVE, one, without_unit(one, 0))
        other = with_unit(one, 0, "opposite" if kind == "antipodal" else "random", spec, random)
        yield Pair(kind, Relation.REPLACE_ONE, one, other)
        same = replace(other, labels=one.labels)
        yield Pair(kind, Relation.REPLACE_ONE, one, same)
