"""The two players of an adversarial game, and whose turn it is. Nothing here sees private data."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from sfumato.engine.ema import EMA, repeatable
from sfumato.engine.gan_losses import Objective
from sfumato.engine.gradients.per_example import assign
from sfumato.engine.student import latents_and_labels
from sfumato.networks.generator import Generator

if TYPE_CHECKING:
    from sfumato.run.run import Run

LADDER = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

Labelled = tuple[Tensor, Tensor]  # images and labels
Penalty = Callable[[Tensor, Tensor], Tensor]  # images and labels -> one number
Critic = TypeVar("Critic", bound=nn.Module)


class Turns:
    """When the generator has a step: after `count` critic steps.

    With `least` the count grows (Bie, Kamath and Zhang 2023): when the moving average of the critic's accuracy on fakes
    has fallen to it, and the generator had `grace` steps since, the count becomes the next number of the ladder. Critic
    and fakes are made of released values alone, so that the rule is public.

    >>> turns = Turns(1, least=0.7, grace=2)
    >>> for accuracy in (0.9, 0.6, 0.6):
    ...     turns.moved(accuracy)
    >>> turns.count, round(turns.accuracy, 3)
    (1, 0.894)
    """

    def __init__(self, count: int, least: float = 0.0, grace: int = 200, decay: float = 0.99) -> None:
        self.count = count
        self.least = least
        self.grace = grace
        self.decay = decay
        self.since = 0
        self.moves = 0
        self.accuracy = math.nan

    def due(self) -> bool:
        """Count one critic step; whether it is the generator's turn now."""
        self.since += 1
        return self.since >= self.count

    def moved(self, accuracy: float) -> None:
        """Count one generator step, before which the critic told this share of fakes from real images."""
        self.since = 0
        self.moves = self.moves + 1
        first = math.isnan(self.accuracy)
        self.accuracy = accuracy if first else self.decay * self.accuracy + (1 - self.decay) * accuracy
        if self.moves >= self.grace and self.accuracy <= self.least:
            self.count = next((n for n in LADDER if n > self.count), self.count)
            self.moves = 0

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "count": self.count,
            "since": self.since,
            "moves": self.moves,
            "accuracy": None if math.isnan(self.accuracy) else self.accuracy,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.count, self.since, self.moves = (int(state[name]) for name in ("count", "since", "moves"))
        self.accuracy = math.nan if state["accuracy"] is None else float(state["accuracy"])


class Players(Generic[Critic]):
    """Generator and critic with their optimisers, the generator's average, and whose turn it is."""

    def __init__(
        self,
        net: Generator,
        critic: Critic,
        turns: Turns,
        *,
        learning_rate: float,
        critic_learning_rate: float,
        ema_decay: float = 0.0,
        betas: tuple[float, float] = (0.5, 0.999),
    ) -> None:
        self.net = net.train()
        self.critic: Critic = critic.train()
        self.turns = turns
        self.optimiser = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=betas)
        self.critic_optimiser = torch.optim.Adam(critic.parameters(), lr=critic_learning_rate, betas=betas)
        self.ema = EMA(net, ema_decay) if ema_decay else None

    @torch.no_grad()
    def fakes(self, count: int, run: Run, step: int) -> Labelled:
        """Images and labels that the critic is to tell from real ones."""
        z, labels = latents_and_labels(self.net, count, run, 2 * step)
        with repeatable():
            return self.net(z, labels), labels

    def critic_step(self, gradient: Tensor, weight_clip: float = 0.0) -> None:
        """One step of the critic on a gradient that is public."""
        assign(self.critic, gradient)
        self.critic_optimiser.step()
        if weight_clip:
            with torch.no_grad():
                for p in trainable(self.critic):
                    p.clamp_(-weight_clip, weight_clip)

    def generator_step(
        self, objective: Objective, count: int, run: Run, step: int, penalty: Penalty | None = None
    ) -> None:
        """One step of the generator, which may pay a penalty for its images besides."""
        z, labels = latents_and_labels(self.net, count, run, 2 * step + 1)
        self.optimiser.zero_grad(set_to_none=True)
        with repeatable():
            images = self.net(z, labels)
            scores = self.critic(images, labels)
            loss = objective.lure(scores, labels).mean() + (penalty(images, labels) if penalty else 0)
            torch.autograd.backward(loss, inputs=trainable(self.net))
        self.optimiser.step()
        if self.ema:
            self.ema.update(self.net)
        self.turns.moved(float((scores[:, 0] < 0).double().mean()) if self.turns.least else math.nan)

    def finished(self, random: torch.Generator) -> Generator:
        """A copy of the generator with the averaged weights, settled, in eval mode."""
        net = copy.deepcopy(self.net)
        if self.ema:
            self.ema.put(net)
        with repeatable():
            net.settle(random)
        return net.eval()

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint of the same game."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        names = ("net", "critic", "turns", "optimiser", "critic_optimiser", *(["ema"] if self.ema else []))
        return {name: getattr(self, name) for name in names}


def trainable(net: nn.Module) -> list[nn.Parameter]:
    """The parameters that are not frozen."""
    return [p for p in net.parameters() if p.requires_grad]


def public_batch(known: Labelled, count: int, classes: int, random: torch.Generator, device: str) -> Labelled:
    """Some of the public images (uint8), as floats; where their classes are others they get labels by chance."""
    pixels, labels = known
    places = torch.randint(len(pixels), (count,), generator=random)
    chance = torch.randint(classes, (count,), generator=random)
    labels = labels[places].where(labels[places] >= 0, chance)
    return pixels[places].to(device).float().div(255), labels.to(device)
