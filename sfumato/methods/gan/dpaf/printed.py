"""DPAF as its paper prints it (Algorithm 1), for comparison on public sets alone. It is not private.

    classifier   conv2, conv3, FC by plain steps on the class shares of a batch, conv1 by clipped gradients with noise
    sums         of shuffled batches, with noise
    conv2*       clipped gradients with noise, through the true sum of the last mu batches
    conv3*, FC*, generator    plain steps

The noise is that which Theorem 6 asks for. None of it protects anybody: each clipped gradient holds the whole batch.
What comes out are images with a stamp; there is no plan, no crossing and no release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sfumato.accounting.budget_split import parse_split
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.claims import Claim, dpaf
from sfumato.engine.adversarial import Players, Turns
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import ClippedGradient, assign, per_example
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.aggregation import along, normalised
from sfumato.methods.gan.dpaf.allocation import Sizes
from sfumato.methods.gan.dpaf.discriminator import Upper
from sfumato.methods.gan.dpaf.forward_phase import GAME, Discriminator
from sfumato.methods.gan.dpaf.generator import MirrorGenerator
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

STAMP = "not private: the paper's accounting does not hold"

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Printed:
    """Images of the printed procedure: never a release."""

    images: Images
    paper: Claim  # what Theorem 6 would claim
    stamp: str = STAMP


def printed(
    method: DPAF,
    public: PublicImages,
    spec: DataSpec,
    run: Run,
    *,
    epsilons: tuple[float, float, float],
    delta: float = 1e-5,
    count: int = 1000,
) -> Printed:
    """Run Algorithm 1 with the noise of Theorem 6 for (epsilon_1, epsilon_2, epsilon_3); `spec.public` must hold."""
    if not spec.public:
        raise InputError(f"Expected a set that is declared public for DPAF as printed, found '{spec.name}': {STAMP}.")
    method = replace(method, classwise=False, together=False)  # what the paper does not have
    images = torch.from_numpy(public.images.pixels), torch.from_numpy(public.images.labels).long()
    game = _Game(method, method.sizes(spec), spec, run, images)
    steps = game.parts()
    noise = [_noise(part, epsilon, delta) for part, epsilon in zip(steps, epsilons, strict=True)]
    game.classify(noise[0])
    game.play(noise[1], noise[2])
    net = game.players.finished(run.generator("statistics"))
    claim = dpaf([(t, q, z) for (t, q), z in zip(steps, noise, strict=True)], delta)
    return Printed(net.sample(count, seed=run.seed), claim)


def split_of(method: DPAF, epsilon: float) -> tuple[float, float, float]:
    """What each of the three parts claims; a third each where the split is equal."""
    try:
        first, second, third = parse_split(method.split, epsilon, 3) or (epsilon / 3,) * 3
    except ValueError as error:
        raise InputError(f"{error} As printed the parts are conv1, conv2*, DPAGG.") from error
    return first, second, third


def _noise(part: tuple[int, float], epsilon: float, delta: float) -> float:
    """The multiplier that Theorem 6 asks of one part; on small sets no noise is enough for a small epsilon."""
    try:
        return least_noise(lambda z: float(dpaf([(*part, z)], delta)["epsilon"]), epsilon, tolerance=1e-3)
    except ValueError as error:
        raise InputError(
            f"Expected a split that theorem 6 can meet, found epsilon {epsilon:g} for {part[0]} steps at "
            f"rate {part[1]:.3g}, which no noise does; give that part more."
        ) from error


class _Game:
    """Networks, batches and steps of Algorithm 1."""

    def __init__(self, method: DPAF, sizes: Sizes, spec: DataSpec, run: Run, images: Batch) -> None:
        self.method = method
        self.sizes = sizes
        self.spec = spec
        self.run = run
        self.images = images
        rules = method.rules(sizes, spec, None, 0.0)
        net = seeded(
            run, lambda: MirrorGenerator(spec.shape, spec.classes, method.latent, method.width, sizes.layout.depth)
        )
        self.critic: Discriminator = seeded(run, lambda: method._critic(spec, sizes.layout, rules))
        self.players = Players(
            net,
            self.critic,
            Turns(method.critic_steps),
            rate=method.rate,
            ema_decay=method.ema_decay,
            critic_learning_rate=method.critic_learning_rate,
        )
        self.noise = run.generator("printed noise")

    def parts(self) -> list[tuple[int, float]]:
        """Times and rates of conv1, conv2* and DPAGG, as Theorem 6 counts them."""
        t = self.sizes.steps
        rate = self.sizes.rate
        return [(t, rate), (t // self.method.mu, min(1.0, self.method.mu * rate)), (t, rate)]

    def batches(self, name: str) -> Iterator[Batch]:
        """Shuffled epochs in batches of one size."""
        pixels, labels = self.images
        size = self.sizes.batch
        random = self.run.generator(f"printed {name}")
        order = torch.empty(0, dtype=torch.long)
        self.run.progress.start(f"as printed: {name}", self.sizes.steps)
        for step in range(self.sizes.steps):
            self.run.progress.advance(step)
            self.run.check()
            if len(order) < size:
                order = torch.randperm(len(labels), generator=random)
            rows = order[:size]
            order = order[size:]
            yield pixels[rows].to(self.run.device).float().div(255), labels[rows].to(self.run.device)

    def classify(self, noise: float) -> None:
        """Lines 2 to 5: conv1 learns through layers that are not private."""
        critic = self.critic
        method = self.method
        classes = len(self.spec.classes)
        lower = seeded(self.run, lambda: method._critic(self.spec, self.sizes.layout, critic.rules)).lower
        head = seeded(self.run, lambda: _Shares(self.spec, self.sizes, method, classes))
        lower.conv1.requires_grad_(True)
        plain = torch.optim.Adam([*lower.conv2.parameters(), *head.parameters()], lr=method.critic_learning_rate)
        first = torch.optim.Adam(lower.conv1.parameters(), lr=method.critic_learning_rate)
        query = self._query(lower)
        for images, labels in self.batches("classifier"):
            nobody = torch.full_like(labels, -1)
            lower.conv1.requires_grad_(False)
            sums = normalised(lower(images, nobody)).mean(0, keepdim=True)
            share = F.one_hot(labels, classes).float().mean(0)
            loss = F.mse_loss(head(sums), share[None])
            plain.zero_grad(set_to_none=True)
            (slope,) = torch.autograd.grad(loss, sums, retain_graph=True)
            loss.backward()
            lower.conv1.requires_grad_(True)
            lower.conv2.requires_grad_(False)
            assign(lower, self._noisy(query, images, nobody, slope, noise))
            lower.conv2.requires_grad_(True)
            plain.step()
            first.step()
        critic.lower.conv1.load_state_dict(lower.conv1.state_dict())

    def play(self, second: float, third: float) -> None:
        """Lines 6 to 16."""
        critic = self.critic
        players = self.players
        scale = third * self.sizes.features[0] ** 0.5
        scale *= (self.sizes.features[1] * self.sizes.features[2]) ** 0.5 / self.sizes.batch
        seen = list[Batch]()
        query = self._query(critic.lower)
        for step, (images, labels) in enumerate(self.batches("game")):
            seen = [*seen, (images, labels)][-self.method.mu :]
            fakes = players.fakes(self.sizes.batch, self.run, step)
            with torch.no_grad():
                real = critic.means(images, labels)
                fake = critic.means(*fakes)
                real, fake = (a + scale * self._drawn(a.shape).to(a) for a in (real, fake))
            players.judge.zero_grad(set_to_none=True)
            self._loss(real, fake).backward()
            players.judge.step()
            if (step + 1) % self.method.mu == 0:
                self._second(query, seen, fakes, second)
            if players.turns.due():
                players.move(GAME, self.sizes.batch, self.run, step)

    def slopes(self, records: Batch, fakes: Batch) -> tuple[Tensor, Tensor]:
        """Of the loss at the true means of both sides: each holds all records of the joint batch."""
        with torch.no_grad():
            sums = [normalised(self.critic.lower(*side)).mean(0, keepdim=True) for side in (records, fakes)]
        real, fake = (a.requires_grad_() for a in sums)
        of_real, of_fake = torch.autograd.grad(self._loss(real, fake), (real, fake))
        return of_real, of_fake

    def _second(self, query: ClippedGradient, seen: list[Batch], fakes: Batch, noise: float) -> None:
        """Line 11: each clipped gradient of conv2* depends on all records of the joint batch."""
        images, labels = (torch.cat(part) for part in zip(*seen, strict=True))
        slope, other = self.slopes((images, labels), fakes)
        self.players.judge.zero_grad(set_to_none=True)
        total = self._noisy(query, images, labels, slope, noise)
        with torch.no_grad():
            assign(self.critic.lower, total + query.total(*fakes, other) / len(fakes[1]))
        self.players.judge.step()

    def _loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return (F.softplus(-self.critic.judge(real[None])) + F.softplus(self.critic.judge(fake[None]))).sum()

    def _query(self, net: nn.Module) -> ClippedGradient:
        """What the paper calls DPSGD: clipped terms along a direction that is nobody's own."""
        return per_example(net, along(), self.critic.rules.clip)

    @torch.no_grad()
    def _noisy(self, query: ClippedGradient, images: Tensor, labels: Tensor, slope: Tensor, noise: float) -> Tensor:
        total = query.total(images, labels, slope)
        return (total + noise * query.bound.norm * self._drawn(total.shape).to(total)) / len(labels)

    def _drawn(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.noise)


class _Shares(nn.Module):
    """conv3 and FC of the classifier: the share of each class in a batch, from one sum."""

    def __init__(self, spec: DataSpec, sizes: Sizes, method: DPAF, classes: int) -> None:
        super().__init__()
        self.body = Upper(spec.shape, classes, sizes.layout, method.critic_width, method.features, method.hidden)
        last = self.body.fc[-1]
        assert isinstance(last, nn.Linear)
        self.body.fc[-1] = nn.Linear(last.in_features, classes)

    def forward(self, sums: Tensor) -> Tensor:
        shares: Tensor = self.body.fc(self.body.conv3(sums).flatten(1))
        return shares
