"""Private Evolution's public side: the API that makes and varies images, and how noisy votes select them."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

Random = torch.Generator


class Api(Protocol):
    """Public images out of nothing, and images like given ones; `random` decides both."""

    def make(self, labels: Tensor, random: Random) -> Tensor:
        """One image for each label."""

    def vary(self, images: Tensor, labels: Tensor, strength: float, random: Random) -> Tensor:
        """Something like each image; the more like it the smaller the strength, from 1 to 0."""


class Transforms:
    """An API without a model: smooth random images, which are then shifted, zoomed, blended and retouched."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape

    def make(self, labels: Tensor, random: Random) -> Tensor:
        return torch.sigmoid(2 * self._smooth(len(labels), self.shape[0], 4, random))

    def vary(self, images: Tensor, labels: Tensor, strength: float, random: Random) -> Tensor:
        n = len(images)
        partner = _partners(labels, random)
        mask = torch.sigmoid(4 * self._smooth(n, 1, 3, random) + 2)  # mostly the image itself
        images = mask * images + (1 - mask) * images[partner]
        images = self._moved(images, strength, random)
        cells = int(torch.randint(3, 9, (1,), generator=random))  # coarse and fine strokes in turn
        touch = self._smooth(n, self.shape[0], cells, random)
        contrast = 1 + 0.3 * strength * torch.randn(n, 1, 1, 1, generator=random)
        return (images * contrast + 0.3 * strength * touch).clamp(0, 1)

    def _smooth(self, n: int, channels: int, cells: int, random: Random) -> Tensor:
        coarse = torch.randn(n, channels, cells, cells, generator=random)
        return F.interpolate(coarse, self.shape[1:], mode="bicubic", align_corners=False)

    @staticmethod
    def _moved(images: Tensor, strength: float, random: Random) -> Tensor:
        """Shifted by some per cent of the image, and zoomed; what comes in from outside repeats the border."""
        n = len(images)
        zoom = torch.exp(0.15 * strength * torch.randn(n, 2, generator=random))
        shift = 0.15 * strength * torch.randn(n, 2, 1, generator=random)
        grid = F.affine_grid(torch.cat([torch.diag_embed(zoom), shift], 2), list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _partners(labels: Tensor, random: Random) -> Tensor:
    """Another image of the same class for each, or itself."""
    shuffled = torch.randperm(len(labels), generator=random)
    by_class = shuffled[torch.argsort(labels[shuffled], stable=True)]
    partner = torch.empty_like(by_class)
    partner[torch.argsort(labels, stable=True)] = by_class
    return partner


def whole(images: Tensor) -> Tensor:
    """Pixels as multiples of 1/255, which is how they are voted on and released."""
    return images.clamp(0, 1).mul(255).round().div(255)


def next_population(images: Tensor, votes: Tensor, api: Api, random: Random, *, strength: float, kept: float) -> Tensor:
    """The share `kept` of each class that has most votes, then variations of parents drawn by their votes.

    `images` are (classes, each, channels, height, width) and `votes` (classes, each), none below 0.
    """
    classes, each = votes.shape
    stay = min(each - 1, round(kept * each))
    best = votes.argsort(dim=1, descending=True, stable=True)[:, :stay]
    weights = torch.where(votes.sum(1, keepdim=True) > 0, votes, torch.ones_like(votes))  # no votes: all alike
    parents = torch.multinomial(weights, each - stay, replacement=True, generator=random)
    rows = torch.arange(classes)[:, None]
    labels = torch.arange(classes).repeat_interleave(each - stay)
    varied = whole(api.vary(images[rows, parents].flatten(0, 1), labels, strength, random))
    return torch.cat([images[rows, best], varied.view(classes, each - stay, *images.shape[2:])], 1)
