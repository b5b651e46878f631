"""The votes of DataLens, to plant bugs in: real compression, ballots, parts, barrier and discrete noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.tradeoff import Curve, curve_of
from sfumato.audit.gallery.common import KINDS, SPEC, noise, odometer, record
from sfumato.audit.recording.recording_barrier import made_up
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.methods.teachers.votes import TopKSigns
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionHandle, Partitions, PartitionSum, hide, inside
from sfumato.privacy.plan import Crossing, crossing

D = 32
K = 4
TEACHERS = 40
VOTES = TopKSigns(K, stochastic=False)
BALLOT = VOTES.bound(D)
SIGMA = 2 * math.sqrt(K)  # mu = 1: one teacher may turn over all of its votes
CROSSING = crossing(BALLOT, SIGMA / BALLOT.norm, times=1 << 40, held=True)
KEY = bytes(range(32))
Vote = Callable[[Tensor, torch.Generator], Tensor]


class Bare:
    """The model of teachers without a state, whose gradients are handed to them."""

    teacher_batch = 1

    def block(self, parts: int, device: str) -> int:
        """All in one."""
        return parts

    def make(self, count: int, random: torch.Generator, device: str) -> Bare:
        """Nothing to make."""
        return self

    def update(self, images: Tensor, labels: Tensor, *public: Any) -> None:
        """Nothing to learn."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing."""


@lru_cache(maxsize=1)
def teachers() -> PartitionHandle:
    """Real parts, each with a few made-up records."""
    records = made_up(SPEC, np.random.default_rng(0), 12 * TEACHERS)
    return hide(Partitions(Bare(), TEACHERS, records.stored(), SPEC, Relation.ADD_REMOVE, KEY, "cpu"))


@lru_cache(maxsize=1)
def barrier() -> Barrier:
    """A real barrier, with votes that may be asked for at will."""
    return open_barrier(odometer({"votes": CROSSING}))


def open_barrier(book: Odometer) -> Barrier:
    """A real barrier with other books."""
    return Barrier(None, SPEC, book, noise=noise())


def question(vote: Vote = VOTES.encode, queries: int = 1) -> PartitionSum:
    """All teachers vote on the gradients (teachers, queries, D) that are handed to them."""
    return PartitionSum(teachers(), lambda teachers, random, g: vote(g, random), BALLOT, (D,), queries)


def given(gradients: Array) -> Tensor:
    """Gradients (teachers, D) as a question about one image takes them."""
    return torch.from_numpy(np.asarray(gradients, dtype=np.float64))[:, None]


def tally(gradients: Array, vote: Vote = VOTES.encode) -> Array:
    """The exact sum of votes."""
    return inside(teachers()).total(question(vote), 1, None, (given(gradients),))[0].numpy()


def add_votes_noise(value: Array, crossing: Crossing = CROSSING) -> Array:
    """Noise of the real mechanism."""
    return crossing.mechanism(torch.from_numpy(np.asarray(value, np.float64)), crossing.bound, noise()).numpy()


@lru_cache(maxsize=4)
def claim(crossing: Crossing) -> Curve:
    """What one use of a crossing says of itself."""
    return curve_of(accountant.profile([crossing.event(Relation.ADD_REMOVE, 1)]))


def teacher_pairs(random: Random) -> Iterator[Pair]:
    """One teacher changes in any way: what a record in its part can do, under either relation."""
    for kind in KINDS:
        one = random.normal(size=(TEACHERS, D))
        one[0] = record("random", D, random)
        two = one.copy()
        two[0] = -one[0] if kind == "antipodal" else record(kind, D, random)
        for relation in Relation:
            yield Pair(kind, relation, one, two)
    tied = np.zeros((TEACHERS, D))  # half of the teachers vote for each of two groups of k coordinates
    tied[: TEACHERS // 2, :K] = 1.0
    tied[TEACHERS // 2 :, K : 2 * K] = 1.0
    swung = tied.copy()
    swung[0] = np.roll(tied[0], K)
    yield Pair("tie", Relation.REPLACE_ONE, tied, swung)


def voting(
    name: str,
    *,
    crossing: Crossing = CROSSING,
    vote: Vote = VOTES.encode,
    choose: Callable[[Array], Array] | None = None,
    **parts: Any,
) -> Subject:
    """The votes as a subject; `choose` is something that happens to the sum before the noise."""

    def exact(data: Array) -> Array:
        return tally(data, vote) if choose is None else choose(tally(data, vote))

    def release(data: Array) -> Array:
        if choose is not None:
            return add_votes_noise(exact(data))
        return barrier().release("votes", question(vote), given(data))[0].numpy()

    defaults = dict(
        declared=dict.fromkeys(Relation, crossing.event(Relation.ADD_REMOVE).sensitivity),
        curve=lambda _: claim(crossing),
        sigma=SIGMA,
        discrete=True,
        grid=BALLOT.grid,
        pairs=teacher_pairs,
        exact=exact,
        release=release,
        projected=lambda value, u, n: add_votes_noise(np.tile(value, (n, 1))) @ u,
        nothing=(np.zeros((TEACHERS, D)),),
    )
    return Subject(name=name, **(defaults | parts))  # type: ignore[arg-type]
