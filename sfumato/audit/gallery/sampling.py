"""Bugs in who takes part and in what is counted."""

from __future__ import annotations

import numpy as np
import torch

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.audit.gallery.common import Bug, add_noise, ledger, noise
from sfumato.audit.subject import Array, Inclusion, Subject
from sfumato.audit.watch import Counting
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import Gaussian
from sfumato.privacy.plan import crossing
from sfumato.privacy.samplers import Poisson

BOUND = Bound(1.0)


def _public() -> np.random.Generator:
    """Randomness of the shuffles and indices, which has nothing to do with the noise."""
    return np.random.default_rng(np.frombuffer(noise().take(16), dtype=np.uint32))  # type: ignore[attr-defined]


def shuffled(bug: bool) -> Subject:
    """Epochs over a shuffled set, charged as if each batch had been drawn by coins."""
    units, batches, sigma = 400, 20, 0.6
    sampler, mechanism = Poisson(1 / batches), Gaussian(sigma)

    def draw(events: int) -> list[np.ndarray]:
        if not bug:
            return [sampler.draw(units, noise()) for _ in range(events)]  # type: ignore[arg-type]
        epochs = -(-events // batches)
        return [b for _ in range(epochs) for b in np.array_split(_public().permutation(units), batches)][:events]

    def play(present: bool, runs: int) -> Array:
        """One epoch of 20 records: the others pull by -1, the canary by +1, or not at all where it is absent."""
        if bug:
            canary = np.eye(batches)[_public().integers(0, batches, runs)]
            others = 1.0 - canary
        else:
            taking = noise().uniform(runs * batches * batches).reshape(runs, batches, batches) < sampler.rate  # type: ignore[attr-defined]
            canary, others = taking[..., 0].astype(float), taking[..., 1:].sum(2)
        return add_noise(canary * present - others, mechanism, BOUND).max(1)

    event = Event("gaussian", sigma, 1.0, 1.0, Relation.ADD_REMOVE, rate=1 / batches, times=batches)
    return Subject(name="loader", inclusion=Inclusion(draw, units, 1 / batches), play=play,
                   profile=accountant.profile([event]))  # fmt: skip


def one_index(bug: bool) -> Subject:
    """One critic is drawn for a batch of fakes, and every fake is charged as if it had drawn its own."""
    critics, batch, steps, sigma = 50, 64, 8, 2.0
    mechanism = Gaussian(sigma)

    def indices(events: int) -> np.ndarray:
        if bug:
            return np.repeat(_public().integers(0, critics, -(-events // batch)), batch)[:events]
        return _public().integers(0, critics, events)

    def play(present: bool, runs: int) -> Array:
        chosen = indices(runs * steps * batch).reshape(runs, steps, batch) == 0
        along = add_noise(np.where(chosen, 1.0 if present else -1.0, 0.0), mechanism, BOUND)
        return along.sum(2).max(1)

    event = Event("gaussian", sigma, 2.0, 1.0, Relation.REPLACE_ONE, rate=1 / critics, times=steps * batch)
    return Subject(name="critic index", play=play, profile=accountant.profile([event]), inclusion=Inclusion(
        lambda n: list(indices(n)[:, None]), critics, 1 / critics, law="one"))  # fmt: skip


def one_more(bug: bool) -> Subject:
    """`range(steps + 1)`: the last step is drawn and not charged."""
    steps, mechanism = 10, Gaussian(1.0)

    def counted() -> tuple[int, int]:
        book, source = ledger({"step": crossing(BOUND, 1.0, times=steps)}), Counting(noise())
        for step in range(steps + 1 if bug else steps):
            if step < steps:
                book.charge("step")
            mechanism(torch.zeros(3, dtype=torch.float64), BOUND, source)  # type: ignore[arg-type]
        return source.vectors, sum(book.used.values())

    return Subject(name="step count", counted=counted)


BUGS = (
    Bug("B09", "shuffled epochs charged as Poisson sampling", shuffled,
        ("inclusion sizes", "inclusion epochs", "inclusion independence", "end to end"), level=2, runs=12_000),
    Bug("B21", "one critic index a batch, charged for each sample", one_index,
        ("inclusion independence", "end to end"), level=2, runs=8000),
    Bug("B23", "one step more than accounted", one_more, ("draws = events",)),
)  # fmt: skip
