"""DP-NTK: match noisy means of neural tangent features (Yang, Adamczewski, Sutherland, Li, Park 2023). Site B1.

    phi(x)   = grad_theta f(x; theta_0) / || grad_theta f(x; theta_0) ||,   theta_0 random, public and frozen
    S_c      = sum of phi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once                      Delta = 1 (add-remove), 2 (replace-one)
    generator: min over theta of sum_c || S_c / n_c - E_z phi(G(z, c)) ||^2            free post-processing

f has one hidden layer with a smooth rectifier, so that its gradient has a closed form (see `tangent.py`).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(DPNTK().plan(spec, Budget(epsilon=1)).crossings["embedding"].mechanism.multiplier, 4)
    3.7306
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.engine.match import match, unit_means
from sfumato.methods.embedding.mean_embedding import (
    EMBEDDING,
    MeanEmbedding,
    generator,
    means,
    public_random,
    too_few_data,
)
from sfumato.methods.embedding.tangent import Tangent
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec

UNIT_BALL = Bound(1.0)

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "The network has one output and a smooth rectifier, so that gradients reach the generator everywhere.",
)


@dataclass(frozen=True, kw_only=True)
class DPNTK(MeanEmbedding):
    """DP-NTK with a convolutional conditional generator."""

    hidden: int = count(16, "units of the frozen network f; there are hidden * (pixels + 2) features")
    gain: float = setting(4.0, "how strongly the units of f respond to an image", above=0, below=1e6)
    feature_seed: int = setting(0, "public seed of the parameters theta_0", low=0, below=2**63)

    name: ClassVar[str] = "dp-ntk"
    good_for: ClassVar[str] = (
        "Small grey images without a GPU, for comparison: behind DP-MERF wherever both were measured."
    )
    paper: ClassVar[str] = "Yang, Adamczewski, Sutherland, Li, Park: DP-NTK (2023)"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("hidden", "gain", "feature_seed")

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(UNIT_BALL, z)}

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, self.hidden * (plan.data.pixels + 2))

    def small(self) -> DPNTK:
        """The same features of a network with few units."""
        return self.at_most(hidden=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        random = public_random(self.feature_seed)
        phi = Tangent(barrier.spec.pixels, self.hidden, self.gain, random).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (phi.size,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        target = means(self.labels, S, barrier, run)
        G = generator(self, barrier, run)

        def apart(images: Tensor, target: Tensor) -> Tensor:
            return unit_means(phi.mean(images), target, self.batch)

        return match(
            G,
            target,
            lambda images: images.flatten(1),
            run,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            distance=apart,
        )
