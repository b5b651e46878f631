"""What methods with one release of a mean embedding share: their generator's settings, their claim, their targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, mean_embedding
from sfumato.data.labels import LabelPrior
from sfumato.engine import label_histogram
from sfumato.methods.base import Method
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.types import Site

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run

EMBEDDING = "embedding"


@dataclass(frozen=True, kw_only=True)
class MeanEmbedding(Method):
    """Class-wise sums of features are released once; a conditional generator is fitted to their means."""

    steps: int = count(500, "steps of the generator")
    batch: int = count(32, "images of each class a step", low=2)
    learning_rate: float = setting(5e-3, "of Adam for the generator", above=0, below=10)
    latent: int = count(32, "dimensions of the latent z")
    width: int = count(24, "channels of the generator's last layers", low=8, multiple=8)

    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "mean embedding, one release"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "distribution-wise")

    def claim(self, plan: Plan) -> Claim:
        """The survey's formula, with the noise scaled by the number of records."""
        z = plan.crossings[EMBEDDING].mechanism.multiplier
        return mean_embedding(z, plan.budget.delta, records=plan.data.records)


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


def generator(method: MeanEmbedding, barrier: Barrier, run: Run) -> ConvGenerator:
    """A generator with fresh weights, which follow the public seed of the run."""
    spec = barrier.spec
    weights = label_histogram.shares(method.labels, barrier, run)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return ConvGenerator(spec.shape, spec.classes, method.latent, method.width, weights).to(run.device)


def public_random(seed: int) -> torch.Generator:
    """The randomness of a feature map: data-independent, and fixed by a setting."""
    return torch.Generator().manual_seed(seed)
