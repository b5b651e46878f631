"""What methods share that ask critics on disjoint parts about fake images: limits, plan, critics and the loop.

The critics are held behind the barrier and trained there as in any GAN, all of them, at public times: which of them
are asked later has no say in it. So a unit changes one critic, whatever that critic has become, and a query may draw
critics by chance and claim it (privacy.md 1.5, lemma S).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from sfumato.accounting.gaussian import mu_of
from sfumato.data.labels import LabelPrior
from sfumato.engine import label_histogram
from sfumato.engine.student import Student
from sfumato.engine.teachers.critics import Critics
from sfumato.methods.teachers.voting import asked, fresh
from sfumato.methods.teachers.wasserstein import PRECISIONS, SteepCritics
from sfumato.networks import KINDS
from sfumato.networks.generator import Generator
from sfumato.privacy.plan import Crossing, Plan, crossing, within
from sfumato.run.preview import Preview

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.partitions import PartitionHandle
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

COUNTS = (
    "teachers",
    "steps",
    "batch",
    "teacher_batch",
    "updates",
    "latent",
    "width",
    "hidden",
    "critic_width",
    "critic_hidden",
)
LOSSES = ("logistic", "wasserstein")  # of critics
Crossings = Mapping[str, Crossing]


class Settings(Protocol):
    """The public settings that these methods have in common."""

    name: str
    labels: LabelPrior
    teachers: int
    steps: int
    batch: int
    teacher_batch: int
    updates: int
    warmup: int
    learning_rate: float
    latent: int
    generator: str
    width: int
    hidden: int
    critic_width: int
    critic_hidden: int
    critic_norm: bool
    critic_learning_rate: float
    precision: str
    moments: str

    def settings(self) -> dict[str, Any]:
        """All of them."""


def check(
    method: Any,
    *,
    counts: tuple[str, ...] = (),
    least: tuple[str, ...] = (),
    choices: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """Refuse settings that make no sense, naming the one that is wrong; `least` are those from 0 on."""
    for name, allowed in {"generator": tuple(KINDS), **(choices or {})}.items():
        if getattr(method, name) not in allowed:
            raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {name}={getattr(method, name)}.")
    for name in (*COUNTS, *counts):
        if not 1 <= getattr(method, name) <= 1_000_000:
            raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(method, name)}.")
    for name in ("warmup", *least):
        if not 0 <= getattr(method, name) < 1e9:
            raise ValueError(f"Expected {name} of at least 0, found {name}={getattr(method, name)}.")
    for name in ("learning_rate", "critic_learning_rate"):
        if not 0 < getattr(method, name) <= 1:
            raise ValueError(f"Expected {name} above 0 and up to 1, found {name}={getattr(method, name)}.")
    if not 0 <= method.ema_decay < 1:
        raise ValueError(f"Expected average from 0 to below 1, found ema_decay={method.ema_decay}.")
    steep = getattr(method, "loss", LOSSES[0]) == "wasserstein"
    if steep and (method.precision not in PRECISIONS or method.moments != "float32" or method.critic_norm):
        found = f"{method.precision}, {method.moments}, critic_norm={method.critic_norm}"
        raise ValueError(
            "Expected precision=tf32 or float32, moments=float32 and critic_norm=False for "
            f"loss=wasserstein, found {found}."
        )
    if method.batch < 2 and method.generator == "dcgan":
        raise ValueError("Expected batch of at least 2: the generator normalises over its batch.")
    if method.generator == "conv" and method.width % 8:
        raise ValueError(f"Expected width as a multiple of 8 for generator=conv, found width={method.width}.")


def plan(
    method: Settings,
    spec: DataSpec,
    budget: Budget,
    crossings: Callable[[float], Crossings],
    *,
    claim: Callable[[Crossings], Mapping[str, Any]],
    deviations: tuple[str, ...],
    queries: int,
    noise: float = 0.0,
) -> Plan:
    """The plan of `crossings(noise)` and, where labels are private, of their histogram; `claim` is the paper's.

    The noise is the least within the budget, or as given, if that is enough.
    """
    beside = counted(method.labels, budget)

    def at(noise: float) -> Plan:
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            {**crossings(noise), **beside},
            labels=label_histogram.describe(method.labels),
            deviations=deviations,
            warnings=_warnings(method, spec),
        )

    least = within(budget, at)
    made = replace(at(noise), warnings=least.warnings) if noise else least
    _enough(made, least)
    sigmas = {name: c.mechanism.std(c.bound) for name, c in made.crossings.items() if c.held}
    facts = {
        "queries": queries,
        "steps": method.steps,
        "sigma": sigmas,
        "part": "the guarantee holds for all records of a critic's part together",
    }
    return replace(made, paper=claim(made.crossings), facts=facts)


def _enough(made: Plan, least: Plan) -> None:
    """Refuse less noise than the budget needs."""
    for name, c in made.crossings.items():
        found = c.mechanism.std(c.bound)
        needed = least.crossings[name].mechanism.std(c.bound)
        if found < needed:
            more = f"{needed / found:.4g} times as large for epsilon {made.budget.epsilon:g}"
            raise ValueError(f"Expected sigma at least {more}; raise it, or leave it at 0 for the least that fits.")


def counted(prior: LabelPrior, budget: Budget) -> Crossings:
    """The label histogram, where there is one, with its fraction of what one Gaussian may spend of the budget."""
    if prior.kind != "private":
        return {}
    assert prior.fraction is not None
    size = label_histogram.VOTE.sensitivity(budget.relation)
    noise = size / (prior.fraction**0.5 * mu_of(budget.epsilon, budget.delta))
    return {label_histogram.CROSSING: crossing(label_histogram.VOTE, noise)}


def _warnings(method: Settings, spec: DataSpec) -> tuple[str, ...]:
    each = spec.records / method.teachers
    return () if each >= 5 else (f"A critic has about {each:.1f} records; take fewer teachers, each with 10 or more.",)


def critics(method: Settings, spec: DataSpec) -> Critics | SteepCritics:
    """The recipe of the critics, conditional on the label; of the logistic kind unless the method asks for another."""
    if getattr(method, "loss", LOSSES[0]) == "wasserstein":
        return SteepCritics(
            spec.shape,
            len(spec.classes),
            width=method.critic_width,
            hidden=method.critic_hidden,
            teacher_batch=method.teacher_batch,
            learning_rate=method.critic_learning_rate,
            penalty=method.penalty,
            precision=method.precision,  # type: ignore[attr-defined]
        )
    return Critics(
        spec.shape,
        len(spec.classes),
        width=method.critic_width,
        hidden=method.critic_hidden,
        norm=method.critic_norm,
        teacher_batch=method.teacher_batch,
        learning_rate=method.critic_learning_rate,
        moments=method.moments,
        precision=method.precision,
    )


def generator(method: Settings, barrier: Barrier, run: Run) -> Generator:
    """A fresh generator with the labels' public proportions."""
    weights = label_histogram.shares(method.labels, barrier, run)
    return fresh(
        method.generator, barrier.spec, weights, run, latent=method.latent, width=method.width, hidden=method.hidden
    )


def teach(
    method: Settings, barrier: Barrier, teachers: PartitionHandle, step: int, fakes: Tensor, labels: Tensor
) -> None:
    """The updates of all critics before a step; more of them before the first one."""
    for _ in range(method.updates if step else method.warmup + method.updates):
        barrier.train(teachers, fakes, labels)


def follow(
    method: Settings,
    barrier: Barrier,
    run: Run,
    teachers: PartitionHandle,
    student: Student,
    ask: Callable[[int, Tensor, Tensor], Tensor],
) -> Generator:
    """Train critics and generator in turn; `ask(step, fakes, labels)` says where the fake images should move."""
    preview = Preview(run, student.net, barrier.spec)
    for t in run.steps(method.steps, student=student, teachers=teachers, preview=preview):
        z, y = asked(student.net, method.batch, run, t)
        x = student.fakes(z, y)
        teach(method, barrier, teachers, t, x, y)
        student.step(z, y, ask(t, x, y))
        preview.snapshot(t, method.steps, student.finished)
    return student.finished(run.generator("statistics"))
