"""A generator that explains all votes on kernel slopes so far, rather than following the last ones.

Teachers were asked at images x_j for the slope of a smoothed density of their own images of label y_j (see
`mmd_witness`); their mean vote, noise and all, is v_j. A generator with the data's law has the same slopes:

    minimise over G   sum_j | p_y  slope at x_j of the mean over G's images g of label y of k(., g)  -  v_j |^2

where p_y is the part of the teachers that have an image of the label, known from the public proportions of the labels.
Each query stays of use for the whole run, so its noise averages out, and G may take any number of steps: all of it is
post-processing of released votes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.engine.ema import EMA, finished, repeatable
from sfumato.engine.teachers.stacked import products
from sfumato.methods.teachers.kernels import Gauss, Waves
from sfumato.methods.teachers.mmd_witness import shares
from sfumato.networks.generator import Generator
from sfumato.networks.labels import allot

if TYPE_CHECKING:
    from sfumato.run.run import Run

KEPT = ("places", "labels", "times", "votes")
QUERIES = 1024  # of all so far, drawn for each step


def present(size: float, teacher_batch: int, weights: Sequence[float]) -> tuple[float, ...]:
    """For each label, the part of teachers of Poisson `size` who find it in their first `teacher_batch` images.

    >>> [round(p, 3) for p in present(15.0, 1000, (0.1, 0.9))]
    [0.777, 1.0]
    """
    found = []
    for weight in weights:
        none = 0.0
        left = 1.0
        chance = math.exp(-size)
        for count in range(teacher_batch):
            none = none + chance * (1 - weight) ** count
            left = left - chance
            chance = chance * size / (count + 1)
        found.append(1 - none - max(left, 0.0) * (1 - weight) ** teacher_batch)
    return tuple(found)


class FieldStudent:
    """A generator, its optimiser, and all that was asked and answered.

    Each query is followed by `fits` steps, the last one by `finish` more, in which the field of `fakes` fresh images
    is compared with the votes. The rate falls along a cosine to nothing. With `cross` every other query asks about
    another label than that of its images: what lies far from a label says as much about it as what lies near.
    """

    def __init__(
        self,
        net: Generator,
        run: Run,
        *,
        kernel: Gauss | Waves,
        heard: Sequence[float] | None,
        learning_rate: float,
        fits: int,
        finish: int,
        fakes: int,
        total: int,
        cross: bool = False,
        ema_decay: float = 0.0,
        precision: str = "tf32",
    ) -> None:
        self.net = net.train()
        self.run = run
        self.fakes_each = fakes
        self.cross = cross
        self.kernel = kernel
        self.precision = precision
        self.heard = torch.tensor(heard if heard is not None else [1.0] * len(net.classes), device=run.device)
        self.conditional = heard is not None
        self.learning_rate = learning_rate
        self.fits = fits
        self.finish = finish
        self.total = total
        self.optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=(0.5, 0.999))
        self.ema = EMA(net, ema_decay) if ema_decay else None
        self.places: list[Tensor] = []
        self.labels: list[Tensor] = []
        self.times: list[Tensor] = []
        self.votes: list[Tensor] = []
        self.taken = 0

    @torch.no_grad()
    def fakes(self, z: Tensor, labels: Tensor) -> Tensor:
        """The images to ask the teachers about."""
        with repeatable():
            return self.net(z, labels)

    def about(self, labels: Tensor) -> Tensor:
        """Which labels to ask about images of these labels."""
        asked = len(self.votes)
        others = len(self.net.classes) - 1
        if not (self.cross and self.conditional and others and asked % 2):
            return labels
        return (labels + 1 + asked // 2 % others) % (others + 1)

    def step(self, z: Tensor, labels: Tensor, votes: Tensor) -> None:
        """Take in the mean votes (m, c, h, w) about the images of `z` and `labels`, and fit all of them."""
        self.places.append(self.fakes(z, labels).flatten(1))
        self.labels.append(self._told(self.about(labels)))
        self.times.append(torch.full((len(z), 1), self.kernel.times(len(self.votes)), device=z.device))
        self.votes.append(votes.flatten(1))
        for _ in range(self.fits + (self.finish if len(self.votes) == self.total else 0)):
            self._fit(*(torch.cat(kept) for kept in (self.places, self.labels, self.times, self.votes)))

    def _told(self, labels: Tensor) -> Tensor:
        return labels if self.conditional else torch.zeros_like(labels)

    def _fit(self, places: Tensor, labels: Tensor, times: Tensor, votes: Tensor) -> None:
        """One step of the optimiser."""
        random = self.run.generator("field", self.taken)
        if len(places) > QUERIES:
            some = torch.randperm(len(places), generator=random)[:QUERIES].to(places.device)
            places, labels, times, votes = (kept[some] for kept in (places, labels, times, votes))
        z = self.net.latents(self.fakes_each, random)
        own = allot(self.fakes_each, self.net.label_weights, random)
        z = z.to(places.device)
        own = own.to(places.device)
        self.optimiser.param_groups[0]["lr"] = self.learning_rate * self._pace()
        self.optimiser.zero_grad(set_to_none=True)
        with repeatable(), products(self.precision, places.device):
            images = self.net(z, own).flatten(1)
            weights = shares(labels, self._told(own))
            field = self.kernel.slopes(places, images, weights, times)
            (self.heard[labels, None] * field - votes).square().sum(1).mean().backward()
        self.optimiser.step()
        self.taken += 1
        if self.ema:
            self.ema.update(self.net)

    def _pace(self) -> float:
        return 0.5 + 0.5 * math.cos(math.pi * min(1.0, self.taken / (self.total * self.fits + self.finish)))

    def finished(self, random: torch.Generator | None = None) -> Generator:
        """A copy with the averaged weights, settled on latents drawn from `random`, in eval mode."""
        return finished(self.net, self.ema, random)

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "ema": self.ema and self.ema.state_dict(),
            "taken": self.taken,
            **{name: list(getattr(self, name)) for name in KEPT},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of a student with the same settings."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.ema:
            self.ema.load_state_dict(state["ema"])
        for name in KEPT:
            setattr(self, name, list(state[name]))
        self.taken = int(state["taken"])
