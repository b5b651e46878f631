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
from dataclasses import dataclass
from typing import ClassVar

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine.match import match, unbiased
from sfumato.methods.base import Method
from sfumato.methods.embedding import mean_embedding
from sfumato.methods.embedding.hermite import HermiteFeatures, size
from sfumato.networks import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "Both kernels are released at once, in one vector; the paper splits its budget between the two.",
    "The groups of pixels of the product kernel are drawn once; drawing them anew would cost a release each time.",
)


@dataclass(frozen=True, kw_only=True)
class DPHP(Method):
    """DP-HP with a convolutional conditional generator."""

    order: int = 5  # C
    rho: float = 0.6  # the kernel is the narrower the nearer it is to 1
    reach: float = 1.5  # pixels are mapped from [0, 1] to [-reach, reach]
    groups: int = 64  # of pixels, for the product kernel; 0 leaves it out
    members: int = 2  # pixels in a group
    product: float = 1.0  # gamma
    feature_seed: int = 0
    steps: int = 500
    batch: int = 32  # images of each class a step
    learning_rate: float = 5e-3
    latent: int = 32
    width: int = 24

    name: ClassVar[str] = "dp-hp"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "mean embedding, one release"
    paper: ClassVar[str] = "Vinaroz, Charusaie, Harder, Adamczewski, Park: DP-HP (ICML 2022)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("order", "rho", "reach", "groups", "members", "product", "feature_seed")

    def __post_init__(self) -> None:
        mean_embedding.check(self, "order", "members")
        mean_embedding.above_zero(self, "rho", most=1)
        mean_embedding.above_zero(self, "reach", "product", most=1e6)
        blocks = self.groups * (self.order + 1) ** min(self.members, 20)
        if self.groups < 0 or self.order > 200 or blocks > mean_embedding.MOST:
            raise ValueError(
                f"Expected groups of at least 0, order up to 200 and groups * (order + 1)^members up to a million, "
                f"found groups={self.groups}, order={self.order}, members={self.members}."
            )

    @property
    def bound(self) -> Bound:
        """Of the two stacked blocks."""
        return Bound(math.hypot(1, self.product) if self.groups else 1.0)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        features = size(spec.pixels, self.order, self.groups, self.members)
        return mean_embedding.plan(self, spec, budget, self.bound, features, DEVIATIONS, length=self.bound.norm)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        phi = HermiteFeatures(
            barrier.spec.pixels,
            self.order,
            self.rho,
            self.reach,
            self.groups,
            self.members,
            self.product,
            mean_embedding.public_random(self),
        ).to(run.device)
        query = BoundedSum(phi, self.bound, (phi.size,), by_class=True)
        sums = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier
        target = mean_embedding.means(self, sums, barrier, run)
        net = mean_embedding.generator(self, barrier, run)
        return match(
            net,
            target,
            phi,
            run,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            distance=unbiased,
        )
