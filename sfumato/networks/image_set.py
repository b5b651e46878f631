"""A fixed labelled set of images in the place of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.networks.generator import Generator


class ImageSet(Generator):
    """`each` images of every class. A sample is drawn from them: without repetition as long as they last, then again.

    A latent is one number, uniform in [-1, 1]: it picks one of the images of a class.

    >>> ImageSet((1, 8, 8), ("cat", "dog"), each=5).sample(30, [0] * 30).pixels.shape  # each image six times
    (30, 1, 8, 8)
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        each: int = 10,
        label_weights: Sequence[float] | None = None,
        repeats: bool = True,
    ) -> None:
        super().__init__(shape, classes, 1, label_weights, latent_distribution="uniform")
        if each < 1 or not repeats:
            raise ValueError(f"Expected each of at least 1 and repeats=True, found each={each}, repeats={repeats}.")
        self.each = each
        self.images = nn.Parameter(torch.full((len(self.classes), each, *self.shape), 0.5))

    def config(self) -> dict[str, Any]:
        return {
            "kind": "fixed",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "each": self.each,
            "label_weights": self.label_weights,
            "repeats": True,  # a sample of more than `each` images of a class has some of them twice
        }

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        place = ((z[:, 0].clamp(-1, 1) + 1) * (self.each / 2)).long().clamp(max=self.each - 1)
        return self.images[labels, place].clamp(0, 1)

    def latents_for(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Latents that go round the images of each class, in a random order."""
        place = torch.zeros(len(labels), dtype=torch.long)
        for label in range(len(self.classes)):
            rows = (labels == label).nonzero()[:, 0]
            order = torch.randperm(self.each, generator=random)
            place[rows] = order[torch.arange(len(rows)) % self.each]
        return ((2 * place + 1) / self.each - 1)[:, None]

    def everything(self) -> tuple[Tensor, Tensor]:
        """All images with their labels, as they are optimised."""
        labels = torch.arange(len(self.classes), device=self.images.device).repeat_interleave(self.each)
        return self.images.flatten(0, 1), labels

    @torch.no_grad()
    def start(self, random: torch.Generator, spread: float = 0.2) -> None:
        """Grey images with noise that is drawn from `random`."""
        drawn = torch.randn(self.images.shape, generator=random)
        self.images.copy_((0.5 + spread * drawn).clamp(0, 1))

    @torch.no_grad()
    def put(self, images: Tensor) -> None:
        """Other images in the place of all of them, class by class."""
        self.images.copy_(images.view_as(self.images))

    @torch.no_grad()
    def restrain(self) -> None:
        """Bring all pixels back into [0, 1]."""
        self.images.clamp_(0, 1)
