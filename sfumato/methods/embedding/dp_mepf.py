"""DP-MEPF: match noisy moments of public perceptual features (Harder, Jalali, Sutherland, Park, TMLR 2023). Site B1.

    e(x)     = maps of a public network, averaged over a grid of places
    psi(x)   = ( e / ||e||, e^2 / ||e^2|| ),   two blocks of norm 1,   ||psi(x)|| <= sqrt(2)
    S_c      = sum of psi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once          Delta = sqrt(2) (add-remove), 2 sqrt(2) (replace-one)
    generator: min over theta of sum_c || S_c / n_c - E_z psi(G(z, c)) ||^2            free post-processing

The network was trained on public data; the plan names it. Nothing of it is fitted to private images.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPMEPF().plan(spec, Budget(epsilon=1))
    >>> round(plan.crossings["embedding"].bound.norm, 4), plan.facts["public_network"]
    (1.4142, 'efficientnet')
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sfumato.data.public import PublicImages
from sfumato.engine.match import match, unbiased
from sfumato.methods.embedding.mean_embedding import EMBEDDING, MeanEmbedding, generator, means, too_few_data
from sfumato.methods.embedding.perceptual_moments import PerceptualMoments
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.pretrained import perceptual
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec

TWO_BALLS = Bound(math.sqrt(2))
USUAL = 10_000  # features, for the warning of too few data: their number is known once the network is there

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "Maps are averaged over a grid of places, which leaves fewer features to add noise to.",
    "Early stopping by a private validation score is left out.",
)


@dataclass(frozen=True, kw_only=True)
class DPMEPF(MeanEmbedding):
    """DP-MEPF with a convolutional conditional generator.

    `network` is efficientnet, vgg16, random, a file of weights of one of the first two, or any module from images in
    [0, 1] to features or a list of maps. The user vouches that it was trained on public data alone.
    """

    network: str = setting("efficientnet", "public network: efficientnet, vgg16, random, or a file of weights")
    grid: int = count(4, "places across a map that are kept apart")
    batch: int = count(16, "images of each class a step", low=2)

    name: ClassVar[str] = "dp-mepf"
    good_for: ClassVar[str] = (
        "Images that should look right, where features of a public network are allowed: sharp, but they teach a "
        "classifier little; wants a GPU."
    )
    paper: ClassVar[str] = "Harder, Jalali Asadabadi, Sutherland, Park: DP-MEPF (TMLR 2023)"
    public_data: ClassVar[str] = "a network"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("network", "grid")
    stand_ins: ClassVar[tuple[str, ...]] = ("network",)

    def __post_init__(self) -> None:
        # Settings are published: a file or a module goes by the hash of its weights.
        object.__setattr__(self, "network", perceptual.bring(self.network))
        super().__post_init__()

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(TWO_BALLS, z)}

    def facts(self, plan: Plan) -> dict[str, str]:
        return {"public_network": self.network}

    def public_used(self, public: PublicImages | None) -> dict[str, Any] | None:
        if self.network == "random":
            return None
        return {"name": self.network, "provenance": f"weights of the network {self.network}, declared public"}

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, USUAL, length=TWO_BALLS.norm)

    def small(self) -> DPMEPF:
        """The same moments of a small network, where the network is one of the package's own."""
        kind = self.network.split("-")[0]
        return replace(self.at_most(batch=2), network="random" if kind in perceptual.BUILT_IN else self.network)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        psi = PerceptualMoments(perceptual.network(self.network), self.grid, barrier.spec.shape).to(run.device)
        query = BoundedSum(psi, TWO_BALLS, (psi.size,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        target = means(self.labels, S, barrier, run)
        G = generator(self, barrier, run)
        return match(
            G, target, psi, run, steps=self.steps, batch=self.batch, learning_rate=self.learning_rate, distance=unbiased
        )
