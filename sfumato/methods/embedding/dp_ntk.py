"""DP-NTK: match noisy means of neural tangent features (Yang, Adamczewski, Sutherland, Li, Park 2023). Site B1.

    phi(x)   = grad_theta f(x; theta_0) / || grad_theta f(x; theta_0) ||,   theta_0 random, public and frozen
    S_c      = sum of phi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once                      Delta = 1 (add-remove), 2 (replace-one)
    generator: min over theta of sum_c || S_c / n_c - E_z phi(G(z, c)) ||^2            free post-processing

f has one hidden layer with a smooth rectifier, so that its gradient has a closed form (see `measure.tangent`).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(DPNTK().plan(spec, Budget(epsilon=1)).crossings["embedding"].mechanism.multiplier, 4)
    3.7306
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine.match import match
from sfumato.methods.base import Method
from sfumato.methods.embedding import mean_embedding
from sfumato.methods.embedding.tangent import Tangent
from sfumato.networks import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

UNIT_BALL = Bound(1.0)

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "The network has one output and a smooth rectifier, so that gradients reach the generator everywhere.",
)


@dataclass(frozen=True, kw_only=True)
class DPNTK(Method):
    """DP-NTK with a convolutional conditional generator."""

    hidden: int = 16  # units of the frozen network; features are hidden * (pixels + 2)
    gain: float = 4.0  # how strongly the units of the network respond to an image
    feature_seed: int = 0
    steps: int = 500
    batch: int = 32  # images of each class a step
    learning_rate: float = 5e-3
    latent: int = 32
    width: int = 24

    name: ClassVar[str] = "dp-ntk"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "mean embedding, one release"
    paper: ClassVar[str] = "Yang, Adamczewski, Sutherland, Li, Park: DP-NTK (2023)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("hidden", "gain", "feature_seed")

    def __post_init__(self) -> None:
        mean_embedding.check(self, "hidden")
        mean_embedding.above_zero(self, "gain", most=1e6)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return mean_embedding.plan(self, spec, budget, UNIT_BALL, self.hidden * (spec.pixels + 2), DEVIATIONS)

    def small(self) -> DPNTK:
        """The same features of a network with few units."""
        return self.at_most(hidden=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        random = mean_embedding.public_random(self)
        phi = Tangent(barrier.spec.pixels, self.hidden, self.gain, random).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (phi.size,), by_class=True)
        sums = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier
        target = mean_embedding.means(self, sums, barrier, run)
        net = mean_embedding.generator(self, barrier, run)
        return match(net, target, phi, run, steps=self.steps, batch=self.batch, learning_rate=self.learning_rate)
