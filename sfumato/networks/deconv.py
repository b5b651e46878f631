"""The generator of Bie, Kamath and Zhang (2023): transposed convolutions without any normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.generator import Generator

DOUBLINGS = 3


class DeconvGenerator(Generator):
    """Latent and class -> coarse maps -> three doublings -> image in [0, 1]. No layer mixes examples.

    >>> sum(p.numel() for p in DeconvGenerator((1, 28, 28), tuple("0123456789")).parameters())
    2279809
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 128,
        width: int = 128,
        label_weights: Sequence[float] | None = None,
        latent_distribution: str = "gaussian",
        conditional: bool = True,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights, latent_distribution, conditional)
        self.width = width
        sides = [tuple(-(-s // 2**i) for s in self.shape[1:]) for i in range(DOUBLINGS, -1, -1)]
        self.coarse = sides[0]
        maps = 2 * width * math.prod(self.coarse)
        self.code = nn.Linear(latent, maps)
        self.label = nn.Linear(len(self.classes), maps)
        steps = zip(pairwise(sides), pairwise((4 * width, 2 * width, width, self.shape[0])), strict=True)
        self.body = nn.ModuleList(doubling(*maps, *ends) for ends, maps in steps)

    def config(self) -> dict[str, Any]:
        return self._config("deconv", width=self.width)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        both = [part.view(-1, 2 * self.width, *self.coarse) for part in (self.code(z), self._named(labels, z))]
        x = torch.cat(both, 1)
        for layer in self.body:
            x = layer(F.leaky_relu(x, 0.2))
        return (torch.tanh(x) + 1) / 2

    def _named(self, labels: Tensor, like: Tensor) -> Tensor:
        maps: Tensor = self.label(self.condition(labels, like))
        return maps


def doubling(inputs: int, outputs: int, small: tuple[int, ...], large: tuple[int, ...]) -> nn.ConvTranspose2d:
    """A transposed convolution from one size of maps to another: twice as large, or one pixel less than that."""
    height, width = (4 if b == 2 * a else 3 for a, b in zip(small, large, strict=True))
    layer = nn.ConvTranspose2d(inputs, outputs, (height, width), stride=2, padding=1)
    # A pixel gets a quarter of the kernel from each map. Without normalisation the usual start would hand on next to
    # nothing of the latent.
    nn.init.normal_(layer.weight, std=math.sqrt(8 / (inputs * height * width)))
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
