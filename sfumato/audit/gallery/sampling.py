"""Bugs in who takes part and in what is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.audit.gallery import engine
from sfumato.audit.gallery.common import Bug, add_noise, noise, odometer
from sfumato.audit.recording.recording_barrier import Counting
from sfumato.audit.recording.subject import Array, Inclusion, Subject
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import Gaussian
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson

BOUND = Bound(1.0)


def _public() -> np.random.Generator:
    """Randomness of the shuffles and indices, which has nothing to do with the noise."""
    return np.random.default_rng(np.frombuffer(noise().take(16), dtype=np.uint32))


@dataclass
class _Shuffled:
    """Batches of a shuffled set, epoch after epoch, in place of the sampler; it states the rate of one."""

    batches: int
    _left: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return 1 / self.batches

    def draw(self, units: int, noise: object) -> NDArray[np.int64]:
        self._left = self._left or np.array_split(_public().permutation(units), self.batches)
        return self._left.pop()


@dataclass(frozen=True)
class _Heard:
    """A query that writes down which records it was asked about, by their first value."""

    query: ClippedGradient
    seen: list[NDArray[np.int64]] = field(default_factory=list)
    by_class: bool = False

    @property
    def bound(self) -> Bound:
        return self.query.bound

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        return self.query.answer_shape(classes)

    def total(self, images: Tensor, labels: Tensor, *public: object, there: Tensor | None = None) -> Tensor:
        assert there is not None
        self.seen.append(images[there][:, 0, 0, 0].round().long().numpy())
        return self.query.total(images, labels, there=there)


def shuffled(bug: bool) -> Subject:
    """Epochs over a shuffled set, charged as if each batch had been drawn by coins."""
    units = 400
    batches = 20
    query = engine.linear()
    sampler = _Shuffled(batches) if bug else Poisson(1 / batches)
    crossing = engine.free(query, 0.6, sampler=sampler)
    named = np.c_[np.arange(units), np.zeros((units, engine.D - 1))]

    def draw(events: int) -> list[NDArray[np.int64]]:
        heard = _Heard(query)
        barrier = engine.barrier(crossing, named)
        drawn = []
        for _ in range(events):
            heard.seen.clear()
            barrier.release("gradient", heard)  # type: ignore[arg-type]
            drawn.append(np.concatenate([np.zeros(0, np.int64), *heard.seen]))
        return drawn

    pull = float(engine.total(query, 5 * np.eye(engine.D)[:1])[0])  # of a record, as the engine clips it

    def play(present: bool, runs: int) -> Array:
        """One epoch of 20 records: the others pull one way, the canary the other, or not at all where it is absent."""
        if bug:
            canary = np.eye(batches)[_public().integers(0, batches, runs)]
            others = 1.0 - canary
        else:  # as many coins as there are records in all batches of all runs
            coins = np.zeros(runs * batches * batches)
            coins[sampler.draw(len(coins), noise())] = 1
            taking = coins.reshape(runs, batches, batches)
            canary = taking[..., 0]
            others = taking[..., 1:].sum(2)
        noisy = add_noise(pull * (canary * present - others), crossing.mechanism, crossing.bound)
        return np.asarray(noisy.max(1), dtype=np.float64)

    profile = accountant.profile([crossing.event(Relation.ADD_REMOVE, batches)])
    return Subject(name="loader", inclusion=Inclusion(draw, units, 1 / batches), play=play, profile=profile)


def one_index(bug: bool) -> Subject:
    """One critic is drawn for a batch of fakes, and every fake is charged as if it had drawn its own."""
    critics = 50
    batch = 64
    steps = 8
    sigma = 2.0
    mechanism = Gaussian(sigma)

    def indices(events: int) -> np.ndarray:
        if bug:
            return np.repeat(_public().integers(0, critics, -(-events // batch)), batch)[:events]
        return _public().integers(0, critics, events)

    def play(present: bool, runs: int) -> Array:
        chosen = indices(runs * steps * batch).reshape(runs, steps, batch) == 0
        along = add_noise(np.where(chosen, 1.0 if present else -1.0, 0.0), mechanism, BOUND)
        return np.asarray(along.sum(2).max(1), dtype=np.float64)

    event = Event("gaussian", sigma, 2.0, 1.0, Relation.REPLACE_ONE, rate=1 / critics, times=steps * batch)
    return Subject(
        name="critic index",
        play=play,
        profile=accountant.profile([event]),
        inclusion=Inclusion(lambda n: list(indices(n)[:, None]), critics, 1 / critics, law="one"),
    )


def one_more(bug: bool) -> Subject:
    """`range(steps + 1)`: the last step is drawn and not charged."""
    steps = 10
    mechanism = Gaussian(1.0)

    def counted() -> tuple[int, int]:
        book = odometer({"step": crossing(BOUND, 1.0, times=steps)})
        source = Counting(noise())
        for step in range(steps + 1 if bug else steps):
            if step < steps:
                book.charge("step")
            mechanism(torch.zeros(3, dtype=torch.float64), BOUND, source)  # type: ignore[arg-type]
        return source.vectors, sum(book.used.values())

    return Subject(name="step count", counted=counted)


BUGS = (
    Bug(
        "B09",
        "shuffled epochs charged as Poisson sampling",
        shuffled,
        ("inclusion sizes", "inclusion epochs", "inclusion independence", "end to end"),
        level=2,
        runs=12_000,
    ),
    Bug(
        "B21",
        "one critic index a batch, charged for each sample",
        one_index,
        ("inclusion independence", "end to end"),
        level=2,
        runs=8000,
    ),
    Bug("B23", "one step more than accounted", one_more, ("draws = events",)),
)
