"""A normalising flow among the codes of an autoencoder, and the decoder that makes images of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sfumato.networks.flow import Invertible
from sfumato.networks.generator import Generator
from sfumato.networks.label_embedding import known
from sfumato.networks.vae import Encoder, VAEGenerator


class LatentFlow(Generator, Invertible):
    """z, standard normal, and class -> code -> image. The decoder is frozen: the flow alone is trained."""

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 16,
        width: int = 32,
        label_weights: Sequence[float] | None = None,
        flow_width: int = 64,
        layers: int = 6,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights)
        if latent < 2 or min(flow_width, layers) < 1:
            raise ValueError(f"Expected latent from 2, flow_width and layers from 1, found {latent=}, {layers=}.")
        self.width = width
        self.flow_width = flow_width
        self.decoder = VAEGenerator(shape, classes, latent, width).requires_grad_(False)
        self._couple(latent, len(self.classes), flow_width, layers)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "latent-flow",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.latent,
            "width": self.width,
            "label_weights": self.label_weights,
            "flow_width": self.flow_width,
            "layers": len(self.layers),
        }

    def surprise(self, codes: Tensor, labels: Tensor) -> Tensor:
        """(n,) minus the log density of codes, less a constant."""
        y, stretch = self._white(codes, known(labels, len(self.classes), codes))
        return y.square().sum(1) / 2 - stretch

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        codes = self._coloured(z, known(labels, len(self.classes), z))
        image: Tensor = self.decoder(codes, labels)
        return image


class EncodedFlow(torch.nn.Module):
    """A frozen encoder, and the flow of its codes, which is trained."""

    def __init__(self, flow: LatentFlow) -> None:
        super().__init__()
        self.encoder = Encoder(flow.shape, len(flow.classes), flow.latent, flow.width).requires_grad_(False)
        self.flow = flow
