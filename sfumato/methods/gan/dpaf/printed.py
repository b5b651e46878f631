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
from sfumato.engine.adversarial import Labelled
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import ClippedGradient, assign, per_example
from sfumato.errors import InputError
from sfumato.methods.gan.dpaf.aggregation import along, bound_of, normalised
from sfumato.methods.gan.dpaf.discriminator import Upper
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.methods.gan.dpaf.dpaf import DPAF
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

STAMP = "not private: the paper's accounting does not hold"
GAME = OBJECTIVES["nonsaturating"]


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
    method = replace(method, classwise=False, together=False, smooth=0)  # what the paper does not have
    images = torch.from_numpy(public.images.pixels), torch.from_numpy(public.images.labels).long()
    algorithm = Algorithm1(method, spec, run, images)
    parts = algorithm.parts()
    noise = [_noise(part, epsilon, delta) for part, epsilon in zip(parts, epsilons, strict=True)]
    algorithm.train_classifier(noise[0])
    algorithm.train_gan(noise[1], noise[2])
    net = algorithm.players.finished(run.generator("statistics"))
    claim = dpaf([(t, q, z) for (t, q), z in zip(parts, noise, strict=True)], delta)
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


class Algorithm1:
    """Networks, batches and steps of Algorithm 1."""

    def __init__(self, method: DPAF, spec: DataSpec, run: Run, images: Labelled) -> None:
        self.method = method
        self.config = method.config(spec)
        self.spec = spec
        self.run = run
        self.images = images
        self.players = method.players(spec, run, None)
        self.critic = self.players.critic
        self.noise = run.generator("printed noise")

    def parts(self) -> list[tuple[int, float]]:
        """Times and rates of conv1, conv2* and DPAGG, as Theorem 6 counts them."""
        steps = self.config.steps
        rate = self.config.batch / self.spec.records
        mu = self.method.mu
        return [(steps, rate), (steps // mu, min(1.0, mu * rate)), (steps, rate)]

    def batches(self, name: str) -> Iterator[Labelled]:
        """Shuffled epochs in batches of one size."""
        pixels, labels = self.images
        size = self.config.batch
        random = self.run.generator(f"printed {name}")
        order = torch.empty(0, dtype=torch.long)
        self.run.progress.start(f"as printed: {name}", self.config.steps)
        for step in range(self.config.steps):
            self.run.progress.advance(step)
            self.run.check()
            if len(order) < size:
                order = torch.randperm(len(labels), generator=random)
            rows = order[:size]
            order = order[size:]
            yield pixels[rows].to(self.run.device).float().div(255), labels[rows].to(self.run.device)

    def train_classifier(self, noise: float) -> None:
        """Lines 2 to 5: conv1 learns through layers that are not private."""
        method = self.method
        classes = len(self.spec.classes)
        lower = seeded(self.run, lambda: method.discriminator(self.spec, None)).lower
        head = seeded(self.run, lambda: ClassShares(method, self.spec, classes))
        lower.conv1.requires_grad_(True)
        plain = torch.optim.Adam([*lower.conv2.parameters(), *head.parameters()], lr=method.critic_learning_rate)
        first = torch.optim.Adam(lower.conv1.parameters(), lr=method.critic_learning_rate)
        query = self.query(lower)
        for images, labels in self.batches("classifier"):
            nobody = torch.full_like(labels, -1)
            lower.conv1.requires_grad_(False)
            sums = normalised(lower(images, nobody)).mean(0, keepdim=True)
            share = F.one_hot(labels, classes).float().mean(0)
            loss = F.mse_loss(head(sums), share[None])
            plain.zero_grad(set_to_none=True)
            (slope,) = torch.autograd.grad(loss, sums, retain_graph=True)
            torch.autograd.backward(loss)
            lower.conv1.requires_grad_(True)
            lower.conv2.requires_grad_(False)
            assign(lower, self._noisy(query, images, nobody, slope, noise))
            lower.conv2.requires_grad_(True)
            plain.step()
            first.step()
        self.critic.lower.conv1.load_state_dict(lower.conv1.state_dict())

    def train_gan(self, second: float, third: float) -> None:
        """Lines 6 to 16."""
        players = self.players
        scale = third * bound_of(self.config.features).norm / self.config.batch
        seen = list[Labelled]()
        query = self.query(self.critic.lower)
        for i, (images, labels) in enumerate(self.batches("game")):
            seen = [*seen, (images, labels)][-self.method.mu :]
            fakes = players.fakes(self.config.batch, self.run, i)
            with torch.no_grad():
                means = (self.critic.means(images, labels), self.critic.means(*fakes))
                real, fake = (a + scale * self._drawn(a.shape).to(a) for a in means)
            players.critic_optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(self.critic.loss(real[None], fake[None]))
            players.critic_optimiser.step()
            if (i + 1) % self.method.mu == 0:
                self._conv2_step(query, seen, fakes, second)
            if players.turns.due():
                players.generator_step(GAME, self.config.batch, self.run, i)

    def slopes(self, records: Labelled, fakes: Labelled) -> tuple[Tensor, Tensor]:
        """Of the loss at the true means of both sides: each holds all records of the joint batch."""
        with torch.no_grad():
            means = [normalised(self.critic.lower(*side)).mean(0, keepdim=True) for side in (records, fakes)]
        real, fake = (a.requires_grad_() for a in means)
        of_real, of_fake = torch.autograd.grad(self.critic.loss(real[None], fake[None]), (real, fake))
        return of_real, of_fake

    def query(self, net: nn.Module) -> ClippedGradient:
        """What the paper calls DPSGD: clipped terms along a direction that is nobody's own."""
        return per_example(net, along(), self.config.conv2.clip)

    def _conv2_step(self, query: ClippedGradient, seen: list[Labelled], fakes: Labelled, noise: float) -> None:
        """Line 11: each clipped gradient of conv2* depends on all records of the joint batch."""
        images, labels = (torch.cat(part) for part in zip(*seen, strict=True))
        slope, other = self.slopes((images, labels), fakes)
        self.players.critic_optimiser.zero_grad(set_to_none=True)
        total = self._noisy(query, images, labels, slope, noise)
        with torch.no_grad():
            assign(self.critic.lower, total + query.total(*fakes, other) / len(fakes[1]))
        self.players.critic_optimiser.step()

    @torch.no_grad()
    def _noisy(self, query: ClippedGradient, images: Tensor, labels: Tensor, slope: Tensor, noise: float) -> Tensor:
        total = query.total(images, labels, slope)
        return (total + noise * query.bound.norm * self._drawn(total.shape).to(total)) / len(labels)

    def _drawn(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.noise)


class ClassShares(nn.Module):
    """conv3 and FC of the classifier: the share of each class in a batch, from one sum."""

    def __init__(self, method: DPAF, spec: DataSpec, classes: int) -> None:
        super().__init__()
        layout = method.config(spec).layout
        self.body = Upper(spec.shape, classes, layout, method.critic_width, method.features, method.hidden)
        last = self.body.fc[-1]
        assert isinstance(last, nn.Linear)
        self.body.fc[-1] = nn.Linear(last.in_features, classes)

    def forward(self, sums: Tensor) -> Tensor:
        shares: Tensor = self.body.fc(self.body.conv3(sums).flatten(1))
        return shares
