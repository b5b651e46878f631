"""The two players of an adversarial game, and whose turn it is. Nothing here sees private data."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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

Labelled = tuple[Tensor, Tensor]
Also = Callable[[Tensor, Tensor], Tensor]  # images and labels -> one number


class Turns:
    """When the generator moves: after `count` critic steps.

    With `least` the count grows (Bie, Kamath and Zhang 2023): when the moving average of the critic's accuracy on fakes
    has fallen to it, and `grace` moves were made since, the count becomes the next number of the ladder. Critic and
    fakes are made of released values alone, so that the rule is public.

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
        self.since = self.moves = 0
        self.accuracy = math.nan

    def due(self) -> bool:
        """Count one critic step; whether it is the generator's turn now."""
        self.since += 1
        return self.since >= self.count

    def moved(self, accuracy: float) -> None:
        """Count one move, before which the critic told this share of fakes from real images."""
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


class Players:
    """Generator and critic with their optimisers, the generator's average, and whose turn it is."""

    def __init__(
        self,
        net: Generator,
        critic: nn.Module,
        turns: Turns,
        *,
        learning_rate: float,
        critic_learning_rate: float,
        ema_decay: float = 0.0,
        betas: tuple[float, float] = (0.5, 0.999),
    ) -> None:
        self.net = net.train()
        self.critic = critic.train()
        self.turns = turns
        self.mover = torch.optim.Adam(net.parameters(), lr=learning_rate, betas=betas)
        self.judge = torch.optim.Adam(critic.parameters(), lr=critic_learning_rate, betas=betas)
        self.ema = EMA(net, ema_decay) if ema_decay else None

    @torch.no_grad()
    def fakes(self, count: int, run: Run, step: int) -> Labelled:
        """Images and labels that the critic is to tell from real ones."""
        z, labels = latents_and_labels(self.net, count, run, 2 * step)
        with repeatable():
            return self.net(z, labels), labels

    def sharpen(self, gradient: Tensor, weight_clip: float = 0.0) -> None:
        """One step of the critic."""
        assign(self.critic, gradient)
        self.judge.step()
        if weight_clip:
            with torch.no_grad():
                for p in self.critic.parameters():
                    p.clamp_(-weight_clip, weight_clip)

    def move(self, objective: Objective, count: int, run: Run, step: int, also: Also | None = None) -> None:
        """One step of the generator, which may have something else to pay for its images."""
        z, labels = latents_and_labels(self.net, count, run, 2 * step + 1)
        self.mover.zero_grad(set_to_none=True)
        with repeatable():
            images = self.net(z, labels)
            out = self.critic(images, labels)
            pays = objective.lure(out, labels).mean() + (also(images, labels) if also else 0)
            pays.backward(inputs=list(self.net.parameters()))
        self.mover.step()
        if self.ema:
            self.ema.update(self.net)
        self.turns.moved(float((out[:, 0] < 0).double().mean()) if self.turns.least else math.nan)

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
        parts = {"net": self.net, "critic": self.critic, "turns": self.turns, "mover": self.mover, "judge": self.judge}
        return parts | ({"ema": self.ema} if self.ema else {})
