"""DPAF: a discriminator that sees private images as noisy sums of features (Lin et al.). Site B2.

The discriminator is conv1, conv2*, a sum over the batch (DPAGG), conv3*, FC*. With f_i = conv2*(conv1(x_i), y_i), which
are m maps of p x p pixels, and SIN the normalisation of each map, the paper's Algorithm 1 is here

    conv1       stays random, or learns before from public images or in a classifier that learns by DP-SGD as a whole
    for t = 0 ... T - 1
        A_t = sum over S_t of SIN(f_i) + N(0, (z_3 sqrt(m) p)^2)     released: DPAGG    Delta = sqrt(m) p, or twice
        v_t = slope at A_t of the loss log(1 + e^-s(A_t)) + log(1 + e^s(A'_t)), A'_t of fakes with noise alike
        conv3*, FC*: a step on that loss                                     post-processing
        if mu divides t
            G_t = sum over S'_t of clip_u(grad <SIN(f_i), v_t>) + N(0, (z_2 u)^2)     released    Delta = u, or 2u
            conv2*: a step on G_t and on gradients of fakes                  post-processing
        if n_critic steps were made
            generator: a step through the discriminator without sums         post-processing

S_t and S'_t are Poisson samples of their own, at rates q = batch / records and mu q. As printed (Algorithm 1,
Theorem 6; `printed.py`) the method is not private: conv1 learns through layers without noise, v_t is taken at the true
sum, and gradients use the batches of the sums again. The terms are in `aggregation.py`, the networks in
`discriminator.py`, the ways of conv1 in `first_layers.py`.

What was released may be used again: `replay` is how many of the latest aggregates conv3* and FC* learn from, `moves`
how often they and the generator step after each, and with `matching` the generator is also drawn to sums like them.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("faces", 182_637, (3, 64, 64), ("no", "yes"))
    >>> plan = DPAF(epochs=1.0).plan(spec, Budget(epsilon=1))
    >>> round(plan.facts["multiplier"], 2), plan.crossings["aggregate"].times, plan.crossings["conv2"].times
    (0.73, 2853, 356)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.budget_split import EQUAL, multipliers, parse_split
from sfumato.accounting.claims import Claim
from sfumato.accounting.claims import dpaf as by_paper
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.adversarial import Labelled, Players, Turns
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.ema import repeatable
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.clipping import Clip, Flat
from sfumato.engine.gradients.topk import Largest
from sfumato.engine.public_pretrain import known
from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.methods.gan.dpaf import first_layers
from sfumato.methods.gan.dpaf.aggregation import aggregate, bound_of
from sfumato.methods.gan.dpaf.discriminator import ACTIVATIONS, Discriminator, Lower, Upper
from sfumato.methods.gan.dpaf.generator import MirrorGenerator
from sfumato.methods.gan.dpaf.layer_update import LayerUpdate
from sfumato.methods.gan.dpaf.layout import Layout
from sfumato.methods.gan.dpaf.public_game import public_game
from sfumato.methods.settings import count, setting
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

# the crossings
CONV1 = "conv1"
CONV2 = "conv2"
AGGREGATE = "aggregate"
GAME = OBJECTIVES["nonsaturating"]
LOUD = 8.0  # standard deviations of the noise in a normalised feature of the mean, from which on a plan warns

DEVIATIONS = (
    "conv1 is random, public or part of a classifier trained by DP-SGD as a whole; the paper trains the classifier's "
    "other layers without noise.",
    "Gradients of conv2* are taken through the aggregate as released; the paper takes them through the true one.",
    "Sums and gradients have Poisson samples of their own; the paper's gradients use the batches of the sums again.",
    "Labels join the maps where conv2* begins, so that what learns from them is in the private part; in the paper they "
    "join in the second layer.",
    "SIN has a constant in its root and its result is projected: a flat map is 0, not 0/0.",
    "Aggregates are divided by the expected batch, and those of fakes get noise of the same size.",
    "The clipping norm is counted in mean norms of the fakes' gradients, which are public.",
)


@dataclass(frozen=True)
class DPAFConfig:
    """The public numbers of DPAF on one data set."""

    layout: Layout
    summed: tuple[int, int, int]  # m, h, w; 2 m with records under other labels
    batch: int  # records expected in an aggregate
    steps: int  # T
    mu: int
    conv2: DPSGDConfig
    conv1: DPSGDConfig | None  # in the private classifier or in the game

    def lower_learns(self, t: int) -> bool:
        """Whether conv2* has a step after aggregate t: every mu-th from the first on, T // mu times in all."""
        return t % self.mu == 0 and t // self.mu < self.conv2.steps


@dataclass(frozen=True, kw_only=True)
class DPAF(Method):
    """Sound DPAF; every part can be switched."""

    epochs: float = setting(5.0, "T batch / records, passes over the records by aggregates", low=1e-6, high=1e6)
    batch: int = count(64, "B, records expected in an aggregate", low=2)
    fakes: int = count(64, "generated images a step", low=2)
    mu: int = count(8, "asymmetry multiplier: conv2* has a step every so many, on so many times as many records")
    follow: bool = setting(
        False, "the generator moves in the first of n_critic steps, right after conv2*; else the last"
    )
    critic_steps: int = count(1, "n_critic, steps of the discriminator for one of the generator")
    layout: str = setting("", "layers as in C2-C2-C1 or C3-C1-x; by the size of the images if left out")
    split: str = setting(
        EQUAL, "of epsilon over conv1, conv2*, DPAGG: equal, 33%,34%,33% or 0.1,x,0.1; x,0.2 without conv1"
    )
    conv1: str = setting("random", "how conv1 learns", choices=first_layers.WAYS)
    conv1_epochs: float = setting(1.0, "passes over the records for conv1=private", low=1e-6, high=1e6)
    conv1_steps: int = count(1000, "steps for conv1=public", low=0)
    clip: float = setting(1.0, "u, clipping norm", low=1e-6, high=1e6)
    relative: bool = setting(True, "u is counted in mean gradient norms of the fakes")
    keep: float = setting(0.9, "share of a gradient's coordinates that is kept, the largest", low=1e-6, high=1)
    signs: bool = setting(False, "of the kept coordinates the signs alone")
    classwise: bool = setting(False, "an aggregate for each class, at no further cost")
    replay: int = count(1, "latest aggregates that conv3* and FC* learn from")
    unit: bool = setting(False, "sums are brought to one length before conv3*: the size of a sample tells nothing")
    thin: bool = setting(False, "fakes take part in their sum by chance, as records do: batch of them are expected")
    together: bool = setting(False, "the generator is judged by sums of its images")
    moves: int = count(1, "steps of generator, conv3* and FC* after each aggregate")
    matching: float = setting(
        0.0, "weight of the distance between sums of fakes and of records, for the generator", low=0, high=1e6
    )
    activation: str = setting("leaky", "of the discriminator", choices=tuple(ACTIVATIONS))
    mismatch: bool = setting(False, "sums of the records under other labels count as fakes too")
    embedding: bool = setting(False, "labels join conv2* as random patterns, else as planes of one value")
    public_steps: int = count(0, "steps of the same game on public images first", low=0)
    public_generator: bool = setting(False, "the generator keeps what it learned from public images")
    learning_rate: float = setting(2e-4, "of Adam for the generator", low=1e-12, high=1)
    critic_learning_rate: float = setting(2e-4, "of Adam for the discriminator", low=1e-12, high=1)
    conv2_learning_rate: float = setting(0.0, "of Adam for conv2*; 0: that of the discriminator", low=0, high=1)
    ema_decay: float = setting(0.99, "of the averaged generator; 0: the last one", low=0, high=0.999999)
    latent: int = count(100, "dimensions of the latent z")
    smooth: int = count(0, "times that the generator's images are smoothed", low=0, high=100)
    width: int = count(64, "channels of the generator's last layers")
    critic_width: int = count(64, "channels of the discriminator's first layer")
    features: int = count(256, "m, maps that are aggregated")
    hidden: int = count(128, "units of FC*")
    bfloat16: bool = setting(False, "gradients of the lower layers in bfloat16")

    name: ClassVar[str] = "dpaf"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "GAN with noisy sums of features in the forward phase"
    good_for: ClassVar[str] = (
        "Faces of 64 pixels, with a GPU: the most accurate there, at epsilon 1 and 10, though its images are grainy."
    )
    paper: ClassVar[str] = "Lin, Hsu, Yu, Cao, Huang: DPAF, aggregation in forward phase"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    audit_side: ClassVar[int] = 8

    def contradictions(self) -> Iterator[str]:
        if self.layout and not Layout.parse(self.layout).conv1 and self.conv1 != "random":
            yield f"Expected conv1=random for a layout without conv1, found conv1={self.conv1}."
        if self.thin and self.fakes < self.batch:
            yield f"Expected fakes of at least batch={self.batch} for thin, found fakes={self.fakes}."
        if self.mismatch and self.classwise:
            yield "Expected classwise=no for mismatch, found classwise=yes: sums of classes apart tell them already."
        if self.public_generator and not self.public_steps:
            yield "Expected public_steps above 0 for public_generator, found public_steps=0."

    def config(self, spec: DataSpec) -> DPAFConfig:
        """The numbers for a set; one smaller than four batches gives a quarter of its records to each sum."""
        try:
            layout = Layout.parse(self.layout) if self.layout else Layout.fit(spec.shape[1:])
            summed = layout.features(spec.shape, self.features * (2 if self.mismatch else 1))
        except ValueError as error:
            raise InputError(str(error)) from error
        batch = min(self.batch, max(2, spec.records // 4))
        wide = min(self.mu * batch, spec.records)
        steps = max(1, int(self.epochs * spec.records / batch))
        if steps < self.mu:
            raise InputError(f"Expected epochs enough for mu={self.mu} steps, found {steps} with batch={batch}.")
        if self.conv1 == "private" and not spec.conditional:
            raise InputError("Expected two classes or more for conv1=private, found one; take conv1=random.")
        if self.mismatch and not spec.conditional:
            raise InputError("Expected two classes or more for mismatch, found one; take mismatch=no.")
        clip: Clip = Flat(self.clip) if self.keep == 1 and not self.signs else Largest(self.clip, self.keep, self.signs)
        conv2 = DPSGDConfig(steps // self.mu, wide, clip)
        classifier = DPSGDConfig(max(1, int(self.conv1_epochs * spec.records / wide)), wide, Flat(1.0))
        conv1 = {"private": classifier, "game": conv2}.get(self.conv1)
        return DPAFConfig(layout, summed, batch, steps, self.mu, conv2, conv1)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        config = self.config(spec)
        rate = config.batch / spec.records
        sampler = Poisson(rate) if rate < 1 else FullBatch()
        first = {CONV1: config.conv1.crossing(spec, z)} if config.conv1 else {}
        return {
            **first,
            CONV2: config.conv2.crossing(spec, z),
            AGGREGATE: crossing(bound_of(config.summed), z, sampler, config.steps),
        }

    def proportions(self, spec: DataSpec, budget: Budget) -> dict[str, float]:
        """Each part has the noise with which it would spend its epsilon alone; then all are scaled together.

        That is less noise than the sum of their epsilons would ask for. With `equal` all parts have the same noise
        over sensitivity.
        """
        parts = {name: c.event(Relation.ADD_REMOVE) for name, c in self.crossings(spec, 1.0).items()}
        try:
            epsilons = parse_split(self.split, budget.epsilon, len(parts))
        except ValueError as error:
            raise InputError(
                f"{error} With conv1=private or conv1=game the parts are conv1, conv2*, DPAGG, else the last two."
            ) from error
        return {} if epsilons is None else multipliers(parts, epsilons, budget.delta)

    def facts(self, plan: Plan) -> dict[str, Any]:
        config = self.config(plan.data)
        parts = {name: plan.crossings[name].mechanism.multiplier for name in self._parts(plan)}
        same = {"multiplier": parts[AGGREGATE]} if len(set(parts.values())) == 1 else {}
        bound = bound_of(config.summed).norm
        return {"steps": config.steps, "layout": str(config.layout), "sum_bound": bound, "multipliers": parts} | same

    def claim(self, plan: Plan) -> Claim:
        parts = [plan.crossings[name] for name in self._parts(plan)]
        return by_paper([(c.times, c.sampler.rate, c.mechanism.multiplier) for c in parts], plan.budget.delta)

    def warnings(self, plan: Plan) -> Iterator[str]:
        config = self.config(plan.data)
        noise = plan.facts["multipliers"][AGGREGATE] * bound_of(config.summed).norm / config.batch
        if noise >= LOUD:
            yield (
                f"The noise in a mean feature is {noise:.3g} times what one image has; take a larger batch, fewer "
                "features, fewer epochs, more data or a larger epsilon."
            )

    def _parts(self, plan: Plan) -> list[str]:
        return [name for name in (CONV1, CONV2, AGGREGATE) if name in plan.crossings]

    def small(self) -> DPAF:
        """The same questions by small networks, after one step for conv1."""
        few = self.at_most(conv1_epochs=1e-6, conv1_steps=2, moves=2, public_steps=2)
        return few.at_most(width=2, critic_width=2, hidden=8, latent=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        config = self.config(spec)
        seen = self._public(public, spec)
        players = self.players(spec, run, label_histogram.shares(self.labels, barrier, run))
        sigma = barrier.plan.crossings[AGGREGATE].event(Relation.ADD_REMOVE).sigma
        step = DPAFStep(self, config, players, noise=sigma)
        classifier = self._first_layers(step, public, spec, run)
        before = classifier.steps if classifier else 0
        preview = Preview(run, players.net, spec)
        state = {
            "players": players,
            "step": step,
            "preview": preview,
            **({"classifier": classifier} if classifier else {}),
        }
        for i in run.steps(before + config.steps, stages=(before,), **state):
            t = i - before
            if classifier and t < 0:
                classifier.step(barrier.release(CONV1, classifier.query))  # the barrier
                continue
            if t == 0 and seen:
                public_game(step, seen, run)
            A = step.remember(barrier.release(AGGREGATE, step.question(t)))  # the barrier
            for n in step.moves(t):
                fakes = players.fakes(self.fakes, run, n)
                v, of_fakes = step.upper_step(A, fakes, run, n)  # conv3* and FC*; v is the slope at A as released
                if n == step.moves(t)[0] and config.lower_learns(t):
                    for name, layers in step.lower.items():  # CONV2, and CONV1 where conv1 learns in the game
                        length, along = layers.scaled(v, fakes)  # u is counted in the fakes' gradients
                        G = length * barrier.release(name, layers.query, along)  # the barrier
                        layers.step(G, of_fakes, fakes)
                if players.turns.due():
                    step.generator_step(run, n)
            preview.snapshot(i, before + config.steps, lambda: players.finished(run.generator("preview statistics")))
        return players.finished(run.generator("statistics"))

    def _public(self, public: PublicImages | None, spec: DataSpec) -> Labelled | None:
        """The public images that the game begins on, if it does; refused before anything is asked."""
        if not self.public_steps:
            return None
        if public is None:
            raise InputError("Expected public images for public_steps, found none; name them with --public.")
        return known(public, spec)

    def _first_layers(
        self, step: DPAFStep, public: PublicImages | None, spec: DataSpec, run: Run
    ) -> first_layers.PrivateClassifier | None:
        """Let conv1 learn from public images where it does; the classifier whose private steps come first, if any."""
        conv1 = step.critic.lower.conv1
        if self.conv1 == "public":
            first_layers.learn_publicly(conv1, public, spec, run, self.conv1_steps)
        if self.conv1 == "private" and step.config.conv1:
            return first_layers.PrivateClassifier(conv1, len(spec.classes), run, step.config.conv1)
        return None

    def players(self, spec: DataSpec, run: Run, weights: list[float] | None) -> Players[Discriminator]:
        """Generator and discriminator as they begin; `weights` are the public proportions of the labels."""
        layout = self.config(spec).layout
        net = seeded(
            run,
            lambda: MirrorGenerator(
                spec.shape,
                spec.classes,
                self.latent,
                self.width,
                layout.depth,
                label_weights=weights,
                smooth=self.smooth,
            ),
        )
        players = Players(
            net,
            seeded(run, lambda: self.discriminator(spec, weights)),
            Turns(self.critic_steps),
            learning_rate=self.learning_rate,
            critic_learning_rate=self.critic_learning_rate,
            ema_decay=self.ema_decay,
        )
        if self.follow:
            players.turns.since = self.critic_steps - 1
        if self.conv2_learning_rate:
            parts = (players.critic.lower, self.conv2_learning_rate), (players.critic.upper, self.critic_learning_rate)
            groups = [{"params": list(part.parameters()), "lr": rate} for part, rate in parts]
            players.critic_optimiser = torch.optim.Adam(groups, betas=(0.5, 0.999))
        return players

    def discriminator(self, spec: DataSpec, weights: list[float] | None) -> Discriminator:
        """Both halves of it, with fresh weights."""
        classes = len(spec.classes)
        layout = self.config(spec).layout
        shares = (weights or [1 / classes] * classes) if self.classwise else [1.0]
        widths = (self.critic_width, self.features)
        lower = Lower(spec.shape, classes, layout, *widths, self.activation, self.embedding, self.mismatch)
        told = len(shares) > 1
        upper = Upper(spec.shape, classes, layout, *widths, self.hidden, self.activation, told, self.unit)
        return Discriminator(lower, upper, shares, self.together)


class DPAFStep:
    """What is asked in a step, and what follows from the answers: all of it post-processing."""

    def __init__(
        self, method: DPAF, config: DPAFConfig, players: Players[Discriminator], *, noise: float = 0.0
    ) -> None:
        self.method = method
        self.config = config
        self.players = players
        self.critic = players.critic
        self.noise = noise  # standard deviation of that of an aggregate's sum
        self.aggregates = torch.zeros(0)  # the latest, as released
        self.sums = aggregate(self.critic.lower, self.critic.by_class)
        how = {"relative": method.relative, "bfloat16": method.bfloat16}
        self.lower: dict[str, LayerUpdate] = {
            CONV2: LayerUpdate(self.critic.lower, players.critic_optimiser, config.conv2, **how)
        }
        self.conv1: first_layers.FirstLayersUpdate | None = None
        if method.conv1 == "game":
            rate = method.critic_learning_rate
            self.conv1 = first_layers.FirstLayersUpdate(self.critic.lower, rate, config.conv2, **how)
            self.lower[CONV1] = self.conv1

    def moves(self, t: int) -> range:
        """Numbers of the free steps after aggregate t."""
        return range(self.method.moves * t, self.method.moves * (t + 1))

    def question(self, t: int) -> BoundedSum:
        """Of aggregate t; with `mismatch` other labels have their turn in it."""
        self.critic.lower.turn(t)
        return self.sums

    def remember(self, released: Tensor) -> Tensor:
        """(R, K, m or 2 m, h, w): this aggregate and the latest before it, each over its expected number of records."""
        sums = released.float().view(-1, *self.critic.lower.summed)
        latest = (sums / self.critic.sizes(sums, self.config.batch))[None]
        before = self.aggregates.to(latest) if len(self.aggregates) else latest[:0]
        self.aggregates = torch.cat([before, latest])[-self.method.replay :]
        return self.aggregates

    def forget(self) -> None:
        """No aggregate is remembered."""
        self.aggregates = torch.zeros(0)

    def upper_step(self, aggregates: Tensor, fakes: Labelled, run: Run, n: int) -> tuple[Tensor, Tensor]:
        """A step of conv3* and FC*; (K, m, h, w) slopes of the loss at the aggregates of records and of fakes."""
        real = aggregates.detach().requires_grad_()
        fake = self._noisy_means(aggregates, fakes, run, n).detach().requires_grad_()
        self.players.critic_optimiser.zero_grad(set_to_none=True)
        with repeatable(), torch.enable_grad():
            torch.autograd.backward(self.critic.loss(real, fake))
        self.players.critic_optimiser.step()
        assert real.grad is not None and fake.grad is not None
        return real.grad.sum(0), fake.grad.sum(0)

    @torch.no_grad()
    def _noisy_means(self, aggregates: Tensor, fakes: Labelled, run: Run, n: int) -> Tensor:
        """Aggregates of the fakes with the noise that those of records have: it should not tell them apart."""
        random = run.generator("noise of fakes", n, fakes[1].device)
        # A Poisson sample has other numbers of each class every time; fakes in fixed numbers would be known by that.
        chance = torch.rand(len(fakes[1]), generator=random, device=random.device) if self.method.thin else None
        there = None if chance is None else chance < self.config.batch / len(fakes[1])
        with repeatable():
            means = self.critic.means(*fakes, there, 0 if there is None else self.config.batch)
        drawn = torch.randn((len(aggregates), *means.shape), generator=random, device=means.device)
        return means + drawn * self.noise / self.critic.sizes(means, self.config.batch)

    def generator_step(self, run: Run, n: int) -> None:
        """A step of the generator through the discriminator."""
        penalty = self.distance if self.method.matching else None
        self.players.generator_step(GAME, self.method.fakes, run, n, penalty)

    def distance(self, images: Tensor, labels: Tensor) -> Tensor:
        """How far sums of fakes are from those of records, as released: what is left of the noise is a constant.

        Pairs of an image with itself are left out, so that few fakes are not drawn together (`engine/match.py`).
        """
        means = self.critic.means(images, labels)
        target = self.aggregates.to(images).mean(0)[:, : means.shape[1]]
        own = means.square() / (1 - 1 / self.critic.sizes(means, len(labels)).clamp(min=2))
        return self.method.matching * (own - 2 * means * target).mean()

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; players have a state of their own."""
        return {"aggregates": self.aggregates} | ({"conv1": self.conv1.state_dict()} if self.conv1 else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.aggregates = state["aggregates"]
        if self.conv1:
            self.conv1.load_state_dict(state["conv1"])
