"""A crossing of held parts as a subject, and the game of a whole part as a canary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.audit.games.end_to_end import PartitionCanary, likelihood
from sfumato.audit.recording.crossings import VALUES, WILD, along, claims
from sfumato.audit.recording.recording_barrier import Asked, Opened, few, made_up, opened
from sfumato.audit.recording.replay import KINDS, UNITS, Replay
from sfumato.audit.recording.subject import Array, Inclusion, Pair, Random, Subject
from sfumato.privacy.barrier import Barrier, behind
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.partitions import PartitionSum, hide
from sfumato.privacy.plan import Plan

DRAWN = 4e6  # noise values of a game on all coordinates


def votes_subject(asked: Asked, plan: Plan, kinds: tuple[str, ...] = KINDS) -> Subject:
    """The crossing as a subject, on neighbouring records."""
    replay = Replay(asked, plan, kinds)
    blind = Blind(asked, plan)
    return Subject(
        name=asked.name,
        queries=replay.query.queries,
        pairs=replay.pairs,
        exact=replay.total,
        teachers=replay.teachers,
        parts=replay.membership,
        release=blind.release,
        nothing=(None,),
        inclusion=blind.inclusion() if plan.crossings[asked.name].sampler.rate < 1 else None,
        **claims(asked.name, plan),
    )


def turned_subject(asked: Asked, plan: Plan) -> Subject:
    """The same crossing with one part's terms of the worst kind, or turned over: the bound must hold regardless."""
    wild = Wild(asked, plan)
    blind = Blind(asked, plan)
    return Subject(
        name=f"{asked.name}, wild terms",
        queries=wild.query.queries,
        pairs=wild.pairs,
        exact=wild.total,
        release=blind.release,
        projected=blind.projected,
        history=wild.without if plan.crossings[asked.name].sampler.rate < 1 else None,
        **claims(asked.name, plan),
    )


class Wild:
    """One part says anything at all; the others say one thing, and hold still."""

    def __init__(self, asked: Asked, plan: Plan) -> None:
        replay = Replay(asked, plan)
        self.query = replay.query
        self._asked = asked
        records = made_up(plan.data, np.random.default_rng(5), UNITS)
        self._parts = replay.parts(records.stored(), plan.budget.relation)
        self.who = int(np.flatnonzero(np.diff(self._parts._starts))[0])

    def pairs(self, random: Random) -> Iterator[Pair]:
        """A part that says the usual against one that says another thing."""
        for relation in Relation:
            yield from (Pair(kind, relation, "", kind, self.who) for kind in WILD)
            yield Pair("turned", relation, "huge", "turned", self.who)

    def without(self, kind: str) -> list[tuple[frozenset[int], Array]]:
        """The exact answer where that part is not asked."""
        asked = torch.arange(self._parts.parts)[:, None].expand(-1, self.query.queries) != self.who
        return [(frozenset(range(self._parts.parts)) - {self.who}, self.total(kind, asked))]

    def total(self, kind: str, asked: Tensor | None = None) -> Array:
        """The exact answer if the part says this."""
        start = 0

        def rows(teachers: Any, random: torch.Generator, *public: Any) -> Tensor:
            nonlocal start
            there = min(self._parts._block, self._parts.parts - start)
            said = torch.ones(there, *self.query.answer_shape(0), device=self._asked.device)
            if kind and start <= self.who < start + len(said):
                said[self.who - start] = VALUES[kind]
            start += len(said)
            return said

        query = replace(self.query, contribution=rows)
        return self._parts.total(query, self._asked.use, asked, self._asked.public).cpu().numpy()


class Blind:
    """A barrier without data around one crossing, opened for repetition."""

    def __init__(self, asked: Asked, plan: Plan) -> None:
        assert isinstance(asked.query, PartitionSum) and isinstance(asked.before[0], Opened)
        self._name = asked.name
        self._public = asked.public
        self._crossing = plan.crossings[asked.name]
        self._device = asked.device
        self.barrier = Barrier(None, few(plan.data), Odometer(opened(plan)), device=asked.device)
        self._query = replace(asked.query, held=self.barrier.hold(asked.before[0].model, asked.before[0].parts))

    def release(self, nothing: None) -> Array:
        """Nothing but noise."""
        return self.barrier.release(self._name, self._query, *self._public).cpu().numpy()

    def projected(self, exact: Array, direction: Array, n: int) -> Array:
        """Draws along a direction."""
        return along(self._crossing, behind(self.barrier).noise, exact, direction, n, self._device)

    def inclusion(self) -> Inclusion:
        """Who is asked, for each question of a release: what the barrier tells the parts."""
        rate = self._crossing.sampler.rate
        parts = max(200, int(np.ceil(30 / rate)))
        return Inclusion(lambda events: self.asked(parts, events), parts, rate)

    def asked(self, parts: int, events: int) -> list[NDArray[np.int64]]:
        """Which of so many parts are asked, in each of so many questions."""
        listener = _Listener(parts)
        query = replace(self._query, held=hide(listener), shape=(1,))  # type: ignore[arg-type]
        while len(listener.heard) < events:
            self.barrier.release(self._name, query, *self._public)
        return listener.heard[:events]


class _Listener:
    """In place of parts: writes down who was to answer, and answers nothing."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.heard: list[NDArray[np.int64]] = []

    def total(self, query: PartitionSum, use: int, taking_part: Tensor | None, public: tuple[Any, ...]) -> Tensor:
        who = torch.ones(self.parts, query.queries, dtype=torch.bool) if taking_part is None else taking_part
        self.heard += [np.flatnonzero(column) for column in who.T.cpu().numpy()]
        return torch.zeros(query.answer_shape(0), dtype=torch.float64)


def play_votes(asked: Asked, plan: Plan, times: int, present: bool, runs: int) -> Array:
    """The likelihood of a canary part whose terms are as far up as they go, or as far down, in all queries."""
    c = plan.crossings[asked.name]
    wild = Wild(asked, plan)
    blind = Blind(asked, plan)
    gap = (wild.total("huge") - wild.total("turned"))[0].ravel()
    gap = gap[gap != 0]
    if c.sampler.rate < 1 or runs * times * len(gap) > DRAWN:  # on the length along it, rounded down to the grid
        gap = np.floor(np.array([np.linalg.norm(gap)]) / c.bound.grid) * c.bound.grid
    sigma = c.mechanism.std(c.bound)

    def query(votes: Array) -> Array:
        value = torch.from_numpy(votes).to(asked.device)
        return c.mechanism(value, c.bound, behind(blind.barrier).noise).cpu().numpy()

    if c.sampler.rate == 1:
        game = PartitionCanary(query, gap / 2, times, accountant.profile([c.event(plan.budget.relation, times)]))
        return game.play(present, runs) * 2 / sigma**2
    half = float(gap[0]) / 2
    taking = np.array([wild.who in who for who in blind.asked(wild.query.held.parts, runs * times)])
    seen = query(np.where(taking, half if present else -half, 0.0)).reshape(runs, times)
    up, down = (likelihood(sign * seen, half, sigma, c.sampler.rate) for sign in (1, -1))
    return np.asarray((up - down).sum(1), dtype=np.float64)
