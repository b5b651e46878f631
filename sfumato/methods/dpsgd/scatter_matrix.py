"""Second moments of records and statistics of mixtures, each record's share of them bounded.

scatter     sum of (x - m)(x - m)', with x - m shortened to C: Frobenius norm of a record at most C^2
statistics  sum of (r, r z, r z^2) over components, with ||z|| <= 1 and sum r = 1: norm of a record at most sqrt(3)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.engine.triangle import triangle_of
from sfumato.privacy.bounds import Bound, BoundedSum

STATISTICS = Bound(math.sqrt(3))
SLACK = 2.0**-9  # of a float64 sum that is rounded to the grid: far more than it needs


@dataclass(frozen=True)
class Scatter:
    """The upper triangle of the scatter matrix, its mixed entries times sqrt(2): lengths are Frobenius norms.

    >>> query = Scatter(2, 1.0)
    >>> query.total(torch.tensor([[[[0.6, 0.8]]]]), torch.zeros(1), torch.zeros(2)).tolist()
    [0.36..., 0.67..., 0.63...]
    """

    pixels: int
    reach: float  # C

    by_class: ClassVar[bool] = False

    @property
    def bound(self) -> Bound:
        """Of one record's outer product."""
        return Bound(self.reach**2, SLACK)

    @property
    def shape(self) -> tuple[int]:
        return (self.pixels * (self.pixels + 1) // 2,)

    def answer_shape(self, classes: int) -> tuple[int, ...]:
        """Shape of the released value; public."""
        return self.shape

    def total(self, images: Tensor, labels: Tensor, *public: Any, there: Tensor | None = None) -> Tensor:
        """The sum over a batch, in float64; `public` is the mean."""
        x = self._centred(images, *public)
        x = x if there is None else x * there[:, None]
        return triangle_of(x.T @ x)

    def rows(self, images: Tensor, labels: Tensor, *public: Any) -> Tensor:
        """Each record's own."""
        x = self._centred(images, *public)
        return triangle_of(x[:, :, None] * x[:, None])

    def _centred(self, images: Tensor, mean: Tensor) -> Tensor:
        return shortened(images.flatten(1).double() - mean.double().to(images.device), self.reach)


def shortened(x: Tensor, reach: float) -> Tensor:
    """Rows brought to length `reach` where they are longer; rows that are no numbers count as zero."""
    x = x.where(x.isfinite().all(1, keepdim=True), 0)
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    # A part in 2^40 less, so that no rounding ends above.
    return x * (reach * (1 - 2.0**-40) / length.clamp(min=reach))


def statistics(encode: Callable[[Tensor, Tensor], Tensor], components: int, latent: int) -> BoundedSum:
    """The E step of each record, by class: `encode(images, labels)` -> (n, latent), shortened to length 1.

    Asked with the present shares (classes, components), means and deviations (classes, components, latent), public.
    """

    def rows(images: Tensor, labels: Tensor, shares: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
        z = shortened(encode(images, labels).double(), 1.0)
        away = ((z[:, None] - means[labels]) / deviations[labels]).square() + 2 * deviations[labels].log()
        r = torch.softmax(shares[labels].log() - away.sum(2) / 2, 1)
        one = torch.cat([torch.ones_like(z[:, :1]), z, z.square()], 1)
        return r[:, :, None] * one[:, None]

    return BoundedSum(rows, STATISTICS, (components, 1 + 2 * latent), by_class=True)
