"""A generator against a critic that learns by DP-SGD: the loop of the DPGAN family.

    critic      G = noisy sum of clipped gradients of the real records' losses                        the crossing
                step on G / batch + the gradient of the fakes' losses, which is public and gets no noise
    generator   after every n critic steps, one step on the critic as it stands: free post-processing

n is a setting, or grows by a public rule (`players.Turns`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sfumato.engine.adversarial import Labelled, Players
from sfumato.engine.gan_losses import OBJECTIVES, Objective, fake_loss, real_loss
from sfumato.engine.gradients.clipping import Automatic, Clip, Flat, PerLayer
from sfumato.engine.gradients.per_example import ClippedGradient, per_example
from sfumato.networks.critic import GROUPS
from sfumato.networks.generator import Generator
from sfumato.run.preview import Preview

if TYPE_CHECKING:
    from sfumato.methods.gan.dpgan import DPGAN
    from sfumato.run.run import Run

GENERATORS = ("deconv", "dcgan", "conv")
CLIPPINGS = ("flat", "layers", "automatic")
LIMITS = (
    ("steps critic_steps grace latent width critic_width", 1, 10_000_000),
    ("batch", 1, 10_000_000),
    ("fakes warm", 0, 10_000_000),
    ("penalty weight_clip", 0, 1e6),
    ("clip", 1e-6, 1e6),
    ("clip_decay", 1e-3, 1e3),
    ("learning_rate critic_learning_rate", 1e-12, 1),
    ("ema_decay", 0, 0.999999),
    ("least", 0, 1),
)
# between which a threshold from public images stays
LOW = 1e-3
HIGH = 1e3

Ask = Callable[..., Tensor]  # (query, *public) -> the released sum


@dataclass(frozen=True)
class GANConfig:
    """The public rules of the game, apart from the networks."""

    objective: Objective
    steps: int  # of the critic
    batch: int  # real records expected in one of them
    fakes: int
    classes: int
    clip: float
    clipping: str = "flat"
    clip_decay: float = 1.0  # the threshold's last value over its first
    clip_fakes: bool = True
    penalty: float = 0.0
    weight_clip: float = 0.0
    bfloat16: bool = False

    def clip_at(self, threshold: float) -> Clip:
        """How gradients are shortened; its bound is the same for every threshold."""
        if self.clipping == "layers":
            return PerLayer(self.clip)
        return Automatic(1.0) if self.clipping == "automatic" else Flat(1.0, threshold)

    def unit(self, threshold: float) -> float:
        """What the released sum is to be multiplied by."""
        return threshold if self.clipping == "flat" else 1.0

    def threshold(self, step: int) -> float:
        """The norm that gradients are cut at, on a public schedule."""
        return self.clip * float(self.clip_decay ** (step / self.steps))


def check(method: DPGAN) -> None:
    """Refuse settings that make no sense, naming the one that is wrong."""
    for name, allowed in {"loss": tuple(OBJECTIVES), "clipping": CLIPPINGS, "generator": GENERATORS}.items():
        if getattr(method, name) not in allowed:
            raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {name}={getattr(method, name)}.")
    for names, low, high in LIMITS:
        for name in names.split():
            if not low <= getattr(method, name) <= high:
                raise ValueError(f"Expected {name} from {low:g} to {high:g}, found {name}={getattr(method, name)}.")
    if method.fakes == 1 or method.batch == 1:
        raise ValueError("Expected fakes and batch of at least 2: a generator may normalise over its batch.")
    if method.generator == "conv" and method.width % 8:
        raise ValueError(f"Expected width as a multiple of 8 for generator=conv, found width={method.width}.")
    if method.critic_width % (GROUPS if method.critic_norm else 2):
        raise ValueError(
            f"Expected critic_width as an even number, with critic_norm as a multiple of {GROUPS}, found "
            f"critic_width={method.critic_width}."
        )
    if method.least and not OBJECTIVES[method.loss].bounded:
        raise ValueError(f"Expected least=0 for loss={method.loss}, whose scores tell no accuracy.")
    if (method.clip_decay != 1 or method.clip_public) and method.clipping != "flat":
        raise ValueError(f"Expected clipping=flat for a threshold that moves, found clipping={method.clipping}.")


def queries(critic: nn.Module, rules: GANConfig) -> tuple[ClippedGradient, ClippedGradient]:
    """The question to real records, and the same kind of sum for fakes."""
    clip = rules.clip_at(rules.clip)
    half = rules.bfloat16
    real = per_example(critic, real_loss(rules.objective, rules.penalty), clip, batch=rules.batch, bfloat16=half)
    return real, per_example(critic, fake_loss(rules.objective), clip, bfloat16=half)


def play(
    players: Players,
    ask: Ask,
    run: Run,
    rules: GANConfig,
    preview: Preview,
    *,
    known: Labelled | None = None,
    warm: int = 0,
    follow: bool = False,
) -> Generator:
    """All steps, with checkpoints; the finished generator.

    `ask(query, *public)` is the passage through the barrier. With `known`, public images, the game may begin with
    `warm` ordinary moves on them, and the threshold may `follow` the mean norm of their gradients.
    """
    real, fake = queries(players.critic, rules)
    for step in run.steps(rules.steps, players=players, preview=preview):
        if step == 0 and known is not None:
            rehearse(players, known, run, rules, warm)
        images, labels = players.fakes(rules.fakes, run, step)
        public = images, _key(run, step)
        seen = known if follow else None
        threshold = rules.threshold(step) if seen is None else typical(real, _some(seen, rules, run, step), public)
        clip = rules.clip_at(threshold)
        unit = rules.unit(threshold)
        released = unit * ask(replace(real, clip=clip), *public) / rules.batch
        free = of_fakes(replace(fake, clip=clip), images, labels, unit=unit, clipped=rules.clip_fakes)
        players.sharpen(released + free, rules.weight_clip)
        if players.turns.due():
            players.move(rules.objective, rules.fakes, run, step)
        preview.snapshot(step, rules.steps, lambda: players.finished(run.generator("preview statistics")))
    return players.finished(run.generator("statistics"))


def of_fakes(query: ClippedGradient, images: Tensor, labels: Tensor, *, unit: float, clipped: bool) -> Tensor:
    """The mean gradient of the fakes' losses; no record has a part in it."""
    if clipped:
        with torch.no_grad():
            return unit * query.total(images, labels) / len(images)
    loss = query.loss(query.net, images, labels).mean()
    return torch.cat([s.flatten() for s in torch.autograd.grad(loss, list(query.parameters.values()))]).double()


def _key(run: Run, step: int) -> Tensor:
    return torch.randint(2**62, (), generator=run.generator("partners", step)).to(run.device)


def _some(known: Labelled, rules: GANConfig, run: Run, step: int) -> Labelled:
    """A few of the public images; where their classes are others they get labels by chance."""
    random = run.generator("public images", step)
    places = torch.randint(len(known[1]), (rules.fakes,), generator=random)
    images = known[0][places].to(run.device).float().div(255)
    labels = known[1][places]
    chance = torch.randint(rules.classes, labels.shape, generator=random)
    return images, labels.where(labels >= 0, chance).to(run.device)


@torch.no_grad()
def typical(query: ClippedGradient, seen: Labelled, public: tuple[Tensor, ...]) -> float:
    """The mean norm of the gradients of public images, between public limits."""
    norm = float(query.norms(*seen, *public).mean())
    return min(HIGH, max(LOW, norm)) if math.isfinite(norm) else HIGH


def rehearse(players: Players, known: Labelled, run: Run, rules: GANConfig, moves: int) -> None:
    """A warm start: the same game on public images, with ordinary gradients and as many steps for both."""
    real = real_loss(rules.objective, rules.penalty)
    fake = fake_loss(rules.objective)
    turns = players.turns.state_dict()
    for turn in range(moves):
        step = -1 - turn  # randomness of its own
        images, labels = players.fakes(rules.fakes, run, step)
        losses = real(players.critic, *_some(known, rules, run, step), images, _key(run, step))
        loss = losses.mean() + fake(players.critic, images, labels).mean()
        slopes = torch.autograd.grad(loss, list(players.critic.parameters()))
        players.sharpen(torch.cat([s.flatten() for s in slopes]), rules.weight_clip)
        players.move(rules.objective, rules.fakes, run, step)
    players.turns.load_state_dict(turns)
