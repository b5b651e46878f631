"""NDPDC: a synthetic set with the noisy mean features of the real one (Zheng and Li 2023). Site B1.

    h_t        the body of a random network, drawn anew for each step: public
    released   S_c = sum of clip(h_t(x_i), C) over the sampled records i of class c, + N(0, (z C)^2), for all classes
    step       of the set down  sum_c || S_c / (q n_c) - mean_j clip(h_t(s_cj), C) ||^2

A record lies in one class and moves one S_c by at most C: Delta = C under add-remove, 2C under replace-one, for all
classes together. Each step is one Gaussian on a Poisson sample with rate q = batch / records. The class sizes n_c are
the public number of records times declared class weights, or a noisy histogram. The result is the set itself.

LDPDC, the linear one of the paper's two, is `linear`: with h the identity a mean image is the answer itself, and each
image of a class is the noisy mean of a sample of its own.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(NDPDC(steps=2000, batch=1000).plan(spec, Budget(epsilon=1)).facts["noise"], 2)
    2.91
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.methods.sets.siamese import AUGMENTS, Siamese
from sfumato.methods.sets.synthetic_set import PixelDescent
from sfumato.methods.settings import count, setting
from sfumato.networks.image_set import ImageSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import expected_batch
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

FEATURES = "features"
REASON = "Renyi DP of Poisson samples; the paper draws each class by itself, at a rate that its private size decides"
DEVIATIONS = (
    "One sampling rate for all records, which are sorted into classes afterwards; the paper draws from each class.",
    "Sums are divided by the expected number of records, not by the number drawn.",
    "Features of synthetic images are clipped as those of real ones are, so that both have the same mean at best.",
    "Pixels are kept in [0, 1], and Adam moves them unless `optimiser` says otherwise; no augmentation but where "
    "`augment` asks for it.",
)


@dataclass(frozen=True, kw_only=True)
class NDPDC(Method):
    """NDPDC with sound accounting; what it learns is a fixed set, from which `sample` draws."""

    each: int = count(10, "images of each class")
    steps: int = count(2000, "T, steps, each with a network of its own")
    batch: int = count(1000, "real images of all classes a step, expected")
    clip: float = setting(1.0, "C, norm that the features of an image are clipped to", low=1e-6, high=1e6)
    learning_rate: float = setting(0.01, "for the pixels; that of Adam falls to 0", above=0, high=1)
    optimiser: str = setting("adam", "of the pixels; sgd has momentum 1/2", choices=synthetic_set.OPTIMISERS)
    linear: bool = setting(False, "LDPDC: each image is a noisy mean of sampled pixels; steps is then `each`")
    augment: str = setting("none", "a public change of all images, drawn for each step", choices=AUGMENTS)
    width: int = count(128, "channels of the random networks")
    depth: int = count(3, "blocks of the random networks", high=6)

    name: ClassVar[str] = "ndpdc"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "fixed set, features of random networks"
    good_for: ClassVar[str] = (
        "A small fixed set to train classifiers on, of grey images at any budget, with a GPU; it learned nothing "
        "from faces."
    )
    paper: ClassVar[str] = "Zheng, Li: Differentially Private Dataset Condensation (2023)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "point-wise")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def releases(self) -> int:
        """T, or one for each image of a class."""
        return self.each if self.linear else self.steps

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {FEATURES: crossing(Bound(self.clip), z, expected_batch(self.batch, spec.records), self.releases)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return {
            "steps": self.releases,
            "batch": min(self.batch, plan.data.records),
            "noise": plan.crossings[FEATURES].mechanism.multiplier,  # z
            "images": self.each * len(plan.data.classes),
        }

    def claim(self, plan: Plan) -> Claim:
        q = plan.crossings[FEATURES].sampler.rate
        return dp_sgd(q, plan.facts["noise"], self.releases, plan.budget.delta, reason=REASON)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return (*synthetic_set.unamplified(plan, self.batch), synthetic_set.repeated(plan, self.each))

    def small(self) -> NDPDC:
        """The same releases of a small network."""
        return self.at_most(each=2, width=8, depth=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ImageSet:
        spec = barrier.spec
        classes = len(spec.classes)
        q = min(1.0, self.batch / spec.records)
        weights = label_histogram.shares(self.labels, barrier, run)
        points = synthetic_set.fresh(spec, self.each, weights, run, public)
        pixels = PixelDescent(points, self.learning_rate, self.steps, self.optimiser)
        preview = Preview(run, points, spec)
        expected = q * label_histogram.class_sizes(self.labels, barrier, run)[:, None]  # q n_c
        served = (expected[:, 0] > q).nonzero()[:, 0]  # classes with more than one record
        if self.linear:
            return noisy_means(points, barrier, run, self.clip, expected, served)
        net = ConvNet(spec.shape, classes, self.width, self.depth).to(run.device)
        change = Siamese(self.augment)
        query = BoundedSum(
            lambda images, labels: net.features(change(images)), Bound(self.clip), (net.size,), by_class=True
        )
        for t in run.steps(self.steps, points=points, pixels=pixels, preview=preview):
            net.draw(run.generator("network", t))  # h_t
            change.draw(run.generator("augment", t))
            S = barrier.release(FEATURES, query)  # the barrier
            features = synthetic_set.shortened(net.features(change(points.everything()[0])), self.clip)
            means = features.view(classes, self.each, -1).mean(1)
            pixels.step((S[served] / expected[served] - means[served]).square().sum(), t)
            preview.snapshot(t, self.steps, points)
        return points.eval()


def noisy_means(
    points: ImageSet, barrier: Barrier, run: Run, clip: float, expected: Tensor, served: Tensor
) -> ImageSet:
    """LDPDC: image j of each class is the noisy mean, around grey, of the j-th sample of its records."""
    query = BoundedSum(
        lambda images, labels: images.flatten(1) - 0.5, Bound(clip), (math.prod(points.shape),), by_class=True
    )
    for j in run.steps(points.each, points=points):
        S = barrier.release(FEATURES, query)  # the barrier
        means = (S[served] / expected[served] + 0.5).clamp(0, 1).view(-1, *points.shape)
        points.images.data[served, j] = means.to(points.images)
    return points.eval()
