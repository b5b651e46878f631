"""Bugs of methods in which teachers vote: a wrong sensitivity, a wrong partition, a selection before the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.audit.gallery.common import SPEC, Bug, odometer
from sfumato.audit.gallery.topagg import (
    BALLOT,
    CROSSING,
    KEY,
    SIGMA,
    TEACHERS,
    VOTES,
    Bare,
    D,
    K,
    open_barrier,
    question,
    teachers,
    voting,
)
from sfumato.audit.games.end_to_end import PartitionCanary
from sfumato.audit.recording.recording_barrier import Counting, MadeUp, made_up
from sfumato.audit.recording.replay import answered, members
from sfumato.audit.recording.subject import Array, Pair, Random, Subject
from sfumato.engine.teachers.critics import Critics
from sfumato.methods.teachers.votes import TopKSigns, largest
from sfumato.privacy.barrier import behind
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import Partitions, PartitionSum, inside
from sfumato.privacy.plan import Crossing, crossing


def half_sensitivity(bug: bool) -> Subject:
    """sqrt(k), the norm of a vote, where 2 sqrt(k), the distance of two, is needed."""
    return voting("top-k votes", crossing=replace(CROSSING, held=not bug))


def select_first(bug: bool) -> Subject:
    """The k winners are chosen before noise is added; choosing them afterwards is post-processing."""

    def winners(total: Array) -> Array:
        selection = np.zeros_like(total)
        kept = largest(torch.from_numpy(np.abs(total)), K).numpy()
        selection[kept] = total[kept]
        return selection

    return voting("selection", choose=winners if bug else None)


def shared_signs(bug: bool) -> Subject:
    """Signs drawn at random with one fixed seed for all teachers: odd, and sound. The twin draws one for each."""
    votes = TopKSigns(K)

    def vote(gradients: Tensor, random: torch.Generator) -> Tensor:
        one = lambda g: votes.choose(g, torch.Generator().manual_seed(307))  # noqa: E731
        places, signs = torch.vmap(one, randomness="same")(gradients)
        assert places is not None
        return torch.zeros(gradients.shape, dtype=torch.int8).scatter_(-1, places, signs)

    return voting("random signs", vote=vote if bug else votes.encode)


class _OneABatch:
    """Books that count a batch of questions as one use."""

    def __init__(self, book: Odometer) -> None:
        self._book = book

    @property
    def used(self) -> Mapping[str, int]:
        return self._book.used

    def charge(self, name: str, uses: int = 1) -> Crossing:
        return self._book.charge(name)

    def answered(self, name: str, answer: Tensor) -> None:
        """Not written down."""


def batch_as_one(bug: bool) -> Subject:
    """A batch of fakes asks one query each, and is charged as one."""
    steps = 3
    batch = 8
    charged = steps if bug else steps * batch
    votes_crossing = crossing(BALLOT, SIGMA * math.sqrt(charged) / BALLOT.norm, times=charged, held=True)

    def counted() -> tuple[int, int]:
        book = odometer({"votes": votes_crossing})
        barrier = open_barrier(_OneABatch(book) if bug else book)  # type: ignore[arg-type]
        behind(barrier).noise = source = Counting(behind(barrier).noise)
        for _ in range(steps):
            barrier.release("votes", question(queries=batch), torch.zeros(TEACHERS, batch, D))
            behind(barrier)._released = dict(book.used)  # else the barrier itself would refuse the next one
        return source.values // D, book.used["votes"]

    free = open_barrier(odometer({"votes": replace(votes_crossing, times=1 << 40)}))
    canary = int(np.flatnonzero(np.diff(inside(teachers())._starts))[0])

    def query(votes: Array) -> Array:
        gradients = torch.zeros(TEACHERS, len(votes), D)
        gradients[canary] = torch.from_numpy(votes)
        return free.release("votes", question(queries=len(votes)), gradients).numpy()

    u = np.r_[np.ones(K), np.zeros(D - K)]
    profile = accountant.profile([votes_crossing.event(Relation.ADD_REMOVE)])
    game = PartitionCanary(query, u, steps * batch, profile)
    return Subject(name="batch of queries", counted=counted, play=game.play, profile=game.profile)


def _partitioned(swap: Callable[[int], NDArray[np.int64]] | None) -> Subject:
    """Real parts around named records; `swap(records)` gives, in order of the parts, who fills each of equal size."""

    def parts(names: Sequence[bytes]) -> Sequence[frozenset[int]]:
        records = MadeUp(np.zeros((len(names), *SPEC.shape), np.uint8), np.zeros(len(names), np.int64)).stored()
        records.digests = np.frombuffer(b"".join(n.ljust(32, b".") for n in names), np.uint8).reshape(-1, 32)
        partitions = Partitions(Bare(), TEACHERS, records, SPEC, Relation.ADD_REMOVE, KEY, "cpu")
        if swap is not None:
            order = swap(len(names))
            partitions._order = order
            partitions._starts = np.arange(TEACHERS + 1) * len(order) // TEACHERS
        return members(partitions, np.arange(len(names)))

    return Subject(name="partition", parts=parts)


def wrap_around(bug: bool) -> Subject:
    """Parts of equal size, filled by starting over when the records run out."""

    def filled(records: int) -> NDArray[np.int64]:
        return np.arange(TEACHERS * (-(-records // TEACHERS) + 1)) % records

    return _partitioned(filled if bug else None)


def sliced(bug: bool) -> Subject:
    """Parts by position: without one record, all later ones move up."""
    return _partitioned(np.arange if bug else None)


@dataclass(frozen=True)
class _Slots:
    """A model of critics that take turns on one slot, or have one each."""

    critics: Critics
    shared: bool

    @property
    def teacher_batch(self) -> int:
        return self.critics.teacher_batch

    def block(self, parts: int, device: str) -> int:
        return parts

    def make(self, count: int, random: torch.Generator, device: str) -> _Turns:
        return _Turns(self, count, random)


class _Turns:
    """As the official code does it: the weights of each teacher are put into a slot and back; Adam's moments stay."""

    def __init__(self, model: _Slots, count: int, random: torch.Generator) -> None:
        self.teachers = model.critics.make(count, random)
        slots = [model.critics.make(1, random) for _ in range(1 if model.shared else count)]
        self._slots = slots * count if model.shared else slots

    def update(self, images: Tensor, labels: Tensor, *public: Any) -> None:
        for i, slot in enumerate(self._slots):
            for name, weights in slot.weights.items():
                weights.copy_(self.teachers.weights[name][i : i + 1])
            slot.update(images[i : i + 1], labels[i : i + 1], *public)
            for name, weights in slot.weights.items():
                self.teachers.weights[name][i : i + 1].copy_(weights)

    def state_dict(self) -> dict[str, Tensor]:
        return self.teachers.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.teachers.load_state_dict(dict(state))


def shared_optimiser(bug: bool) -> Subject:
    """Real critics; the moments of one teacher's optimiser are handed to the next."""
    model = _Slots(Critics(SPEC.shape, len(SPEC.classes), width=2, hidden=4, teacher_batch=2), shared=bug)
    public = torch.linspace(0, 1, 3 * 64).view(3, *SPEC.shape), torch.tensor([0, 1, 0])

    def states(records: MadeUp) -> list[NDArray[np.uint8]]:
        parts = Partitions(model, 6, records.stored(), SPEC, Relation.REPLACE_ONE, KEY, "cpu")
        for _ in range(3):
            parts.train(*public)
        query = PartitionSum(
            teachers(),
            lambda teachers, random, x, y: VOTES.encode(teachers.teachers.directions(x, y), random),
            VOTES.bound(64),
            (64,),
            3,
        )
        return answered(parts, query, 1, public)[1]

    def pairs(random: Random) -> Iterator[Pair]:
        one = made_up(SPEC, random, 24)
        for changed in (0, 9):
            images = one.images.copy()
            images[changed] = 255 - images[changed]
            yield Pair("opposite", Relation.REPLACE_ONE, one, replace(one, images=images), changed)

    return Subject(name="optimiser", pairs=pairs, teachers=states)


BUGS = (
    Bug(
        "B02", "sensitivity sqrt(k) in place of 2 sqrt(k)", half_sensitivity, ("sensitivity", "step audit"), draws=4000
    ),
    Bug("B03", "a batch of fakes charged as one query", batch_as_one, ("draws = events", "end to end"), level=2),
    Bug("B04", "a record in two teachers", wrap_around, ("teachers touched",)),
    Bug("B05", "partition by position under add-remove", sliced, ("paired partition",)),
    Bug("B06", "optimiser state shared by teachers", shared_optimiser, ("teachers moved",)),
    Bug("B07", "top-k before the noise", select_first, ("sensitivity", "step audit"), draws=4000),
    Bug("B26", "sign draws with one fixed seed for all teachers", shared_signs, draws=4000),
)
