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
from sfumato.methods.embedding.reweight import Reweighting
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
    "The law of the frequencies is a public setting; the paper fits its scale to private data, at a cost of its own.",
    "The learned ratio of densities is kept within fixed limits, so that it cannot settle on noise.",
)


@dataclass(frozen=True, kw_only=True)
class PEARL(MeanEmbedding):
    """PEARL with a convolutional conditional generator."""

    frequencies: int = count(1000, "k, frequencies t_j of the characteristic function")
    bandwidth: float = setting(0.2, "inverse scale of omega_0 / sqrt(pixels), for pixels in [0, 1]", above=0)
    octaves: float = setting(1.5, "bandwidths are spread over so many octaves around the middle one", low=0, high=20)
    feature_seed: int = setting(0, "public seed of the frequencies", low=0, below=2**63)
    reweight: float = setting(0.01, "learning rate of omega; 0 leaves it at omega_0", low=0, below=10)

    name: ClassVar[str] = "pearl"
    good_for: ClassVar[str] = "Small grey images at any budget without a GPU: level with DP-MERF, from one release."
    paper: ClassVar[str] = "Liew, Takahashi, Ueno: PEARL (ICLR 2022)"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("frequencies", "bandwidth", "octaves", "feature_seed")

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(UNIT_BALL, z)}

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, 2 * self.frequencies)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        random = public_random(self.feature_seed)
        k = self.frequencies
        phi = RandomFourier(barrier.spec.pixels, 2 * k, self.bandwidth, random, self.octaves).to(run.device)
        query = BoundedSum(phi, UNIT_BALL, (2 * k,), by_class=True)
        S = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        omega = Reweighting(phi.frequencies, self.reweight)
        target = means(self.labels, S, barrier, run)
        G = generator(self, barrier, run)
        return match(
            G, target, phi, run, steps=self.steps, batch=self.batch, learning_rate=self.learning_rate, distance=omega
        )
