"""The debiased Sinkhorn divergence of two labelled sets of images, and its gradient, in the log domain.

    c((x, a), (y, b))  = ||x - y||_2^2 + m ||x - y||_1 + (2 w^2 + 2 m w) [a != b],    pixels scaled to [-1, 1]
    OT(X, Y)           = min over plans pi of  <pi, c> + e KL(pi | 1/n 1/k)           entropic transport, blur e
    S(X, Y)            = OT(X, Y) - 1/2 OT(X, X) - 1/2 OT(Y, Y)

The label cost is what one-hot vectors times w add (Cao et al. 2021). The dual potentials f, g are found by averaged
updates, while the blur falls from the largest cost there can be to e by half at a time. Their gradient in y_j is that
of its cost under the plan (the envelope theorem), with the column of j normalised exactly:

    pi_ij   = 1/k softmax_i((f_i - c_ij) / e)
    dS/dy_j = sum_i pi_ij dc(x_i, y_j)/dy_j - sum_l pi'_jl dc(y_j, y_l)/dy_j
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ROOM = 2**26  # numbers of the differences of all pairs held at once


@dataclass(frozen=True)
class Sinkhorn:
    """The settings of the divergence, all public.

    >>> two = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1])
    >>> abs(float(Sinkhorn(blur=0.1).divergence(*two, *two))) < 1e-9
    True
    """

    blur: float = 0.05  # e
    mixture: float = 1.0  # m
    label: float = 15.0  # w
    debias: float = 1.0  # factor on the terms of X alone and Y alone
    rounds: int = 3  # updates at each blur

    def __post_init__(self) -> None:
        if not (0 < self.blur < math.inf and self.rounds >= 1):
            raise ValueError(f"Expected blur above 0 and rounds from 1, found blur={self.blur}, rounds={self.rounds}.")
        for name in ("mixture", "label", "debias"):
            if not 0 <= getattr(self, name) < 1e6:
                raise ValueError(f"Expected {name} of at least 0, found {name}={getattr(self, name)}.")

    def cost(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> Tensor:
        """(n, k) in float64."""
        x = _scaled(x)
        y = _scaled(y)
        found = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square().double()
        if self.mixture:
            found += self.mixture * torch.cdist(x, y, p=1).double()
        return found + 2 * self.label * (self.label + self.mixture) * (a[:, None] != b)

    def divergence(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> Tensor:
        """S(X, Y) of images (n, c, h, w) in [0, 1] with labels (n,), and k others; neither set is empty."""
        own = self.transport(self.cost(x, a, x, a)) + self.transport(self.cost(y, b, y, b))
        return self.transport(self.cost(x, a, y, b)) - self.debias / 2 * own

    def transport(self, cost: Tensor) -> Tensor:
        """The dual value of OT: the mean of both potentials."""
        f, g = self.potentials(cost)
        return f.mean() + g.mean()

    def most(self, pixels: int) -> float:
        """The largest cost between images of so many pixels; a public number, for which no device is waited for."""
        return (4 + 2 * self.mixture) * pixels + 2 * self.label * (self.label + self.mixture)

    def potentials(self, cost: Tensor, most: float | None = None) -> tuple[Tensor, Tensor]:
        """f (n,) and g (k,); the last update is exact in each, from the other's average."""
        f = cost.new_zeros(len(cost))
        g = cost.new_zeros(cost.shape[1])
        for blur in self._blurs(cost.detach().max().item() if most is None else most):
            f, g = (f + _softmin(cost, g, blur)) / 2, (g + _softmin(cost.T, f, blur)) / 2
        return _softmin(cost, g, self.blur), _softmin(cost.T, f, self.blur)

    def _blurs(self, largest: float) -> list[float]:
        falls = max(0, math.ceil(math.log2(max(largest, self.blur) / self.blur)))
        return [self.blur * 2.0**i for i in range(falls, -1, -1) for _ in range(self.rounds)]

    def gradient(self, x: Tensor, a: Tensor, y: Tensor, b: Tensor) -> Tensor:
        """dS/dy, of the shape of y: where the second set should not go."""
        pull = self._slope(x, y, self.cost(x, a, y, b))
        if not self.debias:
            return pull
        return pull - self.debias * self._slope(y, y, self.cost(y, b, y, b))

    def _slope(self, x: Tensor, y: Tensor, cost: Tensor) -> Tensor:
        """sum_i pi_ij dc(x_i, y_j)/dy_j; the labels' cost is constant."""
        f, _ = self.potentials(cost, self.most(y[0].numel()))
        plan = torch.softmax((f[:, None] - cost) / self.blur, 0).to(y) / len(y)
        flat = _scaled(y)
        others = _scaled(x)
        slope = 2 * (plan.sum(0)[:, None] * flat - plan.T @ others)
        if self.mixture:
            some = max(1, ROOM // others.numel())
            signs = [
                torch.einsum("ij,ijd->jd", plan[:, i : i + some], (flat[None, i : i + some] - others[:, None]).sign())
                for i in range(0, len(flat), some)
            ]
            slope = slope + self.mixture * torch.cat(signs)
        return 2 * slope.view_as(y)  # once more for the scale of pixels


def _scaled(images: Tensor) -> Tensor:
    return images.flatten(1) * 2 - 1


def _softmin(cost: Tensor, other: Tensor, blur: float) -> Tensor:
    """-e log mean_j exp((g_j - c_ij) / e), for each row i."""
    return -blur * (torch.logsumexp((other - cost) / blur, 1) - math.log(cost.shape[1]))
