"""Feature maps of single images with a norm that is bounded by construction."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class RandomFourier:
    """Random Fourier features of a Gaussian kernel (Rahimi and Recht 2007) in pairs of cosine and sine.

    Each pair has length 1/sqrt(pairs), so every image has norm exactly 1. The frequencies are data-independent.
    """

    def __init__(
        self, pixels: int, features: int, bandwidth: float, random: torch.Generator, octaves: float = 0.0
    ) -> None:
        # The bandwidth is in units of a grey level, so that one setting serves images of any size. Spread over
        # octaves, wide kernels pull a generator in from afar and narrow ones make it sharp.
        scale = bandwidth * 2 ** (octaves * (torch.linspace(0, 1, features // 2) - 0.5))
        self.frequencies = torch.randn(pixels, features // 2, generator=random) / (scale * math.sqrt(pixels))

    def to(self, device: str) -> RandomFourier:
        """Move the frequencies."""
        self.frequencies = self.frequencies.to(device)
        return self

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        angle = images.flatten(1) @ self.frequencies.to(images.dtype)
        return torch.cat([angle.cos(), angle.sin()], 1) / math.sqrt(angle.shape[1])
