"""The generator of DataLens and G-PATE: fully connected layers, then two transposed convolutions, labels at each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.generator import BATCHES, Generator

NORMS = ("batch", "group")
GROUPS = 8
SIZE = 256  # latents in each batch that the statistics are settled on


class BatchNorm(nn.Module):
    """Batch normalisation whose statistics are measured at the end, not dragged along while weights change."""

    mean: Tensor
    variance: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True)
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=False)


class Stage(nn.Module):
    """A layer on its input and the label, normalised, rectified."""

    def __init__(self, layer: nn.Linear | nn.ConvTranspose2d, features: int, norm: str) -> None:
        super().__init__()
        self.layer = layer
        self.norm: BatchNorm | nn.GroupNorm = BatchNorm(features) if norm == "batch" else nn.GroupNorm(GROUPS, features)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        return F.relu(self.norm(self.layer(joined(x, label))))


class DCGANGenerator(Generator):
    """The paper's generator; 7,014,011 parameters for 1x28x28, ten classes and 50 latents.

    With `norm="batch"` images of a training batch depend on each other; call `settle` before eval mode. `norm="group"`
    mixes no examples at any time.

    >>> sum(p.numel() for p in DCGANGenerator((1, 28, 28), tuple("0123456789")).parameters())
    7014011
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 50,
        width: int = 64,
        hidden: int = 1024,
        label_weights: Sequence[float] | None = None,
        latent_distribution: str = "gaussian",
        norm: str = "batch",
        conditional: bool = True,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights, latent_distribution, conditional)
        if norm not in NORMS:
            raise ValueError(f"Expected norm={' or norm='.join(NORMS)}, found norm={norm}.")
        if norm == "group" and (hidden % GROUPS or 2 * width % GROUPS):
            raise ValueError(f"Expected hidden and 2*width as multiples of {GROUPS}, found hidden={hidden}, {width=}.")
        self.width = width
        self.hidden = hidden
        self.norm = norm
        self.coarse = (math.ceil(self.shape[1] / 4), math.ceil(self.shape[2] / 4))
        maps = 2 * width
        known = len(self.classes)
        flat = maps * math.prod(self.coarse)
        self.first = Stage(nn.Linear(latent + known, hidden), hidden, norm)
        self.second = Stage(nn.Linear(hidden + known, flat), flat, norm)
        self.third = Stage(doubling(maps + known, maps), maps, norm)
        self.last = doubling(maps + known, self.shape[0])
        for layer in (self.first.layer, self.second.layer, self.third.layer, self.last):
            nn.init.normal_(layer.weight, std=0.02)  # as Radford et al. 2016
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)

    def config(self) -> dict[str, Any]:
        return self._config("dcgan", width=self.width, hidden=self.hidden, norm=self.norm)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        label = self.condition(labels, z)
        maps = self.last(joined(self._through(z, label, 3), label))
        return torch.sigmoid(maps)[:, :, : self.shape[1], : self.shape[2]]

    def _through(self, z: Tensor, label: Tensor, stages: int) -> Tensor:
        """What comes out of the first so many stages."""
        x = z
        for number, stage in enumerate((self.first, self.second, self.third)[:stages]):
            x = stage(x, label)
            x = x.view(-1, 2 * self.width, *self.coarse) if number == 1 else x
        return x

    @torch.no_grad()
    def settle(self, random: torch.Generator, batches: int | None = None, size: int = SIZE) -> None:
        """Measure the statistics of each batch norm over batches of fresh latents, the earlier ones settled."""
        if self.norm != "batch":
            return
        device = next(self.parameters()).device
        training = self.training
        public = [self._public(size, random, device) for _ in range(batches or BATCHES.get())]
        self.eval()
        for number, stage in enumerate((self.first, self.second, self.third)):
            assert isinstance(stage.norm, BatchNorm)
            moments = [_moments(stage.layer(joined(self._through(z, label, number), label))) for z, label in public]
            mean, square = torch.stack(moments).mean(0)
            stage.norm.mean.copy_(mean)
            stage.norm.variance.copy_((square - mean.square()).clamp(min=0))
        self.train(training)

    def _public(self, size: int, random: torch.Generator, device: torch.device) -> tuple[Tensor, Tensor]:
        """Latents and one-hot labels, drawn in the generator's own proportions."""
        z = self.latents(size, random)
        shares = torch.tensor(self.label_weights, dtype=torch.float64, device=random.device)
        labels = torch.multinomial(shares, size, replacement=True, generator=random)
        return z.to(device), self.condition(labels, z).to(device)


def doubling(inputs: int, outputs: int) -> nn.ConvTranspose2d:
    """A transposed convolution with 5x5 kernels that doubles height and width."""
    return nn.ConvTranspose2d(inputs, outputs, 5, stride=2, padding=2, output_padding=1)


def joined(x: Tensor, label: Tensor) -> Tensor:
    """Features and the one-hot label side by side; maps get the label as constant planes."""
    planes = label if x.dim() == 2 else label[:, :, None, None].expand(-1, -1, *x.shape[2:])
    return torch.cat([x, planes], 1)


def _moments(x: Tensor) -> Tensor:
    """Mean and mean square of each feature, in float64, because their difference cancels."""
    x = x.double().transpose(0, 1).flatten(1)
    return torch.stack([x.mean(1), x.square().mean(1)])
