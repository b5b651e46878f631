"""Small convolutional classifiers with weights drawn at random: public maps that see private images one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

GROUPS = 8  # of the channels, at most, in a normalisation


class ConvNet(nn.Module):
    """`depth` blocks of a 3x3 convolution, group normalisation, ReLU and 2x2 pooling; then one linear layer.

    The network of dataset condensation (Zhao et al. 2021), with groups in the place of single channels. No layer mixes
    examples.

    >>> net = ConvNet((1, 28, 28), 10, width=16, depth=3)
    >>> net.size, sum(p.numel() for p in net.parameters())
    (256, 7466)
    """

    def __init__(self, shape: Sequence[int], classes: int, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        channels, height, side = shape
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                nn.GroupNorm(math.gcd(GROUPS, width), width),
                nn.ReLU(),
                nn.AvgPool2d(2, ceil_mode=True),
            ]
            channels = width
            height = math.ceil(height / 2)
            side = math.ceil(side / 2)
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.size = channels * height * side
        self.head = nn.Linear(self.size, classes)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(images * 2 - 1))
        return scores

    def features(self, images: Tensor) -> Tensor:
        """(B, size): what the last block says of each image, in the precision of the images."""
        weights = {name: p.to(images) for name, p in self.body.named_parameters()}
        features: Tensor = torch.func.functional_call(self.body, weights, (images * 2 - 1,))
        return features

    @torch.no_grad()
    def draw(self, random: torch.Generator) -> None:
        """Fresh weights: normal, with variance 2 over the number of inputs; no biases."""
        for name, p in self.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn(p.shape, generator=random) * math.sqrt(2 / p[0].numel()))
            else:  # of a normalisation: factors of 1, as it starts
                p.fill_(float(name.endswith("weight")))
