"""A generator of codes behind a fixed autoencoder: noise and label -> code -> image.

A code is a small image in [0, 1]: `channels` numbers for each of its positions, a quarter of the image a side. So
whatever makes images makes codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from sfumato.networks.diffusion import DiffusionGenerator
from sfumato.networks.generator import Generator, channels_last
from sfumato.networks.groupnorm_silu import GROUP


class Autoencoder(nn.Module):
    """Images in [0, 1] to codes in [0, 1] and back; no layer sees two images."""

    def __init__(self, shape: Sequence[int], channels: int, width: int) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.encode = channels_last(
            nn.Sequential(
                nn.Conv2d(shape[0], width, 5, stride=2, padding=2),
                nn.SiLU(),
                nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
                nn.GroupNorm(2 * width // GROUP, 2 * width),
                nn.SiLU(),
                nn.Conv2d(2 * width, channels, 3, padding=1),
                nn.Sigmoid(),
            )
        )
        self.decode = channels_last(
            nn.Sequential(
                nn.Conv2d(channels, 2 * width, 3, padding=1),
                nn.SiLU(),
                nn.Conv2d(2 * width, 4 * width, 3, padding=1),
                nn.PixelShuffle(2),
                nn.GroupNorm(width // GROUP, width),
                nn.SiLU(),
                nn.Conv2d(width, 4 * shape[0], 5, padding=2),
                nn.PixelShuffle(2),
                nn.Sigmoid(),
            )
        )

    def forward(self, codes: Tensor) -> Tensor:
        image: Tensor = self.decode(codes)
        return image[:, :, : self.shape[1], : self.shape[2]]


def code_shape(shape: Sequence[int], channels: int) -> tuple[int, int, int]:
    """Of the codes of images.

    >>> code_shape((3, 32, 30), 4)
    (4, 8, 8)
    """
    return channels, math.ceil(shape[1] / 4), math.ceil(shape[2] / 4)


class CodedGenerator(Generator):
    """A diffusion model of codes, and the autoencoder that makes images of them.

    `model` has the settings of a `DiffusionGenerator`, less shape and classes.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        label_weights: Sequence[float] | None = None,
        channels: int = 4,
        code_width: int = 32,
        model: Mapping[str, Any] | None = None,
    ) -> None:
        codes = code_shape(shape, channels)
        super().__init__(shape, classes, math.prod(codes), label_weights)
        self._settings = {"channels": channels, "code_width": code_width, "model": dict(model or {})}
        self.autoencoder = Autoencoder(shape, channels, code_width)
        self.model = DiffusionGenerator(codes, classes, label_weights, **(model or {}))

    @property
    def net(self) -> nn.Module:
        """The network that denoises codes."""
        return self.model.net

    def config(self) -> dict[str, Any]:
        return {
            "kind": "coded",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "label_weights": self.label_weights,
            **self._settings,
        }

    def seen(self, images: Tensor) -> Tensor:
        """The code of each image."""
        codes: Tensor = self.autoencoder.encode(images.to(next(self.autoencoder.parameters())))
        return codes.float()

    def denoise(self, x: Tensor, sigma: Tensor, labels: Tensor) -> Tensor:
        """The expected code behind a noisy one."""
        return self.model.denoise(x, sigma, labels)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        image: Tensor = self.autoencoder(self.model(z, labels))
        return image
