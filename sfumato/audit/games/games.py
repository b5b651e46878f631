"""The games of levels 1 and 2 against the crossings that a method made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfumato.accounting.budget import Relation
from sfumato.accounting.tradeoff import SIGNIFICANCE
from sfumato.audit.games import end_to_end, step
from sfumato.audit.games.whole_plan_game import canary
from sfumato.audit.recording.batches import anything_subject, value_subject
from sfumato.audit.recording.crossings import subject_of, wild_subject
from sfumato.audit.recording.gradients import gradient_subject, loud_subject, memory_subject
from sfumato.audit.recording.parts import turned_subject, votes_subject
from sfumato.audit.recording.recording_barrier import Asked, Seen
from sfumato.audit.recording.subject import Random, Subject
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.mechanisms import Gaussian
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Plan
from sfumato.privacy.samplers import FullBatch

Game = Callable[[float], step.Played | None]  # at a rate of false alarms


def ways(query: Any) -> tuple[Callable[[Asked, Plan], Subject], ...]:
    """How a question is looked at: on made-up records, at its worst, and whether it remembers any."""
    if isinstance(query, PartitionSum):
        return votes_subject, turned_subject
    if isinstance(query, BoundedSum):
        return subject_of, wild_subject
    if isinstance(query, BatchValue):
        return value_subject, anything_subject, memory_subject
    if isinstance(query, ClippedGradient):
        return gradient_subject, loud_subject, memory_subject
    return gradient_subject, memory_subject  # a sum of somebody's own


def _played(asked: Asked, plan: Plan, random: Random, draws: int, alpha: float) -> step.Played | None:
    """Against the worst neighbours: a part whose terms turn over, a gradient of full norm, any value at all."""
    way = ways(asked.query)[1]
    if way in (turned_subject, loud_subject, anything_subject):
        return step.play(_under(plan.budget.relation, way(asked, _at_one(plan, asked.name))), random, draws, alpha)
    return step.play(ways(asked.query)[0](asked, plan), random, draws, alpha)


def _under(relation: Relation, subject: Subject) -> Subject:
    """The subject with neighbours under the relation that is claimed, and no others."""
    pairs = subject.pairs
    assert pairs is not None
    return replace(subject, pairs=lambda random: (pair for pair in pairs(random) if pair.relation is relation))


def _at_one(plan: Plan, name: str) -> Plan:
    """The plan with noise at which one use of a crossing claims mu = 1.

    One of thousands of votes or steps claims too little to be refuted; its own noise is looked at by level 0 and 2.
    """
    c = plan.crossings[name]
    mu = c.event(plan.budget.relation, 1).sensitivity / c.mechanism.std(c.bound)
    if mu >= 1:
        return plan
    multiplier = c.mechanism.multiplier * mu
    # One use has noise of its own, whatever later ones take back.
    alone = Gaussian(multiplier) if c.cycle > 1 else replace(c.mechanism, multiplier=multiplier)
    scaled = replace(c, sampler=FullBatch(), mechanism=alone)
    return replace(plan, crossings={**plan.crossings, name: scaled})


def games(
    plan: Plan, seen: Seen, random: Random, level: int, draws: int, runs: int
) -> tuple[list[tuple[str, step.Played]], list[tuple[str, Exception]]]:
    """The games that were played, and those that could not be, with what went wrong: each stands for itself."""
    firsts = {a.name: a for a in reversed(seen.barrier.asked)}
    if level < 1 or not firsts:
        return [], []
    rounds: list[tuple[str, Game]] = [
        (f"{name}: step audit", lambda alpha, a=asked: _played(a, plan, random, draws, alpha))  # type: ignore[misc]
        for name, asked in firsts.items()
    ]
    if level >= 2:
        rounds.append(("whole plan", lambda alpha: end_to_end.run(canary(plan, firsts, random, runs), runs, alpha)))
    played = []
    lost = []
    for name, game in rounds:
        try:
            if (outcome := game(SIGNIFICANCE / len(rounds))) is not None:
                played.append((name, outcome))
        except Exception as error:  # a query under audit may fail in any way
            lost.append((name, error))
    return played, lost
