"""A generator that begins with images of nobody: dead leaves and coloured noise, redrawn into images of a class.

What matching a mean embedding leaves open (texture, clutter, where things stand) stays as varied as it was in what the
network began with. Noise vectors have no such variety: a generator that begins with them makes smooth, similar images.

Dead leaves (Lee, Mumford and Huang 2001) are ellipses of random place, size and colour that hide each other; coloured
noise has a spectrum that falls with the frequency. Both share their statistics with photographs and show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.generator import Generator, channels_last
from sfumato.record_rng import normal, uniform

LEAVES = (8, 24)  # of an image, either number
RADII = (0.05, 0.5)  # of a side, all scales alike
ASPECT = 0.3  # of the longest ellipse
FALL = (0.8, 1.8)  # exponents of a spectrum
AXES = (1.0, 0.35, 0.2)  # spread along three directions of colour
SPREAD = 0.22  # of a pixel
EDGE = 0.02  # of the grey levels that a network can still move
NAMED = 16  # numbers that stand for a class
CODE = 256  # numbers that see the whole image


def dead_leaves(keys: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """(n, channels, height, width) in [0, 1], an image of each key.

    >>> dead_leaves(torch.arange(3), (3, 12, 12)).shape
    torch.Size([3, 3, 12, 12])
    """
    channels, height, width = shape
    y, x = torch.meshgrid(*(torch.arange(n, device=keys.device) / max(height, width) for n in shape[1:]), indexing="ij")
    drawn = uniform(keys, (LEAVES[1], 5), 1)[..., None, None]
    centre_y, centre_x, angle, aspect, size = drawn.unbind(2)
    angle = angle * math.pi
    radius = RADII[0] * (RADII[1] / RADII[0]) ** size
    along = (x - centre_x) * angle.cos() + (y - centre_y) * angle.sin()
    across = (y - centre_y) * angle.cos() - (x - centre_x) * angle.sin()
    inside = along.square() + (across / (ASPECT + (1 - ASPECT) * aspect)).square() < radius.square()
    few = uniform(keys, (1, 1, 1), 2) < 0.5
    inside[:, LEAVES[0] :] &= ~few
    # The first leaf that covers a pixel is the one on top; behind all of them lies a ground.
    covered = torch.cat([inside, torch.ones_like(inside[:, :1])], 1)
    top = covered.to(torch.uint8).argmax(1)
    colours = uniform(keys, (LEAVES[1] + 1, channels), 3)
    found = colours.gather(1, top.flatten(1)[..., None].expand(-1, -1, channels))
    return found.mT.reshape(-1, *shape)


def coloured_noise(keys: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """(n, channels, height, width) in [0, 1], an image of each key.

    >>> coloured_noise(torch.arange(3), (1, 12, 10)).shape
    torch.Size([3, 1, 12, 10])
    """
    channels, height, width = shape
    fy, fx = (torch.fft.fftfreq(n, device=keys.device) for n in shape[1:])
    frequency = (fy[:, None].square() + fx.square()).sqrt().clamp(min=1 / max(height, width))
    fall = FALL[0] + (FALL[1] - FALL[0]) * uniform(keys, (1, 1, 1), 1)
    x = torch.fft.ifft2(torch.fft.fft2(normal(keys, shape, 2)) / frequency**fall).real
    if channels > 1:
        axes = normal(keys, (channels, channels), 3) * x.new_tensor(AXES)
        x = torch.einsum("nij,njhw->nihw", axes, x)
    x = (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True).clamp(min=1e-6)
    contrast = 0.5 + uniform(keys, (1, 1, 1), 4)
    tint = 0.2 * normal(keys, (channels, 1, 1), 5) if channels > 1 else 0.0
    images: Tensor = (0.5 + SPREAD * contrast * x + tint).clamp(0, 1)
    return images


def images_of_nobody(keys: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Dead leaves for one half of the keys, coloured noise for the other."""
    leafy = uniform(keys, (), 7) < 0.5
    images = torch.empty(len(keys), *shape, device=keys.device)
    for rows, make in ((leafy, dead_leaves), (~leafy, coloured_noise)):
        if rows.any():
            images[rows] = make(keys[rows], shape)
    return images


class LeavesGenerator(Generator):
    """An image of nobody -> down to a quarter of its sides and up again, beside itself -> image in [0, 1].

    A latent is a whole number, from which the first image is drawn. No layer mixes examples. Before its first step the
    network leaves images as they are.

    >>> LeavesGenerator((1, 10, 12), ("cat", "dog"), width=8).sample(5).pixels.shape
    (5, 1, 10, 12)
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        width: int = 32,
        label_weights: Sequence[float] | None = None,
        conditional: bool = True,
    ) -> None:
        super().__init__(shape, classes, 1, label_weights, conditional=conditional)
        self.width = width
        channels, height, side = self.shape
        self.padded = (channels, -(-height // 4) * 4, -(-side // 4) * 4)
        coarse = 4 * width * math.prod(side // 4 for side in self.padded[1:])
        self.named = nn.Linear(len(self.classes), NAMED)
        self.first = _layer(channels + NAMED, width)
        self.down = nn.ModuleList([_layer(width, 2 * width, 4, 2), _layer(2 * width, 4 * width, 4, 2)])
        self.seen = nn.Linear(coarse, CODE)
        self.whole = nn.Linear(CODE + NAMED, coarse)
        self.middle = _layer(4 * width, 4 * width)
        self.up = nn.ModuleList([_doubled(4 * width, 2 * width), _doubled(4 * width, width)])
        self.last = nn.Conv2d(2 * width, channels, 3, padding=1)
        for p in (*self.whole.parameters(), *self.last.parameters()):
            nn.init.zeros_(p)
        channels_last(self)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "leaves",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "width": self.width,
            "label_weights": self.label_weights,
            "conditional": self.conditional,
        }

    def latents(self, n: int, random: torch.Generator) -> Tensor:
        """Whole numbers, one an image."""
        return torch.randint(2**62, (n, 1), generator=random, device=random.device)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        x = images_of_nobody(z[:, 0].to(labels.device), self.padded)
        # A GPU fits it twice as fast so; what is released is made in full precision.
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.training and x.is_cuda):
            change = self._change(x, labels).float()
        images = torch.sigmoid(torch.logit(x.clamp(EDGE, 1 - EDGE)) + change)
        return images[:, :, : self.shape[1], : self.shape[2]]

    def _change(self, x: Tensor, labels: Tensor) -> Tensor:
        """What is added to the logits of the pixels."""
        named = self.named(self.condition(labels, x))
        a = self.first(torch.cat([x, named[:, :, None, None].expand(-1, -1, *self.padded[1:])], 1))
        b = self.down[0](a)
        c = self.down[1](b)
        code = F.silu(self.seen(c.flatten(1)))
        c = self.middle(c + self.whole(torch.cat([code, named], 1)).view_as(c))
        d = self.up[0](c)
        e = self.up[1](torch.cat([d, b], 1))
        change: Tensor = self.last(torch.cat([e, a], 1))
        return change


def _layer(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, 1), nn.GroupNorm(8, outputs), nn.SiLU())


def _doubled(inputs: int, outputs: int) -> nn.Sequential:
    """Twice the sides: channels are handed to finer pixels."""
    shuffled = nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 3, padding=1), nn.PixelShuffle(2))
    return nn.Sequential(shuffled, nn.GroupNorm(8, outputs), nn.SiLU())
