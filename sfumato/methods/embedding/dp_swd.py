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

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import Claim, dp_swd
from sfumato.data.public import PublicImages
from sfumato.engine.match import match
from sfumato.methods.base import Method
from sfumato.methods.embedding import mean_embedding
from sfumato.methods.embedding.slices import Slices, directions, spectral_norm
from sfumato.networks import ConvGenerator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum, IntegerBound
from sfumato.privacy.plan import Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Counts of projections in public bins are released once, in place of noisy projections of each record in each "
    "step: the noise on a count does not grow with the number of records.",
    "Directions are orthogonal and drawn once; the paper draws them independently in each step.",
)


def wasserstein(features: Tensor, target: Tensor) -> Tensor:
    """Mean squared distance between sorted projections (classes, batch, slices) and quantiles of the same shape."""
    return (features.sort(1).values - target).square().mean()


@dataclass(frozen=True, kw_only=True)
class DPSWD(Method):
    """DP-SWD with a convolutional conditional generator."""

    slices: int = 64  # k
    bins: int = 32
    span: float = 12.0  # bins cover [-span, span]; the smoother the directions, the more images differ along them
    blur: float = 1.5  # of the directions, in pixels
    feature_seed: int = 0
    steps: int = 500
    batch: int = 64  # images of each class a step
    learning_rate: float = 5e-3
    latent: int = 32
    width: int = 24

    name: ClassVar[str] = "dp-swd"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "sliced Wasserstein, one release"
    paper: ClassVar[str] = "Rakotomamonjy, Ralaivola: DP-SWD (ICML 2021)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    measured: ClassVar[tuple[str, ...]] = ("slices", "bins", "span", "blur", "feature_seed")

    def __post_init__(self) -> None:
        mean_embedding.check(self, "slices", "bins")
        mean_embedding.above_zero(self, "span", most=1e6)
        if not 0 <= self.blur < 1e6:
            raise ValueError(f"Expected blur of at least 0, found blur={self.blur}.")
        if self.bins < 2 or self.slices * self.bins > mean_embedding.MOST:
            raise ValueError(
                f"Expected bins of at least 2 and slices * bins up to a million, found {self.slices}, {self.bins}."
            )

    @property
    def bound(self) -> IntegerBound:
        """One bin in each slice."""
        return IntegerBound(self.slices, low=0)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        norm = spectral_norm(directions(spec.shape, self.slices, self.feature_seed, self.blur))

        def paper(multiplier: float) -> Claim:
            """What rows with the same noise multiplier would be said to cost."""
            return dp_swd(multiplier * norm, self.slices, spec.pixels, budget.delta)

        return mean_embedding.plan(
            self,
            spec,
            budget,
            self.bound,
            self.slices * self.bins,
            DEVIATIONS,
            paper=paper,
            length=(self.slices / self.bins) ** 0.5,
            facts={"spectral_norm": norm},
        )

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> ConvGenerator:
        shape = barrier.spec.shape
        seed = self.feature_seed
        slices = Slices(shape, self.slices, self.bins, self.span, seed, self.blur).to(run.device)
        query = BoundedSum(slices, self.bound, slices.shape, by_class=True)
        counts = run.once("embedding", lambda: barrier.release("embedding", query))  # the barrier
        shares = mean_embedding.means(self, counts, barrier, run)
        target = torch.where(shares.isfinite().all(-1)[:, None], slices.quantiles(shares, self.batch), torch.nan)
        net = mean_embedding.generator(self, barrier, run)
        return match(
            net,
            target,
            slices.project,
            run,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            distance=wasserstein,
        )
