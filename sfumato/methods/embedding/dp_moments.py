"""Moments: a noisy mean and covariance of low cosine coefficients for each class, and a Gaussian of them. Site B1.

    x_i      = the first d coefficients of image i less 0.5 in the orthonormal two-dimensional DCT-II, slow waves first
    S_c      = sum of x_i over the records i of class c                              ||x_i|| <= sqrt(pixels) / 2
    m_c      = (S_c + N(0, sigma_1^2 I)) / n_c                                       released first
    T_c      = sum of (x_i - m_c)(x_i - m_c)', each x_i - m_c shortened to C         Frobenius norm of a term <= C^2
    Sigma_c  = (T_c + symmetric N(0, sigma_2^2)) / n_c, brought to the nearest covariance of the same trace
    image    = 0.5 + inverse DCT of N(m_c, Sigma_c), cut to [0, 1]                   free post-processing

Both releases are sums a class, and a record lies in one class: Delta is the norm of a term under add-remove, twice
that under replace-one. The means have a public share of the budget in squared mu, the covariances the rest; their
noise is that of Dwork, Talwar, Thakurta and Zhang (Analyze Gauss, STOC 2014).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> {name: round(c.mechanism.multiplier, 2) for name, c in DPMoments().plan(spec, Budget(1)).crossings.items()}
    {'covariance': 4.46, 'mean': 6.81}
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, claim, mironov
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.triangle import matrix_of, outer_triangle
from sfumato.methods.base import Method
from sfumato.methods.embedding.mean_embedding import means
from sfumato.methods.settings import count, setting
from sfumato.networks.cosine import GREY, CosineGaussian, cosine_basis
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound, BoundedSum
from sfumato.privacy.plan import BudgetShare, Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

MEAN = "mean"
COVARIANCE = "covariance"
REASON = (
    "no paper; two Gaussian releases as one, by Renyi accounting with the 2017 conversion under add-remove; sound but "
    "loose, and without a histogram of the labels"
)


@dataclass(frozen=True, kw_only=True)
class DPMoments(Method):
    """A Gaussian a class over the low cosine coefficients: nothing is trained."""

    coefficients: int = count(100, "d, cosine coefficients of an image, slow waves first", high=1000)
    reach: float = setting(0.25, "C / sqrt(pixels), of an image about the mean of its class", above=0, high=1)
    mean_share: float = setting(0.3, "share of the budget, in squared mu, for the means", above=0, below=1)
    pooled: bool = setting(False, "one covariance for all classes")
    floor: float = setting(1e-3, "least variance along a direction of coefficients", above=0, high=1)

    name: ClassVar[str] = "dp-moments"
    site: ClassVar[Site] = Site.B1
    family: ClassVar[str] = "moments, released once, and a Gaussian of them"
    good_for: ClassVar[str] = (
        "The baseline that every other method must beat, on any device: seconds, and nothing is trained; its images "
        "are blurred."
    )
    paper: ClassVar[str] = "Sfumato's own, after Dwork, Talwar, Thakurta, Zhang: Analyze Gauss (STOC 2014)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, ...]] = ("explicit", "tractable")
    measured: ClassVar[tuple[str, ...]] = ("coefficients", "reach", "mean_share", "pooled")

    def bounds(self, spec: DataSpec) -> tuple[Bound, Bound]:
        """Of one image's coefficients about grey, and of their outer product about the mean."""
        side = math.sqrt(spec.pixels)
        return Bound(GREY * side), Bound((self.reach * side) ** 2)

    def shares(self, spec: DataSpec) -> dict[str, BudgetShare]:
        return {MEAN: BudgetShare(self.bounds(spec)[0], self.mean_share)}

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {COVARIANCE: crossing(self.bounds(spec)[1], z)}

    def claim(self, plan: Plan) -> Claim:
        squared = sum(plan.crossings[name].mechanism.multiplier ** -2 for name in (MEAN, COVARIANCE))
        return claim(mironov(math.sqrt(squared), plan.budget.delta), REASON)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        spec = plan.data
        mean = plan.crossings[MEAN]
        noise = mean.mechanism.std(mean.bound) * math.sqrt(min(self.coefficients, spec.pixels)) * len(spec.classes)
        ratio = noise / (spec.records * self.reach * math.sqrt(spec.pixels))
        if ratio <= 1:
            return ()
        return (
            f"Too few data: with {spec.records} records in {len(spec.classes)} classes the noise of a mean is about "
            f"{ratio:.1f} times as long as an image's distance from it; bring more data, a larger epsilon or fewer "
            "coefficients.",
        )

    def small(self) -> DPMoments:
        """The same sums of fewer coefficients."""
        return self.at_most(coefficients=12)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> CosineGaussian:
        spec = barrier.spec
        basis = cosine_basis(spec.shape, self.coefficients).to(run.device)
        d = len(basis)

        def x(images: Tensor, labels: Tensor) -> Tensor:
            return (images.flatten(1) - GREY) @ basis.T.to(images)

        def outer(images: Tensor, labels: Tensor, m: Tensor) -> Tensor:
            return outer_triangle(x(images, labels) - m[labels].to(images))

        of_mean, of_outer = self.bounds(spec)
        first = BoundedSum(x, of_mean, (d,), by_class=True)
        second = BoundedSum(outer, of_outer, (d * (d + 1) // 2,), by_class=not self.pooled)
        S = run.once(MEAN, lambda: barrier.release(MEAN, first))  # the barrier
        m = means(self.labels, S, barrier, run).nan_to_num()
        T = run.once(COVARIANCE, lambda: barrier.release(COVARIANCE, second, m))  # the barrier
        weights = label_histogram.shares(self.labels, barrier, run)
        sigma = T[None] / spec.records if self.pooled else means(self.labels, T, barrier, run).nan_to_num()
        G = CosineGaussian(spec.shape, spec.classes, self.coefficients, weights)
        G.put(m.cpu(), torch.stack([root(matrix_of(s, d), self.floor) for s in sigma.double().cpu()]))
        return G.to(run.device).eval()


def root(matrix: Tensor, floor: float) -> Tensor:
    """The symmetric root of the nearest matrix of the same trace whose eigenvalues are `floor` or more.

    >>> root(torch.diag(torch.tensor([9.0, 4.0, -4.0])), 0.0)  # 7 and 2 have the trace that 9, 4 and -4 have
    tensor([[2.6458, 0.0000, 0.0000],
            [0.0000, 1.4142, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    values, vectors = torch.linalg.eigh(matrix)
    found: Tensor = (vectors * spread(values, floor).sqrt()) @ vectors.T
    return found


def spread(values: Tensor, floor: float) -> Tensor:
    """The nearest numbers of at least `floor` with the same sum; the floor alone where the sum is below so many."""
    above = values - floor
    total = above.sum().clamp(min=0)
    ordered = above.sort(descending=True).values
    excess = (ordered.cumsum(0) - total) / torch.arange(1, len(values) + 1).to(values)
    last = int((ordered > excess).sum().clamp(min=1)) - 1  # how many stay above the floor
    return (above - excess[last]).clamp(min=0) + floor
