"""PEARL: match a noisy characteristic function (Liew, Takahashi and Ueno, ICLR 2022). Site B1.

    phi(x)   = 1/sqrt(k) (exp(i t_1'x), ..., exp(i t_k'x)),   ||phi(x)|| = 1,   t_j ~ omega_0, public
    S_c      = sum of phi(x_i) over the records i of class c
    released = S + N(0, sigma^2 I), once                      Delta = 1 (add-remove), 2 (replace-one)
    generator: min over theta, max over omega of
               sum_c sum_j omega(t_j) / omega_0(t_j) | S_cj / n_c - E_z phi_j(G(z, c)) |^2     free post-processing

The re-weighting omega / omega_0 is what sets it apart from DP-MERF. It is learned against the generator and sees the
noisy vector alone. The law omega_0 of the frequencies is a public setting.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(PEARL().plan(spec, Budget(epsilon=1)).crossings["embedding"].mechanism.multiplier, 4)
    3.7306
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine.match import match
from sfumato.engine.random_fourier import RandomFourier
from sfumato.methods.base import Method
from sfumato.methods.embedding import mean_embedding
from sfumato.methods.embedding.reweight import Reweighting
from sfumato.networks import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

UNIT_BALL = Bound(1.0)

DEVIATIONS = (
    "Class-wise sums are released, not means with noise scaled by the true number of records.",
    "The law of the frequencies is a public setting; the paper fits its scale to private data, at a cost of its own.",
    "The learned ratio of densities is kept within fixed limits, so that it cannot settle on noise.",
)


@dataclass(frozen=True, kw_only=True)
class PEARL(Method):
    """PEARL with a convolutional conditional generator."""

    frequencies: int = 1000  # k
    bandwidth: float = 0.2  # inverse scale of omega_0, over sqrt(pixels), for pixels in [0, 1]
    octaves: float = 1.5  # bandwidths are spread over so many, around the middle one
    feature_seed: int = 0
    reweight: float = 0.01  # learning rate of omega; 0 leaves it at omega_0
    steps: int = 500
    batch: int = 32  # images of each class a step
    learning_rate: float = 5e-3
    latent: int = 32
    width: int = 24

    name: ClassVar[str] = "pearl"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "mean embedding, one release"
    paper: ClassVar[str] = "Liew, Takahashi, Ueno: PEARL (ICLR 2022)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("frequencies", "bandwidth", "octaves", "feature_seed")

    def __post_init__(self) -> None:
        mean_embedding.check(self, "frequencies")
        mean_embedding.above_zero(self, "bandwidth")
        if not (0 <= self.octaves <= 20 and 0 <= self.reweight < 10):
            raise ValueError(f"Expected octaves up to 20 and reweight below 10, found {self.octaves}, {self.reweight}.")

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return mean_embedding.plan(self, spec, budget, UNIT_BALL, 2 * self.frequencies, DEVIATIONS)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        random = mean_embedding.public_random(self)
        k = self.frequencies
        phi = RandomFourier(barrier.spec.pixels, 2 * k, self.bandwidth, random, self.octaves).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (2 * k,), by_class=True)
        sums = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier
        target = mean_embedding.means(self, sums, barrier, run)
        net = mean_embedding.generator(self, barrier, run)
        distance = Reweighting(phi.frequencies, self.reweight)
        return match(
            net,
            target,
            phi,
            run,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            distance=distance,
        )
