"""Each record votes for the candidate of its class that is most like it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class Nearest:
    """One-hot votes (n, candidates) by Euclidean distance of average-pooled pixels; among equals the first.

    Pixels are whole numbers from 0 to 255, and so are their pooled sums: all distances are exact in float64. A vote
    therefore depends on its own record and the public candidates alone, in whatever batch it is cast.
    """

    def __init__(self, pool: int) -> None:
        self.pool = pool

    def embed(self, images: Tensor) -> Tensor:
        """Pooled whole numbers, flat."""
        whole = torch.nan_to_num(images.double() * 255, nan=0.0).clamp(0, 255).round()
        sums = F.avg_pool2d(whole, self.pool, ceil_mode=True, divisor_override=1)
        return sums.flatten(1)

    def __call__(self, images: Tensor, labels: Tensor, candidates: Tensor) -> Tensor:
        """`candidates` (classes, each, channels, height, width) are public."""
        classes, each = candidates.shape[:2]
        known = self.embed(candidates.flatten(0, 1).to(images.device))
        mine = self.embed(images)
        lengths = known.square().sum(1).view(classes, each)
        alike = (mine @ known.T).view(len(mine), classes, each)
        own = alike.gather(1, labels[:, None, None].expand(-1, 1, each))[:, 0]
        return F.one_hot((lengths[labels] - 2 * own).argmin(1), each)
