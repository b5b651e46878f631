"""DP-SWD: sliced Wasserstein distance to noisy slices (after Rakotomamonjy and Ralaivola, ICML 2021). Site B1.

    u_1..u_k   public directions, orthogonal as far as there is room
    H_cjb      = number of records of class c whose projection u_j'(2x - 1) lies in bin b
    released   = H + N_Z(0, sigma^2), once, whole numbers     Delta = sqrt(k) (add-remove), sqrt(2 k) (replace-one)
    Q_cj       = quantiles of H_cj / n_c, after projection onto the simplex
    generator: min over theta of sum_c sum_j W_2^2(Q_cj, u_j'G(z, c))                  free post-processing

The paper releases X U + noise, a row for each record, anew in each step. Its sensitivity is ||U|| max ||x - x'|| with
the spectral norm of U; the plan shows that norm. Such rows cannot be averaged before the noise is added, although all
that the distance looks at is the law of each slice. That law is a count of records, so counts are what is released.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPSWD().plan(spec, Budget(epsilon=1))
    >>> plan.crossings["embedding"].bound.norm, round(plan.facts["spectral_norm"], 4)
    (8.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, dp_swd
from sfumato.data.public import PublicImages
from sfumato.engine.match import match
from sfumato.methods.embedding.mean_embedding import EMBEDDING, MeanEmbedding, generator, means, too_few_data
from sfumato.methods.embedding.slices import Slices, directions, spectral_norm
from sfumato.methods.settings import COUNT, count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum, IntegerBound
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec

DEVIATIONS = (
    "Counts of projections in public bins are released once, in place of noisy projections of each record in each "
    "step: the noise on a count does not grow with the number of records.",
    "Directions are orthogonal and drawn once; the paper draws them independently in each step.",
)


def wasserstein(features: Tensor, target: Tensor) -> Tensor:
    """Mean squared distance between sorted projections (classes, batch, slices) and quantiles of the same shape."""
    return (features.sort(1).values - target).square().mean()


@dataclass(frozen=True, kw_only=True)
class DPSWD(MeanEmbedding):
    """DP-SWD with a convolutional conditional generator."""

    slices: int = count(64, "k, directions u_j")
    bins: int = count(32, "bins of [-span, span] along each direction", low=2)
    span: float = setting(12.0, "ends of the bins; the smoother the directions, the wider", above=0, below=1e6)
    blur: float = setting(1.5, "of the directions", low=0, below=1e6, unit="pixels")
    feature_seed: int = setting(0, "public seed of the directions", low=0, below=2**63)
    batch: int = count(64, "images of each class a step", low=2)

    name: ClassVar[str] = "dp-swd"
    family: ClassVar[str] = "sliced Wasserstein, one release"
    good_for: ClassVar[str] = (
        "Small grey images without a GPU, for comparison: behind DP-MERF wherever both were measured."
    )
    paper: ClassVar[str] = "Rakotomamonjy, Ralaivola: DP-SWD (ICML 2021)"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("slices", "bins", "span", "blur", "feature_seed")

    @property
    def bound(self) -> IntegerBound:
        """One bin in each slice."""
        return IntegerBound(self.slices, low=0)

    def contradictions(self) -> Iterator[str]:
        if self.slices * self.bins > COUNT:
            yield (
                f"Expected slices * bins up to a million for the counts, found slices={self.slices}, bins={self.bins}."
            )

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {EMBEDDING: crossing(self.bound, z)}

    def facts(self, plan: Plan) -> dict[str, float]:
        U = directions(plan.data.shape, self.slices, self.feature_seed, self.blur)
        return {"spectral_norm": spectral_norm(U)}

    def claim(self, plan: Plan) -> Claim:
        """What rows with the same noise multiplier would be said to cost."""
        sigma = plan.crossings[EMBEDDING].mechanism.multiplier * plan.facts["spectral_norm"]
        return dp_swd(sigma, self.slices, plan.data.pixels, plan.budget.delta)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return too_few_data(plan, self.slices * self.bins, length=(self.slices / self.bins) ** 0.5)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        u = Slices(barrier.spec.shape, self.slices, self.bins, self.span, self.feature_seed, self.blur).to(run.device)
        query = BoundedSum(u, self.bound, u.shape, by_class=True)
        H = run.once(EMBEDDING, lambda: barrier.release(EMBEDDING, query))  # the barrier
        shares = means(self.labels, H, barrier, run)
        Q = torch.where(shares.isfinite().all(-1)[:, None], u.quantiles(shares, self.batch), torch.nan)
        G = generator(self, barrier, run)
        return match(
            G,
            Q,
            u.project,
            run,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            distance=wasserstein,
        )
