"""A small convolutional generator, conditional on a class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.generators.labels import allot
from sfumato.types import Images

CHUNK = 250  # images made at once when sampling


class ConvGenerator(nn.Module):
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
    ) -> None:
        super().__init__()
        self.shape, self.classes = (int(shape[0]), int(shape[1]), int(shape[2])), tuple(classes)
        self.latent, self.width = latent, width
        self.label_weights = list(label_weights or [1 / len(self.classes)] * len(self.classes))
        self.coarse = (math.ceil(self.shape[1] / 4), math.ceil(self.shape[2] / 4))
        self.start = nn.Linear(latent + len(self.classes), 2 * width * math.prod(self.coarse))
        # Convolutions run on the coarse maps and hand their channels to finer pixels: a third of the cost of
        # upsampling first.
        self.body = nn.Sequential(
            nn.GroupNorm(8, 2 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.GroupNorm(8, width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 4 * self.shape[0], 5, padding=2),
            nn.PixelShuffle(2),
            nn.Sigmoid(),
        ).to(memory_format=torch.channels_last)

    def config(self) -> dict[str, Any]:
        """All that is needed to build it again; public."""
        return {
            "kind": "conv",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.latent,
            "width": self.width,
            "label_weights": self.label_weights,
        }

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        condition = nn.functional.one_hot(labels, len(self.classes)).to(z)
        coarse = self.start(torch.cat([z, condition], 1)).view(-1, 2 * self.width, *self.coarse)
        return self.body(coarse)[:, :, : self.shape[1], : self.shape[2]]

    @torch.no_grad()
    def sample(self, n: int, labels: Sequence[int] | None = None, *, seed: int = 0) -> Images:
        """`n` images; labels in the generator's own proportions unless given."""
        random = torch.Generator().manual_seed(seed)
        chosen = allot(n, self.label_weights, random) if labels is None else torch.as_tensor(labels, dtype=torch.long)
        if len(chosen) != n or (n and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self.classes)):
            raise ValueError(f"Expected {n} labels from 0 to {len(self.classes) - 1}.")
        z = torch.randn(n, self.latent, generator=random)
        device = next(self.parameters()).device
        made = [
            self(z[i : i + CHUNK].to(device), chosen[i : i + CHUNK].to(device)).mul(255).round().byte().cpu().numpy()
            for i in range(0, n, CHUNK)
        ]
        pixels = np.concatenate(made) if made else np.zeros((0, *self.shape), dtype=np.uint8)
        return Images(pixels, chosen.numpy(), self.classes)
