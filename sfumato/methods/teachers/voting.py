"""What methods with voting teachers share: limits of their settings, the plan of their votes, and their student."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import most_times
from sfumato.accounting.claims import datalens, datalens_queries
from sfumato.accounting.gaussian import mu_of
from sfumato.engine import label_histogram
from sfumato.engine.student import RULES, Student
from sfumato.engine.teachers import critics as networks
from sfumato.engine.teachers.critics import Critics
from sfumato.methods.teachers.mmd_witness import MMDWitness
from sfumato.methods.teachers.slope_matching import FieldStudent, present
from sfumato.methods.teachers.votes import Compression
from sfumato.networks import kind_of
from sfumato.networks.generator import LAWS, Generator
from sfumato.networks.labels import allot
from sfumato.privacy.plan import Plan, crossing, within
from sfumato.privacy.samplers import FullBatch, Poisson

if TYPE_CHECKING:
    from sfumato.methods.teachers.datalens import DataLens
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

VOTES = "votes"
CHOICES = {
    "critic": ("network", "kernel"),
    "student": ("step", "field"),
    "order": ("code", "paper"),
    "rule": RULES,
    "latent_distribution": LAWS,
    "generator": ("conv", "dcgan"),
    **networks.CHOICES,
}


def check(method: DataLens) -> None:
    """Refuse settings that make no sense, naming the one that is wrong."""
    for name, allowed in CHOICES.items():
        if getattr(method, name) not in allowed:
            raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {name}={getattr(method, name)}.")
    counts = ("teachers", "topk", "steps", "batch", "teacher_batch", "updates", "fits", "latent", "width", "hidden")
    for name in (*counts, "critic_width", "critic_hidden"):
        if not 1 <= getattr(method, name) <= 1_000_000:
            raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(method, name)}.")
    for name in ("sigma", "threshold", "clip", "blur", "warmup", "replay", "shown", "finish", "octaves", "waves"):
        if not 0 <= getattr(method, name) < 1e9:
            raise ValueError(f"Expected {name} of at least 0, found {name}={getattr(method, name)}.")
    for name in ("learning_rate", "critic_learning_rate", "share"):
        if not 0 < getattr(method, name) <= 1:
            raise ValueError(f"Expected {name} above 0 and up to 1, found {name}={getattr(method, name)}.")
    if not 0 <= method.ema_decay < 1:
        raise ValueError(f"Expected average from 0 to below 1, found ema_decay={method.ema_decay}.")
    if method.student == "field" and (method.critic, method.compress, method.rule) != ("kernel", "unit", "mean"):
        raise ValueError(
            "Expected critic=kernel, compress=unit and rule=mean for student=field, found "
            f"critic={method.critic}, compress={method.compress}, rule={method.rule}."
        )
    if method.student == "field" and method.shown < 1:
        raise ValueError("Expected shown of at least 1 for student=field: images whose field is compared, found 0.")
    if method.batch < 2 and method.generator == "dcgan":
        raise ValueError("Expected batch of at least 2: the generator normalises over its batch.")
    if method.generator == "conv" and method.width % 8:
        raise ValueError(f"Expected width as a multiple of 8 for generator=conv, found width={method.width}.")


def plan(method: DataLens, votes: Compression, spec: DataSpec, budget: Budget, deviations: tuple[str, ...]) -> Plan:
    """Every query of the votes: as many as a given sigma allows, or the least sigma that the steps allow."""
    bound = votes.bound(spec.pixels)
    fraction = method.labels.fraction if method.labels.kind == "private" else 0.0
    sampler = FullBatch() if method.share == 1 else Poisson(method.share)

    def at(noise: float, queries: int) -> Plan:
        # The label histogram, where there is one, has `fraction` of the squared signal-to-noise ratio.
        crossings = {VOTES: crossing(bound, noise / math.sqrt(1 - fraction), sampler, queries, held=True)}
        if fraction:
            counted = noise / math.sqrt(4 * queries * fraction)
            crossings[label_histogram.CROSSING] = crossing(label_histogram.VOTE, counted)
        sigma = crossings[VOTES].mechanism.std(bound)
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            crossings,
            paper=datalens(_entries(method, votes, spec), sigma, budget.delta, queries=queries),
            deviations=deviations,
            labels=label_histogram.describe(method.labels),
            warnings=_warnings(method, spec),
        )

    if not method.sigma:
        made = within(budget, lambda noise: at(noise, method.steps * method.batch))
        return _with_facts(made, method, votes, None)
    noise = method.sigma / bound.norm * math.sqrt(1 - fraction)
    spent = lambda queries: _fixed(at(noise, queries), fraction, budget).events()  # noqa: E731
    most = most_times(spent, budget.epsilon, budget.delta)
    if most < method.batch:
        raise ValueError(
            f"Expected sigma large enough for one step of {method.batch} queries within epsilon "
            f"{budget.epsilon:g}, found sigma={method.sigma:g}; raise sigma or lower batch."
        )
    return _with_facts(_fixed(at(noise, most // method.batch * method.batch), fraction, budget), method, votes, most)


def _entries(method: DataLens, votes: Compression, spec: DataSpec) -> float:
    """The k of the paper's formula; for a vote that the paper does not have, the one with its length."""
    return votes.bound(spec.pixels).norm ** 2 if method.compress in ("lattice", "unit") else method.topk


def _fixed(plan: Plan, fraction: float, budget: Budget) -> Plan:
    """With sigma given, the histogram takes its fraction of the budget whatever the number of queries."""
    if not fraction:
        return plan
    from dataclasses import replace

    size = label_histogram.VOTE.sensitivity(budget.relation)
    counted = crossing(label_histogram.VOTE, size / (math.sqrt(fraction) * mu_of(budget.epsilon, budget.delta)))
    return replace(plan, crossings={**plan.crossings, label_histogram.CROSSING: counted})


def _with_facts(plan: Plan, method: DataLens, votes: Compression, most: int | None) -> Plan:
    from dataclasses import replace

    made = plan.crossings[VOTES]
    sigma = made.mechanism.std(made.bound)
    by_paper = datalens_queries(_entries(method, votes, plan.data), sigma, plan.budget.epsilon, plan.budget.delta)
    facts = {
        "queries": made.times,
        "queries_max": most or made.times,
        "steps": made.times // method.batch,
        "sigma": sigma,
        "part": "the guarantee holds for all records of a teacher's part together",
    }
    return replace(plan, facts=facts, paper={**plan.paper, "queries_max": by_paper})


def _warnings(method: DataLens, spec: DataSpec) -> tuple[str, ...]:
    found = []
    if spec.records < 5 * method.teachers:
        each = spec.records / method.teachers
        found.append(f"A teacher has about {each:.1f} records; take fewer teachers, each with 10 or more.")
    if not method.conditional:
        found.append("Not conditional: labels of the synthetic images are drawn apart from the images.")
    return tuple(found)


def critics(method: DataLens, spec: DataSpec) -> Critics | MMDWitness:
    """What a teacher is."""
    classes = len(spec.classes) if method.conditional else 0
    if method.critic == "kernel":
        fakes = 0 if method.student == "field" else method.batch + method.shown
        return MMDWitness(
            spec.shape,
            classes,
            bandwidth=method.bandwidth,
            fakes=fakes,
            teacher_batch=method.teacher_batch,
            octaves=method.octaves,
            waves=method.waves,
            asked=method.batch,
            precision=method.precision,
        )
    return Critics(
        spec.shape,
        classes,
        width=method.critic_width,
        hidden=method.critic_hidden,
        norm=method.critic_norm,
        heads=method.critic_heads,
        teacher_batch=method.teacher_batch,
        learning_rate=method.critic_learning_rate,
        moments=method.moments,
        precision=method.precision,
    )


def student(
    method: DataLens, spec: DataSpec, weights: Sequence[float] | None, run: Run, steps: int
) -> Student | FieldStudent:
    """A fresh generator and the way it learns from votes."""
    net = fresh(
        method.generator,
        spec,
        weights,
        run,
        latent=method.latent,
        width=method.width,
        hidden=method.hidden,
        latent_distribution=method.latent_distribution,
        conditional=method.conditional,
    )
    if method.student == "field":
        heard = present(spec.records / method.teachers, method.teacher_batch, net.label_weights)
        kernel = critics(method, spec).kernel  # type: ignore[union-attr]
        return FieldStudent(
            net,
            run,
            kernel=kernel,
            heard=heard if method.conditional else None,
            learning_rate=method.learning_rate,
            fits=method.fits,
            finish=method.finish,
            fakes=method.shown,
            total=steps,
            cross=method.cross,
            ema_decay=method.ema_decay,
            precision=method.precision,
        )
    return Student(
        net,
        learning_rate=method.learning_rate,
        steps_per_query=method.fits,
        ema_decay=method.ema_decay,
        replay=method.replay,
        total=steps if method.anneal else None,
    )


def fresh(
    kind: str,
    spec: DataSpec,
    weights: Sequence[float] | None,
    run: Run,
    *,
    latent: int,
    width: int,
    hidden: int,
    latent_distribution: str = "gaussian",
    conditional: bool = True,
) -> Generator:
    """A generator with first weights from the user's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        more: dict[str, Any] = {"hidden": hidden} if kind == "dcgan" else {}
        return kind_of(kind)(
            spec.shape,
            spec.classes,
            latent,
            width,
            label_weights=weights,
            latent_distribution=latent_distribution,
            conditional=conditional,
            **more,
        ).to(run.device)


def asked(net: Generator, batch: int, run: Run, step: int, name: str = "fakes") -> tuple[Tensor, Tensor]:
    """Latents and labels of a step's fake images, in the public proportions of the labels as far as they go."""
    random = run.generator(name, step)
    z = net.latents(batch, random)
    return z.to(run.device), allot(batch, net.label_weights, random).to(run.device)


def lesson(
    method: DataLens, student: Student | FieldStudent, fakes: Tensor, labels: Tensor, run: Run, step: int
) -> tuple[Tensor | int, ...]:
    """What teachers learn from beside their own: the fakes they are asked about, more fakes, the step."""
    if method.shown and method.student == "step":
        z, y = asked(student.net, method.shown, run, step, "shown")
        fakes = torch.cat([fakes, student.fakes(z, y)])
        labels = torch.cat([labels, y])
    return (fakes, labels, step) if method.critic == "kernel" else (fakes, labels)
