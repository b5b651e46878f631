"""DPAF: a discriminator that sees private images as noisy sums of features (Lin et al.). Site B2.

    f_i       conv2*(conv1(x_i), y_i): m maps of p x p pixels
    A_t       sum over S_t of SIN(f_i) + N(0, (z_3 sqrt(m) p)^2), T times        Delta = sqrt(m) p, or 2 sqrt(m) p
    v_t       slope of the discriminator's loss at A_t: public
    G_t       sum over S'_t of clip_u(grad <SIN(f_i), v_t>) + N(0, (z_2 u)^2), every mu-th step     Delta = u, or 2u
    conv3*, FC*, generator        ordinary steps on A_t and on fakes                  free post-processing

S_t and S'_t are Poisson samples of their own, at rates q = batch / records and mu q. As printed (Algorithm 1,
Theorem 6) the method is not private: conv1 learns through layers without noise, v_t is taken at the true sum, and
gradients use the batches of the sums again. Here conv1 stays random, or learns from public images, or in a classifier
that learns by DP-SGD as a whole. The loop is in `forward_phase.py`, the terms in
`aggregation.py`.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("faces", 182_637, (3, 64, 64), ("no", "yes"))
    >>> plan = DPAF(epochs=1.0).plan(spec, Budget(epsilon=1))
    >>> round(plan.facts["multiplier"], 2), plan.crossings["aggregate"].times, plan.crossings["conv2"].times
    (0.73, 2853, 356)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sfumato.accounting.budget import Budget
from sfumato.accounting.budget_split import EQUAL
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.adversarial import Players, Turns
from sfumato.engine.generator_dpsgd import seeded
from sfumato.methods.base import Method
from sfumato.methods.gan.dpaf import allocation, first_layers
from sfumato.methods.gan.dpaf.allocation import Sizes
from sfumato.methods.gan.dpaf.discriminator import Lower, Upper
from sfumato.methods.gan.dpaf.forward_phase import AGGREGATE, Discriminator, DPAFConfig, DPAFStep, play
from sfumato.methods.gan.dpaf.generator import MirrorGenerator
from sfumato.methods.gan.dpaf.layout import Layout
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

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


@dataclass(frozen=True, kw_only=True)
class DPAF(Method):
    """Sound DPAF; every part can be switched."""

    epochs: float = 5.0  # T batch / records
    batch: int = 64  # records expected in an aggregate
    fakes: int = 64  # a step
    mu: int = 8  # the asymmetry multiplier: conv2* moves every mu-th step, on mu times as many records
    critic_steps: int = 1  # n_critic
    layout: str = ""  # C2-C2-C1, C3-C1-x, ...; by the size of the images if left out
    split: str = EQUAL  # of the budget: 33%,34%,33% or 0.1,x,0.1 for conv1, conv2*, DPAGG; x,0.2 without conv1
    conv1: str = "random"  # "public", "private", or "game": it learns as conv2* does
    conv1_epochs: float = 1.0  # of the private classifier
    conv1_steps: int = 1000  # of the public one
    clip: float = 1.0  # u
    relative: bool = True  # u in mean gradient norms of the fakes
    keep: float = 0.9  # of a gradient's coordinates, the largest
    signs: bool = False  # and of those the signs alone
    classwise: bool = False  # an aggregate for each class, at no further cost
    replay: int = 1  # latest aggregates that conv3* and FC* learn from
    together: bool = False  # the generator is judged by sums of its images
    moves: int = 1  # steps of generator, conv3* and FC* after each aggregate
    matching: float = 0.0  # weight of the distance between sums of fakes and of records, for the generator
    activation: str = "leaky"  # "tanh", "wave"
    warm: int = 0  # steps of the same game on public images first
    warm_generator: bool = False  # the generator keeps what it learned there
    learning_rate: float = 2e-4
    critic_learning_rate: float = 2e-4
    ema_decay: float = 0.99  # decay of the averaged generator; 0: the last one
    latent: int = 100
    smooth: int = 0  # times that the generator's images are smoothed
    width: int = 64
    critic_width: int = 64
    features: int = 256  # m, maps that are aggregated
    hidden: int = 128
    bfloat16: bool = False

    name: ClassVar[str] = "dpaf"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "GAN with noisy sums of features in the forward phase"
    paper: ClassVar[str] = "Lin, Hsu, Yu, Cao, Huang: DPAF, aggregation in forward phase"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    audit_side: ClassVar[int] = 8

    def __post_init__(self) -> None:
        allocation.check(self)

    def sizes(self, spec: DataSpec) -> Sizes:
        """Steps, batches and layers for this set."""
        return Sizes.of(self, spec)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return allocation.plan(self, self.sizes(spec), spec, budget, DEVIATIONS)

    def small(self) -> DPAF:
        """The same questions by small networks, after one step for conv1."""
        few = self.at_most(conv1_epochs=1e-6, conv1_steps=2, moves=2, warm=2)
        return few.at_most(width=2, critic_width=2, hidden=8, latent=4)

    def rules(self, sizes: Sizes, spec: DataSpec, weights: list[float] | None, noise: float) -> DPAFConfig:
        """Of the game between generator and discriminator."""
        shares = tuple(weights or [1 / len(spec.classes)] * len(spec.classes)) if self.classwise else (1.0,)
        return DPAFConfig(
            sizes.steps,
            sizes.batch,
            sizes.wide,
            self.mu,
            shares,
            noise,
            sizes.second.clip,
            self.relative,
            self.replay,
            self.bfloat16,
            self.fakes,
            self.moves,
            self.matching,
        )

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        sizes = self.sizes(spec)
        sums = barrier.plan.crossings[AGGREGATE]
        before = None
        rules = self.rules(sizes, spec, weights, sums.mechanism.std(sums.bound))
        net = seeded(
            run,
            lambda: MirrorGenerator(
                spec.shape,
                spec.classes,
                self.latent,
                self.width,
                sizes.layout.depth,
                label_weights=weights,
                smooth=self.smooth,
            ),
        )
        critic = seeded(run, lambda: self._critic(spec, sizes.layout, rules))
        players = Players(
            net,
            critic,
            Turns(self.critic_steps),
            learning_rate=self.learning_rate,
            critic_learning_rate=self.critic_learning_rate,
            ema_decay=self.ema_decay,
        )
        turn = DPAFStep(players, rules, self.critic_learning_rate if self.conv1 == "game" else None)
        if self.conv1 == "public":
            first_layers.learn_publicly(critic.lower.conv1, public, spec, run, self.conv1_steps)
        elif self.conv1 == "private":
            before = first_layers.PrivateSteps(critic.lower.conv1, len(spec.classes), run, sizes.first, 1e-3)

        def ready() -> None:
            if before:
                before.hand_over()
            first_layers.rehearse(turn, public, spec, run, self.warm, self.warm_generator)

        return play(turn, barrier.release, run, Preview(run, net, spec), before=before, ready=ready)  # the barrier

    def _critic(self, spec: DataSpec, layout: Layout, rules: DPAFConfig) -> Discriminator:
        classes = len(spec.classes)
        widths = (self.critic_width, self.features)
        lower = Lower(spec.shape, classes, layout, *widths, self.activation)
        upper = Upper(spec.shape, classes, layout, *widths, self.hidden, self.activation, told=rules.by_class)
        return Discriminator(lower, upper, rules, self.together)
