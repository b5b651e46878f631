"""NDPDC: a synthetic set with the noisy mean features of the real one (Zheng and Li 2023). Site B1.

    h_t        the body of a random network, drawn anew for each step: public
    released   S_c = sum of clip(h_t(x_i), C) over the sampled records i of class c, + N(0, (z C)^2), for all classes
    step       of the set down  sum_c || S_c / (q n_c) - mean_j clip(h_t(s_cj), C) ||^2

A record lies in one class and moves one S_c by at most C: Delta = C under add-remove, 2C under replace-one, for all
classes together. Each step is one Gaussian on a Poisson sample with rate q = batch / records. The class sizes n_c are
the public number of records times declared class weights, or a noisy histogram. The result is the set itself.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(NDPDC(steps=2000, batch=1000).plan(spec, Budget(epsilon=1)).facts["noise"], 2)
    2.91
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.convnets import ConvNet
from sfumato.networks.image_set import FixedSet
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

REASON = "Renyi DP of Poisson samples; the paper draws each class by itself, at a rate that its private size decides"
DEVIATIONS = (
    "One sampling rate for all records, which are sorted into classes afterwards; the paper draws from each class.",
    "Sums are divided by the expected number of records, not by the number drawn.",
    "Features of synthetic images are clipped as those of real ones are, so that both have the same mean at best.",
    "No augmentation; Adam on pixels kept in [0, 1].",
)


@dataclass(frozen=True, kw_only=True)
class NDPDC(Method):
    """NDPDC with sound accounting; what it learns is a fixed set, from which `sample` draws."""

    each: int = 10  # images of each class
    steps: int = 2000  # T, each with a network of its own
    batch: int = 1000  # real images of all classes a step, expected
    clip: float = 1.0  # C
    learning_rate: float = 0.01  # of the pixels
    width: int = 128
    depth: int = 3

    name: ClassVar[str] = "ndpdc"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "fixed set, features of random networks"
    paper: ClassVar[str] = "Zheng, Li: Differentially Private Dataset Condensation (2023)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "point-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("each", "steps", "batch", "width"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(self, name)}.")
        if not (0 < self.learning_rate <= 1 and 1e-6 <= self.clip <= 1e6 and 1 <= self.depth <= 6):
            raise ValueError(
                f"Expected rate above 0 and up to 1, clip from 1e-6 to 1e6, depth from 1 to 6, found "
                f"rate={self.learning_rate}, clip={self.clip}, depth={self.depth}."
            )

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return synthetic_set.plan(
            self,
            "features",
            Bound(self.clip),
            spec,
            budget,
            batch=self.batch,
            steps=self.steps,
            deviations=DEVIATIONS,
            reason=REASON,
            images=self.each * len(spec.classes),
        )

    def small(self) -> NDPDC:
        """The same releases of a small network."""
        return self.at_most(each=2, width=8, depth=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> FixedSet:
        spec = barrier.spec
        k = len(barrier.spec.classes)
        share = min(1.0, self.batch / spec.records)
        points = synthetic_set.fresh(spec, self.each, label_histogram.shares(self.labels, barrier, run), run)
        expected = share * label_histogram.class_sizes(self.labels, barrier, run)[:, None]
        served = (expected[:, 0] > share).nonzero()[:, 0]  # classes with more than one record
        net = ConvNet(spec.shape, k, self.width, self.depth).to(run.device)
        query = BoundedSum(lambda images, labels: net.features(images), Bound(self.clip), (net.size,), by_class=True)

        def gap(t: int) -> Tensor:
            net.draw(run.generator("network", t))
            real = barrier.release("features", query)  # the barrier
            mine = (
                synthetic_set.shortened(net.features(points.everything()[0]), self.clip).view(k, self.each, -1).mean(1)
            )
            return (real[served] / expected[served] - mine[served]).square().sum()

        return synthetic_set.refine(points, gap, run, spec, steps=self.steps, learning_rate=self.learning_rate)
