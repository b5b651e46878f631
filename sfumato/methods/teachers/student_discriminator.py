"""A generator against a student discriminator that learns from released labels alone (PATE-GAN; site B2).

The student sees fake images, their labels and what the noisy count of the teachers' votes says about them; real images
never. Everything here is post-processing: remembered batches, more steps and averages cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.engine.ema import EMA, finished, repeatable
from sfumato.networks.generator import Generator

TARGETS = ("majority", "share", "rank")


def target(votes: Tensor, teachers: int, rule: str) -> Tensor:
    """What the student is told about fake images of which so many teachers, about, say that they are real.

        majority  1 where more than half of the teachers do, else 0: the paper's
        share     their share, between 0 and 1
        rank      1 for the better half of the batch, else 0: says something also where all of them look fake

    >>> [target(torch.tensor([1.0, 3.0, 60.0, -7.0]), 100, rule).tolist() for rule in ("majority", "rank")]
    [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
    """
    if rule not in TARGETS:
        raise ValueError(f"Expected target={' or target='.join(TARGETS)}, found target={rule}.")
    if rule == "rank":
        return (votes.argsort(stable=True).argsort() >= len(votes) / 2).float()
    share = (votes / teachers).clamp(0, 1)
    return (share > 0.5).float() if rule == "majority" else share.float()


def above(scores: Tensor, labels: Tensor) -> Tensor:
    """(teachers, images): where a teacher's score is above its own mean over the images of the same label.

    A teacher that takes every image for a fake one still says which of them are better, and NaN is above nothing.

    >>> above(torch.tensor([[-9.0, -8.0, -7.0, 3.0]]), torch.tensor([0, 0, 1, 1]))
    tensor([[False,  True, False,  True]])
    """
    hot = F.one_hot(labels).to(scores)
    return scores > (scores @ hot / hot.sum(0).clamp(min=1)) @ hot.T


def varied(images: Tensor, size: float, random: torch.Generator) -> Tensor:
    """Images with smooth noise of this size, by public chance: answers about them tell in which direction to go."""
    if not size:
        return images
    sides = [math.ceil(side / 2) for side in images.shape[2:]]
    coarse = torch.randn(*images.shape[:2], *sides, generator=random).to(images)
    return (images + size * F.interpolate(coarse, images.shape[2:], mode="bilinear")).clamp(0, 1)


class StudentNetwork(nn.Module):
    """Image and label -> how real it looks: two convolutions, then a linear score for each class."""

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int) -> None:
        super().__init__()
        coarse = math.ceil(shape[1] / 4) * math.ceil(shape[2] / 4)
        self.body = nn.Sequential(
            nn.Conv2d(shape[0], width, 5, stride=2, padding=2),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 5, stride=2, padding=2),
            nn.GroupNorm(1, 2 * width),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(2 * width * coarse, 4 * width),
            nn.LeakyReLU(0.2),
        )
        self.scores = nn.Linear(4 * width, classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.body(2 * images - 1))
        return scores.gather(1, labels[:, None])[:, 0]


class StudentDiscriminator:
    """Generator and student discriminator with their optimisers, and the labelled batches that are remembered."""

    def __init__(
        self,
        net: Generator,
        judge: StudentNetwork,
        *,
        learning_rate: float,
        judge_learning_rate: float,
        fits: int = 1,
        ema_decay: float = 0.0,
        replay: int = 0,
    ) -> None:
        self.net = net.train()
        self.judge = judge.train()
        self.fits = fits
        self.replay = replay
        self.optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=(0.5, 0.999))
        self.judging = torch.optim.Adam(judge.parameters(), lr=judge_learning_rate, betas=(0.5, 0.999))
        self.ema = EMA(net, ema_decay) if ema_decay else None
        self.memory: list[dict[str, Tensor]] = []

    @torch.no_grad()
    def fakes(self, z: Tensor, labels: Tensor) -> Tensor:
        """The images to ask the teachers about."""
        with repeatable():
            images: Tensor = self.net(z, labels)
        return images

    def learn(self, images: Tensor, labels: Tensor, real: Tensor, random: torch.Generator) -> None:
        """The student's steps after a query, on its images and on as many remembered ones."""
        self.memory = [*self.memory, {"images": images, "labels": labels, "real": real}][-(self.replay + 1) :]
        for _ in range(self.fits):
            turn = int(torch.randint(len(self.memory), (), generator=random))
            batches = [self.memory[-1], self.memory[turn]]
            x, y, told = (torch.cat([b[name] for b in batches]) for name in ("images", "labels", "real"))
            self.judging.zero_grad(set_to_none=True)
            with repeatable():
                F.binary_cross_entropy_with_logits(self.judge(x, y), told).backward()
            self.judging.step()

    def step(self, z: Tensor, labels: Tensor) -> None:
        """One step of the generator towards images that the student takes for real."""
        self.optimiser.zero_grad(set_to_none=True)
        with repeatable():
            F.softplus(-self.judge(self.net(z, labels), labels)).mean().backward()
        self.optimiser.step()
        if self.ema:
            self.ema.update(self.net)

    def finished(self, random: torch.Generator | None = None) -> Generator:
        """A copy with the averaged weights, settled on latents drawn from `random`, in eval mode."""
        return finished(self.net, self.ema, random)

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        found = {name: part.state_dict() for name, part in self._parts().items()}
        return found | {"ema": self.ema and self.ema.state_dict(), "memory": list(self.memory)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint with the same settings."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        if self.ema:
            self.ema.load_state_dict(state["ema"])
        self.memory = [dict(batch) for batch in state["memory"]]

    def _parts(self) -> dict[str, Any]:
        return {"net": self.net, "judge": self.judge, "optimiser": self.optimiser, "judging": self.judging}
