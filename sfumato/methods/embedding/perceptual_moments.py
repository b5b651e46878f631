"""First and second moments of public perceptual features, in two blocks of norm 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PerceptualMoments:
    """psi(x) = ( e(x) / ||e(x)||, e(x)^2 / ||e(x)^2|| ): norm sqrt(2), or less where all features vanish.

    e(x) are the maps of a frozen public network, averaged over a grid of `grid` x `grid` places. Grey images are
    shown to it as colour ones.
    """

    def __init__(self, network: nn.Module, grid: int, shape: tuple[int, int, int]) -> None:
        self.network = network
        self.grid = grid
        self.channels = shape[0]
        with torch.no_grad():
            self.size = 2 * self.features(torch.zeros(1, *shape)).shape[1]

    def to(self, device: str) -> PerceptualMoments:
        """Move the network."""
        self.network = self.network.to(device)
        return self

    def features(self, images: Tensor) -> Tensor:
        """e(x), flat. The network works in the precision of the images."""
        x = images.expand(-1, 3, -1, -1) if self.channels == 1 else images
        out = self.network.to(images.dtype)(x)
        maps = list(out) if isinstance(out, list | tuple) else [out]
        return torch.cat([self._pooled(m) for m in maps], 1)

    def _pooled(self, maps: Tensor) -> Tensor:
        if maps.dim() != 4:
            return maps.flatten(1)
        size = (min(self.grid, maps.shape[2]), min(self.grid, maps.shape[3]))
        # Maps of one stage weigh as much as those of another, however many places they have.
        return F.adaptive_avg_pool2d(maps, size).flatten(1) / math.sqrt(size[0] * size[1])

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        e = self.features(images)
        return torch.cat([F.normalize(e, dim=1), F.normalize(e.square(), dim=1)], 1)
