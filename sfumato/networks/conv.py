"""A small convolutional generator, conditional on a class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator, channels_last


class ConvGenerator(Generator):
    """Latent and class -> coarse maps -> two upsamplings -> image in [0, 1].

    No layer mixes examples, so an image depends on its own (z, label) alone, whatever batch it is made in.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 32,
        width: int = 48,
        label_weights: Sequence[float] | None = None,
        latent_distribution: str = "gaussian",
        conditional: bool = True,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights, latent_distribution, conditional)
        self.width = width
        self.coarse = (math.ceil(self.shape[1] / 4), math.ceil(self.shape[2] / 4))
        self.start = nn.Linear(latent + len(self.classes), 2 * width * math.prod(self.coarse))
        # Convolutions run on the coarse maps and hand their channels to finer pixels: a third of the cost of
        # upsampling first.
        self.body = channels_last(
            nn.Sequential(
                nn.GroupNorm(8, 2 * width),
                nn.LeakyReLU(0.2),
                nn.Conv2d(2 * width, 4 * width, 3, padding=1),
                nn.PixelShuffle(2),
                nn.GroupNorm(8, width),
                nn.LeakyReLU(0.2),
                nn.Conv2d(width, 4 * self.shape[0], 5, padding=2),
                nn.PixelShuffle(2),
                nn.Sigmoid(),
            )
        )

    def config(self) -> dict[str, Any]:
        return self._config("conv", width=self.width)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        coarse = self.start(torch.cat([z, self.condition(labels, z)], 1)).view(-1, 2 * self.width, *self.coarse)
        images: Tensor = self.body(coarse)
        return images[:, :, : self.shape[1], : self.shape[2]]
