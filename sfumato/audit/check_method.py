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
from sfumato.audit.checks.bit_equality import bit_equal, difference, kinds, same_gradient
from sfumato.audit.checks.column_norm import columns
from sfumato.audit.checks.forbidden_imports import forbidden_imports
from sfumato.audit.checks.forced_paths import device_noise, paths
from sfumato.audit.checks.inclusion import across, singly
from sfumato.audit.checks.run_checks import run_checks
from sfumato.audit.checks.sizes import at_work, shrunk
from sfumato.audit.games import step
from sfumato.audit.games.games import games, ways
from sfumato.audit.recording.parts import votes_subject
from sfumato.audit.recording.recording_barrier import (
    CHANGED,
    Asked,
    MadeUp,
    Seen,
    coin,
    far,
    learn,
    made_up,
    neighbours,
)
from sfumato.audit.recording.subject import Finding, Random, Subject
from sfumato.audit.report import Report
from sfumato.data.public import PublicImages
from sfumato.errors import OverBudget
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Plan
from sfumato.run.run import pick_device
from sfumato.types import DataSpec, Images, Unit

SPEC = DataSpec("made up", 60, (1, 8, 8), ("0", "1", "2"))
RUNS = 2000
LONG = 24  # steps of a longer look


def check(
    method: Any,
    *,
    spec: DataSpec | None = None,
    budget: Budget | None = None,
    level: int = 0,
    seed: int = 0,
    public: Any = None,
    plan: Plan | None = None,
    draws: int = step.DRAWS,
    runs: int = RUNS,
    device: str = "cpu",
) -> Report:
    """Audit a method on made-up records of the shape that `spec` describes.

    Args:
        method: any `Method`; at its `small()` size it is run briefly against a barrier that writes everything down.
        spec: the public description of the data it would get; small images of three classes otherwise.
        budget: what the plan is made for; epsilon 4 otherwise, where distinguishing tests need few draws.
        level: 0 for deterministic checks, 1 to add a distinguishing test of each noisy query, 2 one of the whole plan.
        seed: of the made-up records and of the search; privacy noise is drawn afresh each time.
        public: public images, for a method that needs them.
        plan: the very plan that will be charged, where there is one already.
        device: where all of it is computed, as a run's own would be.
    """
    spec = spec or (plan.data if plan else SPEC)
    budget = budget or (plan.budget if plan else Budget(4.0, unit=spec.unit))
    name = getattr(method, "name", type(method).__name__)
    device = pick_device(device)
    try:
        charged = plan or method.plan(spec, budget)
    except Exception as error:
        row = Finding("plan", 0, False, f"no plan from the public spec alone: {_short(error)}")
        return Report(name, (row,), device=device)
    small = method.small() if hasattr(method, "small") else method
    recorded = RecordedRuns(small, charged, np.random.default_rng(seed), seed, public, device)
    rows = [_within(charged, budget), _signature(small), forbidden_imports(small), shrunk(method, small)]
    rows += recorded.rows(level)
    rows.append(at_work(method, charged, recorded.seen, elsewhere=plan is None))
    played, lost = games(charged, recorded.seen, recorded.random, level, draws, runs)
    rows += [Finding(n, _level(n), g.ok, g.said(budget.delta)) for n, g in played]
    rows += [
        Finding(n, _level(n), False, f"the distinguishing test could not be run: {_short(error)}") for n, error in lost
    ]
    return Report(name, tuple(rows), tuple(played), device)


def _level(game: str) -> int:
    return 2 if game == "whole plan" else 1


class RecordedRuns:
    """A method that learns against a recording barrier, again and again, and what shows."""

    def __init__(self, method: Any, plan: Plan, random: Random, seed: int, public: Any, device: str) -> None:
        self.method = method
        self.plan = plan
        self.random = random
        self.seed = seed
        self._public = public
        self._device = device
        self.records = made_up(plan.data, random)
        if device != "cpu":
            self.learn(self.records)  # kernels that are built and tried when they are first used warn of it once
        self.seen = self.learn(self.records)
        if public is None and isinstance(self.seen.error, ValueError | TypeError | AttributeError):
            self._public = _public_images(plan.data)  # perhaps a method that needs some
            self.seen = self.learn(self.records)

    def learn(self, records: MadeUp | None, plan: Plan | None = None) -> Seen:
        """Once, briefly."""
        return learn(self.method, plan or self.plan, records, seed=self.seed, public=self._public, device=self._device)

    def rows(self, level: int) -> list[Finding]:
        """Of level 0, and from level 1 on a longer look."""
        rows = [_learned(self.seen), _draws(self.seen), _used(self.seen, self.plan)]
        if self.seen.error is None:
            rows += [_kept(self.seen), *_tried("blind barrier", lambda: [_blind(self)])]
            rows += _tried("fixed tape", lambda: _paired(self))
            rows.append(_one_too_many(self))
            rows += _tried("forced paths", lambda: paths(self, _sums))
            rows += _tried("longer look", lambda: _longer(self)) if level >= 1 else []
        rows += [*device_noise(self.plan, self.random), *singly(self.plan), *across(self.plan)]
        rows += columns(self.plan)
        return rows + _each(self.plan, self.seen, self.seed)


def _tried(check: str, make: Callable[[], list[Finding]]) -> list[Finding]:
    """What was found; a check that comes to nothing has failed."""
    try:
        return make()
    except Exception as error:  # of a method under audit, on certain records perhaps
        return [Finding(check, 0, False, f"it could not be tried, since a query failed: {_short(error)}")]


def level0(
    method: Any,
    spec: DataSpec,
    budget: Budget | None = None,
    *,
    plan: Plan | None = None,
    public: Any = None,
    device: str = "cpu",
) -> Report:
    """The checks that `synthesize` runs before it reserves budget: some seconds, on made-up records alone."""
    return check(method, spec=spec, budget=budget, plan=plan, public=public, device=device)


def _public_images(spec: DataSpec) -> PublicImages:
    records = made_up(replace(spec, unit=Unit.RECORD), np.random.default_rng(3), 64)
    return PublicImages(Images(records.images, records.labels, spec.classes), "made up for an audit")


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
    return Finding("learns", 0, True, f"{len(seen.barrier.asked)} noisy queries recorded")


def _draws(seen: Seen) -> Finding:
    drawn = seen.barrier.noise.values
    charged = seen.barrier.charged
    return Finding("draws = events", 0, drawn == charged, f"{drawn} noise values drawn, {charged} charged")


def _used(seen: Seen, plan: Plan) -> Finding:
    idle = [name for name in plan.crossings if not seen.barrier.odometer.used[name]]
    said = f"planned but never used: {', '.join(idle)}" if idle else "every planned noisy query was made"
    return Finding("noisy queries", 0, not idle, said)


def _blind(recorded: RecordedRuns) -> Finding:
    blind = recorded.learn(None)
    other = _short(blind.error) if blind.error else difference(blind, recorded.seen)
    said = f"without data, but with the same answers, another thing comes out: {other}"
    return Finding("blind barrier", 0, other is None, said if other else "without data it does the same")


def _paired(recorded: RecordedRuns, seen: Seen | None = None) -> list[Finding]:
    """Neighbours along a whole run, under one tape: all that leaves, and the sums behind the answers."""
    findings: list[Finding] = []
    plan = recorded.plan
    seen = seen or recorded.seen
    for kind, relation, other in neighbours(recorded.records, plan.data, recorded.seed):
        again = recorded.learn(other)
        where = _short(again.error) if again.error else difference(again, seen)
        if where is not None:
            said = f"with one unit {kind}, under the same tape of answers, this differs: {where}"
            return [*findings, Finding("fixed tape", 0, False, said)]
        findings.append(_sums(plan, seen, again, kind, relation))
    # Not only neighbours: once the answers are fixed, any two sets look the same.
    where = difference(recorded.learn(far(recorded.records)), seen)
    said = f"with all records white and of one class, under the same tape of answers, this differs: {where}"
    return [
        Finding("fixed tape", 0, where is None, said if where else "all sets look the same under one tape"),
        *findings,
    ]


def _longer(recorded: RecordedRuns) -> list[Finding]:
    """Neighbours once more over many steps: some mistakes wait."""
    with (
        patch("sfumato.audit.recording.recording_barrier.STEPS", LONG),
        patch("sfumato.audit.recording.recording_barrier.USES", LONG),
    ):
        findings = _paired(recorded, recorded.learn(recorded.records))
    return [replace(f, check=f"{f.check}, {LONG} steps", level=1) for f in findings]


def _sums(plan: Plan, seen: Seen, again: Seen, kind: str, relation: Relation) -> Finding:
    """Each release's exact sum in two runs: no further apart than declared, and equal where the unit is left out."""
    furthest = 0.0
    for number, (one, two) in enumerate(zip(seen.barrier.asked, again.barrier.asked, strict=True)):
        assert one.exact is not None and two.exact is not None
        crossing = plan.crossings[one.name]
        gap = (one.exact - two.exact).cpu().numpy()
        if crossing.held and relation is not plan.budget.relation:
            continue  # parts are recognised otherwise there, and nothing is claimed
        questions = one.query.queries if isinstance(one.query, PartitionSum) else 1
        moved = float(np.linalg.norm(gap.reshape(questions, -1), axis=1).max(initial=0.0))
        if not crossing.held and crossing.sampler.rate < 1 and not coin(one.name, one.use, CHANGED):
            if moved > 0:
                said = f"release {number + 1}, in which the {kind} unit takes no part, moved by {moved:.4g}"
                return Finding("sums along a run", 0, False, f"{one.name}: {said}")
            continue
        furthest = max(furthest, moved / crossing.event(relation, 1).sensitivity)
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
    others = [n for n, v in kept.items() if not any(bit_equal(v.double().cpu(), a.cpu()) for a in seen.barrier.answers)]
    said = f"kept, but not as the barrier returned it: {', '.join(others)}"
    return Finding("kept values", 0, not others, said if others else f"{len(kept)} values are kept, all released")


def _one_too_many(recorded: RecordedRuns) -> Finding:
    plan = recorded.plan
    for name, crossing in plan.crossings.items():
        used = replace(plan, crossings={**plan.crossings, name: replace(crossing, times=0)})
        seen = recorded.learn(recorded.records, used)
        if not isinstance(seen.error, OverBudget):
            return Finding("one too many", 0, False, f"a use of '{name}' beyond the plan was not refused")
    return Finding("one too many", 0, True, "a use beyond the plan is refused")


def _subjects(asked: Asked, plan: Plan, again: bool) -> list[Subject]:
    """A crossing as subjects.

    With `again`, noise, sampling and partition were looked at already, while what is asked may have changed.
    """
    if again and isinstance(asked.query, PartitionSum):
        return [replace(votes_subject(asked, plan, ("random",)), nothing=(), inclusion=None, parts=None)]
    first, *others = (way(asked, plan) for way in ways(asked.query))
    return [replace(first, nothing=(), inclusion=None) if again else first, *others]


def _each(plan: Plan, seen: Seen, seed: int) -> list[Finding]:
    rows: list[Finding] = []
    done: dict[str, Asked] = {}
    for asked in kinds(seen):
        if asked.name in done and same_gradient(asked, done[asked.name]):
            continue
        try:
            findings = [f for s in _subjects(asked, plan, asked.name in done) for f in run_checks(s, seed=seed)]
        except Exception as error:
            findings = [Finding("query", 0, False, f"the query failed on made-up records: {_short(error)}")]
        done[asked.name] = asked
        rows += [replace(f, check=f"{asked.name}: {f.check}") for f in findings]
    return rows


def questioned(name: str, query: Any, plan: Plan, seed: int) -> list[Finding]:
    """Level 0 of one question that is put outside of a method's learning."""
    asked = Asked(name, query, ())
    findings = [f for s in _subjects(asked, plan, again=False) for f in run_checks(s, seed=seed)]
    return [replace(f, check=f"{name}: {f.check}") for f in findings]
