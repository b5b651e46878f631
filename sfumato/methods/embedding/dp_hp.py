"""DP-HP: match noisy means of Hermite features (Vinaroz, Charusaie, Harder, Adamczewski, Park, ICML 2022). Site B1.

    psi_c(x) = sqrt(lambda_c) f_c(x),  c = 0..C: eigenvalues and eigenfunctions of exp(-rho (x-y)^2 / (1-rho^2))
    phi(x)   = ( psi(x_1), ..., psi(x_d) ) / sqrt(d)  stacked on  gamma ( (x)_{d in group} psi(x_d) ) / sqrt(groups)
               each block projected to norm 1, so that ||phi(x)|| <= sqrt(1 + gamma^2)
    S_c      = sum of phi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once        Delta = sqrt(1 + gamma^2) (add-remove), twice that (replace-one)
    generator: min over theta of sum_c || S_c / n_c - E_z phi(G(z, c)) ||^2            free post-processing

The sum kernel holds the law of each pixel, the product kernel how the pixels of a group go together.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPHP().plan(spec, Budget(epsilon=1))
    >>> round(plan.crossings["embedding"].bound.norm, 4), round(plan.crossings["embedding"].mechanism.multiplier, 4)
    (1.4142, 3.7306)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sfumato.data.public import PublicImages
from sfumato.engine.match import match, unbiased
from sfumato.methods.embedding.hermite import HermiteFeatures, size
from sfumato.methods.embedding.mean_embedding import (
    EMBEDDING,
    MeanEmbedding,
    generator,
    means,
    public_random,
    too_few_data,
)
from sfumato.methods.settings import COUNT, count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "Both kernels are released at once, in one vector; the paper splits its budget between the two.",
    "The groups of pixels of the product kernel are drawn once; drawing them anew would cost a release each time.",
)


@dataclass(frozen=True, kw_only=True)
class DPHP(MeanEmbedding):
    """DP-HP with a convolutional conditional generator."""

    order: int = count(5, "C, highest order of the Hermite polynomials", high=200)
    product_order: int = count(0, "that of the product kernel; 0: the same", low=0, high=200)
    rho: float = setting(0.6, "of the kernel, which is the narrower the nearer it is to 1", above=0, below=1)
    reach: float = setting(1.5, "pixels are mapped from [0, 1] to [-reach, reach]", above=0, below=1e6)
    groups: int = count(64, "groups of pixels for the product kernel; 0 leaves it out", low=0)
    members: int = count(2, "pixels in a group")
    product: float = setting(1.0, "gamma, weight of the product kernel", above=0, below=1e6)
    feature_seed: int = setting(0, "public seed of the groups of pixels", low=0, below=2**63)

    name: ClassVar[str] = "dp-hp"
    good_for: ClassVar[str] = (
        "Small images without a GPU: behind DP-MERF on digits and clothes, ahead of it on faces at epsilon 1."
    )
    paper: ClassVar[str] = "Vinaroz, Charusaie, Harder, Adamczewski, Park: DP-HP (ICML 2022)"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = (
        "order",
        "product_order",
        "rho",
        "reach",
        "groups",
        "members",
        "product",
        "feature_seed",
    )

    @property
    def bound(self) -> Bound:
        """Of the two stacked blocks."""
        return Bound(math.hypot(1, self.product) if self.groups else 1.0)

    def contradictions(self) -> Iterator[str]:
        # The exponent is cut, since a larger one decides nothing and takes long to work out.
        order = self.product_order or self.order
        if self.groups * (order + 1) ** min(self.members, 20) > COUNT:
            yield (
                f"Expected groups * (order + 1)^members up to a million for the product kernel, found "
                f"groups={self.groups}, order={order}, members={self.members}."
            )

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(self.bound, z)}

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        features = size(plan.data.pixels, self.order, self.groups, self.members, self.product_order)
        return too_few_data(plan, features, length=self.bound.norm)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        phi = HermiteFeatures(
            barrier.spec.pixels,
            self.order,
            self.rho,
            self.reach,
            self.groups,
            self.members,
            self.product,
            public_random(self.feature_seed),
            self.product_order,
        ).to(run.device)
        query = BoundedSum(phi, self.bound, (phi.size,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        target = means(self.labels, S, barrier, run)
        G = generator(self, barrier, run)
        return match(
            G, target, phi, run, steps=self.steps, batch=self.batch, learning_rate=self.learning_rate, distance=unbiased
        )
