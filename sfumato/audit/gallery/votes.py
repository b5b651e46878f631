"""Bugs of methods in which teachers vote: a wrong sensitivity, a wrong partition, a selection before the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.audit.endtoend import PartitionCanary
from sfumato.audit.gallery.common import KINDS, Bug, add_noise, ledger, noise, record
from sfumato.audit.subject import Array, Pair, Random, Subject
from sfumato.audit.watch import Counting
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import Gaussian
from sfumato.privacy.partition import part_of
from sfumato.privacy.plan import crossing

D, K, TEACHERS = 32, 4, 40
DELTA = 2 * math.sqrt(K)  # one teacher may flip all of its votes
BOUND = Bound(math.sqrt(K))  # the norm of one teacher's votes
SIGMA = DELTA  # mu = 1
NOISE = Gaussian(SIGMA / BOUND.norm)
KEY = bytes(range(32))


def top_k(values: Array, k: int = K) -> Array:
    """The k largest entries of each row, the others zero; among equals the first."""
    kept = np.argsort(-np.abs(values), axis=-1, kind="stable")[..., :k]
    made = np.zeros_like(values)
    np.put_along_axis(made, kept, np.take_along_axis(values, kept, -1), -1)
    return made


def votes(gradients: Array) -> Array:
    """Each teacher's signs on its k largest coordinates; a zero or broken gradient votes nothing."""
    return np.sign(top_k(np.nan_to_num(gradients, nan=0.0, posinf=0.0, neginf=0.0)))


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


def _voting(name: str, sensitivity: float = DELTA, vote: Callable[[Array], Array] = votes,
            choose: Callable[[Array], Array] = lambda total: total) -> Subject:  # fmt: skip
    exact = lambda data: choose(vote(data).sum(0))  # noqa: E731
    projected = lambda value, u, n: add_noise(np.tile(value, (n, 1)), NOISE, BOUND) @ u  # noqa: E731
    return Subject(
        name=name, declared=dict.fromkeys(Relation, sensitivity), sigma=SIGMA, pairs=teacher_pairs, exact=exact,
        projected=projected,
        release=lambda data: add_noise(exact(data), NOISE, BOUND), nothing=(np.zeros((TEACHERS, D)),), grid=BOUND.grid,
    )  # fmt: skip


def half_sensitivity(bug: bool) -> Subject:
    """sqrt(k), the norm of a vote, where 2 sqrt(k), the distance of two, is needed."""
    return _voting("top-k votes", math.sqrt(K) if bug else DELTA)


def select_first(bug: bool) -> Subject:
    """The k winners are chosen before noise is added; choosing them afterwards is post-processing."""
    return _voting("selection", choose=top_k if bug else lambda total: total)


def shared_signs(bug: bool) -> Subject:
    """Signs drawn at random with one fixed seed for all teachers: odd, and sound. The twin draws one for each."""

    def vote(gradients: Array) -> Array:
        kept = top_k(np.nan_to_num(gradients, nan=0.0, posinf=0.0, neginf=0.0))
        peak = np.maximum(np.abs(kept).max(1, keepdims=True), 1e-300)
        uniform = np.random.default_rng(307).uniform(size=(1, D) if bug else kept.shape)
        return np.where(kept == 0, 0.0, np.where(uniform < (1 + kept / peak) / 2, 1.0, -1.0))

    return _voting("random signs", vote=vote)


def batch_as_one(bug: bool) -> Subject:
    """A batch of fakes asks one query each, and is charged as one."""
    steps, batch, sigma = 3, 8, DELTA * math.sqrt(3 if bug else 24)
    mechanism, charged = Gaussian(sigma / BOUND.norm), steps if bug else steps * batch

    def counted() -> tuple[int, int]:
        book, source = ledger({"votes": crossing(BOUND, mechanism.multiplier, times=charged)}), Counting(noise())
        for _ in range(steps):
            for i in range(batch):
                if i == 0 or not bug:
                    book.charge("votes")
                mechanism(torch.zeros(D, dtype=torch.float64), BOUND, source)  # type: ignore[arg-type]
        return source.vectors, sum(book.used.values())

    event = Event("gaussian", sigma, DELTA, BOUND.norm, Relation.REPLACE_ONE, times=charged)
    u = np.zeros(D)
    u[:K] = 1.0
    game = PartitionCanary(lambda v: add_noise(v, mechanism, BOUND), u, steps * batch, accountant.profile([event]))
    return Subject(name="batch of queries", counted=counted, play=game.play, profile=game.profile)


def _identified(ids: Sequence[bytes]) -> Sequence[frozenset[int]]:
    return [frozenset({int(p)}) for p in part_of(ids, TEACHERS, KEY)]


def wrap_around(bug: bool) -> Subject:
    """Parts of equal size, filled by starting over when the records run out."""

    def parts(ids: Sequence[bytes]) -> Sequence[frozenset[int]]:
        size = -(-len(ids) // TEACHERS) + 1
        found: list[set[int]] = [set() for _ in ids]
        for slot in range(TEACHERS * size):
            found[slot % len(ids)].add(slot // size)
        return [frozenset(f) for f in found]

    return Subject(name="partition", parts=parts if bug else _identified)


def sliced(bug: bool) -> Subject:
    """Parts by position: without one record, all later ones move up."""

    def parts(ids: Sequence[bytes]) -> Sequence[frozenset[int]]:
        return [frozenset({i * TEACHERS // len(ids)}) for i in range(len(ids))]

    return Subject(name="partition", parts=parts if bug else _identified)


def shared_optimiser(bug: bool) -> Subject:
    """Teachers take turns on one slot; weights are put back for each, the optimiser's momentum is not."""
    teachers, each, d = 6, 4, 5

    def states(data: Array) -> Array:
        parts, momentum = data.reshape(teachers, each, d), np.zeros((teachers, d))
        weights = np.zeros((teachers, d))
        for _ in range(3):
            for t in range(teachers):
                slot = 0 if bug else t
                momentum[slot] = 0.9 * momentum[slot] + np.clip(parts[t], -1, 1).mean(0) - weights[t]
                weights[t] += 0.1 * momentum[slot]
        return weights

    def pairs(random: Random) -> Iterator[Pair]:
        one = random.normal(size=(teachers * each, d))
        for changed in (0, 9):
            two = one.copy()
            two[changed] = -5.0
            yield Pair("random", Relation.REPLACE_ONE, one, two, changed)

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
