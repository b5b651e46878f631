"""A small conditional U-Net whose layers keep examples apart and have rules for ghost norms.

Every layer with parameters is a convolution or a linear map, is called once, and with one tensor; attention is made of
linear maps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.groupnorm_silu import GROUP, even, soft

HEAD = 32  # channels of an attention head


class UNet(nn.Module):
    """(images, noise level, one-hot labels) -> images of the same shape.

    `patch` pixels a side become one position with more channels: a quarter of the work at 2. The last layer begins at
    zero, so that the network's first answer is zero.
    """

    frequencies: Tensor

    def __init__(
        self,
        channels: int,
        classes: int,
        width: int = 32,
        multipliers: Sequence[int] = (1, 2, 4),
        blocks: int = 1,
        attention: int = 1,
        patch: int = 1,
    ) -> None:
        super().__init__()
        if width < 1 or width % GROUP or min(multipliers) < 1 or blocks < 1 or patch < 1 or attention < 0:
            raise ValueError(
                f"Expected width as a multiple of {GROUP}, multipliers, blocks and patch of at least 1, "
                f"found {width=}, {multipliers=}, {blocks=}, {patch=}."
            )
        self.patch = patch
        known = 4 * width
        widths = [width * m for m in multipliers]
        self.register_buffer("frequencies", torch.exp(torch.linspace(math.log(0.25), math.log(16), width)))
        self.level = nn.Sequential(nn.Linear(2 * width, known), nn.SiLU(), nn.Linear(known, known))
        self.label = nn.Linear(classes, known, bias=False)
        self.start = nn.Conv2d(channels * patch**2, widths[0], 3, padding=1)
        self.down = nn.ModuleList()
        self.shrink = nn.ModuleList()
        for depth, now in enumerate(widths):
            before = widths[max(0, depth - 1)]
            attend = depth >= len(widths) - attention
            sizes = [(before if i == 0 else now, now) for i in range(blocks)]
            self.down.append(nn.ModuleList([Block(a, b, known, attend) for a, b in sizes]))
            last = depth == len(widths) - 1
            self.shrink.append(nn.Identity() if last else nn.Conv2d(now, now, 3, stride=2, padding=1))
        self.middle = Block(widths[-1], widths[-1], known, attention > 0)
        self.up = nn.ModuleList()
        self.grow = nn.ModuleList()
        for depth in reversed(range(len(widths))):
            now = widths[depth]
            attend = depth >= len(widths) - attention
            sizes = [(2 * now if i == 0 else now, now) for i in range(blocks)]
            self.up.append(nn.ModuleList([Block(a, b, known, attend) for a, b in sizes]))
            self.grow.append(nn.Conv2d(now, widths[depth - 1], 3, padding=1) if depth else nn.Identity())
        self.end = nn.Conv2d(widths[0], channels * patch**2, 3, padding=1)
        zeroed(self.end)

    def forward(self, x: Tensor, level: Tensor, labels: Tensor) -> Tensor:
        height, width = x.shape[2:]
        x = F.pad(x, (0, -width % self.patch, 0, -height % self.patch))
        angle = level[:, None].float() * self.frequencies
        known = F.silu(self.level(torch.cat([angle.cos(), angle.sin()], 1)) + self.label(labels))
        x = self.start(F.pixel_unshuffle(x, self.patch))
        kept = []
        for blocks, shrink in zip(self.down, self.shrink, strict=True):
            x = through(blocks, x, known)
            kept.append(x)
            x = shrink(x)
        x = self.middle(x, known)
        for blocks, grow in zip(self.up, self.grow, strict=True):
            skip = kept.pop()
            x = through(blocks, torch.cat([x, skip], 1), known)
            x = x if not kept else grow(twice(x, kept[-1].shape[2:]))
        x = F.pixel_shuffle(self.end(soft(x)), self.patch)
        return x[:, :, :height, :width]


def zeroed(layer: nn.Module) -> None:
    """A layer that begins by answering nothing."""
    for p in layer.parameters():
        nn.init.zeros_(p)


def through(blocks: nn.Module, x: Tensor, known: Tensor) -> Tensor:
    """What comes out of the blocks of one size of maps."""
    for block in blocks.children():
        x = block(x, known)
    return x


def twice(x: Tensor, size: torch.Size) -> Tensor:
    """Every position four times, cut to `size`; in the precision of x, which `interpolate` would not keep."""
    n, c, h, w = x.shape
    four = x.permute(0, 2, 3, 1)[:, :, None, :, None].expand(n, h, 2, w, 2, c).reshape(n, 2 * h, 2 * w, c)
    return four.permute(0, 3, 1, 2)[:, :, : size[0], : size[1]]  # channels stay innermost


class Block(nn.Module):
    """Two convolutions around a short cut; what is known of level and label scales and shifts between them."""

    def __init__(self, inputs: int, outputs: int, known: int, attend: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.known = nn.Linear(known, 2 * outputs)
        self.short = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.attention = Attention(outputs) if attend else nn.Identity()
        zeroed(self.conv2)

    def forward(self, x: Tensor, known: Tensor) -> Tensor:
        h = self.conv2(soft(self.conv1(soft(x)), *self.known(known).chunk(2, 1)))
        out: Tensor = self.attention(self.short(x) + h)
        return out


class Attention(nn.Module):
    """Every position looks at all others of its own image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // HEAD)
        self.ask = nn.Linear(width, 3 * width)
        self.tell = nn.Linear(width, width)
        zeroed(self.tell)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        q, k, v = self.ask(even(x).flatten(2).mT).view(n, h * w, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        answer: Tensor = self.tell(seen)
        return x + answer.mT.view(n, c, h, w)
