"""One public change of images for a whole step, the same for real and for synthetic ones.

Differentiable Siamese augmentation (Zhao and Bilen 2021), with the numbers of its code: one kind is drawn, then its
size. The change looks at each image alone and is drawn before any record is seen, so that a bound on what follows holds
as it did.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

AUGMENTS = ("none", "siamese", "siamese-flip")
KINDS = ("colour", "crop", "cutout", "scale", "rotate")
SCALE = 1.2
ANGLE = math.radians(15)
CROP = 0.125  # of a side
CUTOUT = 0.5


class Siamese:
    """A change of images that is drawn anew for each step; `none` leaves them as they are.

    >>> change = Siamese("none")
    >>> change.draw(torch.Generator())
    >>> float(change(torch.ones(1, 1, 2, 2)).sum())
    4.0
    """

    def __init__(self, augment: str) -> None:
        if augment not in AUGMENTS:
            raise ValueError(f"Expected augment={' or augment='.join(AUGMENTS)}, found augment={augment}.")
        self.kinds = () if augment == "none" else (*KINDS, *["flip"] * (augment == "siamese-flip"))
        self.kind = ""
        self.chances = [0.5] * 3

    def draw(self, random: torch.Generator) -> None:
        """The change of the next step, from public randomness."""
        if self.kinds:
            self.kind = self.kinds[int(torch.randint(len(self.kinds), (), generator=random))]
            self.chances = torch.rand(3, generator=random).tolist()

    def __call__(self, images: Tensor) -> Tensor:
        """The same change of every image (n, c, h, w)."""
        u, v, w = self.chances
        if self.kind == "colour":
            return _coloured(images, u - 0.5, 2 * v, w + 0.5)
        if self.kind == "cutout":
            return images * _hole(images.shape[2:], u, v).to(images)
        if self.kind == "flip":
            return images.flip(3) if u < 0.5 else images
        if self.kind in ("crop", "scale", "rotate"):
            place = torch.tensor(_place(self.kind, u, v)).to(images).expand(len(images), 2, 3)
            grid = F.affine_grid(place, list(images.shape), align_corners=False)
            return F.grid_sample(images, grid, padding_mode="zeros", align_corners=False)
        return images


def _coloured(images: Tensor, brightness: float, saturation: float, contrast: float) -> Tensor:
    images = images + brightness
    grey = images.mean(1, keepdim=True)
    images = (images - grey) * saturation + grey
    mean = images.mean((1, 2, 3), keepdim=True)  # of each image by itself
    return (images - mean) * contrast + mean


def _hole(sides: torch.Size, u: float, v: float) -> Tensor:
    """Ones, with a square of zeros around a place."""
    mask = torch.ones(tuple(sides))
    rows, columns = (
        slice(max(0, round(chance * side - CUTOUT * side / 2)), round(chance * side + CUTOUT * side / 2))
        for chance, side in zip((u, v), sides, strict=True)
    )
    mask[rows, columns] = 0
    return mask


def _place(kind: str, u: float, v: float) -> list[list[float]]:
    """Where each pixel of the changed image is taken from, in halves of a side."""
    if kind == "crop":
        return [[1.0, 0.0, 4 * CROP * (u - 0.5)], [0.0, 1.0, 4 * CROP * (v - 0.5)]]
    if kind == "scale":
        across, down = (chance * (SCALE - 1 / SCALE) + 1 / SCALE for chance in (u, v))
        return [[across, 0.0, 0.0], [0.0, down, 0.0]]
    angle = ANGLE * (2 * u - 1)
    return [[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0]]
