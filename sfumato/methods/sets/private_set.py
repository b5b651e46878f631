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
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.gradients.per_example import bound_for, per_example
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.methods.sets.generator_prior import PRIORS, PriorDescent
from sfumato.methods.sets.synthetic_set import PixelDescent
from sfumato.methods.settings import count, setting
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import expected_batch
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

GRADIENT = "gradient"
REASON = "Renyi DP of Poisson batches, sound for the counted rounds; the official loop makes one round more"
DEVIATIONS = (
    "Exactly rounds x outer x batches gradients are asked; the official loop makes one round more than it counts.",
    "An empty batch is a release of noise, and sums are divided by the expected batch.",
    "Group normalisation in the place of instance normalisation; pixels are kept in [0, 1], and Adam moves them unless "
    "`optimiser` says otherwise.",
    "Nothing about the real images is printed; the official code logs their mean and deviation.",
)


@dataclass(frozen=True, kw_only=True)
class PrivateSet(Method):
    """Private-Set with sound accounting; what it learns is a fixed set, from which `sample` draws."""

    each: int = count(10, "images of each class")
    rounds: int = count(100, "networks drawn; T = rounds x outer x batches")
    outer: int = count(10, "places in the training of each network")
    batches: int = count(10, "releases at each place")
    inner: int = count(50, "steps of a network on the synthetic set from place to place", low=0, high=10_000)
    batch: int = count(256, "real images a release, expected")
    clip: float = setting(0.1, "C, norm that the gradient of a record is clipped to", low=1e-6, high=1e6)
    learning_rate: float = setting(0.01, "for the pixels; that of Adam falls to 0", above=0, high=1)
    optimiser: str = setting("adam", "of the pixels; sgd has momentum 1/2", choices=synthetic_set.OPTIMISERS)
    prior: str = setting("pixels", "what is moved: pixels, or the weights of a generator of them", choices=PRIORS)
    prior_width: int = count(48, "channels of that generator", low=8, multiple=8)
    net_learning_rate: float = setting(0.01, "of a network's training on the synthetic set", above=0, high=1)
    width: int = count(128, "channels of the networks")
    depth: int = count(3, "blocks of the networks", high=6)
    bfloat16: bool = setting(False, "gradients of records in half precision, on a GPU")

    name: ClassVar[str] = "private-set"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "fixed set, matched gradients of classifiers"
    good_for: ClassVar[str] = (
        "A few images of each class to train classifiers on, which need not look like the data, at large budgets "
        "and with a GPU."
    )
    paper: ClassVar[str] = (
        "Chen, Kerkouche, Fritz: Private Set Generation with Discriminative Information (NeurIPS 2022)"
    )
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "point-wise")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def steps(self) -> int:
        """T."""
        return self.rounds * self.outer * self.batches

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        sampler = expected_batch(self.batch, spec.records)
        return {GRADIENT: crossing(bound_for(self.clip, self.batch), z, sampler, self.steps)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "batch": min(self.batch, plan.data.records),
            "noise": plan.crossings[GRADIENT].mechanism.multiplier,  # z
            "images": self.each * len(plan.data.classes),
        }

    def claim(self, plan: Plan) -> Claim:
        q = plan.crossings[GRADIENT].sampler.rate
        return dp_sgd(q, plan.facts["noise"], self.steps, plan.budget.delta, reason=REASON)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return (*synthetic_set.unamplified(plan, self.batch), synthetic_set.repeated(plan, self.each))

    def small(self) -> PrivateSet:
        """The same releases of a small network."""
        return self.at_most(each=2, inner=1, width=8, depth=2, prior_width=8)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ImageSet:
        spec = barrier.spec
        expected = min(self.batch, spec.records)
        S = synthetic_set.fresh(spec, self.each, label_histogram.shares(self.labels, barrier, run), run, public)
        pixels = self.descent(S, run)
        preview = Preview(run, S, spec)
        net = ConvNet(spec.shape, len(spec.classes), self.width, self.depth).to(run.device)
        theta = list(net.parameters())
        query = per_example(net, _loss, self.clip, batch=self.batch, bfloat16=self.bfloat16)
        for t in run.steps(self.steps, points=S, pixels=pixels, preview=preview, network=net):
            if t % (self.outer * self.batches) == 0:
                net.draw(run.generator("network", t))
            elif t % self.batches == 0:
                synthetic_set.study(net, S, steps=self.inner, learning_rate=self.net_learning_rate)
            G = barrier.release(GRADIENT, query) / expected  # the barrier
            own = torch.autograd.grad(synthetic_set.set_loss(net, S), theta, create_graph=True)
            pixels.step(synthetic_set.gradient_gap(own, G), t)
            preview.snapshot(t, self.steps, S)
        return S.eval()

    def descent(self, S: ImageSet, run: Run) -> PixelDescent | PriorDescent:
        """How the set is moved; a generator begins with images of its own."""
        if self.prior == "generator":
            return PriorDescent(S, self.learning_rate, self.prior_width, run)
        return PixelDescent(S, self.learning_rate, self.steps, self.optimiser)


def _loss(net: ConvNet, images: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(net(images), labels, reduction="none")
