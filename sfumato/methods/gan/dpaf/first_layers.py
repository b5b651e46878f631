"""How the first layers of DPAF's discriminator learn, which the paper calls conv1.

    random    conv1 stays as it was drawn
    public    a classifier of public images, by ordinary steps; conv1 is its first part
    private   a classifier of the records by DP-SGD on all of its layers, clipped together      the crossing "conv1"
    game      no classifier: conv1 learns in the game, as conv2* does                           the crossing "conv1"

The paper trains the other layers of its classifier without noise and calls conv1 private; it is not (privacy.md 2.14).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import assign
from sfumato.engine.public_pretrain import public_pretrain
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.discriminator import Lower, linear
from sfumato.methods.gan.dpaf.layer_update import LayerUpdate

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.engine.adversarial import Labelled
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

WAYS = ("random", "public", "private", "game")
LEARNING_RATE = 1e-3  # of the private classifier


class FirstLayersClassifier(nn.Module):
    """conv1 and a head that names the class of an image: what conv1 learns from where it is not left random."""

    def __init__(self, conv1: nn.Sequential, maps: int, classes: int) -> None:
        super().__init__()
        self.conv1 = conv1
        self.head = linear(16 * maps, classes)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(F.adaptive_avg_pool2d(self.conv1(2 * images - 1), 4).flatten(1))
        return scores


def classification(net: nn.Module, images: Tensor, labels: Tensor, *drawn: Tensor) -> Tensor:
    """The loss of a classifier, of each image."""
    return F.cross_entropy(net(images).float(), labels, reduction="none")


def classifier(conv1: nn.Sequential, classes: int, run: Run) -> FirstLayersClassifier:
    """One whose first layers begin as conv1."""
    first = copy.deepcopy(conv1).requires_grad_(True)
    maps = [layer.out_channels for layer in first if isinstance(layer, nn.Conv2d)][-1]
    return seeded(run, lambda: FirstLayersClassifier(first, maps, classes))


def learn_publicly(conv1: nn.Sequential, public: PublicImages | None, spec: DataSpec, run: Run, steps: int) -> None:
    """Set conv1 to the first layers of a classifier of public images, with their own classes."""
    if public is None or len(public.images.classes) < 2:
        raise InputError("Expected public images of two classes or more for conv1=public; name them with --public.")
    net = classifier(conv1, len(public.images.classes), run)
    public_pretrain(net, classification, public, replace(spec, classes=tuple(public.images.classes)), run, steps=steps)
    conv1.load_state_dict(net.conv1.state_dict())


class PrivateClassifier:
    """DP-SGD of a classifier; conv1 is a copy of its first layers."""

    def __init__(self, conv1: nn.Sequential, classes: int, run: Run, config: DPSGDConfig) -> None:
        self.conv1 = conv1
        self.steps = config.steps
        self.batch = config.batch
        self.net = classifier(conv1, classes, run)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=LEARNING_RATE)
        self.query = config.query(self.net, classification)

    def step(self, released: Tensor) -> None:
        """One step on a released sum of gradients."""
        assign(self.net, released / self.batch)
        self.optimiser.step()
        self.conv1.load_state_dict(self.net.conv1.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])


class FirstLayersUpdate(LayerUpdate):
    """conv1 as it learns in the game: in a copy of the lower layers, where it learns and conv2* does not."""

    def __init__(
        self, lower: Lower, learning_rate: float, config: DPSGDConfig, *, relative: bool, bfloat16: bool
    ) -> None:
        self.lower = lower
        net = copy.deepcopy(lower)
        net.requires_grad_(False).conv1.requires_grad_(True)
        optimiser = torch.optim.Adam(net.conv1.parameters(), learning_rate, (0.5, 0.999))
        super().__init__(net, optimiser, config, relative=relative, bfloat16=bfloat16)

    def scaled(self, v: Tensor, fakes: Labelled) -> tuple[Tensor, Tensor]:
        self.net.load_state_dict(self.lower.state_dict())  # conv1 is asked about behind the latest conv2*
        return super().scaled(v, fakes)

    def step(self, released: Tensor, of_fakes: Tensor, fakes: Labelled) -> None:
        super().step(released, of_fakes, fakes)
        self.lower.conv1.load_state_dict(self.net.conv1.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; the weights are the discriminator's."""
        return {"optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.optimiser.load_state_dict(state["optimiser"])
