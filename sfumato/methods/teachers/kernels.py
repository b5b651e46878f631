"""Kernels between images, and the slope of a weighted sum of them: a Gaussian, or a sum of random waves.

    Gauss    k(x, r) = exp(-|x - r|^2 / 2 s^2)
    Waves    k(x, r) = mean over w of cos w'(x - r),   w ~ N(0, 1/s^2)

Waves average to the Gaussian, but a finite number of them never falls to nothing: a slope of a Gaussian speaks of what
is near, a slope of waves of all of the data's law. Slopes are given in a unit in which one image's is about 1 at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.engine.random_fourier import RandomFourier

STEEPEST = math.exp(-0.5)  # of a Gaussian of width 1
NEAR = 0.4  # of a Gaussian of width 1, at the distances of images of one label


@dataclass(frozen=True)
class Gauss:
    """One width, or four of them over `octaves` in turn: wide ones pull in from afar, narrow ones sharpen.

    >>> x, r = torch.zeros(1, 4), torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    >>> Gauss(2.0).slopes(x, r, torch.ones(1, 1))  # one width away is the steepest place
    tensor([[1., 0., 0., 0.]])
    """

    width: float
    octaves: float = 0.0

    def times(self, step: int) -> float:
        """What the width is multiplied by at a step: wide first, two steps each.

        >>> [round(Gauss(1.0, 1.0).times(step), 2) for step in (0, 1, 2, 4, 6, 8)]
        [1.41, 1.41, 1.12, 0.89, 0.71, 1.41]
        """
        return float(2 ** (self.octaves * (0.5 - step // 2 % 4 / 3)))

    def slopes(self, x: Tensor, others: Tensor, weights: Tensor, times: Tensor | float = 1.0) -> Tensor:
        """Of sum_r weights(x, r) k(x, r) in x (m, d); `others` is (..., n, d) and `weights` (..., m, n)."""
        width = self.width * times
        far = x.square().sum(-1)[..., None] + others.square().sum(-1)[..., None, :] - 2 * x @ others.mT
        pull = weights * torch.exp(far.clamp(min=0) / (-2 * width**2)) / (width * STEEPEST)
        return pull @ others - pull.sum(-1, keepdim=True) * x

    def numbers(self, images: int, asked: int) -> int:
        """Held for each teacher of `images` while it is asked about so many, beside the images and the slopes."""
        return 2 * images * asked


@dataclass(frozen=True)
class Waves:
    """So many frequencies, the same for everyone, of widths spread over `octaves` around the middle one.

    A single image's slope has two parts: where the other one is near, that of the Gaussian, and everywhere a sum of
    waves out of step, as long as their frequencies over sqrt(2 count). The unit is both together.
    """

    pixels: int
    count: int
    width: float
    octaves: float = 0.0

    def times(self, step: int) -> float:
        """All widths are there at every step."""
        return 1.0

    def slopes(self, x: Tensor, others: Tensor, weights: Tensor, times: Tensor | float = 1.0) -> Tensor:
        """As of a Gaussian; `times` is 1."""
        waves, unit = _waves(self, str(x.device))
        ahead = x @ waves
        behind = others @ waves
        turned = (weights @ behind.sin()).mul(ahead.cos()) - (weights @ behind.cos()).mul(ahead.sin())
        return turned @ (waves.T / (self.count * unit))

    def numbers(self, images: int, asked: int) -> int:
        """Held for each teacher of `images` while it is asked about so many, beside the images and the slopes."""
        return self.count * (3 * images + 4 * asked)


@lru_cache(8)
def _waves(kernel: Waves, device: str) -> tuple[Tensor, float]:
    """Frequencies (d, count) and the unit of their slopes."""
    bandwidth = kernel.width / math.sqrt(kernel.pixels)
    random = torch.Generator().manual_seed(0)
    found = RandomFourier(kernel.pixels, 2 * kernel.count, bandwidth, random, kernel.octaves).frequencies
    everywhere = float(found.square().sum()) / (2 * kernel.count**2)
    return found.to(device), math.sqrt(everywhere + (NEAR / kernel.width) ** 2)
