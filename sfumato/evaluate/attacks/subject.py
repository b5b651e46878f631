"""What is attacked, and with what: synthetic images, candidates, reference images that nobody trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import InputError


@dataclass(frozen=True, eq=False)
class Batch:
    """uint8 images (n, C, H, W) with labels; the label -1 stands for none."""

    pixels: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: np.ndarray | slice) -> Batch:
        return Batch(self.pixels[rows], self.labels[rows])


def batch(images: Any) -> Batch:
    """From anything with `pixels` and `labels`, a pair of arrays, or an array of pixels."""
    if hasattr(images, "pixels"):
        pixels = images.pixels
        labels = images.labels
    elif isinstance(images, tuple):
        pixels = images[0]
        labels = images[1]
    else:
        pixels = images
        labels = None
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8 or pixels.ndim != 4:
        raise InputError(f"Expected candidates as uint8 images of four axes, found {pixels.dtype} of {pixels.ndim}.")
    labels = np.full(len(pixels), -1) if labels is None else np.asarray(labels, dtype=np.int64)
    return Batch(pixels, labels)


def draw(images: Batch, count: int, random: np.random.Generator) -> Batch:
    """At most `count` of them, in random order."""
    return images[random.permutation(len(images))[:count]]


@dataclass(frozen=True, eq=False)
class Subject:
    """Everything an attack may use."""

    generator: Any  # sample(n, labels=None, *, seed); for white box also a module (z, labels) -> [0, 1], .latent
    synthetic: Batch
    members: Batch
    others: Batch
    reference: Batch  # from the same distribution; neither trained on nor a candidate
    reference_generator: Any = None  # trained without the members
    device: str = "cpu"
    seed: int = 0

    @property
    def differentiable(self) -> bool:
        """Whether the generator can be run on chosen latents."""
        return hasattr(self.generator, "latent") and callable(self.generator) and hasattr(self.generator, "parameters")
