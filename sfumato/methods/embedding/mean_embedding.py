"""What methods with one release of a mean embedding share: its crossing's name, a warning, targets, a generator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from sfumato.data.labels import LabelPrior
from sfumato.engine import label_histogram
from sfumato.networks.conv import ConvGenerator

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run

EMBEDDING = "embedding"


class Conditional(Protocol):
    """The settings of a method that say what its generator looks like."""

    @property
    def labels(self) -> LabelPrior: ...

    @property
    def latent(self) -> int: ...

    @property
    def width(self) -> int: ...


def too_few_data(plan: Plan, features: int, length: float = 1.0) -> tuple[str, ...]:
    """A warning where the noise is longer than the mean of a class, whose norm is hoped to be `length`."""
    spec = plan.data
    released = plan.crossings[EMBEDDING]
    sigma = released.mechanism.std(released.bound)
    ratio = sigma * math.sqrt(features) * len(spec.classes) / (spec.records * length)
    if ratio <= 1:
        return ()
    return (
        f"Too few data: with {spec.records} records in {len(spec.classes)} classes the noise is about {ratio:.1f} "
        "times as long as the signal; bring more data, a larger epsilon or fewer features.",
    )


def means(labels: LabelPrior, sums: Tensor, barrier: Barrier, run: Run) -> Tensor:
    """Released sums of each class over its public or released size; NaN where that is below one record."""
    sizes = label_histogram.class_sizes(labels, barrier, run)
    sizes = sizes.view(-1, *[1] * (sums.dim() - 1))
    return torch.where(sizes >= 1, sums / sizes, torch.nan).float()


def generator(method: Conditional, barrier: Barrier, run: Run) -> ConvGenerator:
    """A generator with fresh weights, which follow the public seed of the run."""
    spec = barrier.spec
    weights = label_histogram.shares(method.labels, barrier, run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return ConvGenerator(spec.shape, spec.classes, method.latent, method.width, weights).to(run.device)


def public_random(seed: int) -> torch.Generator:
    """The randomness of a feature map: data-independent, and fixed by a setting."""
    return torch.Generator().manual_seed(seed)
