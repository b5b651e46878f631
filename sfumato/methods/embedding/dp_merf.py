"""DP-MERF: match a noisy mean embedding (Harder, Adamczewski and Park, AISTATS 2021). Site B1.

    phi(x)   = sqrt(2/D) (cos w_1'x, sin w_1'x, ..., cos w_{D/2}'x, sin w_{D/2}'x),   ||phi(x)|| = 1,  w ~ N(0, 1/h^2)
    S_c      = sum of phi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once                      Delta = 1 (add-remove), 2 (replace-one)
    generator: min over theta of sum_c || S_c / n_c - E_z phi(G(z, c)) ||^2            free post-processing

The class sizes n_c are the public number of records times declared class weights ("balanced": equal ones), or a noisy
class histogram (the paper's "imbalanced" variant; one more crossing). The bandwidth h is a public setting.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(DPMERF().plan(spec, Budget(epsilon=1)).crossings["embedding"].mechanism.multiplier, 4)
    3.7306
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import mean_embedding
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.match import match
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.base import Method
from sfumato.networks import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan, crossing, within
from sfumato.run.run import Run
from sfumato.types import DataSpec

UNIT_BALL = Bound(1.0)

DEVIATIONS = (
    "The class-wise sum is released, not the mean with noise scaled by the true number of records.",
    "The bandwidth is a public setting; the official tabular code takes it from private data.",
)


@dataclass(frozen=True, kw_only=True)
class DPMERF(Method):
    """DP-MERF with a convolutional conditional generator."""

    features: int = 2000  # D, even
    bandwidth: float = 0.2  # h / sqrt(pixels), for pixels in [0, 1]
    octaves: float = 1.5  # bandwidths are spread over so many, around the middle one
    feature_seed: int = 0
    steps: int = 500
    batch: int = 32  # images of each class a step
    rate: float = 5e-3
    latent: int = 32
    width: int = 24

    name: ClassVar[str] = "dp-merf"
    measured: ClassVar[tuple[str, ...]] = ("features", "bandwidth", "octaves", "feature_seed")

    def __post_init__(self) -> None:
        if self.features < 2 or self.features % 2:
            raise ValueError(f"Expected features to be even and at least 2, found features={self.features}.")
        if not (0 < self.bandwidth < math.inf and 0 <= self.octaves <= 20):
            raise ValueError(
                f"Expected bandwidth above 0 and octaves up to 20, found {self.bandwidth}, {self.octaves}."
            )
        if min(self.steps, self.latent, self.width) < 1 or self.width % 8 or self.batch < 2 or not 0 < self.rate < 10:
            raise ValueError("Expected steps, latent and rate above 0, batch of at least 2, width a multiple of 8.")
        if max(self.features, self.latent, self.width, self.batch) > 1_000_000 or not 0 <= self.feature_seed < 2**63:
            raise ValueError("Expected features, latent, width and batch up to a million, feature_seed below 2^63.")

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        main, counted = label_histogram.split(self.labels)

        def at(noise: float) -> Plan:
            crossings = {"embedding": crossing(UNIT_BALL, noise * main)}
            if counted is not None:
                crossings[label_histogram.CROSSING] = crossing(label_histogram.VOTE, noise * counted)
            return Plan(
                self.name,
                self.settings(),
                spec,
                budget,
                crossings,
                paper=mean_embedding(noise * main, budget.delta, records=spec.records),
                labels=label_histogram.describe(self.labels),
                deviations=DEVIATIONS,
                warnings=self._warnings(spec, noise * main),
            )

        return within(budget, at)

    def _warnings(self, spec: DataSpec, sigma: float) -> tuple[str, ...]:
        ratio = sigma * math.sqrt(self.features) * len(spec.classes) / spec.records
        if ratio <= 1:
            return ()
        return (
            f"Too few data: with {spec.records} records in {len(spec.classes)} classes the noise is about {ratio:.1f} "
            "times as long as the signal; bring more data, a larger epsilon or fewer features.",
        )

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        spec = barrier.spec
        random = torch.Generator().manual_seed(self.feature_seed)
        phi = RandomFourier(spec.pixels, self.features, self.bandwidth, random, self.octaves).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (self.features,), by_class=True)
        sums = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier
        sizes = label_histogram.class_sizes(self.labels, barrier, run)
        target = torch.where(sizes[:, None] >= 1, sums / sizes[:, None], torch.nan).float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            weights = label_histogram.shares(self.labels, barrier, run)
            net = ConvGenerator(spec.shape, spec.classes, self.latent, self.width, weights).to(run.device)
        return match(net, target, phi, run, steps=self.steps, batch=self.batch, rate=self.rate)
