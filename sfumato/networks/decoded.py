"""A generator of codes that ends with the decoder of an autoencoder, and a critic that looks at codes.

Both parts of the autoencoder are frozen and know no classes; what is trained knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator
from sfumato.networks.label_embedding import known
from sfumato.networks.vae import Encoder, VAEGenerator

HIDDEN = 128  # numbers of a dense layer


def unlabelled(labels: Tensor) -> Tensor:
    """As many labels that say nothing."""
    return torch.full_like(labels, -1)


def dense(inputs: int, outputs: int) -> nn.Sequential:
    """Three layers."""
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Linear(HIDDEN, outputs),
    )


class DecodedGenerator(Generator):
    """z, standard normal, and class -> code -> image of the frozen decoder."""

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 64,
        width: int = 32,
        label_weights: Sequence[float] | None = None,
        codes: int = 16,
    ) -> None:
        super().__init__(shape, classes, latent, label_weights)
        self.width = width
        self.codes = codes
        self.body = dense(latent + len(self.classes), codes)
        self.decoder = VAEGenerator(shape, classes, codes, width).requires_grad_(False)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "decoded",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.latent,
            "width": self.width,
            "label_weights": self.label_weights,
            "codes": self.codes,
        }

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        codes = self.body(torch.cat([z, self.condition(labels, z)], 1))
        image: Tensor = self.decoder(codes, unlabelled(labels))
        return image


class CodeCritic(nn.Module):
    """(images, labels) -> (B, 1), by the code that the frozen encoder gives each image by itself."""

    def __init__(self, encoder: Encoder, codes: int, *, auxiliary: bool = False) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.classes = encoder.classes
        self.body = dense(codes + self.classes * (not auxiliary), 1 + self.classes * auxiliary)
        self.auxiliary = auxiliary

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        code = self.encoder(images, unlabelled(labels))[0]
        told = [] if self.auxiliary else [known(labels, self.classes, code)]
        scores: Tensor = self.body(torch.cat([code, *told], 1))
        return scores
