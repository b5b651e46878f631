"""A normalising flow of affine couplings on the low frequencies of an image, conditional on the class.

Couplings are those of Dinh et al. (2017). They begin as the identity, by constants: nothing is initialised from a batch
of data. What the flow takes in are cosine coefficients, since a few of them hold what a class looks like and every
number that a flow must learn gets noise; frequencies above those are left out of an image, which makes it soft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.generator import Generator
from sfumato.networks.label_embedding import known

SIZE = 0.35  # of a coefficient, over that of a full swing of all pixels and its frequency: a public guess


def cosines(side: int, kept: int) -> Tensor:
    """(kept, side): orthonormal rows, the lowest frequencies first (DCT-II)."""
    rows = torch.arange(kept)[:, None] * (torch.arange(side)[None] + 0.5) * math.pi / side
    return rows.cos() * torch.full((kept, 1), math.sqrt(2 / side)).index_fill(0, torch.tensor([0]), side**-0.5)


class Invertible(nn.Module):
    """Couplings, and where each class lies among what they take in; what flows of any kind of numbers share."""

    orders: Tensor

    def _couple(self, numbers: int, classes: int, width: int, layers: int) -> None:
        self.place = nn.Linear(classes, 2 * numbers, bias=False)
        nn.init.zeros_(self.place.weight)
        self.layers = nn.ModuleList([Coupling(numbers, classes, width) for _ in range(layers)])
        # How numbers change places before each layer: fixed, public, a part of the weights.
        self.register_buffer("orders", torch.stack([torch.randperm(numbers) for _ in range(layers)]))

    def _white(self, y: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers -> those that should be standard normal, and the logarithm of how far that stretches them."""
        t, s = self._placed(label)
        y = (y + t) * s.exp()
        stretch = s.sum(1)
        for layer, order in zip(self.layers, self.orders, strict=True):
            y, more = layer(y[:, order], label)
            stretch = stretch + more
        return y, stretch

    def _coloured(self, y: Tensor, label: Tensor) -> Tensor:
        """The inverse."""
        for layer, order in zip(reversed(self.layers), self.orders.flip(0), strict=True):
            assert isinstance(layer, Coupling)
            y = layer.back(y, label)[:, order.argsort()]
        t, s = self._placed(label)
        return y * (-s).exp() - t

    def _placed(self, label: Tensor) -> tuple[Tensor, Tensor]:
        """Where a class lies and how wide it is, number by number."""
        t, s = self.place(label).float().chunk(2, 1)
        return t, torch.tanh(s)


class FlowGenerator(Generator, Invertible):
    """z, standard normal, of as many numbers as coefficients, and class -> image; invertible on what is kept."""

    down: Tensor
    across: Tensor
    scale: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        width: int = 128,
        layers: int = 6,
        frequencies: int = 12,
        label_weights: Sequence[float] | None = None,
        temperature: float = 1.0,
    ) -> None:
        rows, columns = (min(side, frequencies) for side in shape[1:])
        super().__init__(shape, classes, shape[0] * rows * columns, label_weights)
        if min(width, layers, frequencies) < 1 or temperature <= 0 or self.latent < 2:
            raise ValueError(
                "Expected width, layers and frequencies of at least 1, two numbers to keep and "
                f"temperature above 0, found {width=}, {layers=}, {frequencies=}, "
                f"{temperature=}."
            )
        self.width = width
        self.frequencies = frequencies
        self.temperature = temperature
        self._couple(self.latent, len(self.classes), width, layers)
        self.register_buffer("down", cosines(self.shape[1], rows), persistent=False)
        self.register_buffer("across", cosines(self.shape[2], columns), persistent=False)
        size = SIZE * math.sqrt(math.prod(self.shape[1:]))
        scale = size / (1 + torch.arange(rows)[:, None] + torch.arange(columns)[None])
        self.register_buffer("scale", scale, persistent=False)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "flow",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "width": self.width,
            "layers": len(self.layers),
            "frequencies": self.frequencies,
            "label_weights": self.label_weights,
            "temperature": self.temperature,
        }

    def surprise(self, images: Tensor, grain: Tensor, labels: Tensor) -> Tensor:
        """(n,) minus the log density of what is kept, 256 levels filled with `grain` from 0 to 1, less a constant."""
        x = (images * 255 + grain) / 128 - 1
        y = ((self.down @ x @ self.across.T) / self.scale).flatten(1)
        y, stretch = self._white(y, known(labels, len(self.classes), images))
        return y.square().sum(1) / 2 - stretch

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        y = self._coloured(self.temperature * z, known(labels, len(self.classes), z))
        y = y.view(-1, self.shape[0], *self.scale.shape) * self.scale
        return ((self.down.T @ y @ self.across + 1) / 2).clamp(0, 1)


class Coupling(nn.Module):
    """y2 = (x2 + t) e^s with s, t of x1 and the class; x1 stays. |s| <= 1, so that noise cannot make it explode."""

    def __init__(self, numbers: int, classes: int, width: int) -> None:
        super().__init__()
        self.kept = numbers // 2
        self.first = nn.Linear(self.kept, width)
        self.label = nn.Linear(classes, width, bias=False)
        self.middle = nn.Linear(width, width)
        self.last = nn.Linear(width, 2 * (numbers - self.kept))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def _parts(self, x1: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        h = F.silu(self.middle(F.silu(self.first(x1) + self.label(label))))
        s, t = self.last(h).float().chunk(2, 1)
        return torch.tanh(s), t

    def forward(self, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        x1 = x[:, : self.kept]
        x2 = x[:, self.kept :]
        s, t = self._parts(x1, label)
        return torch.cat([x1, (x2 + t) * s.exp()], 1), s.sum(1)

    def back(self, y: Tensor, label: Tensor) -> Tensor:
        """The inverse."""
        y1 = y[:, : self.kept]
        y2 = y[:, self.kept :]
        s, t = self._parts(y1, label)
        return torch.cat([y1, y2 * (-s).exp() - t], 1)
