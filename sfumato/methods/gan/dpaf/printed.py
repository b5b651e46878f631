"""DPAF as its paper prints it (Algorithm 1), for comparison on public sets alone. It is not private.

     2  for i = 1 ... B      batches of the classifier C = conv1, conv2, AGG, conv3, FC
     3      L_MSE over the i-th batch: the share of each class in it
     4      SGD for conv2, conv3, FC; DPSGD(epsilon_1) for conv1, through those layers
     5  conv1 is that of C
     6  for i = 1 ... B      batches of the discriminator D = conv1, conv2*, DPAGG(epsilon_3), conv3*, FC*
     7      L_BCE over the i-th batch, behind DPAGG
     9      L'_BCE over the batches i - mu + 1 ... i, through the true sum AGG       if mu divides i
    10      SGD for conv3*, FC* by L_BCE
    11      DPSGD(epsilon_2) for conv2* by L'_BCE                                    if mu divides i
    15      L''_BCE over each image alone; SGD for the generator                     if n_critic divides i

The noise is that which Theorem 6 asks for. None of it protects anybody: each clipped gradient holds the whole batch.
What comes out are images with a stamp; there is no plan, no crossing and no release.

Line 15 does not fit line 7: what lies behind the sum has only ever seen means of a batch, and a generator that is
judged by it image by image draws the mean, again and again. With `together` it is judged by sums too. Any ingredient
can be left out to see what it does (`Ingredients`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from sfumato.accounting.budget_split import EQUAL, parse_split
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.claims import Claim, dpaf
from sfumato.engine.adversarial import Labelled
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.aggregation import bound_of
from sfumato.methods.gan.dpaf.layer_update import LayerUpdate
from sfumato.methods.gan.dpaf.shares_classifier import SharesClassifier
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

STAMP = "not private: the paper's accounting does not hold"
NOISELESS = "not private: no noise was added"
GAME = OBJECTIVES["nonsaturating"]
Parts = tuple[float, float, float]  # of conv1, conv2* and DPAGG
Part = tuple[int, float]  # times and rate of one of them


@dataclass(frozen=True)
class Ingredients:
    """What Algorithm 1 is made of; one that is left out shows what it does.

    >>> Ingredients.without("noise, clipping")
    Ingredients(sums=True, sin=True, transfer=True, clipping=False, noise=False)
    """

    sums: bool = True  # the discriminator judges sums of features; else each image by itself
    sin: bool = True  # features are normalised
    transfer: bool = True  # conv1 is that of the classifier, and stays; else it learns in the game, as conv2* does
    clipping: bool = True  # of gradients, and their compression
    noise: bool = True

    def __post_init__(self) -> None:
        if self.noise and not (self.clipping and self.sums and self.sin and self.transfer):
            raise InputError("Expected noise to be left out too: theorem 6 has none for what is left.")
        if self.clipping and not (self.sums and self.sin and self.transfer):
            raise InputError("Expected clipping to be left out with sums, sin or transfer.")

    @classmethod
    def without(cls, text: str) -> Ingredients:
        """All but those named, with commas between them."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in names if name not in known]:
            raise InputError(f"Expected without as some of {', '.join(known)}, found '{unknown[0]}'.")
        return cls(**{name: name not in names for name in known})


@dataclass(frozen=True, eq=False)
class Printed:
    """Images of the printed procedure: never a release."""

    images: Images
    paper: Claim | None  # what Theorem 6 would claim; nothing without noise
    stamp: str = STAMP


def printed(
    method: DPAF,
    public: PublicImages,
    spec: DataSpec,
    run: Run,
    *,
    epsilons: Parts,
    delta: float = 1e-5,
    count: int = 1000,
    ingredients: Ingredients | None = None,
) -> Printed:
    """Run Algorithm 1 with the noise of Theorem 6 for (epsilon_1, epsilon_2, epsilon_3); `spec.public` must hold."""
    if not spec.public:
        raise InputError(f"Expected a set that is declared public for DPAF as printed, found '{spec.name}': {STAMP}.")
    made_of = ingredients or Ingredients()
    # What the paper does not have; in its order the generator follows conv2* anyway.
    method = replace(method, smooth=0, follow=False)
    algorithm = Algorithm1(method, spec, run, public.images, made_of)
    parts = algorithm.parts()
    equal = method.split == EQUAL
    noise = claimed_noise(parts, epsilons, delta, equal) if made_of.noise else [0.0, 0.0, 0.0]
    if made_of.transfer:
        algorithm.train_classifier(noise[0])
    algorithm.train_gan(noise[1], noise[2])
    images = algorithm.players.finished(run.generator("statistics")).sample(count, seed=run.seed)
    if not made_of.noise:
        return Printed(images, None, NOISELESS)
    return Printed(images, dpaf([(t, q, z) for (t, q), z in zip(parts, noise, strict=True)], delta))


def split_of(method: DPAF, epsilon: float) -> Parts:
    """What each of the three parts claims; a third each where the split is equal."""
    try:
        first, second, third = parse_split(method.split, epsilon, 3) or (epsilon / 3,) * 3
    except ValueError as error:
        raise InputError(f"{error} As printed the parts are conv1, conv2*, DPAGG.") from error
    return first, second, third


def claimed_noise(parts: list[Part], epsilons: Parts, delta: float, equal: bool = False) -> list[float]:
    """Noise over sensitivity with which theorem 6 claims the sum of the epsilons.

    Of each part what its epsilon asks for alone, or the same where the split is `equal`; then all are scaled together.
    """
    each = zip(parts, epsilons, strict=True)
    alone = [1.0] * 3 if equal else [_scale([part], [1.0], epsilon, delta) for part, epsilon in each]
    scale = _scale(parts, alone, sum(epsilons), delta)
    return [scale * z for z in alone]


def _scale(parts: list[Part], noise: list[float], epsilon: float, delta: float) -> float:
    """The factor on the noise that theorem 6 asks for; on small sets none is enough for a small epsilon."""

    def claimed(scale: float) -> float:
        return float(dpaf([(t, q, scale * z) for (t, q), z in zip(parts, noise, strict=True)], delta)["epsilon"])

    try:
        return least_noise(claimed, epsilon, tolerance=1e-3)
    except ValueError as error:
        raise InputError(
            f"Expected a split that theorem 6 can meet, found epsilon {epsilon:g} for {parts[0][0]} steps at "
            f"rate {parts[0][1]:.3g}, which no noise does; take fewer epochs, or give that part more."
        ) from error


class Algorithm1:
    """Networks, batches and steps of Algorithm 1."""

    def __init__(
        self, method: DPAF, spec: DataSpec, run: Run, images: Images, made_of: Ingredients | None = None
    ) -> None:
        self.made_of = made_of or Ingredients()
        self.method = method
        self.config = method.config(spec)
        self.spec = spec
        self.run = run
        # All of them where the steps are made: no step waits for a copy.
        self.pixels = torch.from_numpy(images.pixels).to(run.device)
        self.labels = torch.from_numpy(images.labels).long().to(run.device)
        self.players = method.players(spec, run, None)
        self.critic = self.players.critic
        self.critic.sin = self.made_of.sin
        self.critic.together = method.together and self.made_of.sums
        if not self.made_of.transfer:
            self.critic.lower.conv1.requires_grad_(True)
        how = {"relative": method.relative, "bfloat16": method.bfloat16}
        self.conv2 = LayerUpdate(self.critic.lower, self.players.critic_optimiser, self.config.conv2, **how)
        self.random = run.generator("printed noise", device=run.device)

    def parts(self) -> list[Part]:
        """Times and rates of conv1, conv2* and DPAGG, as Theorem 6 counts them."""
        steps = self.config.steps
        rate = self.config.batch / self.spec.records
        mu = self.method.mu
        return [(steps, rate), (steps // mu, min(1.0, mu * rate)), (steps, rate)]

    def batches(self, name: str) -> Iterator[Labelled]:
        """Shuffled epochs in batches of one size."""
        size = self.config.batch
        random = self.run.generator(f"printed {name}", device=self.run.device)
        order = self.labels[:0]
        self.run.progress.start(f"as printed: {name}", self.config.steps)
        for step in range(self.config.steps):
            self.run.progress.advance(step)
            self.run.check()
            if len(order) < size:
                order = torch.randperm(len(self.labels), generator=random, device=random.device)
            rows = order[:size]
            order = order[size:]
            yield self.pixels[rows].float().div(255), self.labels[rows]

    def train_classifier(self, noise: float) -> None:
        """Lines 2 to 5: conv1 learns through layers that are not private."""
        net = SharesClassifier(self.method, self.spec, self.run, self.config.conv2, self.made_of.clipping)
        for images, labels in self.batches("classifier"):
            net.step(images, labels, noise, self.drawn)
        self.critic.lower.conv1.load_state_dict(net.lower.conv1.state_dict())

    def train_gan(self, second: float, third: float) -> None:
        """Lines 6 to 16."""
        players = self.players
        seen = list[Labelled]()
        for i, (images, labels) in enumerate(self.batches("game")):
            self.critic.lower.turn(i)
            seen = [*seen, (images, labels)][-self.method.mu :]
            fakes = self.fakes(labels)
            self.upper_step((images, labels), fakes, third)
            if (i + 1) % self.method.mu == 0:
                records = torch.cat([x for x, _ in seen]), torch.cat([y for _, y in seen])
                self.lower_step(records, fakes, second)
            if players.turns.due():
                players.generator_step(GAME, self.config.batch, self.run, i)

    @torch.no_grad()
    def fakes(self, labels: Tensor) -> Labelled:
        """Fakes with the labels of the batch, as a conditional DC-GAN has them: shares of classes tell nothing."""
        return self.players.net(self.players.net.latents(len(labels), self.random), labels), labels

    def upper_step(self, records: Labelled, fakes: Labelled, noise: float) -> None:
        """Lines 7, 10 and 13: conv3* and FC* learn behind the sum with its noise."""
        scale = noise * bound_of(self.config.summed).norm / self.config.batch
        with torch.no_grad():
            real, fake = self.judged(records, record=True), self.judged(fakes)
            if scale:
                real, fake = (a + scale * self.drawn(a) for a in (real, fake))
        optimiser = self.players.critic_optimiser
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(self.loss(real, records, fake, fakes), inputs=list(self.critic.upper.parameters()))
        optimiser.step()

    def lower_step(self, records: Labelled, fakes: Labelled, noise: float) -> None:
        """Lines 9 and 11: each clipped gradient of conv2* depends on all records of the joint batch."""
        if not self.made_of.clipping:
            return self._plain_lower_step(records, fakes)
        slope, other = self.slopes(records, fakes)
        length, along = self.conv2.scaled(slope, fakes)
        with torch.no_grad():
            total = self.conv2.query.total(*records, along)
            total = total + noise * self.conv2.query.bound.norm * self.drawn(total)
        return self.conv2.step(length * total, other, fakes)

    def _plain_lower_step(self, records: Labelled, fakes: Labelled) -> None:
        optimiser = self.players.critic_optimiser
        optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.judged(records, record=True), records, self.judged(fakes), fakes)
        torch.autograd.backward(loss, inputs=[p for p in self.critic.lower.parameters() if p.requires_grad])
        optimiser.step()

    def slopes(self, records: Labelled, fakes: Labelled) -> tuple[Tensor, Tensor]:
        """Of the loss at the true means of both sides: each holds all records of the joint batch."""
        with torch.no_grad():
            real, fake = self.judged(records, record=True), self.judged(fakes)
        real, fake = real.requires_grad_(), fake.requires_grad_()
        of_real, of_fake = torch.autograd.grad(self.loss(real, records, fake, fakes), (real, fake))
        return of_real, of_fake

    def judged(self, side: Labelled, record: bool = False) -> Tensor:
        """(K, m, h, w) AGG over the number of images, or without sums (B, m, h, w); of records 2 m with `mismatch`.

        K is 1, or the number of classes with `classwise`, which the paper does not have.
        """
        images, labels = side
        return (
            self.critic.means(images, labels, record=record)
            if self.made_of.sums
            else self.critic.features(*side, record)
        )

    def loss(self, real: Tensor, records: Labelled, fake: Tensor, fakes: Labelled) -> Tensor:
        """log(1 + e^-s) of what is real and log(1 + e^s) of what is not; labels are in the features already.

        Records under other labels, where there are any, are half of what is not.
        """
        if self.made_of.sums:
            return self.critic.loss(real[None], fake[None])
        upper = self.critic.upper
        own, *others = real.split(self.critic.lower.shape[0], 1)
        lies = [upper(fake, fakes[1]), *(upper(other, records[1]) for other in others)]
        return F.softplus(-upper(own, records[1])).mean() + torch.stack([F.softplus(s).mean() for s in lies]).mean()

    def drawn(self, like: Tensor) -> Tensor:
        """Standard normal numbers; no privacy is claimed for them."""
        return torch.randn(like.shape, generator=self.random, device=self.random.device).to(like)
