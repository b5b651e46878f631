"""Teachers that classify: softmax regression on fixed features, one for each part of the data, all as one model.

Every weight has a leading axis of teachers, and nothing is reduced over it: a teacher sees the records of its own part
and no other's. The features follow from each image alone, by constants that no private image went into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HELD = 2**28  # bytes of weights and features of a block, about
IMAGES = 512  # that features are computed of at once


@dataclass(frozen=True, eq=False)
class LinearTeachers:
    """What a teacher is, public: fixed features and how its weights are learned."""

    body: nn.Module
    width: int  # features of an image
    classes: int
    teacher_batch: int = 32
    learning_rate: float = 0.01
    momentum: float = 0.9
    decay: float = 0.0

    def block(self, parts: int, device: str) -> int:
        """How many teachers make a block."""
        each = 4 * self.width * (2 * self.classes + 2 * self.teacher_batch)
        return max(1, min(parts, HELD // each))

    def make(self, count: int, random: torch.Generator, device: str) -> LinearBlock:
        """Teachers that know nothing yet: all start from zero."""
        shape = (count, self.width + 1, self.classes)  # the last row is the bias
        return LinearBlock(self, torch.zeros(shape, device=device), torch.zeros(shape, device=device))

    def seen(self, images: Tensor) -> Tensor:
        """Features (n, width + 1) of images (n, c, h, w) in [0, 1], with a one for the bias."""
        found = torch.cat([self.body(some).flatten(1) for some in images.split(IMAGES)])
        return F.pad(found, (0, 1), value=1.0)


class LinearBlock:
    """Some teachers as they learn and vote behind the barrier."""

    def __init__(self, model: LinearTeachers, weight: Tensor, velocity: Tensor) -> None:
        self._model = model
        self.weight = weight
        self.velocity = velocity

    def update(self, images: Tensor, labels: Tensor, *public: Any, **named: Any) -> None:
        """One step of SGD with momentum of each teacher on its own (parts, teacher_batch, ...) records."""
        model = self._model
        x = model.seen(images.flatten(0, 1)).view(*images.shape[:2], -1)
        wrong = torch.softmax(x @ self.weight, 2) - F.one_hot(labels, model.classes)
        gradient = x.mT @ wrong / model.teacher_batch + model.decay * self.weight
        self.velocity.mul_(model.momentum).add_(gradient)
        self.weight.sub_(self.velocity, alpha=model.learning_rate)

    def votes(self, x: Tensor) -> Tensor:
        """The class that each teacher sees in images of these features: (teachers, images, classes) of 0 and 1."""
        # One product for all of them, each with columns of its own: the images are not copied for every teacher.
        scores = (x @ self.weight.movedim(0, 1).flatten(1)).view(len(x), *self.weight.shape[::2])
        return F.one_hot(scores.movedim(1, 0).argmax(2), self._model.classes).to(torch.int8)

    def state_dict(self) -> dict[str, Tensor]:
        """All of it."""
        return {"weight": self.weight, "velocity": self.velocity}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """As it was."""
        self.weight.copy_(state["weight"])
        self.velocity.copy_(state["velocity"])
