"""Private-Set: a synthetic set with the gradients of the real one (Chen, Kerkouche and Fritz, NeurIPS 2022). Site B2.

    F_theta    a classifier, drawn at random for each round and trained on the synthetic set S alone: public
    released   G = sum over a Poisson sample of clip(gradient of the loss of record i in theta, C) + N(0, (z C)^2)
    step       of S down  D(G / batch, gradient of the loss of S in theta),  D = sum over rows of layers of 1 - cosine

`rounds` networks are drawn; each is asked at `outer` places of its training, `batches` times at each. That makes
T = rounds x outer x batches subsampled Gaussians, Delta = C under add-remove and 2C under replace-one. A network that
depends on S alone depends on earlier releases alone, so amplification by sampling holds. The result is S itself.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = PrivateSet(rounds=1000, outer=10, batches=10).plan(spec, Budget(epsilon=10))
    >>> plan.crossings["gradient"].times, round(plan.facts["noise"], 3)
    (100000, 0.933)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.gradients.per_example import bound_for, per_example
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.networks.image_set import FixedSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

REASON = "Renyi DP of Poisson batches, sound for the counted rounds; the official loop makes one round more"
DEVIATIONS = (
    "Exactly rounds x outer x batches gradients are asked; the official loop makes one round more than it counts.",
    "An empty batch is a release of noise, and sums are divided by the expected batch.",
    "Group normalisation in the place of instance normalisation, and Adam on pixels kept in [0, 1].",
    "Nothing about the real images is printed; the official code logs their mean and deviation.",
)


@dataclass(frozen=True, kw_only=True)
class PrivateSet(Method):
    """Private-Set with sound accounting; what it learns is a fixed set, from which `sample` draws."""

    each: int = 10  # images of each class
    rounds: int = 100  # networks drawn
    outer: int = 10  # places in the training of each
    batches: int = 10  # releases at each place
    inner: int = 50  # steps of a network on the synthetic set from place to place
    batch: int = 256  # real images a release, expected
    clip: float = 0.1  # C
    learning_rate: float = 0.01  # of the pixels
    net_learning_rate: float = 0.01
    width: int = 128
    depth: int = 3
    bfloat16: bool = False

    name: ClassVar[str] = "private-set"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "fixed set, matched gradients of classifiers"
    paper: ClassVar[str] = (
        "Chen, Kerkouche, Fritz: Private Set Generation with Discriminative Information (NeurIPS 2022)"
    )
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "point-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("each", "rounds", "outer", "batches", "batch", "width"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(self, name)}.")
        if not (0 <= self.inner <= 10_000 and 1 <= self.depth <= 6):
            raise ValueError(f"Expected inner up to 10000 and depth from 1 to 6, found {self.inner}, {self.depth}.")
        if not (0 < self.learning_rate <= 1 and 0 < self.net_learning_rate <= 1 and 1e-6 <= self.clip <= 1e6):
            raise ValueError(
                f"Expected rate and net_rate above 0 and up to 1, clip from 1e-6 to 1e6, found "
                f"rate={self.learning_rate}, net_rate={self.net_learning_rate}, clip={self.clip}."
            )

    @property
    def steps(self) -> int:
        """T."""
        return self.rounds * self.outer * self.batches

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return synthetic_set.plan(
            self,
            "gradient",
            bound_for(self.clip, self.batch),
            spec,
            budget,
            batch=self.batch,
            steps=self.steps,
            deviations=DEVIATIONS,
            reason=REASON,
            images=self.each * len(spec.classes),
        )

    def small(self) -> PrivateSet:
        """The same releases of a small network."""
        return self.at_most(each=2, inner=1, width=8, depth=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> FixedSet:
        spec = barrier.spec
        places = self.outer * self.batches
        expected = min(self.batch, spec.records)
        points = synthetic_set.fresh(spec, self.each, label_histogram.shares(self.labels, barrier, run), run)
        net = ConvNet(spec.shape, len(spec.classes), self.width, self.depth).to(run.device)
        query = per_example(net, _loss, self.clip, batch=self.batch, bfloat16=self.bfloat16)

        def gap(t: int) -> Tensor:
            if t % places == 0:
                net.draw(run.generator("network", t))
            elif t % self.batches == 0:
                synthetic_set.study(net, points, steps=self.inner, learning_rate=self.net_learning_rate)
            real = barrier.release("gradient", query) / expected  # the barrier
            mine = torch.autograd.grad(synthetic_set.set_loss(net, points), list(net.parameters()), create_graph=True)
            return synthetic_set.gradient_gap(mine, real)

        return synthetic_set.refine(
            points, gap, run, spec, steps=self.steps, learning_rate=self.learning_rate, network=net
        )


def _loss(net: ConvNet, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(net(images), labels, reduction="none")
