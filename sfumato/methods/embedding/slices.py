"""One-dimensional views of images along random directions, as counts in public bins."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

GRID = 2.0**24  # directions are multiples of its inverse


@lru_cache(maxsize=8)
def directions(shape: tuple[int, int, int], slices: int, seed: int, blur: float = 0.0) -> Tensor:
    """Random unit columns (pixels, slices), orthogonal as far as there is room; uniform on the sphere without blur.

    Orthogonal ones have the least spectral norm: sqrt(ceil(slices / pixels)) at most. `blur` makes them smooth, with a
    Gaussian of so many pixels: what images of things vary in.
    """
    random = torch.Generator().manual_seed(seed)
    pixels = math.prod(shape)
    blocks = []
    for start in range(0, slices, pixels):
        drawn = torch.randn(min(pixels, slices - start), *shape, generator=random, dtype=torch.float64)
        blocks.append(torch.linalg.qr(_blurred(drawn, blur).flatten(1).T).Q)
    return torch.round(normalize(torch.cat(blocks, 1), dim=0) * GRID) / GRID


def _blurred(x: Tensor, blur: float) -> Tensor:
    """A Gaussian along rows and columns; what lies outside is zero. A little of `x` stays, so that rank is kept."""
    for axis in (2, 3) if blur else ():
        places = torch.arange(x.shape[axis], dtype=x.dtype)
        kernel = torch.exp(-0.5 * ((places[:, None] - places) / blur).square())
        x = torch.movedim(torch.movedim(x, axis, -1) @ (kernel / kernel.sum(0)), -1, axis) + 1e-3 * x
    return x


def spectral_norm(matrix: Tensor) -> float:
    """The largest singular value: how much a public projection can stretch the difference of two records."""
    matrix = matrix.double()
    gram = matrix.T @ matrix if matrix.shape[1] <= matrix.shape[0] else matrix @ matrix.T
    return math.sqrt(float(torch.linalg.eigvalsh(gram)[-1].clamp(min=0)))


class Slices:
    """Each image's projections u_j'(2x - 1), and the bin of [-span, span] that each of them falls into.

    Values beyond the span go to the outer bins, so that every image counts once in each slice. Pixels are whole
    numbers from 0 to 255 and directions lie on a grid: a projection is exact in float64, so that the bin of a record
    cannot depend on the batch it is in.
    """

    def __init__(
        self, shape: tuple[int, int, int], slices: int, bins: int, span: float, seed: int, blur: float = 0.0
    ) -> None:
        self.directions = directions(shape, slices, seed, blur)
        self.bins = bins
        self.span = span
        self.shape = (slices, bins)

    def to(self, device: str) -> Slices:
        """Move the directions."""
        self.directions = self.directions.to(device)
        return self

    def project(self, images: Tensor) -> Tensor:
        """(n, slices), for a generator to learn through."""
        return (2 * images.flatten(1) - 1) @ self.directions.to(images.dtype)

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        whole = torch.nan_to_num(images.double() * 255).clamp(0, 255).round()
        exact = (2 * whole.flatten(1) - 255) @ self.directions / 255
        places = (exact + self.span) * (self.bins / (2 * self.span))
        return one_hot(places.clamp(0, self.bins - 1).long(), self.bins)

    def quantiles(self, counts: Tensor, levels: int) -> Tensor:
        """(classes, slices, bins) of noisy shares -> (classes, levels, slices): the middle of each of equal parts."""
        shares = simplex(counts)
        zero = shares.new_zeros(*shares.shape[:-1], 1)
        below = torch.cat([zero, shares.cumsum(-1)], -1).clamp(max=1)
        at = (torch.arange(levels, device=shares.device, dtype=shares.dtype) + 0.5) / levels
        at = at.expand(*shares.shape[:-1], levels).contiguous()
        bin = (torch.searchsorted(below, at) - 1).clamp(0, self.bins - 1)
        inside = (at - below.gather(-1, bin)) / shares.gather(-1, bin).clamp(min=1e-9)
        places = (bin + inside.clamp(0, 1)) * (2 * self.span / self.bins) - self.span
        return places.transpose(-1, -2)


def simplex(noisy: Tensor) -> Tensor:
    """The nearest shares that are at least 0 and add up to 1, along the last axis.

    >>> simplex(torch.tensor([1.0, 0.5, -0.5])).tolist()
    [0.75, 0.25, 0.0]
    """
    ranked = noisy.sort(-1, descending=True).values
    excess = (ranked.cumsum(-1) - 1) / torch.arange(1, noisy.shape[-1] + 1, device=noisy.device)
    support = (ranked > excess).sum(-1, keepdim=True).clamp(min=1)
    return (noisy - excess.gather(-1, support - 1)).clamp(min=0)
