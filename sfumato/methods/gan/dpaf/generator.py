"""The generator of DPAF, which mirrors its discriminator: as many transposed convolutions, each doubling the side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.dcgan import SIZE, BatchNorm, joined
from sfumato.networks.deconv import doubling
from sfumato.networks.generator import BATCHES, Generator


class MirrorGenerator(Generator):
    """Latent and class -> coarse maps -> `layers` doublings, normalised over the batch -> image in [0, 1].

    As in Radford et al. (2016): batch normalisation and ReLU but for the last layer, tanh at the end. Call `settle`
    before eval mode. The image may be smoothed (`smooth` times): sums of features hardly show the finest grain, and a
    generator that learns from them alone is free to fill its images with it.

    >>> net = MirrorGenerator((3, 64, 64), ("no", "yes"), layers=5)
    >>> net.coarse, [tuple(layer.weight.shape[:2]) for layer in net.body]
    ((2, 2), [(512, 512), (512, 256), (256, 128), (128, 64), (64, 3)])
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 100,
        width: int = 64,
        layers: int = 3,
        label_weights: Sequence[float] | None = None,
        latent_distribution: str = "gaussian",
        conditional: bool = True,
        smooth: int = 0,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights, latent_distribution, conditional)
        if layers < 1 or width < 1 or smooth < 0:
            raise ValueError(
                "Expected layers and width of at least 1 and smooth from 0, found "
                f"layers={layers}, width={width}, smooth={smooth}."
            )
        self.width = width
        self.layers = layers
        self.smooth = smooth
        sides = [tuple(-(-s // 2**i) for s in self.shape[1:]) for i in range(layers, -1, -1)]
        maps = [width * 2 ** min(i, 3) for i in range(layers - 1, -1, -1)]
        self.coarse = sides[0]
        self.first = nn.Linear(latent + len(self.classes), maps[0] * math.prod(self.coarse))
        ends = zip(pairwise((*maps, self.shape[0])), pairwise(sides), strict=True)
        self.body = nn.ModuleList(doubling(*pair, *side) for pair, side in ends)
        self.norms = nn.ModuleList(BatchNorm(m) for m in maps)
        for layer in (self.first, *self.body):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def config(self) -> dict[str, Any]:
        return self._config("mirror", width=self.width, layers=self.layers, smooth=self.smooth)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        return smoothed((torch.tanh(self._before(z, labels, self.layers)) + 1) / 2, self.smooth)

    def _before(self, z: Tensor, labels: Tensor, layer: int) -> Tensor:
        """What goes into the normalisation of a layer; the image before its squashing is behind the last one."""
        x: Tensor = self.first(joined(z, self.condition(labels, z))).view(len(z), -1, *self.coarse)
        for norm, double in zip(self.norms[:layer], self.body[:layer], strict=True):
            x = double(F.relu(norm(x)))
        return x

    @torch.no_grad()
    def settle(self, random: torch.Generator, batches: int | None = None, size: int = SIZE) -> None:
        """Measure the statistics of each normalisation over fresh latents, the earlier ones settled."""
        batches = batches or BATCHES.get()
        device = next(self.parameters()).device
        training = self.training
        shares = torch.tensor(self.label_weights, dtype=torch.float64, device=random.device)
        drawn = [
            (self.latents(size, random), torch.multinomial(shares, size, replacement=True, generator=random))
            for _ in range(batches)
        ]
        self.eval()
        for number, norm in enumerate(self.norms):
            mean = norm.get_buffer("mean")
            sums = torch.zeros(2, len(mean), dtype=torch.float64, device=device)
            for z, labels in drawn:
                x = self._before(z.to(device), labels.to(device), number).double().transpose(0, 1).flatten(1)
                sums += torch.stack([x.mean(1), x.square().mean(1)]) / batches
            mean.copy_(sums[0])
            norm.get_buffer("variance").copy_((sums[1] - sums[0].square()).clamp(min=0))
        self.train(training)


def smoothed(images: Tensor, times: int) -> Tensor:
    """Each pixel with its neighbours, weighted 1, 2, 1 down and across, so many times; edges go on beyond themselves.

    >>> smoothed(torch.tensor([[[[0.0, 0, 4, 0]]]]), 1).flatten().tolist()
    [0.0, 1.0, 2.0, 1.0]
    """
    for _ in range(times):
        x = F.pad(images, (1, 1, 1, 1), mode="replicate")
        x = (x[..., :-2] + 2 * x[..., 1:-1] + x[..., 2:]) / 4
        images = (x[..., :-2, :] + 2 * x[..., 1:-1, :] + x[..., 2:, :]) / 4
    return images
