"""Critics in closed form, one for each of thousands of teachers: what a kernel says of their own images.

    k(x, r)      a Gaussian or a sum of waves (kernels.py)
    D_i(x, y)    mean of k(x, r) over teacher i's own images r of label y, less the mean over the fakes of y, if shown

With fakes this is, up to its length, the critic that tells the two sets apart best among the functions of the kernel
(the witness of the maximum mean discrepancy, Gretton et al. 2012): a network that is trained for a handful of steps on
fifteen images is far from its best, this is there at once. Without, it is a smoothed density of the teacher's own
images, whose slope the student can explain by its own ones. A teacher without an image of a label has nothing to say
about it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sfumato.engine.teachers.stacked import products
from sfumato.methods.teachers.kernels import Gauss, Waves

ROOM = {"cpu": 2**25, "cuda": 2**30}  # bytes that a block may take; larger ones a CPU gets anew from the system


def shares(labels: Tensor, of: Tensor) -> Tensor:
    """(..., m, n): one over the number of entries of `of` (..., n) that have the label of a row, and 0 for the rest."""
    same = (labels[..., :, None] == of[..., None, :]).float()
    return same / same.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class MMDWitness:
    """The public recipe of a block of teachers.

    >>> MMDWitness((1, 28, 28), 10, bandwidth=0.25).width
    7.0
    """

    shape: tuple[int, int, int]
    classes: int  # 0: labels are not looked at
    bandwidth: float = 0.25  # in grey levels a pixel, so that one setting serves images of any size
    fakes: int = 0  # how many come with an update; 0: they are not looked at
    teacher_batch: int = 15
    octaves: float = 0.0
    waves: int = 0  # 0: a Gaussian
    asked: int = 16  # images a question
    precision: str = "tf32"

    def __post_init__(self) -> None:
        if not (0 < self.bandwidth < math.inf and self.teacher_batch >= 1):
            raise ValueError(
                f"Expected bandwidth above 0 and draws from 1, found {self.bandwidth}, {self.teacher_batch}."
            )

    @property
    def width(self) -> float:
        """Of the kernel."""
        return self.bandwidth * math.sqrt(math.prod(self.shape))

    @property
    def kernel(self) -> Gauss | Waves:
        """Public, and the same for everyone."""
        pixels = math.prod(self.shape)
        return Waves(pixels, self.waves, self.width, self.octaves) if self.waves else Gauss(self.width, self.octaves)

    def block(self, parts: int, device: str) -> int:
        """How many of `parts` teachers make a block."""
        room = ROOM.get(torch.device(device).type, ROOM["cpu"])
        pixels = 8 * (self.teacher_batch + self.asked) * math.prod(self.shape)
        return max(1, min(parts, room // (pixels + 4 * self.kernel.numbers(self.teacher_batch, self.asked))))

    def make(self, count: int, random: torch.Generator, device: str = "cpu") -> KernelTeachers:
        """A block of `count` teachers who have seen nothing yet."""
        return KernelTeachers(self, count, device)


class KernelTeachers:
    """A block of teachers, each with the images that it drew last. Made by `MMDWitness.make`."""

    def __init__(self, recipe: MMDWitness, count: int, device: str) -> None:
        self.recipe = recipe
        self.count = count
        self.images = torch.zeros(count, recipe.teacher_batch, math.prod(recipe.shape), device=device)
        self.labels = torch.full((count, recipe.teacher_batch), -1, device=device)
        self.kernel = recipe.kernel
        self.times = torch.tensor(1.0, device=device)
        self.fakes = torch.zeros(recipe.fakes, self.images.shape[2], device=device)
        self.fake_labels = torch.full((recipe.fakes,), -1, device=device)

    def update(self, images: Tensor, labels: Tensor, fakes: Tensor, fake_labels: Tensor, step: int = 0) -> None:
        """Look at each teacher's own images (count, draws, c, h, w), and at the fakes that are shared by all.

        Kernels of several widths take turns from step to step.
        """
        self.times.fill_(self.kernel.times(step))
        self.images.copy_(images.flatten(2))
        self.labels.copy_(self._place(labels))
        if self.recipe.fakes:
            self.fakes.copy_(fakes.flatten(1))
            self.fake_labels.copy_(self._place(fake_labels))

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """The slope of each D_i in the fakes: (count, m, c h w)."""
        x = fakes.flatten(1)
        asked = self._place(labels)
        weights = shares(asked.expand(self.count, -1), self.labels)
        with products(self.recipe.precision, x.device):
            found = self.kernel.slopes(x, self.images, weights, self.times)
            if self.recipe.fakes:
                found -= self.kernel.slopes(x, self.fakes, shares(asked, self.fake_labels), self.times)
        return found.where((weights > 0).any(2, keepdim=True), 0)

    def _place(self, labels: Tensor) -> Tensor:
        return labels if self.recipe.classes else torch.zeros_like(labels)

    def some(self, which: Tensor) -> KernelTeachers:
        """Some of the teachers, to be asked and not to be taught."""
        few = KernelTeachers(self.recipe, 1, str(self.images.device))
        few.count = len(which)
        few.times = self.times
        few.fakes = self.fakes
        few.fake_labels = self.fake_labels
        few.images, few.labels = (t[which.to(t.device)] for t in (self.images, self.labels))
        return few

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes. Private."""
        names = ("images", "labels", "times", "fakes", "fake_labels")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of a block of the same recipe and size."""
        for name, own in self.state_dict().items():
            own.copy_(state[name])
