"""Critics in closed form, one for each of thousands of teachers: what a Gaussian kernel says of their own images.

    k(x, r)      exp(-|x - r|^2 / 2 s^2)
    D_i(x, y)    mean of k(x, r) over teacher i's own images r of label y, less the mean over the fakes of y, if shown

With fakes this is, up to its length, the critic that tells the two sets apart best among the functions of the kernel
(the witness of the maximum mean discrepancy, Gretton et al. 2012): a network that is trained for a handful of steps on
fifteen images is far from its best, this is there at once. Without, it is a smoothed density of the teacher's own
images, whose slope the student can explain by its own ones. The slope of a kernel is at most 1 / (s sqrt(e)); slopes
are given in that unit, so that one of a density has length 1 at most. A teacher without an image of a label has
nothing to say about it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

ROOM = {"cpu": 2**25, "cuda": 2**30}  # bytes that a block may take; larger ones a CPU gets anew from the system
STEEPEST = math.exp(-0.5)  # of a kernel of width 1


def slopes(x: Tensor, others: Tensor, weights: Tensor, width: Tensor | float) -> Tensor:
    """Of sum_r weights(x, r) k(x, r) in x (..., m, d), in units of the steepest; `others` is (..., n, d).

    >>> x, r = torch.zeros(1, 4), torch.tensor([[2.0, 0.0, 0.0, 0.0]])
    >>> slopes(x, r, torch.ones(1, 1), 2.0)  # one width away is the steepest place
    tensor([[1., 0., 0., 0.]])
    """
    far = x.square().sum(-1)[..., None] + others.square().sum(-1)[..., None, :] - 2 * x @ others.mT
    pull = weights * torch.exp(far.clamp(min=0) / (-2 * width**2)) / (width * STEEPEST)
    return pull @ others - pull.sum(-1, keepdim=True) * x


def turn(step: int, octaves: float) -> float:
    """What a kernel's width is multiplied by at a step: four widths over `octaves` in turn, wide first, two steps each.

    >>> [round(turn(step, 1.0), 2) for step in (0, 1, 2, 4, 6, 8)]
    [1.41, 1.41, 1.12, 0.89, 0.71, 1.41]
    """
    return float(2 ** (octaves * (0.5 - step // 2 % 4 / 3)))


def shares(labels: Tensor, of: Tensor) -> Tensor:
    """(..., m, n): one over the number of entries of `of` (..., n) that have the label of a row, and 0 for the rest."""
    same = (labels[..., :, None] == of[..., None, :]).float()
    return same / same.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Witnesses:
    """The public recipe of a block of teachers.

    >>> Witnesses((1, 28, 28), 10, bandwidth=0.25).width
    7.0
    """

    shape: tuple[int, int, int]
    classes: int  # 0: labels are not looked at
    bandwidth: float = 0.25  # in grey levels a pixel, so that one setting serves images of any size
    fakes: int = 0  # how many come with an update; 0: they are not looked at
    draws: int = 15

    def __post_init__(self) -> None:
        if not (0 < self.bandwidth < math.inf and self.draws >= 1):
            raise ValueError(f"Expected bandwidth above 0 and draws from 1, found {self.bandwidth}, {self.draws}.")

    @property
    def width(self) -> float:
        """Of the kernel."""
        return self.bandwidth * math.sqrt(math.prod(self.shape))

    def block(self, parts: int, device: str) -> int:
        """How many of `parts` teachers make a block."""
        room = ROOM.get(torch.device(device).type, ROOM["cpu"])
        return max(1, min(parts, room // (8 * (self.draws + 16) * math.prod(self.shape))))

    def make(self, count: int, random: torch.Generator, device: str = "cpu") -> Crowd:
        """A block of `count` teachers who have seen nothing yet."""
        return Crowd(self, count, device)


class Crowd:
    """A block of teachers, each with the images that it drew last. Made by `Witnesses.make`."""

    def __init__(self, recipe: Witnesses, count: int, device: str) -> None:
        self.recipe, self.count = recipe, count
        self.images = torch.zeros(count, recipe.draws, math.prod(recipe.shape), device=device)
        self.labels = torch.full((count, recipe.draws), -1, device=device)
        self.width = torch.tensor(recipe.width, device=device)
        self.fakes = torch.zeros(recipe.fakes, self.images.shape[2], device=device)
        self.fake_labels = torch.full((recipe.fakes,), -1, device=device)

    def update(self, images: Tensor, labels: Tensor, fakes: Tensor, fake_labels: Tensor, times: float = 1.0) -> None:
        """Look at each teacher's own images (count, draws, c, h, w), and at the fakes that are shared by all.

        The kernel's width is from now on `times` that of the recipe.
        """
        self.width.fill_(times * self.recipe.width)
        self.images.copy_(images.flatten(2))
        self.labels.copy_(self._place(labels))
        if self.recipe.fakes:
            self.fakes.copy_(fakes.flatten(1))
            self.fake_labels.copy_(self._place(fake_labels))

    def directions(self, fakes: Tensor, labels: Tensor) -> Tensor:
        """The slope of each D_i in the fakes: (count, m, c h w)."""
        x, asked = fakes.flatten(1), self._place(labels)
        weights = shares(asked.expand(self.count, -1), self.labels)
        found = slopes(x.expand(self.count, -1, -1), self.images, weights, self.width)
        if self.recipe.fakes:
            found -= slopes(x, self.fakes, shares(asked, self.fake_labels), self.width)
        return found.where((weights > 0).any(2, keepdim=True), 0)

    def _place(self, labels: Tensor) -> Tensor:
        return labels if self.recipe.classes else torch.zeros_like(labels)

    def some(self, which: Tensor) -> Crowd:
        """Some of the teachers, to be asked and not to be taught."""
        few = Crowd(self.recipe, 1, str(self.images.device))
        few.count, few.width, few.fakes, few.fake_labels = len(which), self.width, self.fakes, self.fake_labels
        few.images, few.labels = (t[which.to(t.device)] for t in (self.images, self.labels))
        return few

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes. Private."""
        names = ("images", "labels", "width", "fakes", "fake_labels")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of a block of the same recipe and size."""
        for name, own in self.state_dict().items():
            own.copy_(state[name])
