"""Choosing settings without a hidden cost: free on public or made-up data, a charged selection on private data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.gaussian import mu_of
from sfumato.accounting.selection import Runs
from sfumato.data import load, load_public
from sfumato.data.made_up import made_up
from sfumato.data.private import PrivateImages, relabelled
from sfumato.data.public import PublicImages
from sfumato.engine.label_histogram import VOTE
from sfumato.errors import InputError
from sfumato.flow.approval import Approval
from sfumato.flow.flow import Audited, Others, Reserved, Task, carry_out
from sfumato.flow.make import AUTO, Learner, check_out, labels_for, make_method, make_plan
from sfumato.flow.rehearsal import IMAGES, Expected, Stage, rehearse
from sfumato.flow.synthesize import Learned, Synthesis, released
from sfumato.methods import Method
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import Plan, crossing
from sfumato.privacy.samplers import draw_count, draw_index
from sfumato.release import Release
from sfumato.run.progress import Silent
from sfumato.run.run import Run
from sfumato.types import DataSpec, Images

SCORE = "score"
SCORE_SHARE = 0.1  # of each run's signal, for judging it
JUDGED = 2000  # synthetic images that a classifier learns from when a run is judged


def tune(
    name: str,
    grid: Mapping[str, Sequence[str]],
    budget: Budget,
    *,
    data: str | None = None,
    spec: DataSpec | None = None,
    labels: str = AUTO,
    private: bool = False,
    mean: float = 10,
    shape: float = 1,
    seed: int = 0,
    progress: Silent | None = None,
    out: str = "release",
    count: int = 10_000,
    format: str = "png",
    ledger: str | None = None,
    approval: Approval | None = None,
    **options: Any,
) -> list[Trial] | Release:
    """Rank the grid for free on public or made-up images, or, with `private`, release the best of a charged selection.

    Without `data`, images are made up in the shape of `spec`.
    """
    run = Run(seed=seed, progress=progress or Silent())
    if data is None:
        if private or spec is None:
            raise InputError(
                "Say what to tune on: --data DATA, or --records, --shape and --classes for made-up images."
            )
        methods = candidates(name, grid, labels_for(labels, spec, budget), spec.classes)
        train, test = (_made_up(spec, seed) for seed in (0, 1))
        return tune_public(methods, train, test, budget, run)
    with load(data, **options) as box:
        methods = candidates(name, grid, labels_for(labels, box.spec, budget), box.spec.classes)
        if private:
            runs = Runs(mean, shape)
            kept: Any = {"out": out, "count": count, "format": format, "ledger": ledger, "approval": approval}
            return tune_private(methods, box, budget, runs, run, **kept)
        if not box.spec.public:
            raise InputError(
                f"{box.spec.name} is private, and looking at it costs budget: tune on public or made-up data, "
                "or add --private for a charged selection."
            )
    return tune_public(methods, *_public(data, options), budget, run)


def _made_up(spec: DataSpec, seed: int) -> Images:
    return made_up(min(spec.records, 5000), spec.shape, spec.classes, seed)


def _public(data: str, options: Mapping[str, Any]) -> tuple[Images, Images]:
    """Train and test images of a named public set; one without a test split gives up a fifth."""

    def part(split: str) -> Images:
        return load_public(data, "a named public set", **{**options, "split": split}).images

    train = part("train")
    try:
        return train, part("test")
    except InputError:
        cut = 4 * len(train) // 5
        return train[:cut], train[cut:]


def candidates(name: str, grid: Mapping[str, Sequence[str]], labels: str, classes: tuple[str, ...]) -> list[Method]:
    """Every combination of the grid as a method."""
    rows = itertools.product(*grid.values()) if grid else [()]
    methods = [make_method(name, dict(zip(grid, row, strict=True)), labels, classes) for row in rows]
    if len(methods) > 1000:
        raise InputError(f"Expected at most 1000 combinations of settings, found {len(methods)}; narrow the --grid.")
    return methods


@dataclass(frozen=True)
class Trial:
    """One set of settings and the accuracy that it reached."""

    settings: dict[str, Any]
    score: float


def tune_public(methods: Sequence[Method], train: Images, test: Images, budget: Budget, run: Run) -> list[Trial]:
    """Try every method on public or made-up images and rank them, best first. Costs no privacy."""
    trials = []
    for number, method in enumerate(methods):
        run.progress.start(f"trial {number + 1}/{len(methods)}", None)
        with load(train) as box:
            free = declared_public(box)
            task = Synthesis(method, make_plan(method, free.spec, budget), count=JUDGED)
            release = carry_out(task, free, replace(run))
        trials.append(Trial(method.settings(), judge(release.images).accuracy(test)))
    return sorted(trials, key=lambda trial: -trial.score)


def declared_public(box: PrivateImages) -> PrivateImages:
    """The same box, declared public as a whole: its ledger is thrown away."""
    return relabelled(box, replace(box.spec, public=True))


@dataclass(frozen=True)
class Judge:
    """A linear classifier that learnt from synthetic images; public."""

    weights: np.ndarray
    bias: np.ndarray

    def accuracy(self, images: Images) -> float:
        """Share of public images that it names right."""
        scores = images.pixels.reshape(len(images), -1) / 255 @ self.weights.T + self.bias
        return float((scores.argmax(1) == images.labels).mean())

    def votes(self, images: Tensor, labels: Tensor) -> Tensor:
        """For the barrier: (1, 0) for a record that it names right and (0, 1) for the others."""
        scores = images.flatten(1) @ torch.as_tensor(self.weights.T).to(images) + torch.as_tensor(self.bias).to(images)
        right = scores.argmax(1) == labels
        return torch.stack([right, ~right], 1).float()


def judge(images: Images) -> Judge:
    """Multinomial logistic regression by a fixed number of Newton-like steps; deterministic."""
    torch.manual_seed(0)
    x = torch.as_tensor(images.pixels[:JUDGED].reshape(-1, math.prod(images.pixels.shape[1:])) / 255).float()
    y = torch.as_tensor(images.labels[:JUDGED])
    net = torch.nn.Linear(x.shape[1], len(images.classes))
    torch.nn.init.zeros_(net.weight)
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y) + 1e-3 * net.weight.square().sum()
        torch.autograd.backward(loss)
        return loss

    optimiser.step(closure)
    return Judge(net.weight.detach().numpy(), net.bias.detach().numpy())


def plan_selection(methods: Sequence[Method], spec: DataSpec, budget: Budget, runs: Runs) -> list[Plan]:
    """For each method the plan of the whole selection; all of them make the same crossings."""

    def at(base: float) -> list[Plan]:
        judged = crossing(VOTE, math.sqrt((1 - SCORE_SHARE) / SCORE_SHARE) / mu_of(base, budget.delta))
        plans = [make_plan(method, spec, replace(budget, epsilon=base)) for method in methods]
        return [replace(p, crossings={**p.crossings, SCORE: judged}, selection=runs, budget=budget) for p in plans]

    first = at(budget.epsilon)
    if any(plan.crossings != first[0].crossings for plan in first):
        raise InputError("Expected a --grid that leaves the crossings alone; it changes what is asked of the data.")
    inverse = least_noise(lambda x: at(1 / x)[0].epsilon(), budget.epsilon, tolerance=1e-6, start=2 / budget.epsilon)
    return at(1 / inverse)


def tune_private(
    methods: Sequence[Method],
    box: PrivateImages,
    budget: Budget,
    runs: Runs,
    run: Run,
    *,
    out: str | Path,
    count: int = 10_000,
    format: str = "png",
    ledger: str | Path | None = None,
    approval: Approval | None = None,
) -> Release:
    """Run a secret random number of settings drawn at random, and release the best by a noisy score.

    Only the best run is seen: how many there were, and the others, stay private (Papernot and Steinke 2022). The whole
    selection is one reservation; a crash after the first crossing leaves it spent.
    """
    check_out(out, count, format)
    if math.isinf(runs.shape):
        raise InputError("Expected a law that gives at least one run: geometric or logarithmic.")
    plans = plan_selection(methods, box.spec, budget, runs)
    task = Selection(plans[0], tuple(zip(methods, plans, strict=True)), runs, Path(out), count, format)
    return carry_out(task, box, run, ledger=ledger, approval=approval)


@dataclass(frozen=True)
class Scored:
    """One run and its noisy score."""

    score: float
    learned: Learned


@dataclass(frozen=True)
class Selection(Task[Learned, Release]):
    """Methods to choose among, each with its plan of the whole selection; all of them make the same crossings."""

    plan: Plan  # any of them
    candidates: tuple[tuple[Method, Plan], ...]
    runs: Runs
    out: Path | None
    count: int = 10_000
    format: str = "png"

    verb: ClassVar[str] = "tune"

    def check(self) -> None:
        """Refuse a place or a format in which nothing could be written."""
        check_out(self.out, self.count, self.format)

    def audits(self) -> Iterable[tuple[Learner, Plan, PublicImages | None]]:
        """Every method, with the plan of one run of it."""
        return [(method, one_run(plan), None) for method, plan in self.candidates]

    def made(self) -> str:
        """The images of the best run, of a number that stays secret."""
        return f"{self.count:,} synthetic images of the best of about {self.runs.mean:g} runs, and their generator"

    def rehearse(self, run: Run, complete: Callable[[Learned], None]) -> Expected:
        """Every method, its score included."""
        each = [
            rehearse(method, plan, run, later=(SCORE,), after=_scored(method, plan, complete))
            for method, plan in self.candidates
        ]
        seconds = self.runs.mean * sum(one.seconds for one in each) / len(each)
        return Expected(seconds, max((one.memory for one in each if one.memory), key=lambda m: m.needs, default=None))

    def learn(self, reserved: Reserved) -> Learned:
        """As many runs as were drawn; of all of them only the best is kept."""
        best: Scored | None = None
        reserved.run.progress.start("selecting", None)  # the number of runs is private
        for _ in range(draw_count(self.runs)):
            method, plan = self.candidates[draw_index(len(self.candidates))]
            scored = run_hidden(method, plan, reserved)
            best = scored if best is None or scored.score > best.score else best
        assert best is not None
        return replace(best.learned, images=best.learned.generator.sample(self.count, seed=reserved.run.seed))

    def state(self, learned: Learned, others: Others, audited: Audited) -> Release:
        """The release of the best, whose statement is that of the selection."""
        among = f"among {len(self.candidates)} settings, {self.runs.kind} number of runs with mean {self.runs.mean:g}"
        return released(learned, None, others, audited, f"charged by selection {among}")

    def save(self, made: Release, place: Path) -> None:
        """As a folder that verifies."""
        made.save(place, format=self.format, verified=True)


def one_run(plan: Plan) -> Plan:
    """The plan of a single run of a selection, without its score."""
    crossings = {name: asked for name, asked in plan.crossings.items() if name != SCORE}
    return replace(plan, crossings=crossings, selection=None)


def run_hidden(method: Method, plan: Plan, reserved: Reserved) -> Scored:
    """One run and its noisy score, out of anybody's sight."""
    barrier, hidden = reserved.start(plan, progress=Silent())
    generator = method.learn(barrier, hidden)
    images = generator.sample(JUDGED, seed=hidden.seed)
    votes = barrier.release(SCORE, score(images))  # the barrier
    hidden.finished()
    learned = Learned(method, plan, generator, images, barrier, hidden.kept | hidden.made)
    return Scored(float(votes[0] - votes[1]), learned)


def _scored(method: Method, plan: Plan, complete: Callable[[Learned], None]) -> Callable[[Stage, Any, Run], None]:
    """In a rehearsal: a few images, and their score."""

    def after(stage: Stage, generator: Any, brief: Run) -> None:
        images = generator.sample(IMAGES, seed=brief.seed)
        stage.release(SCORE, score(images))
        complete(Learned(method, plan, generator, images, stage.barrier, brief.kept | brief.made))

    return after


def score(images: Images) -> BoundedSum:
    """How many records a classifier names right that learnt from these synthetic images."""
    return BoundedSum(judge(images).votes, VOTE, (2,))
