"""A generator against a discriminator that sees private images as noisy sums of features: the loop of DPAF.

    A        = (sum over a Poisson batch of SIN(f_i) + noise) / batch                         the crossing "aggregate"
    conv3*, FC*   a step on log(1 + e^-s(A)) + log(1 + e^s(A')), A' of fakes with noise alike     free: A is public
    conv2*   every mu-th step: v = slope of that loss at A; sum over a fresh Poisson batch, mu times as large, of
             clip(gradient of <SIN(f_i), v>) + noise                                          the crossing "conv2"
             and the same of the fakes along their own slope, without noise
    conv1    where it learns in the game: as conv2*, by a batch and noise of its own           the crossing "conv1"
    G        a step through the discriminator without sums, every n_critic steps              free post-processing

What was released may be used again: `replay` is how many of the latest aggregates conv3* and FC* learn from, `moves`
how often they and the generator step after each, and with `matching` the generator is also drawn to sums like them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.engine.adversarial import Labelled, Players
from sfumato.engine.ema import repeatable
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.engine.gradients.clipping import Clip, Flat
from sfumato.engine.gradients.per_example import ClippedGradient, assign, per_example
from sfumato.engine.gradients.topk import Largest
from sfumato.methods.gan.dpaf.aggregation import aggregate, along, normalised
from sfumato.methods.gan.dpaf.discriminator import Lower, Upper
from sfumato.networks.generator import Generator
from sfumato.privacy.bounds import BoundedSum
from sfumato.run.preview import Preview
from sfumato.run.run import Run

# the crossings
AGGREGATE = "aggregate"
CONV1 = "conv1"
CONV2 = "conv2"
GAME = OBJECTIVES["nonsaturating"]
LEAST = 1e-12  # of a norm to divide by

Ready = Callable[[], None]
Ask = Callable[..., Tensor]  # (crossing, query, *public) -> the released sum


@dataclass(frozen=True)
class DPAFConfig:
    """The public rules of the game, apart from the networks."""

    steps: int  # T
    batch: int  # records expected in an aggregate
    wide: int  # records expected in a gradient of conv2*
    multiplier: int  # mu: conv2* moves every so many steps
    shares: tuple[float, ...]  # of the classes where each has an aggregate of its own; (1.0,) else
    noise: float = 0.0  # standard deviation of that of an aggregate's sum
    clip: Clip = Flat(1.0)  # of a gradient: compression, and the norm u
    relative: bool = True  # u is counted in mean norms of the fakes' gradients
    replay: int = 1
    bfloat16: bool = False
    fakes: int = 64  # a step
    moves: int = 1  # steps of all that is free, after each aggregate
    matching: float = 0.0  # what the generator pays for sums that are not those of the records

    @property
    def by_class(self) -> bool:
        """Whether each class has an aggregate of its own."""
        return len(self.shares) > 1

    def pushes(self, step: int) -> bool:
        """Whether conv2* moves in this step: every mu-th from the first on, T // mu times in all."""
        return step % self.multiplier == 0 and step // self.multiplier < self.steps // self.multiplier

    def sizes(self, like: Tensor, count: int) -> Tensor:
        """(K, 1, 1, 1): how many of `count` images each aggregate should have; one at least, where a class is rare."""
        return like.new_tensor(self.shares).mul(count).clamp(min=1)[:, None, None, None]


def clip_to(norm: float, keep: float = 1.0, signs: bool = False) -> Clip:
    """The largest `keep` of all coordinates, or their signs, shortened to `norm`."""
    return Flat(norm) if keep == 1 and not signs else Largest(norm, keep, signs)


class Discriminator(nn.Module):
    """The parts before and behind the sum. Called, it judges each image by itself, or `together` as one sum."""

    def __init__(self, lower: Lower, upper: Upper, rules: DPAFConfig, together: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.rules = rules
        self.together = together

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        if self.together:
            means = self.means(images, labels)
            return self.judge(means[None]).flatten()[:, None]
        scores: Tensor = self.upper(normalised(self.lower(images, labels)), labels)
        return scores[:, None]

    def means(self, images: Tensor, labels: Tensor) -> Tensor:
        """(K, m, h, w): aggregates of public images, each over their number."""
        features = normalised(self.lower(images, labels))
        count = len(self.rules.shares)
        sums = features.new_zeros(count, *features.shape[1:])
        place = labels if self.rules.by_class else torch.zeros_like(labels)
        return sums.index_add(0, place, features) / self.rules.sizes(sums, len(labels))

    def judge(self, aggregates: Tensor) -> Tensor:
        """(R, K, m, h, w) -> (R, K) scores."""
        rounds, count = aggregates.shape[:2]
        labels = torch.arange(count, device=aggregates.device).repeat(rounds)
        scores: Tensor = self.upper(aggregates.flatten(0, 1), labels)
        return scores.view(rounds, count)


class Memory:
    """The latest aggregates, as released."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = torch.zeros(0)

    def add(self, row: Tensor) -> Tensor:
        """Remember one more, forget the oldest; (R, ...) of all."""
        before = self.rows.to(row) if len(self.rows) else row.new_zeros(0, *row.shape)
        self.rows = torch.cat([before, row[None]])[-self.size :]
        return self.rows

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.rows = state["rows"]


class LayerUpdate:
    """Lower layers that learn along public slopes: which of a network learn, by which optimiser, and their question."""

    def __init__(self, name: str, net: Lower, rules: DPAFConfig, optimiser: torch.optim.Optimizer) -> None:
        self.name = name
        self.net = net
        self.rules = rules
        self.optimiser = optimiser
        self.query: ClippedGradient = per_example(net, along(), rules.clip, batch=rules.wide, bfloat16=rules.bfloat16)

    def push(self, ask: Ask, fakes: Labelled, of_real: Tensor, of_fake: Tensor) -> None:
        """One step, on released gradients of records and plain ones of fakes."""
        (one, of_real), (two, of_fake) = (self._scaled(fakes, v) for v in (of_real, of_fake))
        with torch.no_grad():
            free = two * self.query.total(*fakes, of_fake) / len(fakes[1])
        released = one * ask(self.name, self.query, of_real) / self.rules.wide
        self.optimiser.zero_grad(set_to_none=True)
        assign(self.net, released + free)
        self.optimiser.step()

    @torch.no_grad()
    def _scaled(self, fakes: Labelled, direction: Tensor) -> tuple[Tensor, Tensor]:
        """The mean norm of the fakes' gradients along a direction, which is public, and the direction divided by it."""
        if not self.rules.relative:
            return direction.new_ones(()), direction
        norm = self.query.norms(*fakes, direction).mean()
        unit = norm.clamp(min=LEAST).where(norm.isfinite(), 1.0)  # a tensor still: nobody waits for the device
        return unit, direction / unit.to(direction)


class First:
    """conv1 as it learns in the game: in a copy of the lower layers, where it learns and conv2* does not."""

    def __init__(self, lower: Lower, rules: DPAFConfig, learning_rate: float) -> None:
        self.lower = lower
        self.net = copy.deepcopy(lower)
        self.net.requires_grad_(False).conv1.requires_grad_(True)
        self.part = LayerUpdate(
            CONV1, self.net, rules, torch.optim.Adam(self.net.conv1.parameters(), learning_rate, (0.5, 0.999))
        )

    def push(self, ask: Ask, fakes: Labelled, of_real: Tensor, of_fake: Tensor) -> None:
        """One step, behind the latest conv2*."""
        self.net.load_state_dict(self.lower.state_dict())
        self.part.push(ask, fakes, of_real, of_fake)
        self.lower.conv1.load_state_dict(self.net.conv1.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; the weights are the discriminator's."""
        return {"optimiser": self.part.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.part.optimiser.load_state_dict(state["optimiser"])


class DPAFStep:
    """The questions of the game, and one step of it; with `first_rate` conv1 learns in it, too."""

    def __init__(self, players: Players, rules: DPAFConfig, first_rate: float | None = None) -> None:
        self.players = players
        self.rules = rules
        self.memory = Memory(rules.replay)
        self.critic: Discriminator = players.critic
        self.sums: BoundedSum = aggregate(self.critic.lower, rules.by_class)
        self.second = LayerUpdate(CONV2, self.critic.lower, rules, players.judge)
        self.first = First(self.critic.lower, rules, first_rate) if first_rate else None

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"players": self.players, "memory": self.memory} | ({"first": self.first} if self.first else {})

    def take(self, ask: Ask, run: Run, step: int) -> None:
        """One step of the discriminator, and one of the generator where it is its turn."""
        rules = self.rules
        players = self.players
        released = ask(AGGREGATE, self.sums).float().view(-1, *self.critic.lower.shape)
        real = self.memory.add(released / rules.sizes(released, rules.batch))
        for number in range(rules.moves * step, rules.moves * (step + 1)):
            fakes = players.fakes(rules.fakes, run, number)
            slopes = self._sharpen(real, self._like(real, fakes, run, number))
            if rules.pushes(step) and number == rules.moves * step:
                self.second.push(ask, fakes, *slopes)
                if self.first:
                    self.first.push(ask, fakes, *slopes)
            if players.turns.due():
                players.move(GAME, rules.fakes, run, number, self._away if rules.matching else None)

    def _away(self, images: Tensor, labels: Tensor) -> Tensor:
        """How far sums of fakes are from those of records, as released: what is left of the noise is a constant.

        Pairs of an image with itself are left out, so that few fakes are not drawn together (`match.unit`).
        """
        means = self.critic.means(images, labels)
        target = self.memory.rows.to(images).mean(0)
        own = means.square() / (1 - 1 / self.rules.sizes(means, len(labels)).clamp(min=2))
        return self.rules.matching * (own - 2 * means * target).mean()

    @torch.no_grad()
    def _like(self, real: Tensor, fakes: Labelled, run: Run, step: int) -> Tensor:
        """Aggregates of the fakes with the noise that those of records have: it should not tell them apart."""
        with repeatable():
            means = self.critic.means(*fakes)
        random = run.generator("noise of fakes", step, means.device)
        drawn = torch.randn(real.shape, generator=random, device=means.device)
        return means + drawn * self.rules.noise / self.rules.sizes(means, self.rules.batch)

    def _sharpen(self, real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
        """A step of conv3* and FC*; (K, m, h, w) slopes of the loss at the aggregates of both sides."""
        real, fake = (side.detach().requires_grad_() for side in (real, fake))
        self.players.judge.zero_grad(set_to_none=True)
        with repeatable(), torch.enable_grad():
            pays = F.softplus(-self.critic.judge(real)) + F.softplus(self.critic.judge(fake))
            pays.mean(0).sum().backward()
        self.players.judge.step()
        assert real.grad is not None and fake.grad is not None
        return real.grad.sum(0), fake.grad.sum(0)


class Before(Protocol):
    """Private steps before the game, with a state of their own."""

    steps: int

    def take(self, ask: Ask) -> None:
        """One of them."""

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""


def play(
    turn: DPAFStep, ask: Ask, run: Run, preview: Preview, *, before: Before | None = None, ready: Ready = lambda: None
) -> Generator:
    """All steps, with checkpoints; the finished generator.

    `before` are private steps that come first; `ready` is called between them and the game.
    """
    first = before.steps if before else 0
    rules = turn.rules
    players = turn.players
    state = turn.state | {"preview": preview} | ({"before": before} if before else {})
    for step in run.steps(first + rules.steps, stages=(first,), **state):
        if before and step < first:
            before.take(ask)
            continue
        if step == first:
            ready()
        turn.take(ask, run, step - first)
        preview.snapshot(step, first + rules.steps, lambda: players.finished(run.generator("preview statistics")))
    return players.finished(run.generator("statistics"))
