"""`check`: an audit of a method, the user's own too. It never sees private data: records are made up.

    from sfumato import audit
    report = audit.check(MyMethod(...), level=1)
    report.verdict, report.rows, report.picture()

Level 0 takes seconds and no luck, level 1 plays against each crossing, level 2 against the whole plan.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from sfumato.accounting.budget import Budget, Relation
from sfumato.audit import endtoend, step
from sfumato.audit.alike import alike, difference, kinds, same_gradient
from sfumato.audit.batches import anything_subject, value_subject
from sfumato.audit.bounds import SIGNIFICANCE
from sfumato.audit.crossings import subject_of, wild_subject
from sfumato.audit.examine import examine
from sfumato.audit.forced import device_noise, paths
from sfumato.audit.gradients import gradient_subject, loud_subject, memory_subject
from sfumato.audit.inclusion import across, singly
from sfumato.audit.parts import turned_subject, votes_subject
from sfumato.audit.report import Report
from sfumato.audit.roads import roads
from sfumato.audit.subject import Finding, Random, Subject
from sfumato.audit.watch import CHANGED, Asked, Made, Seen, coin, learn, made_up, neighbours
from sfumato.audit.whole import canary
from sfumato.data.public import PublicImages
from sfumato.errors import OverBudget
from sfumato.measure.gradients import ClippedGradient
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.held import PartSum
from sfumato.privacy.plan import Plan
from sfumato.privacy.samplers import Everyone
from sfumato.types import DataSpec, Images, Unit

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
RUNS = 2000
LONG = 24  # steps of a longer look


def check(
    method: Any, *, spec: DataSpec | None = None, budget: Budget | None = None, level: int = 0, seed: int = 0,
    public: Any = None, plan: Plan | None = None, draws: int = step.DRAWS, runs: int = RUNS,
) -> Report:  # fmt: skip
    """Audit a method on made-up records of the shape that `spec` describes.

    Args:
        method: any `Method`; at its `small()` size it is run briefly against a barrier that writes everything down.
        spec: the public description of the data it would get; small images of three classes otherwise.
        budget: what the plan is made for; epsilon 4 otherwise, where games need few draws.
        level: 0 for deterministic checks, 1 to add a game against each crossing, 2 one against the whole plan.
        seed: of the made-up records and of the search; privacy noise is drawn afresh each time.
        public: public images, for a method that needs them.
    """
    spec = spec or (plan.data if plan else SPEC)
    budget = budget or (plan.budget if plan else Budget(4.0, unit=spec.unit))
    random, name = np.random.default_rng(seed), getattr(method, "name", type(method).__name__)
    try:
        plan = plan or method.plan(spec, budget)
    except Exception as error:
        return Report(name, (Finding("plan", 0, False, f"no plan from the public spec alone: {_short(error)}"),))
    rows = [_within(plan, budget), _signature(method), roads(method)]
    method = method.small() if hasattr(method, "small") else method
    made = made_up(spec, random)
    seen = learn(method, plan, made, seed=seed, public=public)
    if public is None and isinstance(seen.error, ValueError | TypeError | AttributeError):
        public = _public_images(spec)  # perhaps a method that needs some
        seen = learn(method, plan, made, seed=seed, public=public)
    rows += [_learned(seen), _draws(seen), _used(seen, plan)]
    if seen.error is None:
        rows += [_kept(seen), _blind(method, plan, seen, seed, public)]
        rows += _paired(method, plan, made, seen, seed, public)
        rows.append(_one_too_many(method, plan, made, seed, public))
        rows += paths(method, plan, made, seen, seed, public, _sums) + device_noise(plan, random)
        rows += _longer(method, plan, made, seed, public) if level >= 1 else []
    rows += [*singly(plan), *across(plan), *_each(plan, seen, seed)]
    games = _games(plan, seen, random, level, draws, runs)
    rows += [Finding(n, 2 if n == "whole plan" else 1, g.ok, g.said(budget.delta)) for n, g in games]
    return Report(name, tuple(rows), tuple(games))


def level0(
    method: Any, spec: DataSpec, budget: Budget | None = None, *, plan: Plan | None = None, public: Any = None
) -> Report:
    """The checks that `synthesize` runs before it reserves budget: a second or two, on made-up records alone."""
    return check(method, spec=spec, budget=budget, plan=plan, public=public)


def _public_images(spec: DataSpec) -> PublicImages:
    made = made_up(replace(spec, unit=Unit.RECORD), np.random.default_rng(3), 64)
    return PublicImages(Images(made.images, made.labels, spec.classes), "made up for an audit")


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _within(plan: Plan, budget: Budget) -> Finding:
    epsilon = plan.epsilon(budget.delta)
    said = f"the plan costs epsilon {epsilon:.6g} at delta {budget.delta:g}, {budget.epsilon:g} granted"
    return Finding("plan", 0, epsilon <= budget.epsilon * (1 + 1e-9) and plan.budget == budget, said)


def _signature(method: Any) -> Finding:
    extra = set(inspect.signature(method.learn).parameters) - {"barrier", "run", "public"}
    return Finding("signature", 0, not extra, f"learn takes {', '.join(sorted(extra)) or 'a barrier and a run'}")


def _learned(seen: Seen) -> Finding:
    if seen.error is not None:
        return Finding("learns", 0, False, f"learning ended with {_short(seen.error)}")
    return Finding("learns", 0, True, f"{len(seen.barrier.asked)} crossings watched")


def _draws(seen: Seen) -> Finding:
    drawn, charged = seen.barrier.noise.values, seen.barrier.charged
    return Finding("draws = events", 0, drawn == charged, f"{drawn} noise values drawn, {charged} charged")


def _used(seen: Seen, plan: Plan) -> Finding:
    idle = [name for name in plan.crossings if not seen.barrier.ledger.used[name]]
    said = f"planned but never used: {', '.join(idle)}" if idle else "every planned crossing was used"
    return Finding("crossings", 0, not idle, said)


def _blind(method: Any, plan: Plan, seen: Seen, seed: int, public: Any) -> Finding:
    blind = learn(method, plan, None, seed=seed, public=public)
    other = _short(blind.error) if blind.error else difference(blind, seen)
    said = f"without data, but with the same answers, another thing comes out: {other}"
    return Finding("blind barrier", 0, other is None, said if other else "without data it does the same")


def _paired(method: Any, plan: Plan, made: Made, seen: Seen, seed: int, public: Any) -> list[Finding]:
    """Neighbours along a whole run, under one tape: all that leaves, and the sums behind the answers."""
    found = []
    for kind, relation, other in neighbours(made, plan.data, seed):
        again = learn(method, plan, other, seed=seed, public=public)
        where = _short(again.error) if again.error else difference(again, seen)
        if where is not None:
            said = f"with one unit {kind}, under the same tape of answers, this differs: {where}"
            return [*found, Finding("fixed tape", 0, False, said)]
        found.append(_sums(plan, seen, again, kind, relation))
    return [Finding("fixed tape", 0, True, "neighbours look the same under one tape of answers"), *found]


def _longer(method: Any, plan: Plan, made: Made, seed: int, public: Any) -> list[Finding]:
    """Neighbours once more over many steps: some mistakes wait."""
    with patch("sfumato.audit.watch.STEPS", LONG), patch("sfumato.audit.watch.USES", LONG):
        seen = learn(method, plan, made, seed=seed, public=public)
        return [replace(f, check=f"{f.check}, {LONG} steps", level=1)
                for f in _paired(method, plan, made, seen, seed, public)]  # fmt: skip


def _sums(plan: Plan, seen: Seen, again: Seen, kind: str, relation: Relation) -> Finding:
    """Each release's exact sum in two runs: no further apart than declared, and equal where the unit is left out."""
    furthest = 0.0
    for number, (one, two) in enumerate(zip(seen.barrier.asked, again.barrier.asked, strict=True)):
        assert one.exact is not None and two.exact is not None
        crossing, gap = plan.crossings[one.name], (one.exact - two.exact).cpu().numpy()
        if crossing.held and relation is not plan.budget.relation:
            continue  # parts are recognised otherwise there, and nothing is claimed
        questions = one.query.queries if isinstance(one.query, PartSum) else 1
        moved = float(np.linalg.norm(gap.reshape(questions, -1), axis=1).max(initial=0.0))
        if not crossing.held and crossing.sampler.rate < 1 and not coin(one.name, one.use, CHANGED):
            if moved > 0:
                said = f"release {number + 1}, in which the {kind} unit takes no part, moved by {moved:.4g}"
                return Finding("sums along a run", 0, False, f"{one.name}: {said}")
            continue
        furthest = max(furthest, moved / crossing.event(relation).sensitivity)
        if not furthest <= 1 + 1e-9:
            said = f"one unit {kind} moved the sum of release {number + 1} by {moved:.4g}"
            declared = f"{said}, {furthest:.4g} times what is declared under {relation}"
            return Finding("sums along a run", 0, False, f"{one.name}: {declared}")
    return Finding(
        "sums along a run", 0, True, f"one unit {kind} moved sums by up to {furthest:.3g} of what is declared"
    )


def _kept(seen: Seen) -> Finding:
    """What a run keeps is what the barrier returned, and nothing else."""
    kept = seen.left.get("kept", {})
    others = [n for n, v in kept.items() if not any(alike(v.double().cpu(), a.cpu()) for a in seen.barrier.answers)]
    said = f"kept, but not as the barrier returned it: {', '.join(others)}"
    return Finding("kept values", 0, not others, said if others else f"{len(kept)} values are kept, all released")


def _one_too_many(method: Any, plan: Plan, made: Made, seed: int, public: Any) -> Finding:
    for name, crossing in plan.crossings.items():
        used = replace(plan, crossings={**plan.crossings, name: replace(crossing, times=0)})
        seen = learn(method, used, made, seed=seed, public=public)
        if not isinstance(seen.error, OverBudget):
            return Finding("one too many", 0, False, f"a use of '{name}' beyond the plan was not refused")
    return Finding("one too many", 0, True, "a use beyond the plan is refused")


def _ways(query: Any) -> tuple[Callable[[Asked, Plan], Subject], ...]:
    """How a question is looked at: on made-up records, at its worst, and whether it remembers any."""
    if isinstance(query, PartSum):
        return votes_subject, turned_subject
    if isinstance(query, BoundedSum):
        return subject_of, wild_subject
    if isinstance(query, BatchValue):
        return value_subject, anything_subject, memory_subject
    if isinstance(query, ClippedGradient):
        return gradient_subject, loud_subject, memory_subject
    return gradient_subject, memory_subject  # a sum of somebody's own


def _subjects(asked: Asked, plan: Plan, again: bool) -> list[Subject]:
    """A crossing as subjects.

    With `again`, noise, sampling and partition were looked at already, while what is asked may have changed.
    """
    if again and isinstance(asked.query, PartSum):
        return [replace(votes_subject(asked, plan, ("random",)), nothing=(), inclusion=None, parts=None)]
    first, *others = (way(asked, plan) for way in _ways(asked.query))
    return [replace(first, nothing=(), inclusion=None) if again else first, *others]


def _each(plan: Plan, seen: Seen, seed: int) -> list[Finding]:
    rows: list[Finding] = []
    done: dict[str, Asked] = {}
    for asked in kinds(seen):
        if asked.name in done and same_gradient(asked, done[asked.name]):
            continue
        try:
            found = [f for s in _subjects(asked, plan, asked.name in done) for f in examine(s, seed=seed)]
        except Exception as error:
            found = [Finding("query", 0, False, f"the query failed on made-up records: {_short(error)}")]
        done[asked.name] = asked
        rows += [replace(f, check=f"{asked.name}: {f.check}") for f in found]
    return rows


def questioned(name: str, query: Any, plan: Plan, seed: int) -> list[Finding]:
    """Level 0 of one question that is put outside of a method's learning."""
    asked = Asked(name, query, ())
    found = [f for s in _subjects(asked, plan, again=False) for f in examine(s, seed=seed)]
    return [replace(f, check=f"{name}: {f.check}") for f in found]


def _played(asked: Asked, plan: Plan, random: Random, draws: int, alpha: float) -> step.Played | None:
    """Against the worst neighbours: a part whose terms turn over, a gradient of full norm, any value at all."""
    way = _ways(asked.query)[1]
    if way in (turned_subject, loud_subject, anything_subject):
        return step.play(_under(plan.budget.relation, way(asked, _at_one(plan, asked.name))), random, draws, alpha)
    return step.play(_ways(asked.query)[0](asked, plan), random, draws, alpha)


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
    mu = c.event(plan.budget.relation).sensitivity / c.mechanism.std(c.bound)
    if mu >= 1:
        return plan
    scaled = replace(c, sampler=Everyone(), mechanism=type(c.mechanism)(c.mechanism.multiplier * mu))
    return replace(plan, crossings={**plan.crossings, name: scaled})


def _games(plan: Plan, seen: Seen, random: Random, level: int, draws: int, runs: int) -> list[tuple[str, step.Played]]:
    firsts = {a.name: a for a in reversed(seen.barrier.asked)}
    if level < 1 or not firsts:
        return []
    alpha = SIGNIFICANCE / (len(firsts) + (level >= 2))
    games = [(f"{n}: step audit", _played(a, plan, random, draws, alpha)) for n, a in firsts.items()]
    if level >= 2:
        games.append(("whole plan", endtoend.run(canary(plan, firsts, random, runs), runs, alpha)))
    return [(name, game) for name, game in games if game is not None]
