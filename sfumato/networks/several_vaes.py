"""Several variational autoencoders side by side: one for each class of the data, or for each cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator
from sfumato.networks.vae import Encoder, VAEGenerator, chosen

Own = Callable[[Tensor, Tensor], Tensor]  # images and labels -> (n,) the number of each record's own autoencoder


class SeveralDecoders(Generator):
    """A decoder for each class; or `models` of them, of which the latent's last number chooses one for an image.

    `choice` (classes, models) says how likely each decoder is for a class.
    """

    choice: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 16,
        width: int = 32,
        label_weights: Sequence[float] | None = None,
        components: int = 0,
        models: int = 0,
    ) -> None:
        super().__init__(shape, classes, latent + (components > 0) + 1, label_weights)
        self.inner = latent
        self.width = width
        self.components = components
        self.models = models
        count = models or len(self.classes)
        self.decoders = nn.ModuleList(
            VAEGenerator(shape, classes, latent, width, None, components) for _ in range(count)
        )
        self.register_buffer(
            "choice", torch.full((len(self.classes), models), 1 / models) if models else torch.eye(count)
        )

    def config(self) -> dict[str, Any]:
        return {
            "kind": "vaes",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.inner,
            "width": self.width,
            "label_weights": self.label_weights,
            "components": self.components,
            "models": self.models,
        }

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        which = chosen(self.choice[labels], z[:, -1:])
        images = z.new_empty(len(z), *self.shape)
        for number, decoder in enumerate(self.decoders):
            rows = (which == number).nonzero()[:, 0]
            images = images.index_copy(0, rows, decoder(z[rows, :-1], labels[rows])) if len(rows) else images
        return images


class Pair(NamedTuple):
    """One of the autoencoders."""

    encoder: Encoder
    decoder: VAEGenerator


class SeveralVAEs(nn.Module):
    """An encoder for each decoder, all trained together. What a record tells is for its own pair alone."""

    def __init__(self, decoder: SeveralDecoders, own: Own) -> None:
        super().__init__()
        sizes = (decoder.shape, len(decoder.classes), decoder.inner, decoder.width)
        self.encoders = nn.ModuleList(Encoder(*sizes) for _ in decoder.decoders)
        self.decoder = decoder
        self.own = own

    def pairs(self) -> list[Pair]:
        """All of them."""
        return [Pair(*cast(Any, both)) for both in zip(self.encoders, self.decoder.decoders, strict=True)]

    def encoder(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """As the encoder of each image's own autoencoder has it."""
        means, spreads = zip(*(encoder(images, labels) for encoder in self.encoders), strict=True)
        return self.of_own(means, images, labels), self.of_own(spreads, images, labels)

    def of_own(self, each: Sequence[Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """(n, ...): of what every autoencoder gives for all images, that of an image's own.

        An image without a label (-1), which is a public one, belongs to all: it gets their mean.
        """
        found = torch.stack(list(each), 1)
        own = self.own(images, labels)
        picked = found[torch.arange(len(own), device=own.device), own.clamp(min=0)]
        return torch.where((own >= 0).view(-1, *[1] * (picked.dim() - 1)), picked, found.mean(1))
