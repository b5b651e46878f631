"""A generator that explains all votes on kernel slopes so far, rather than following the last ones.

Teachers were asked at images x_j for the slope of the kernel mean of their own images of label y_j (`mmd_witness`);
their mean vote, noise and all, is v_j. A generator with the data's law has the same slopes:

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

from sfumato.engine.ema import finished, repeatable
from sfumato.engine.teachers.stacked import products
from sfumato.methods.teachers.mmd_witness import FourierKernel, label_means
from sfumato.networks.generator import Generator
from sfumato.networks.labels import allot

if TYPE_CHECKING:
    from sfumato.run.run import Run

QUERIES = 1024  # of all so far, drawn for each step


def present(size: float, teacher_batch: int, weights: Sequence[float]) -> tuple[float, ...]:
    """p_y: for each label, the part of teachers of Poisson `size` who find it in their first `teacher_batch` images.

    >>> [round(p, 3) for p in present(15.0, 1000, (0.1, 0.9))]
    [0.777, 1.0]
    """
    parts = []
    for weight in weights:
        none = 0.0
        left = 1.0
        chance = math.exp(-size)
        for count in range(teacher_batch):
            none = none + chance * (1 - weight) ** count
            left = left - chance
            chance = chance * size / (count + 1)
        parts.append(1 - none - max(left, 0.0) * (1 - weight) ** teacher_batch)
    return tuple(parts)


class SlopeMatching:
    """A generator, its optimiser, and all that was asked and answered.

    In each of `total` steps the slopes of `fakes` fresh images are compared with the votes; the learning rate falls
    along a cosine to nothing.
    """

    def __init__(
        self,
        net: Generator,
        run: Run,
        *,
        kernel: FourierKernel,
        present: Sequence[float],
        learning_rate: float,
        fakes: int,
        total: int,
        precision: str = "tf32",
    ) -> None:
        self.net = net.train()
        self.run = run
        self.kernel = kernel
        self.present = torch.tensor(present, device=run.device)
        self.learning_rate = learning_rate
        self.fakes_each = fakes
        self.total = total
        self.precision = precision
        self.optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=(0.5, 0.999))
        self.x = torch.empty(0, kernel.pixels, device=run.device)
        self.y = torch.empty(0, dtype=torch.int64, device=run.device)
        self.v = torch.empty(0, kernel.pixels, device=run.device)
        self.steps = 0

    @torch.no_grad()
    def fakes(self, z: Tensor, labels: Tensor) -> Tensor:
        """The images to ask the teachers about."""
        with repeatable():
            images: Tensor = self.net(z, labels)
        return images

    def hear(self, x: Tensor, y: Tensor, v: Tensor) -> None:
        """Keep the mean votes v about the images x and labels y."""
        self.x = torch.cat([self.x, x.flatten(1)])
        self.y = torch.cat([self.y, y])
        self.v = torch.cat([self.v, v.flatten(1)])

    def step(self) -> None:
        """One step of the optimiser on the votes so far."""
        random = self.run.generator("field", self.steps)
        x, y, v = self._some(random)
        z = self.net.latents(self.fakes_each, random).to(x.device)
        labels = allot(self.fakes_each, self.net.label_weights, random).to(x.device)
        self.optimiser.param_groups[0]["lr"] = self.learning_rate * self._pace()
        self.optimiser.zero_grad(set_to_none=True)
        with repeatable(), products(self.precision, x.device):
            images = self.net(z, labels).flatten(1)
            slopes = self.kernel.slopes(x, images, label_means(y, labels))
            loss = (self.present[y, None] * slopes - v).square().sum(1).mean()
            loss.backward()
        self.optimiser.step()
        self.steps += 1

    def _some(self, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and votes of all queries; of some, by public chance, where they are many."""
        if len(self.x) <= QUERIES:
            return self.x, self.y, self.v
        some = torch.randperm(len(self.x), generator=random)[:QUERIES].to(self.x.device)
        return self.x[some], self.y[some], self.v[some]

    def _pace(self) -> float:
        return 0.5 + 0.5 * math.cos(math.pi * min(1.0, self.steps / self.total))

    def finished(self, random: torch.Generator | None = None) -> Generator:
        """A copy, settled on latents drawn from `random`, in eval mode."""
        return finished(self.net, None, random)

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "net": self.net.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "asked": {"x": self.x, "y": self.y, "v": self.v},
            "steps": self.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of a generator with the same settings."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.x = state["asked"]["x"]
        self.y = state["asked"]["y"]
        self.v = state["asked"]["v"]
        self.steps = int(state["steps"])
