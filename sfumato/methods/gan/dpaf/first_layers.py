"""What comes before the game of DPAF: how its first layers learn, and public images.

    random    conv1 stays as it was drawn
    public    a classifier of public images, by ordinary steps; conv1 is its first part
    private   a classifier of the records by DP-SGD on all of its layers, clipped together      the crossing "conv1"
    game      no classifier: conv1 learns in the game, as conv2* does (`forward_phase.First`)   the crossing "conv1"

The paper trains the other layers of its classifier without noise and calls conv1 private; it is not (privacy.md 2.14).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import assign
from sfumato.engine.public_pretrain import known, public_pretrain
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.discriminator import FirstLayersClassifier
from sfumato.methods.gan.dpaf.forward_phase import AGGREGATE, CONV1, Ask, DPAFStep
from sfumato.privacy.bounds import BoundedSum

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

WAYS = ("random", "public", "private", "game")


def naming(net: nn.Module, images: Tensor, labels: Tensor, *drawn: Tensor) -> Tensor:
    """How wrong a classifier is, of each image."""
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
    public_pretrain(net, naming, public, replace(spec, classes=tuple(public.images.classes)), run, steps=steps)
    conv1.load_state_dict(net.conv1.state_dict())


class PrivateSteps:
    """DP-SGD of a classifier; after the last step conv1 is a copy of its first layers."""

    def __init__(
        self, conv1: nn.Sequential, classes: int, run: Run, descent: DPSGDConfig, learning_rate: float
    ) -> None:
        self.conv1 = conv1
        self.descent = descent
        self.steps = descent.steps
        self.net = classifier(conv1, classes, run)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=learning_rate)
        self.query = descent.query(self.net, naming)

    def take(self, ask: Ask) -> None:
        """One of them."""
        assign(self.net, ask(CONV1, self.query) / self.descent.batch)
        self.optimiser.step()

    def hand_over(self) -> None:
        """Give conv1 what was learned."""
        self.conv1.load_state_dict(self.net.conv1.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])


def rehearse(turn: DPAFStep, public: PublicImages | None, spec: DataSpec, run: Run, steps: int, both: bool) -> None:
    """The same game on public images, without noise; the generator forgets it again unless `both`."""
    if not steps:
        return
    if public is None:
        raise InputError("Expected public images for warm, found none; name them with --public.")
    players = turn.players
    noise = turn.rules.noise
    before = copy.deepcopy({"net": players.net.state_dict(), "mover": players.mover.state_dict()})
    turns = players.turns.state_dict()
    ask = _answers(turn, public, spec, run)
    turn.rules = turn.critic.rules = replace(turn.rules, noise=0.0)
    for step in run.rounds(steps):
        turn.take(ask(-1 - step), run, -1 - step)
        run.check()
    turn.rules = turn.critic.rules = replace(turn.rules, noise=noise)
    turn.memory.rows = torch.zeros(0)
    players.turns.load_state_dict(turns)
    if not both:
        players.net.load_state_dict(before["net"])
        players.mover.load_state_dict(before["mover"])


def _answers(turn: DPAFStep, public: PublicImages, spec: DataSpec, run: Run) -> Callable[[int], Ask]:
    """What a barrier would answer of public images, without noise; they get labels by chance where they have none."""
    pixels, named = known(public, spec)

    @torch.no_grad()
    def answer(step: int, name: str, query: Any, *given: Tensor) -> Tensor:
        count = turn.rules.batch if name == AGGREGATE else turn.rules.wide
        random = run.generator(f"public {name}", step)
        places = torch.randint(len(pixels), (count,), generator=random)
        chance = torch.randint(len(spec.classes), (count,), generator=random)
        labels = named[places].where(named[places] >= 0, chance).to(run.device)
        images = pixels[places].to(run.device).float().div(255)
        if not isinstance(query, BoundedSum):
            total: Tensor = query.total(images, labels, *given)
            return total
        rows = query.rows(images, labels, *given).double()
        place = labels if query.by_class else torch.zeros_like(labels)
        return rows.new_zeros(len(turn.rules.shares), *query.shape).index_add_(0, place, rows)

    return lambda step: lambda name, query, *given: answer(step, name, query, *given)
