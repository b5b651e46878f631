"""What one-release methods share: limits of their settings, the plan of their release, targets, a fresh generator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import Claim, mean_embedding
from sfumato.engine import label_histogram
from sfumato.networks import ConvGenerator
from sfumato.privacy.bounds import AnyBound
from sfumato.privacy.plan import Plan, crossing, within

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.privacy.barrier import Barrier
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

EMBEDDING = "embedding"
MOST = 1_000_000


def check(method: Any, *counts: str) -> None:
    """Refuse settings that make no sense: those that all one-release methods have, and more that count something."""
    for name in ("steps", "latent", "width", *counts):
        if not 1 <= getattr(method, name) <= MOST:
            raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(method, name)}.")
    if method.width % 8 or not 2 <= method.batch <= MOST:
        raise ValueError(
            f"Expected width as a multiple of 8 and batch of at least 2, found {method.width}, {method.batch}."
        )
    if not (0 < method.learning_rate < 10 and 0 <= getattr(method, "feature_seed", 0) < 2**63):
        raise ValueError(
            f"Expected rate between 0 and 10 and feature_seed from 0 to below 2^63, found {method.learning_rate}, "
            f"{getattr(method, 'feature_seed', 0)}."
        )


def above_zero(method: Any, *names: str, most: float = math.inf) -> None:
    """Refuse numbers that are not above zero and below `most`."""
    for name in names:
        if not 0 < getattr(method, name) < most:
            raise ValueError(f"Expected {name} above 0 and below {most:g}, found {name}={getattr(method, name)}.")


def plan(
    method: Method,
    spec: DataSpec,
    budget: Budget,
    bound: AnyBound,
    features: int,
    deviations: tuple[str, ...],
    *,
    length: float = 1.0,
    paper: Any = None,
    facts: Mapping[str, Any] | None = None,
) -> Plan:
    """One Gaussian on the class-wise sums of `features` numbers, and the label histogram where labels are private.

    `length` is the norm of a class's mean that is hoped for, for the warning of too few data; `paper` makes the claim
    of the paper from a noise multiplier.
    """
    main, counted = label_histogram.split(method.labels)

    def claimed(multiplier: float) -> Claim:
        if paper is not None:
            return dict(paper(multiplier))
        return mean_embedding(multiplier, budget.delta, records=spec.records)

    def at(noise: float) -> Plan:
        crossings = {EMBEDDING: crossing(bound, noise * main)}
        if counted is not None:
            crossings[label_histogram.CROSSING] = crossing(label_histogram.VOTE, noise * counted)
        return Plan(
            method.name,
            method.settings(),
            spec,
            budget,
            crossings,
            paper=claimed(noise * main),
            labels=label_histogram.describe(method.labels),
            deviations=deviations,
            facts=facts or {},
            warnings=_few(spec, noise * main * bound.norm, features, length),
        )

    return within(budget, at)


def _few(spec: DataSpec, sigma: float, features: int, length: float) -> tuple[str, ...]:
    ratio = sigma * math.sqrt(features) * len(spec.classes) / (spec.records * length)
    if ratio <= 1:
        return ()
    return (
        f"Too few data: with {spec.records} records in {len(spec.classes)} classes the noise is about {ratio:.1f} "
        "times as long as the signal; bring more data, a larger epsilon or fewer features.",
    )


def too_few_data(plan: Plan, features: int, length: float = 1.0) -> tuple[str, ...]:
    """A warning where the noise is longer than the mean of a class, whose norm is hoped to be `length`."""
    released = plan.crossings[EMBEDDING]
    return _few(plan.data, released.mechanism.std(released.bound), features, length)


def means(method: Method, sums: Tensor, barrier: Barrier, run: Run) -> Tensor:
    """Released sums of each class over its public or released size; NaN where that is below one record."""
    sizes = label_histogram.class_sizes(method.labels, barrier, run)
    sizes = sizes.view(-1, *[1] * (sums.dim() - 1))
    return torch.where(sizes >= 1, sums / sizes, torch.nan).float()


def generator(method: Any, barrier: Barrier, run: Run) -> ConvGenerator:
    """A generator with fresh weights, which follow the public seed of the run."""
    spec = barrier.spec
    weights = label_histogram.shares(method.labels, barrier, run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return ConvGenerator(spec.shape, spec.classes, method.latent, method.width, weights).to(run.device)


def public_random(method: Any) -> torch.Generator:
    """The randomness of a feature map: data-independent, and fixed by a setting."""
    return torch.Generator().manual_seed(method.feature_seed)
