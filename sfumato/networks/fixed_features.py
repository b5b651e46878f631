"""Fixed features of an image that a linear classifier needs, from constants alone: no data went into them.

scattering   of all images of 8 pixels a side and more, normalised in each image over groups of maps (Tramer and Boneh
             2021); larger images than 32 pixels are averaged to about that first
patches      how strongly patches of images of nobody are found in each part of the image (Coates and Ng 2011, whose
             patches are those of the data): for colour, where scattering sees each channel by itself
mirrored     the mean of an image's features and its mirror image's

Images below 8 pixels have their pixels for features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.leaves import coloured_noise, dead_leaves
from sfumato.networks.scattering import LEAST, MAPS, Scattering, outputs
from sfumato.remembered import recall

SIDE = 32  # pixels that larger images are averaged to, about
GROUPS = 27  # of the 81 maps of a channel that are normalised together
PATCH = 6  # pixels a side
CONTRAST = 0.05  # of a patch, below which it counts as flat
WHITENED = 0.03  # added to the variances of patches before they are whitened
THRESHOLD = 1.5  # of the strength from which on a patch is found
PARTS = 3  # of an image along each side
SAMPLE = 3000  # images of nobody of each kind that patches are taken from
SAMPLED = 60_000  # patches that are whitened by
MEASURED = 1024  # images of nobody of each kind that features are scaled by
CHUNK = 256


class Patches(nn.Module):
    """(B, C, H, W) in [0, 1] -> (B, width): for each of `count` patches, found as it is and inverted, in each part.

    >>> net = Patches((3, 12, 12), count=4)
    >>> net(torch.rand(2, 3, 12, 12)).shape, net.width
    (torch.Size([2, 72]), 72)
    """

    mean: Tensor
    patches: Tensor
    centre: Tensor
    spread: Tensor

    def __init__(self, shape: tuple[int, int, int], count: int, seed: int = 0) -> None:
        super().__init__()
        self.width = 2 * count * PARTS**2
        self.size = min(PATCH, *shape[1:])
        keys = torch.randint(2**62, (4, SAMPLE), generator=torch.Generator().manual_seed(seed))
        made = [(dead_leaves if i % 2 else coloured_noise)(k[:MEASURED], shape) for i, k in enumerate(keys)]
        random = torch.Generator().manual_seed(seed + 1)
        some = self._normed(self._drawn(torch.cat(made[:2]), SAMPLED, random))
        mean = some.mean(0)
        variance, axes = torch.linalg.eigh(torch.cov((some - mean).T))
        white = axes @ torch.diag((variance + WHITENED).rsqrt()) @ axes.T
        chosen = (self._normed(self._drawn(torch.cat(made[2:]), count, random)) - mean) @ white
        chosen = chosen / chosen.norm(dim=1, keepdim=True).clamp(min=1e-3)
        self.register_buffer("mean", mean)
        self.register_buffer("patches", white @ chosen.T)
        self.register_buffer("centre", torch.zeros(self.width))
        self.register_buffer("spread", torch.ones(self.width))
        found = torch.cat([self._found(piece) for piece in torch.cat(made[:2]).split(CHUNK)])
        self.centre = found.mean(0)
        self.spread = found.std(0) + 1e-3

    def forward(self, images: Tensor) -> Tensor:
        found = torch.cat([self._found(piece) for piece in images.split(CHUNK)])
        return F.layer_norm((found - self.centre) / self.spread, (self.width,))

    def _drawn(self, images: Tensor, count: int, random: torch.Generator) -> Tensor:
        """Patches at random places of random images."""
        at = torch.randint(len(images), (count,), generator=random)
        y, x = (torch.randint(side - self.size + 1, (count, 1), generator=random) for side in images.shape[2:])
        square = torch.arange(self.size)
        rows = (y + square)[:, None, :, None]
        columns = (x + square)[:, None, None, :]
        channels = torch.arange(images.shape[1])[None, :, None, None]
        return images[at[:, None, None, None], channels, rows, columns].flatten(1)

    @staticmethod
    def _normed(patches: Tensor) -> Tensor:
        patches = patches - patches.mean(-1, keepdim=True)
        return patches / (patches.var(-1, keepdim=True) + CONTRAST**2).sqrt()

    def _found(self, images: Tensor) -> Tensor:
        """(B, width): square roots of mean strengths above the threshold."""
        seen = self._normed(F.unfold(images, self.size).mT)
        strength = ((seen - self.mean) @ self.patches).mT
        sides = [side - self.size + 1 for side in images.shape[2:]]
        both = torch.cat([(strength - THRESHOLD).clamp(min=0), (-strength - THRESHOLD).clamp(min=0)], 1)
        return F.adaptive_avg_pool2d(both.unflatten(2, sides), PARTS).flatten(1).clamp(min=1e-8).sqrt()


class FixedFeatures(nn.Module):
    """(B, C, H, W) in [0, 1] -> (B, width).

    >>> net = FixedFeatures((1, 28, 28))
    >>> net(torch.rand(2, 1, 28, 28)).shape, net.width
    (torch.Size([2, 3969]), 3969)
    >>> FixedFeatures((3, 64, 64), patches=8).width, FixedFeatures((1, 5, 5)).width
    (15696, 25)
    """

    def __init__(self, shape: tuple[int, int, int], patches: int = 0, mirrored: bool = False) -> None:
        super().__init__()
        self.mirrored = mirrored
        channels, height, width = shape
        seen = (channels, _averaged(height), _averaged(width))
        self.sides = seen[1:] if seen != tuple(shape) else None
        tiny = min(seen[1:]) < LEAST
        self.scattering = None if tiny else Scattering(seen)
        self.norm = nn.GroupNorm(1 if tiny else GROUPS * channels, channels if tiny else MAPS * channels, affine=False)
        self.patches = Patches(seen, patches) if patches and not tiny else None
        maps = seen if tiny else (MAPS * channels, outputs(seen[1]), outputs(seen[2]))
        self.width = math.prod(maps) + (self.patches.width if self.patches else 0)

    def forward(self, images: Tensor) -> Tensor:
        known = recall(images, self)
        if known is not None:
            return known.float()
        x = images.float() if self.sides is None else F.adaptive_avg_pool2d(images.float(), self.sides)
        return (self._one(x) + self._one(x.flip(3))) / 2 if self.mirrored else self._one(x)

    def _one(self, x: Tensor) -> Tensor:
        maps = x if self.scattering is None else self.scattering(x)
        rows = self.norm(maps).flatten(1)
        return torch.cat([rows, self.patches(x)], 1) if self.patches else rows


def _averaged(side: int) -> int:
    """Pixels of a side after averaging.

    >>> _averaged(28), _averaged(64), _averaged(130)
    (28, 32, 26)
    """
    return -(-side // -(-side // SIDE))
