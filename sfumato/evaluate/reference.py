"""The reference row: a plain conditional DC-GAN trained on the real images without any privacy.

It says how much of the loss is due to synthesis as such. Its images are as private as the data: they stay in memory,
train the classifiers, and are never written. The generator is that of DataLens and G-PATE in small: dense,
two transposed convolutions, batch normalisation; the discriminator two strided convolutions and a projection of the
class (Miyato and Koyama 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.run.progress import Silent

CHUNK = 500


@dataclass(frozen=True)
class Training:
    """The fixed schedule of the reference."""

    steps: int = 6000
    batch: int = 64
    rate: float = 2e-4
    latent: int = 64
    width: int = 64


class Generator(nn.Module):
    """Latent and class -> image in [-1, 1]."""

    def __init__(self, shape: tuple[int, int, int], classes: int, latent: int, width: int) -> None:
        super().__init__()
        self.shape = shape
        self.classes = classes
        self.latent = latent
        self.coarse = (math.ceil(shape[1] / 4), math.ceil(shape[2] / 4))
        self.start = nn.Linear(latent + classes, 2 * width * math.prod(self.coarse))
        self.body = nn.Sequential(
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, shape[0], 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        condition = F.one_hot(labels, self.classes).to(z)
        coarse = self.start(torch.cat([z, condition], 1)).view(len(z), -1, *self.coarse)
        images: Tensor = self.body(coarse)
        return images[:, :, : self.shape[1], : self.shape[2]]


class ReferenceDiscriminator(nn.Module):
    """Image and class -> a score; high for real."""

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(shape[0], width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(width, 2 * width, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        size = 2 * width * (shape[1] // 4) * (shape[2] // 4)
        self.score = nn.Linear(size, 1)
        self.label = nn.Embedding(classes, size)
        nn.init.normal_(self.label.weight, std=1 / math.sqrt(size))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        features = self.body(x)
        own: Tensor = self.score(features)[:, 0]
        of_class: Tensor = (features * self.label(labels)).sum(1)
        return own + of_class


def reference(
    pixels: np.ndarray,
    labels: np.ndarray,
    *,
    classes: int,
    count: int,
    seed: int = 0,
    device: str = "cpu",
    training: Training | None = None,
    progress: Silent | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Images (uint8) and labels, uniform over the classes there are, of a non-private DC-GAN. Internal."""
    training = training or Training()
    progress = progress or Silent()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        channels, height, width = map(int, pixels.shape[1:])
        shape = (channels, height, width)
        maker = Generator(shape, classes, training.latent, training.width).to(device)
        critic = ReferenceDiscriminator(shape, classes, training.width).to(device)
        _play(maker, critic, pixels, labels, training, device, progress)
        wanted = torch.from_numpy(np.resize(np.unique(labels), count))
        return _draw(maker, wanted, device), wanted.numpy()


def _play(
    maker: Generator,
    critic: ReferenceDiscriminator,
    pixels: np.ndarray,
    labels: np.ndarray,
    training: Training,
    device: str,
    progress: Silent,
) -> None:
    adam = [
        torch.optim.Adam(net.parameters(), training.rate, betas=(0.5, 0.999), fused=True) for net in (maker, critic)
    ]
    data = torch.from_numpy(np.ascontiguousarray(pixels)).to(device)
    marks = torch.from_numpy(labels).to(device)
    progress.start("reference", training.steps)
    for step in range(training.steps):
        rows = torch.randint(len(data), (training.batch,)).to(device)
        real = data[rows].float().div_(127.5).sub_(1)
        own = marks[rows]
        fake = maker(torch.randn(training.batch, training.latent).to(device), own)
        # The non-saturating loss of the original GAN, once for each player.
        loss = F.softplus(-critic(real, own)).mean() + F.softplus(critic(fake.detach(), own)).mean()
        _descend(adam[1], loss)
        _descend(adam[0], F.softplus(-critic(fake, own)).mean())
        progress.advance(step + 1)


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    optimiser.step()


@torch.no_grad()
def _draw(maker: Generator, labels: Tensor, device: str) -> np.ndarray:
    maker.eval()
    parts = [labels[start : start + CHUNK] for start in range(0, len(labels), CHUNK)]
    images = [maker(torch.randn(len(part), maker.latent).to(device), part.to(device)) for part in parts]
    return torch.cat(images).add(1).mul(127.5).round().clamp(0, 255).byte().cpu().numpy()
