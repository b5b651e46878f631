"""A variational autoencoder: the decoder is the generator, and the encoder is there to train it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.generator import Generator, channels_last
from sfumato.networks.label_embedding import known

GROUP = 8  # channels of a group norm's group
LOUD = 4.0  # of a label beside latents of deviation 1: else a decoder leaves it to them to say what an image shows


class VAEGenerator(Generator):
    """Latent and class -> image. The law of the latent is N(0, I), or a mixture of Gaussians for each class.

    With `components` M the latent has one more number, which chooses the component: z is standard normal, and
    the decoder is given mean + deviation * z of the component where its last number falls.
    """

    shares: Tensor
    means: Tensor
    deviations: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 16,
        width: int = 32,
        label_weights: Sequence[float] | None = None,
        components: int = 0,
    ) -> None:
        super().__init__(shape, classes, latent + (components > 0), label_weights)
        if width < 1 or width % GROUP or latent < 1 or components < 0:
            raise ValueError(
                f"Expected latent of at least 1 and width as a multiple of {GROUP}, found {latent=}, {width=}."
            )
        self.inner = latent
        self.width = width
        self.components = components
        self.coarse = (math.ceil(self.shape[1] / 4), math.ceil(self.shape[2] / 4))
        self.start = nn.Linear(latent + len(self.classes), 2 * width * math.prod(self.coarse))
        self.body = channels_last(
            nn.Sequential(
                nn.GroupNorm(2 * width // GROUP, 2 * width),
                nn.SiLU(),
                nn.Conv2d(2 * width, 4 * width, 3, padding=1),
                nn.PixelShuffle(2),
                nn.GroupNorm(width // GROUP, width),
                nn.SiLU(),
                nn.Conv2d(width, 4 * self.shape[0], 5, padding=2),
                nn.PixelShuffle(2),
            )
        )
        if components:
            places = (len(self.classes), components)
            self.register_buffer("shares", torch.full(places, 1 / components))
            self.register_buffer("means", torch.zeros(*places, latent))
            self.register_buffer("deviations", torch.ones(*places, latent))

    def config(self) -> dict[str, Any]:
        return {
            "kind": "vae",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.inner,
            "width": self.width,
            "label_weights": self.label_weights,
            "components": self.components,
        }

    def logits(self, z: Tensor, labels: Tensor) -> Tensor:
        """The decoder's image before its sigmoid, of latents as the encoder has them."""
        coarse = self.start(torch.cat([z, LOUD * known(labels, len(self.classes), z)], 1))
        made: Tensor = self.body(coarse.view(-1, 2 * self.width, *self.coarse))
        return made[:, :, : self.shape[1], : self.shape[2]]

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        return torch.sigmoid(self.logits(self.placed(z, labels) if self.components else z, labels))

    def placed(self, z: Tensor, labels: Tensor) -> Tensor:
        """Standard normal numbers -> the mixture of each row's class."""
        which = chosen(self.shares[labels], z[:, -1:])
        return self.means[labels, which] + self.deviations[labels, which] * z[:, :-1]

    def log_prior(self, z: Tensor, labels: Tensor) -> Tensor:
        """(n,) log densities of latents, as the encoder has them, under the mixture of their class."""
        means = self.means[labels]
        deviations = self.deviations[labels]
        away = ((z[:, None] - means) / deviations).square() + 2 * deviations.log() + math.log(2 * math.pi)
        return torch.logsumexp(self.shares[labels].log() - away.sum(2) / 2, 1)


def chosen(shares: Tensor, z: Tensor) -> Tensor:
    """(n,): where standard normal numbers z (n, 1) fall among shares (n, M) that add up to 1.

    >>> chosen(torch.tensor([[0.5, 0.5], [0.0, 1.0]]), torch.tensor([[-1.0], [-1.0]])).tolist()
    [0, 1]
    """
    which: Tensor = (shares.cumsum(1)[:, :-1] < torch.special.ndtr(z)).sum(1)
    return which


class Encoder(nn.Module):
    """Image and class -> mean and logarithm of the variance of its latent."""

    def __init__(self, shape: Sequence[int], classes: int, latent: int, width: int) -> None:
        super().__init__()
        self.classes = classes
        coarse = math.ceil(shape[1] / 4) * math.ceil(shape[2] / 4)
        self.body = channels_last(
            nn.Sequential(
                nn.Conv2d(shape[0], width, 5, stride=2, padding=2),
                nn.SiLU(),
                nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
                nn.GroupNorm(2 * width // GROUP, 2 * width),
                nn.SiLU(),
                nn.Flatten(),
            )
        )
        self.end = nn.Linear(2 * width * coarse + classes, 2 * latent)

    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        flat = self.body(images * 2 - 1)
        mean, spread = self.end(torch.cat([flat, known(labels, self.classes, flat)], 1)).float().chunk(2, 1)
        return mean, spread.clamp(-10, 10)


class VAE(nn.Module):
    """Encoder and decoder, to be trained together."""

    def __init__(self, decoder: VAEGenerator) -> None:
        super().__init__()
        self.encoder = Encoder(decoder.shape, len(decoder.classes), decoder.inner, decoder.width)
        self.decoder = decoder


class Whitened(nn.Module):
    """A fixed linear encoder, whose variance is learned, and a decoder. Codes are cut at four deviations."""

    mean: Tensor
    white: Tensor

    def __init__(self, decoder: VAEGenerator, mean: Tensor, white: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("white", white.float())
        self.spread = nn.Linear(white.shape[1], white.shape[1])
        nn.init.zeros_(self.spread.weight)
        nn.init.constant_(self.spread.bias, -3.0)
        self.decoder = decoder

    def code(self, images: Tensor) -> Tensor:
        """(n, latent): white codes, each of its own image alone."""
        flat = images.flatten(1).to(self.mean)
        return ((flat - self.mean) @ self.white).clamp(-4, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        code = self.code(images).float()
        return code, self.spread(code).float().clamp(-10, 4)


def surprise(logits: Tensor, images: Tensor, likelihood: str, noise: float) -> Tensor:
    """(n,) minus the log-likelihood of images, less constants: Bernoulli, or Gaussian with deviation `noise`."""
    if likelihood == "bernoulli":
        return F.binary_cross_entropy_with_logits(logits.float(), images, reduction="none").sum((1, 2, 3))
    return (torch.sigmoid(logits.float()) - images).square().sum((1, 2, 3)) / (2 * noise**2)
