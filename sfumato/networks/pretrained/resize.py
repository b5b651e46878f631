"""Small images are shown larger to networks that were trained on large ones."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def at_least(x: Tensor, size: int) -> Tensor:
    """Images (n, c, h, w), resized to `size` x `size` where a side is shorter."""
    if min(x.shape[2:]) >= size:
        return x
    return F.interpolate(x, (size, size), mode="bilinear", align_corners=False)
