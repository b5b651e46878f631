"""What a critic learns from: gradients of real records, which are asked for, and of fakes, which are public.

real    sum over the batch of clip_C( grad l_real(x_i, y_i) )         to be released, in units of C where C may move
fake    mean of clip_C( grad l_fake ) or of grad l_fake itself        no record has a part in it
C       a setting, a public schedule, or the mean norm of gradients of public images
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sfumato.engine.adversarial import Labelled, Players, public_batch
from sfumato.engine.gan_losses import Objective, fake_loss, real_loss
from sfumato.engine.gradients.clipping import Automatic, Clip, Flat, PerLayer
from sfumato.engine.gradients.per_example import ClippedGradient, per_example
from sfumato.networks.critic import ConvCritic

if TYPE_CHECKING:
    from sfumato.run.run import Run

CLIPPINGS = ("flat", "layers", "automatic")
# between which a threshold from public images stays
LOW = 1e-3
HIGH = 1e3


@dataclass(frozen=True)
class CriticGradients:
    """The public side of a critic's gradients: which loss, of how many records, clipped how."""

    objective: Objective
    batch: int  # real records expected in a step
    clip: float
    clipping: str = "flat"
    penalty: float = 0.0
    bfloat16: bool = False

    def clip_at(self, threshold: float) -> Clip:
        """How gradients are shortened; its bound is the same for every threshold."""
        if self.clipping == "layers":
            return PerLayer(self.clip)
        return Automatic(1.0) if self.clipping == "automatic" else Flat(1.0, threshold)

    def unit(self, threshold: float) -> float:
        """What the released sum is to be multiplied by."""
        return threshold if self.clipping == "flat" else 1.0

    def queries(self, critic: nn.Module) -> tuple[ClippedGradient, ClippedGradient]:
        """The question to real records, and the same kind of sum for fakes."""
        clip = self.clip_at(self.clip)
        real = real_loss(self.objective, self.penalty)
        return (
            per_example(critic, real, clip, batch=self.batch, bfloat16=self.bfloat16),
            per_example(critic, fake_loss(self.objective), clip, bfloat16=self.bfloat16),
        )

    def of_fakes(self, query: ClippedGradient, images: Tensor, labels: Tensor, threshold: float | None) -> Tensor:
        """The mean gradient of the fakes' losses; they are clipped like records where a threshold is given."""
        if threshold is not None:
            with torch.no_grad():
                return self.unit(threshold) * query.total(images, labels) / len(images)
        loss = query.loss(query.net, images, labels).mean()
        return _flat(torch.autograd.grad(loss, list(query.parameters.values()))).double()


@torch.no_grad()
def typical_norm(query: ClippedGradient, seen: Labelled, given: tuple[Tensor, ...]) -> float:
    """The mean norm of the gradients of public images, between public limits."""
    norm = float(query.norms(*seen, *given).mean())
    return min(HIGH, max(LOW, norm)) if math.isfinite(norm) else HIGH


def partner_key(run: Run, step: int) -> Tensor:
    """The public key by which each record finds its fake partner in this step."""
    return torch.randint(2**62, (), generator=run.generator("partners", step)).to(run.device)


def public_images(players: Players[ConvCritic], known: Labelled, count: int, run: Run, step: int) -> Labelled:
    """Some of the public images for this step."""
    random = run.generator("public images", step)
    return public_batch(known, count, players.critic.classes, random, run.device)


def public_game(
    players: Players[ConvCritic],
    asked: CriticGradients,
    known: Labelled,
    run: Run,
    *,
    steps: int,
    fakes: int,
    weight_clip: float = 0.0,
) -> None:
    """A warm start: the same game on public images, with ordinary gradients and as many steps for both."""
    real = real_loss(asked.objective, asked.penalty)
    fake = fake_loss(asked.objective)
    turns = players.turns.state_dict()
    for turn in run.rounds(steps):
        step = -1 - turn  # randomness of its own
        images, labels = players.fakes(fakes, run, step)
        seen = public_images(players, known, fakes, run, step)
        losses = real(players.critic, *seen, images, partner_key(run, step))
        loss = losses.mean() + fake(players.critic, images, labels).mean()
        players.critic_step(_flat(torch.autograd.grad(loss, list(players.critic.parameters()))), weight_clip)
        players.generator_step(asked.objective, fakes, run, step)
        run.check()
    players.turns.load_state_dict(turns)


def _flat(slopes: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([slope.flatten() for slope in slopes])
