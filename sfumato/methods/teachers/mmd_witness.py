"""Kernels as teachers, thousands at once: each says in closed form what its own images make of another image.

    k(x, r)      mean over w of cos w'(x - r),   w ~ N(0, 1/s^2)                         random Fourier features
    D_i(x, y)    mean of k(x, r) over teacher i's own images r of label y
    direction    the slope of D_i in x

Less the mean over a generator's images of y, D_i is up to its length the critic that tells the two sets apart best
among the functions of the kernel (the witness of the maximum mean discrepancy, Gretton et al. 2012). A network that is
trained for a handful of steps on fifteen images is far from its best, this is there at once. The generator's part is
public, and left to whoever has the generator. A teacher without an image of a label has nothing to say about it.

The kernel averages to a Gaussian of width s, but with a finite number of frequencies it never falls to nothing: its
slope speaks of all of the data's law, not of what is near alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from sfumato.engine.random_fourier import RandomFourier
from sfumato.engine.teachers.stacked import products

ROOM = {"cpu": 2**25, "cuda": 2**30}  # bytes that a block may take; larger ones a CPU gets anew from the system
NEAR = 0.4  # slope of a Gaussian of width 1, at the distances of images of one label


@dataclass(frozen=True)
class FourierKernel:
    """So many frequencies, the same for everyone, of widths spread over `octaves` around the middle one.

    A single image's slope has two parts: where the other one is near, that of a Gaussian, and everywhere a sum of
    waves out of step, as long as their frequencies over sqrt(2 count). Slopes are given in units of both together, in
    which one image's is about 1 at most.
    """

    pixels: int
    count: int
    width: float  # s
    octaves: float = 0.0

    def slopes(self, x: Tensor, others: Tensor, weights: Tensor) -> Tensor:
        """Of sum_r weights(x, r) k(x, r) in x (m, d); `others` is (..., n, d) and `weights` (..., m, n)."""
        frequencies, unit = _frequencies(self, str(x.device))
        ahead = x @ frequencies
        behind = others @ frequencies
        turned = (weights @ behind.sin()).mul(ahead.cos()) - (weights @ behind.cos()).mul(ahead.sin())
        return turned @ (frequencies.T / (self.count * unit))

    def numbers(self, images: int, asked: int) -> int:
        """Held for each teacher of `images` while it is asked about so many, beside the images and the slopes."""
        return self.count * (3 * images + 4 * asked)


@lru_cache(8)
def _frequencies(kernel: FourierKernel, device: str) -> tuple[Tensor, float]:
    """All w (d, count), public, and the unit of their slopes."""
    bandwidth = kernel.width / math.sqrt(kernel.pixels)
    random = torch.Generator().manual_seed(0)
    drawn = RandomFourier(kernel.pixels, 2 * kernel.count, bandwidth, random, kernel.octaves).frequencies
    everywhere = float(drawn.square().sum()) / (2 * kernel.count**2)
    return drawn.to(device), math.sqrt(everywhere + (NEAR / kernel.width) ** 2)


def label_means(labels: Tensor, of: Tensor) -> Tensor:
    """(..., m, n): one over the number of entries of `of` (..., n) that have the label of a row, and 0 for the rest."""
    same = (labels[..., :, None] == of[..., None, :]).float()
    return same / same.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class MMDWitness:
    """What a teacher is, public: a kernel, and how many of its own images it looks at.

    >>> MMDWitness((1, 28, 28), frequencies=100, bandwidth=0.25).kernel.width
    7.0
    """

    shape: tuple[int, int, int]
    frequencies: int = 4000
    bandwidth: float = 0.25  # s / sqrt(pixels), so that one setting serves images of any size
    octaves: float = 0.0
    teacher_batch: int = 15
    asked: int = 16  # images a question
    precision: str = "tf32"

    def __post_init__(self) -> None:
        if not (0 < self.bandwidth < math.inf and self.teacher_batch >= 1 and self.frequencies >= 1):
            raise ValueError(
                "Expected bandwidth above 0, teacher_batch and frequencies from 1, found "
                f"{self.bandwidth}, {self.teacher_batch}, {self.frequencies}."
            )

    @property
    def kernel(self) -> FourierKernel:
        """The same for everyone."""
        pixels = math.prod(self.shape)
        return FourierKernel(pixels, self.frequencies, self.bandwidth * math.sqrt(pixels), self.octaves)

    def block(self, parts: int, device: str) -> int:
        """How many of `parts` teachers make a block."""
        room = ROOM.get(torch.device(device).type, ROOM["cpu"])
        pixels = 8 * (self.teacher_batch + self.asked) * math.prod(self.shape)
        return max(1, min(parts, room // (pixels + 4 * self.kernel.numbers(self.teacher_batch, self.asked))))

    def make(self, count: int, random: torch.Generator, device: str = "cpu") -> KernelTeachers:
        """A block of `count` teachers who have seen nothing yet."""
        pixels = math.prod(self.shape)
        images = torch.zeros(count, self.teacher_batch, pixels, device=device)
        labels = torch.full((count, self.teacher_batch), -1, device=device)
        return KernelTeachers(self, images, labels)


class KernelTeachers:
    """A block of teachers, each with the images that it drew last. Made by `MMDWitness.make`."""

    def __init__(self, witness: MMDWitness, images: Tensor, labels: Tensor) -> None:
        self.witness = witness
        self.kernel = witness.kernel
        self.images = images
        self.labels = labels

    def update(self, images: Tensor, labels: Tensor) -> None:
        """Look at each teacher's own images (count, teacher_batch, c, h, w)."""
        self.images.copy_(images.flatten(2))
        self.labels.copy_(labels)

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """The slope of each D_i in the fakes: (count, m, c h w)."""
        x = fakes.flatten(1)
        weights = label_means(labels.expand(len(self.images), -1), self.labels)
        with products(self.witness.precision, x.device):
            slopes = self.kernel.slopes(x, self.images, weights)
        return slopes.where((weights > 0).any(2, keepdim=True), 0)

    def some(self, which: Tensor) -> KernelTeachers:
        """Some of the teachers, to be asked and not to be taught."""
        return KernelTeachers(self.witness, *(t[which.to(t.device)] for t in (self.images, self.labels)))

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes. Private."""
        return {"images": self.images, "labels": self.labels}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of a block of the same kind and size."""
        self.images.copy_(state["images"])
        self.labels.copy_(state["labels"])
