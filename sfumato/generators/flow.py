"""A normalising flow of affine coupling layers, conditional on the class (Dinh et al. 2017, Kingma and Dhariwal 2018).

Layers are fixed at the identity in the beginning, by constants: nothing is initialised from a batch of data. Where
Glow learns how channels are mixed, and from data how they are scaled, here a fixed permutation mixes and the couplings
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.generators.base import Generator
from sfumato.generators.known import known

GROUP = 8  # channels of a group norm's group
EDGE = 0.05  # of the logit transform, which keeps pixels from its poles


class FlowGenerator(Generator):
    """z, standard normal, of as many numbers as pixels, and class -> image; invertible.

    Squares of 2x2 pixels become channels; sides that are odd are filled up with pixels that are dropped again.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        width: int = 64,
        layers: int = 8,
        label_weights: Sequence[float] | None = None,
        temperature: float = 1.0,
    ) -> None:
        c, h, w = shape[0], shape[1] + shape[1] % 2, shape[2] + shape[2] % 2
        super().__init__(shape, classes, c * h * w, label_weights)
        if width < 1 or width % GROUP or layers < 1 or temperature <= 0:
            raise ValueError(f"Expected width as a multiple of {GROUP}, layers of at least 1 and temperature above 0, "
                             f"found {width=}, {layers=}, {temperature=}.")  # fmt: skip
        self.width, self.temperature, self.filled = width, temperature, (c, h, w)
        self.inner = (4 * c, h // 2, w // 2)
        self.layers = nn.ModuleList([Coupling(4 * c, len(self.classes), width) for _ in range(layers)])
        # How channels change places before each layer: fixed, public, a part of the weights.
        orders = [torch.randperm(4 * c) if i else torch.arange(4 * c) for i in range(layers)]
        self.register_buffer("orders", torch.stack(orders))

    def config(self) -> dict[str, Any]:
        return {"kind": "flow", "shape": list(self.shape), "classes": list(self.classes), "width": self.width,
                "layers": len(self.layers), "label_weights": self.label_weights,
                "temperature": self.temperature}  # fmt: skip

    def surprise(self, images: Tensor, grain: Tensor, labels: Tensor) -> Tensor:
        """(n,) minus the log density of images, their 256 levels filled with `grain` from 0 to 1, less a constant."""
        c, h, w = self.filled
        images = F.pad(images, (0, w - self.shape[2], 0, h - self.shape[1]))
        x = EDGE + (1 - 2 * EDGE) * (images * 255 + grain) / 256
        y = F.pixel_unshuffle(torch.logit(x), 2)
        stretch = -(x.log() + (1 - x).log()).flatten(1).sum(1)
        label = known(labels, len(self.classes), images)
        for layer, order in zip(self.layers, self.orders, strict=True):  # type: ignore[arg-type]
            y, more = layer(y[:, order], label)
            stretch = stretch + more
        return y.square().flatten(1).sum(1) / 2 - stretch

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        y, label = self.temperature * z.view(-1, *self.inner), known(labels, len(self.classes), z)
        for layer, order in zip(reversed(self.layers), self.orders.flip(0), strict=True):  # type: ignore[arg-type, operator]
            y = layer.back(y, label)[:, order.argsort()]
        x = (torch.sigmoid(F.pixel_shuffle(y, 2)) - EDGE) / (1 - 2 * EDGE)
        return x.clamp(0, 1)[:, :, : self.shape[1], : self.shape[2]]


class Coupling(nn.Module):
    """y2 = (x2 + t) e^s with s, t of x1 and the class; x1 stays. |s| <= 1, so that noise cannot make it explode."""

    def __init__(self, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.kept = channels // 2
        self.first = nn.Conv2d(self.kept, width, 3, padding=1)
        self.label = nn.Linear(classes, width)
        self.even1, self.middle = nn.GroupNorm(width // GROUP, width), nn.Conv2d(width, width, 3, padding=1)
        self.even2, self.last = (
            nn.GroupNorm(width // GROUP, width),
            nn.Conv2d(width, 2 * (channels - self.kept), 3, padding=1),
        )
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def _parts(self, x1: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        h = self.first(x1 / 3) + self.label(label)[:, :, None, None]
        h = self.middle(F.silu(self.even1(h)))
        s, t = self.last(F.silu(self.even2(h))).float().chunk(2, 1)
        return torch.tanh(s), t

    def forward(self, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        x1, x2 = x[:, : self.kept], x[:, self.kept :]
        s, t = self._parts(x1, label)
        return torch.cat([x1, (x2 + t) * s.exp()], 1), s.flatten(1).sum(1)

    def back(self, y: Tensor, label: Tensor) -> Tensor:
        """The inverse."""
        y1, y2 = y[:, : self.kept], y[:, self.kept :]
        s, t = self._parts(y1, label)
        return torch.cat([y1, y2 * (-s).exp() - t], 1)
