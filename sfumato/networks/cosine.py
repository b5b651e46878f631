"""A Gaussian a class over the low cosine coefficients of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator

GREY = 0.5  # what coefficients are taken about: no image in [0, 1] is further from it than half a level a pixel


def cosine_basis(shape: Sequence[int], coefficients: int) -> Tensor:
    """(coefficients, pixels): orthonormal images of the two-dimensional DCT-II, slow waves first, in float64.

    Of as many waves a side, those of all channels stand together.

    >>> basis = cosine_basis((3, 4, 5), 60)
    >>> torch.allclose(basis @ basis.T, torch.eye(60, dtype=torch.float64))
    True
    """
    channels, height, width = shape
    rows, columns = _waves(height), _waves(width)
    # Waves a pixel: sides of other lengths count alike.
    order = sorted(
        ((i / height) ** 2 + (j / width) ** 2, i, j, c)
        for i in range(height)
        for j in range(width)
        for c in range(channels)
    )
    basis = torch.zeros(min(coefficients, len(order)), channels, height, width, dtype=torch.float64)
    for at, (_, i, j, c) in enumerate(order[: len(basis)]):
        basis[at, c] = torch.outer(rows[i], columns[j])
    return basis.flatten(1)


def _waves(side: int) -> Tensor:
    """The orthonormal DCT-II of a line, a wave a row."""
    k = torch.arange(side, dtype=torch.float64)
    waves = torch.cos(math.pi * k[:, None] * (k + 0.5) / side) * math.sqrt(2 / side)
    waves[0] /= math.sqrt(2)
    return waves


class CosineGaussian(Generator):
    """A latent z is a standard normal number a coefficient; an image is that of mean + root z, cut to [0, 1].

    Each class has its mean and the symmetric root of its covariance. Before `put` all images are grey.
    """

    basis: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        latent: int = 100,
        label_weights: Sequence[float] | None = None,
    ) -> None:
        basis = cosine_basis(shape, latent).float()
        super().__init__(shape, classes, len(basis), label_weights)
        self.register_buffer("basis", basis, persistent=False)  # follows from the shape
        size = (len(self.classes), self.latent, self.latent)
        self.means = nn.Parameter(torch.zeros(size[:2]), requires_grad=False)
        self.roots = nn.Parameter(torch.zeros(size), requires_grad=False)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "cosine",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "latent": self.latent,
            "label_weights": self.label_weights,
        }

    def put(self, means: Tensor, roots: Tensor) -> None:
        """Means (classes, d) and symmetric roots (classes, d, d); one root for all classes will do."""
        self.means.data.copy_(means)
        self.roots.data.copy_(roots)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        away = torch.einsum("nij,nj->ni", self.roots[labels], z.to(self.means))
        images = GREY + (self.means[labels] + away) @ self.basis
        return images.clamp(0, 1).view(-1, *self.shape)
