"""Images of a set that come from a generator, whose weights are moved in the place of pixels (Chen et al. 2022).

    s_cj    = G(z_cj, c),   z_cj drawn once from public randomness
    step    of G's weights: the slope of the loss in the images, carried back through G                  free

The prior that images look like what a convolutional network makes; the set is still what is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sfumato.engine.generator_dpsgd import seeded
from sfumato.networks.conv import ConvGenerator

if TYPE_CHECKING:
    from sfumato.networks.image_set import ImageSet
    from sfumato.run.run import Run

PRIORS = ("pixels", "generator")
LATENT = 10  # as in the official code


class PriorDescent:
    """Descent on the weights of a generator whose images fill a set; in the place of `PixelDescent`."""

    def __init__(self, points: ImageSet, learning_rate: float, width: int, run: Run) -> None:
        self.points = points
        self.G = seeded(run, lambda: ConvGenerator(points.shape, points.classes, LATENT, width))
        labels = torch.arange(len(points.classes)).repeat_interleave(points.each)
        self.labels = labels.to(run.device)
        self.z = torch.randn(len(labels), LATENT, generator=run.generator("prior")).to(run.device)
        self.optimiser = torch.optim.Adam(self.G.parameters(), lr=learning_rate)
        points.put(self.images().detach())

    def images(self) -> Tensor:
        """The whole set, class by class."""
        made: Tensor = self.G(self.z, self.labels)
        return made

    def step(self, loss: Tensor, t: int) -> None:
        """Step `t` down `loss`."""
        self.points.images.grad = None
        loss.backward()
        slope = self.points.images.grad
        assert slope is not None
        self.optimiser.zero_grad(set_to_none=True)
        self.images().backward(slope.flatten(0, 1))
        self.optimiser.step()
        self.points.put(self.images().detach())

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"G": self.G.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of the same run."""
        self.G.load_state_dict(state["G"])
        self.optimiser.load_state_dict(state["optimiser"])
