"""Generators whose images a classifier labels: the class that an image was made for is forgotten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.networks.fixed_features import FixedFeatures
from sfumato.networks.generator import Generator
from sfumato.networks.labels import allot
from sfumato.record_rng import normal, uniform
from sfumato.types import Images

LEAGUES = ("resembling", "teaching")
ROUNDS = 12  # of images until each class has as many as it should
MORE = 1.25  # images of a round for each that is missing
CHUNK = 1024  # images that are looked at together
# Changes of images that only teach: turns in degrees, scales, shifts as parts of a side, contrasts.
TURN = 10
SCALE = 0.1
SHIFT = 0.08
CONTRAST = 0.2


class Labeller(nn.Module):
    """Fixed features of an image and a linear layer: images in [0, 1] -> logits."""

    def __init__(self, shape: tuple[int, int, int], classes: int, patches: int = 0, mirrored: bool = False) -> None:
        super().__init__()
        self.sees = FixedFeatures(shape, patches, mirrored).requires_grad_(False)
        self.head = nn.Linear(self.sees.width, classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            rows = self.sees(images)
        logits: Tensor = self.head(rows.to(self.head.weight))
        return logits


class LabelledGenerator(Generator):
    """Several generators and a labeller.

    An image of `sample` has the label that the labeller gives it, as often as each label is asked for. Where the
    labeller hardly ever finds a class, the images that were made for it fill the gap. With `images="teaching"` every
    second image is turned, scaled, shifted and dimmed a little before it is labelled: such images teach a classifier
    more, and resemble the data less.

    A latent is a whole number: it picks a generator and that one's own latent.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: Sequence[str],
        generators: Sequence[Generator | dict[str, Any]] = (),
        patches: int = 0,
        mirrored: bool = False,
        images: str = "resembling",
        label_weights: Sequence[float] | None = None,
        labeller: Labeller | None = None,
    ) -> None:
        super().__init__(shape, classes, 1, label_weights)
        if images not in LEAGUES:
            raise ValueError(f"Expected images {' or '.join(LEAGUES)}, found images={images!r}.")
        self.patches = patches
        self.mirrored = mirrored
        self.league = images
        self.generators = nn.ModuleList(g if isinstance(g, Generator) else _built(g) for g in generators)
        self.labeller = labeller or Labeller(self.shape, len(self.classes), patches, mirrored)

    def config(self) -> dict[str, Any]:
        return {
            "kind": "labelled",
            "shape": list(self.shape),
            "classes": list(self.classes),
            "generators": [g.config() for g in self._each()],
            "patches": self.patches,
            "mirrored": self.mirrored,
            "images": self.league,
            "label_weights": self.label_weights,
        }

    def _each(self) -> list[Generator]:
        return [g for g in self.generators if isinstance(g, Generator)]

    def latents(self, n: int, random: torch.Generator) -> Tensor:
        """Whole numbers, one an image."""
        return torch.randint(2**62, (n, 1), generator=random, device=random.device)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        keys = z[:, 0].to(labels.device)
        images = torch.zeros(len(keys), *self.shape, device=labels.device)
        for i, net in enumerate(self._each()):
            rows = (keys % len(self.generators) == i).nonzero()[:, 0]
            if len(rows):
                own = keys[rows] // len(self.generators)
                z = (
                    normal(own, (net.latent,))
                    if net.latents(1, torch.Generator()).is_floating_point()
                    else own[:, None]
                )
                images[rows] = net(z, labels[rows]).to(images)
        return self._changed(images, keys) if self.league == "teaching" else images

    @staticmethod
    def _changed(images: Tensor, keys: Tensor) -> Tensor:
        """Every second image turned, scaled, shifted and dimmed."""
        some = uniform(keys, (), 11) < 0.5
        r = uniform(keys, (5,), 12) * 2 - 1
        angle = r[:, 0] * math.radians(TURN)
        scale = (r[:, 1] * SCALE).exp()
        turn = torch.stack([angle.cos() * scale, -angle.sin() * scale, angle.sin() * scale, angle.cos() * scale], 1)
        move = torch.cat([turn.view(-1, 2, 2), 2 * SHIFT * r[:, 2:4, None]], 2)
        grid = F.affine_grid(move, list(images.shape), align_corners=False)
        moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
        moved = (moved * (1 + CONTRAST * r[:, 4]).view(-1, 1, 1, 1)).clamp(0, 1)
        return moved.where(some[:, None, None, None], images)

    @torch.no_grad()
    def label(self, pixels: np.ndarray) -> Tensor:
        """The labeller's class of each uint8 image."""
        device = self.labeller.head.weight.device
        pieces = (torch.from_numpy(pixels[i : i + CHUNK]).to(device) for i in range(0, len(pixels), CHUNK))
        found = [self.labeller(piece.float() / 255).argmax(1).cpu() for piece in pieces]
        return torch.cat([torch.zeros(0, dtype=torch.long), *found])

    def sample(self, n: int, labels: Sequence[int] | None = None, *, seed: int = 0) -> Images:
        """`n` images with labels of the labeller, in the generator's own proportions unless given."""
        random = torch.Generator().manual_seed(seed)
        asked = allot(n, self.label_weights, random) if labels is None else torch.as_tensor(labels, dtype=torch.long)
        if len(asked) != n or (n and not 0 <= int(asked.min()) <= int(asked.max()) < len(self.classes)):
            raise ValueError(f"Expected {n} labels from 0 to {len(self.classes) - 1}.")
        pixels = np.zeros((n, *self.shape), dtype=np.uint8)
        open_ = torch.ones(n, dtype=torch.bool)  # places that have no image yet
        for _ in range(ROUNDS):
            if not open_.any():
                break
            wanted = asked[open_]
            wanted = wanted[torch.randint(len(wanted), (math.ceil(MORE * len(wanted)) + 8,), generator=random)]
            made = self.pixels(self.latents(len(wanted), random), wanted)
            self._fill(pixels, open_, asked, made, self.label(made))
        left = open_.nonzero()[:, 0]
        pixels[left.numpy()] = self.pixels(self.latents(len(left), random), asked[left])
        return Images(pixels, asked.numpy(), self.classes)

    def _fill(self, pixels: np.ndarray, open_: Tensor, asked: Tensor, made: np.ndarray, found: Tensor) -> None:
        """Put images at open places of their label, as many as there are."""
        for label in range(len(self.classes)):
            places = (open_ & (asked == label)).nonzero()[:, 0]
            rows = (found == label).nonzero()[: len(places), 0]
            pixels[places[: len(rows)].numpy()] = made[rows.numpy()]
            open_[places[: len(rows)]] = False

    @torch.no_grad()
    def kept_share(self, n: int = 1000, seed: int = 0) -> float:
        """How many of `n` images keep, in the labeller's eyes, the class that they were made for."""
        random = torch.Generator().manual_seed(seed)
        labels = allot(n, self.label_weights, random)
        return float((self.label(self.pixels(self.latents(n, random), labels)) == labels).float().mean())


def _built(config: dict[str, Any]) -> Generator:
    from sfumato.networks import kind_of

    settings = dict(config)
    return kind_of(settings.pop("kind"))(**settings)


def labeller_weights(labeller: Labeller) -> Tensor:
    """(classes, width + 1): the weights of the head, and its bias last."""
    return torch.cat([labeller.head.weight, labeller.head.bias[:, None]], 1).detach()


@torch.no_grad()
def put_weights(labeller: Labeller, weights: Tensor) -> None:
    """Give a labeller the weights of another."""
    labeller.head.weight.copy_(weights[:, :-1])
    labeller.head.bias.copy_(weights[:, -1])
