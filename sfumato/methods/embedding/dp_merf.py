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

from dataclasses import dataclass
from typing import ClassVar

from sfumato.data.public import PublicImages
from sfumato.engine.match import match
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.embedding.mean_embedding import (
    EMBEDDING,
    MeanEmbedding,
    generator,
    means,
    public_random,
    too_few_data,
)
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec

UNIT_BALL = Bound(1.0)

DEVIATIONS = (
    "The class-wise sum is released, not the mean with noise scaled by the true number of records.",
    "The bandwidth is a public setting; the official tabular code takes it from private data.",
)


@dataclass(frozen=True, kw_only=True)
class DPMERF(MeanEmbedding):
    """DP-MERF with a convolutional conditional generator."""

    features: int = count(2000, "D, random features, cosine and sine of each frequency", low=2, multiple=2)
    bandwidth: float = setting(0.2, "h / sqrt(pixels) of the kernel, for pixels in [0, 1]", above=0)
    octaves: float = setting(1.5, "bandwidths are spread over so many octaves around the middle one", low=0, high=20)
    feature_seed: int = setting(0, "public seed of the frequencies", low=0, below=2**63)

    name: ClassVar[str] = "dp-merf"
    good_for: ClassVar[str] = (
        "Small grey images at any budget, as a simple baseline: one release and less than a minute, without a GPU."
    )
    paper: ClassVar[str] = "Harder, Adamczewski, Park: DP-MERF (AISTATS 2021)"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("features", "bandwidth", "octaves", "feature_seed")

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(UNIT_BALL, z)}

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, self.features)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        random = public_random(self.feature_seed)
        phi = RandomFourier(barrier.spec.pixels, self.features, self.bandwidth, random, self.octaves).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (self.features,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        target = means(self.labels, S, barrier, run)
        G = generator(self, barrier, run)
        return match(G, target, phi, run, steps=self.steps, batch=self.batch, learning_rate=self.learning_rate)
