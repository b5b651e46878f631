"""A convolutional critic, conditional on a class, in which no layer mixes examples: fit for gradients by example.

    [convolution of the image, convolution of the label's planes]  -> leaky ReLU 0.2       `width` maps, half the side
    convolutions that halve the side and double the maps, down to four pixels or fewer     -> leaky ReLU 0.2
    linear to one score

As in Bie, Kamath and Zhang (2023), for any image: kernels of 4 pixels, of 3 where a side is odd. With `heads` the label
is not shown to the convolutions: each class has a linear score of its own (Miyato and Koyama 2018). With `auxiliary` it
is guessed: further outputs, one for each class (Odena et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALL = 4  # pixels of a side from which on it is halved no more
GROUPS = 8


class ConvCritic(nn.Module):
    """(images, labels) -> (B, 1), or (B, 1 + classes) with `auxiliary`.

    >>> sum(p.numel() for p in ConvCritic((1, 28, 28), 10).parameters())
    1724289
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        width: int = 128,
        *,
        norm: bool = False,
        heads: bool = False,
        auxiliary: bool = False,
    ) -> None:
        super().__init__()
        if width < 2 or width % 2 or (norm and width % GROUPS):
            raise ValueError(f"Expected width as a multiple of {GROUPS if norm else 2}, found width={width}.")
        self.classes = classes
        self.heads = heads and not auxiliary
        blind = heads or auxiliary
        channels = int(shape[0])
        sides = halvings((int(shape[1]), int(shape[2])))
        maps = [width * 2**i for i in range(len(sides) - 1)]
        self.image = halving(channels, width if blind else width // 2, sides[0])
        self.label = None if blind else halving(classes, width // 2, sides[0])
        self.body = nn.Sequential()
        for (inputs, outputs), side in zip(pairwise(maps), sides[1:-1], strict=True):
            self.body.append(halving(inputs, outputs, side))
            if norm:
                self.body.append(nn.GroupNorm(GROUPS, outputs))
            self.body.append(nn.LeakyReLU(0.2))
        scores = classes if self.heads else 1 + classes * auxiliary
        self.head = nn.Linear(maps[-1] * math.prod(sides[-1]), scores)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        maps = self.image(images)
        if self.label is not None:
            known = (labels[:, None] == torch.arange(self.classes, device=labels.device)).to(maps)
            planes = known[:, :, None, None].expand(-1, -1, *images.shape[2:])
            maps = torch.cat([maps, self.label(planes)], 1)
        scores: Tensor = self.head(self.body(F.leaky_relu(maps, 0.2)).flatten(1))
        return scores.gather(1, labels[:, None]) if self.heads else scores


def halvings(side: tuple[int, int]) -> list[tuple[int, int]]:
    """The sides of an image on its way down, halved twice at least.

    >>> halvings((28, 28))
    [(28, 28), (14, 14), (7, 7), (4, 4)]
    """
    sides = [side]
    while len(sides) < 3 or max(sides[-1]) > SMALL:
        sides.append((-(-sides[-1][0] // 2), -(-sides[-1][1] // 2)))
    return sides


def halving(inputs: int, outputs: int, side: tuple[int, int]) -> nn.Conv2d:
    """A convolution that takes each side to its half, rounded up."""
    height, width = (3 if s % 2 else 4 for s in side)
    return nn.Conv2d(inputs, outputs, (height, width), stride=2, padding=1)
