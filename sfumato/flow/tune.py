"""Choosing settings without a hidden cost: free on public or made-up data, a charged selection on private data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.gaussian import mu_of
from sfumato.accounting.selection import Runs
from sfumato.api import audit_first, bundle, check_out, make_method, make_plan, passed, state, synthesize
from sfumato.errors import InputError
from sfumato.types import DataSpec, Images

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.methods import Method
    from sfumato.privacy.bounds import BoundedSum
    from sfumato.privacy.plan import Plan
    from sfumato.release import Release
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

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
    labels: str = "uniform",
    private: bool = False,
    mean: float = 10,
    shape: float = 1,
    seed: int = 0,
    progress: Silent | None = None,
    out: str = "release",
    count: int = 10_000,
    format: str = "png",
    ledger: str | None = None,
    **options: Any,
) -> list[Trial] | Release:
    """Rank the grid for free on public or made-up images, or, with `private`, release the best of a charged selection.

    Without `data`, images are made up in the shape of `spec`.
    """
    from sfumato.data import load
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

    run = Run(seed=seed, progress=progress or Silent())
    if data is None:
        if private or spec is None:
            raise InputError(
                "Say what to tune on: --data DATA, or --records, --shape and --classes for made-up images."
            )
        methods = candidates(name, grid, labels, spec.classes)
        train, test = (_made_up(spec, seed) for seed in (0, 1))
        return tune_public(methods, train, test, budget, run)
    with load(data, **options) as box:
        methods = candidates(name, grid, labels, box.spec.classes)
        if private:
            runs = Runs(mean, shape)
            return tune_private(methods, box, budget, runs, run, out=out, count=count, format=format, ledger=ledger)
        if not box.spec.public:
            raise InputError(
                f"{box.spec.name} is private, and looking at it costs budget: tune on public or made-up data, "
                "or add --private for a charged selection."
            )
    return tune_public(methods, *_public(data, options), budget, run)


def _made_up(spec: DataSpec, seed: int) -> Images:
    from sfumato.data.made_up import made_up

    return made_up(min(spec.records, 5000), spec.shape, spec.classes, seed)


def _public(data: str, options: Mapping[str, Any]) -> tuple[Images, Images]:
    """Train and test images of a named public set; one without a test split gives up a fifth."""
    from sfumato.data import load_public

    def part(split: str) -> Images:
        return load_public(data, "a named public set", **{**options, "split": split}).images

    train = part("train")
    try:
        return train, part("test")
    except InputError:
        cut = 4 * len(train) // 5
        return _rows(train, slice(cut)), _rows(train, slice(cut, None))


def _rows(images: Images, rows: slice) -> Images:
    return Images(images.pixels[rows], images.labels[rows], images.classes)


def candidates(name: str, grid: Mapping[str, Sequence[str]], labels: str, classes: tuple[str, ...]) -> list[Method]:
    """Every combination of the grid as a method."""
    rows = itertools.product(*grid.values()) if grid else [()]
    made = [make_method(name, dict(zip(grid, row, strict=True)), labels, classes) for row in rows]
    if len(made) > 1000:
        raise InputError(f"Expected at most 1000 combinations of settings, found {len(made)}; narrow the --grid.")
    return made


@dataclass(frozen=True)
class Trial:
    """One set of settings and the accuracy that it reached."""

    settings: dict[str, Any]
    score: float


def tune_public(methods: Sequence[Method], train: Images, test: Images, budget: Budget, run: Run) -> list[Trial]:
    """Try every method on public or made-up images and rank them, best first. Costs no privacy."""
    from sfumato.data import load

    trials = []
    for number, method in enumerate(methods):
        run.progress.start(f"trial {number + 1}/{len(methods)}", None)
        with load(train) as box:
            box = replace_spec(box)
            release = synthesize(method, box, budget, replace(run), count=JUDGED)
        trials.append(Trial(method.settings(), judge(release.images).accuracy(test)))
    return sorted(trials, key=lambda trial: -trial.score)


def replace_spec(box: PrivateImages) -> PrivateImages:
    """The same box, declared public as a whole: its ledger is thrown away."""
    from sfumato.data.private import relabelled

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

    def votes(self, images: Any, labels: Any) -> Any:
        """For the barrier: (1, 0) for a record that it names right and (0, 1) for the others."""
        import torch

        scores = images.flatten(1) @ torch.as_tensor(self.weights.T).to(images) + torch.as_tensor(self.bias).to(images)
        right = scores.argmax(1) == labels
        return torch.stack([right, ~right], 1).float()


def judge(images: Images) -> Judge:
    """Multinomial logistic regression by a fixed number of Newton-like steps; deterministic."""
    import torch

    torch.manual_seed(0)
    x = torch.as_tensor(images.pixels[:JUDGED].reshape(-1, math.prod(images.pixels.shape[1:])) / 255).float()
    y = torch.as_tensor(images.labels[:JUDGED])
    net = torch.nn.Linear(x.shape[1], len(images.classes))
    torch.nn.init.zeros_(net.weight)
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y) + 1e-3 * net.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return Judge(net.weight.detach().numpy(), net.bias.detach().numpy())


def plan_selection(methods: Sequence[Method], spec: DataSpec, budget: Budget, runs: Runs) -> list[Plan]:
    """For each method the plan of the whole selection; all of them make the same crossings."""
    from sfumato.engine.label_histogram import VOTE
    from sfumato.privacy.plan import crossing

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
) -> Release:
    """Run a secret random number of settings drawn at random, and release the best by a noisy score.

    Only the best run is seen: how many there were, and the others, stay private (Papernot and Steinke 2022). The whole
    selection is one reservation; a crash after the first crossing leaves it spent.
    """
    from sfumato.ledger.job import Job
    from sfumato.ledger.reservation import charged, costly

    check_out(out, count, format)
    if math.isinf(runs.shape):
        raise InputError("Expected a law that gives at least one run: geometric or logarithmic.")
    plans = plan_selection(methods, box.spec, budget, runs)
    audited = {}
    for method, plan in zip(methods, plans, strict=True):
        audited = audit_first(method, make_plan(method, box.spec, budget), None, run.device, "tune")
        if costly(box.spec, ledger):
            _rehearsed(method, plan, run, format)
    with charged(plans[0], box, Job.create({}, str(ledger) if ledger else None), ledger, resumable=False) as charge:
        best = _best_of(methods, plans, box, runs, run, charge.begin)
        images = best.generator.sample(count, seed=run.seed)
        words = (
            f"charged by selection among {len(methods)} settings, {runs.kind} number of runs with mean {runs.mean:g}"
        )
        stated = state(best.plan, best.noise, None, charge.others(), audited, words)
        release = bundle(best.generator, images, stated, best.kept)
        release.save(out, format=format, verified=True)
        charge.finish()
    return release


@dataclass(frozen=True)
class _Run:
    score: float
    plan: Plan
    generator: Any
    kept: dict[str, Any]
    noise: Any


def _rehearsed(method: Method, plan: Plan, run: Run, format: str) -> None:
    """Try one of the settings on made-up records, its score and its files included, before anything is reserved."""
    from sfumato.flow.rehearsal import IMAGES, elsewhere, rehearse

    def after(stage: Any, generator: Any, run: Run) -> None:
        images = generator.sample(IMAGES, seed=run.seed)
        stage.release(SCORE, _score(images))
        with elsewhere() as folder:
            stated = state(plan, stage.noise, None, None, passed(run.device))
            bundle(generator, images, stated, run.kept | run.made).save(folder, format=format)

    rehearse(method, plan, run, later=(SCORE,), after=after)


def _best_of(
    methods: Sequence[Method],
    plans: Sequence[Plan],
    box: PrivateImages,
    runs: Runs,
    run: Run,
    began: Callable[[], None],
) -> _Run:
    from sfumato.privacy.secret_choices import draw_count, draw_index

    best: _Run | None = None
    run.progress.start("selecting", None)  # the number of runs is private
    for _ in range(draw_count(runs)):
        at = draw_index(len(methods))
        found = _one(methods[at], plans[at], box, run, began)
        best = found if best is None or found.score > best.score else best
    assert best is not None
    return best


def _one(method: Method, plan: Plan, box: PrivateImages, run: Run, began: Callable[[], None]) -> _Run:
    """One run and its noisy score, out of anybody's sight."""
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.run.progress import Silent

    hidden = replace(run, odometer=Odometer(plan, began), progress=Silent())
    barrier = Barrier(box, box.spec, hidden.odometer, device=run.device, microbatch=run.microbatch)
    generator = method.learn(barrier, hidden)
    votes = barrier.release(SCORE, _score(generator.sample(JUDGED, seed=run.seed)))
    hidden.finished()
    kept = hidden.kept | hidden.made
    return _Run(float(votes[0] - votes[1]), plan, generator, kept, barrier.noise)


def _score(images: Images) -> BoundedSum:
    """How many records a classifier names right that learnt from these synthetic images."""
    from sfumato.engine.label_histogram import VOTE
    from sfumato.privacy.bounds import BoundedSum

    return BoundedSum(judge(images).votes, VOTE, (2,))
