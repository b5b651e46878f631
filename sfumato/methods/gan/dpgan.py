"""DPGAN: a GAN whose critic learns by DP-SGD (Xie et al. 2018; revised by Bie, Kamath and Zhang 2023). Site B2.

    for t = 1 ... T
        S_t        a Poisson sample of the records, each with probability q = batch / records
        released   G_t = sum over S_t of clip_C( grad l_real(x_i, y_i) ) + N(0, (z C)^2)        Delta = C, or 2C
        critic     Adam on G_t / batch + mean over fakes of grad l_fake    the fakes' part is public, without noise
        generator  Adam on the public critic, after every n critic steps   free post-processing

Delta = C under add-remove and 2C under replace-one, as a record's loss is its own: the real term and, for Wasserstein
critics, the penalty between this record and one fake. The losses are in `engine/gan_losses.py`, what is clipped and
how in `critic_gradients.py`. No layer of the critic mixes examples. n is a setting, or grows by a public rule (`Turns`
of `engine/adversarial.py`). The critic is made of released values and may be published (`keep_critic`). With `decoder`
an autoencoder comes first, see `autoencoder.py`.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPGAN(steps=20_000, batch=1024).plan(spec, Budget(epsilon=10))
    >>> round(plan.facts["sigma"], 2), plan.crossings["critic"].times
    (1.39, 20000)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Relation
from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.accounting.claims import dpgan as by_paper
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.adversarial import Labelled, Players, Turns
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import ClippedGradient
from sfumato.engine.public_pretrain import known
from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.methods.gan.autoencoder import WAYS, Before
from sfumato.methods.gan.critic_gradients import (
    CLIPPINGS,
    CriticGradients,
    partner_key,
    public_game,
    public_images,
    typical_norm,
)
from sfumato.methods.settings import count, setting
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.critic import GROUPS, ConvCritic
from sfumato.networks.dcgan import DCGANGenerator
from sfumato.networks.decoded import CodeCritic, DecodedGenerator
from sfumato.networks.deconv import DeconvGenerator
from sfumato.networks.generator import Generator
from sfumato.networks.vae import Encoder
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Crossing, Plan
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

CRITIC = "critic"  # the crossing
DECODER = "decoder"  # that of a private autoencoder
GENERATORS = {"deconv": DeconvGenerator, "dcgan": DCGANGenerator, "conv": ConvGenerator}
DEVIATIONS = (
    "Records are drawn by independent coins (Poisson); the first papers shuffle them and account for coins.",
    "Fakes are no records: their gradients are clipped like those of records but get no noise, and their number is "
    "constant.",
    "The fake partner of a record in its gradient penalty follows from the record's own pixels and a public key.",
    "Exact accounting in place of the moments accountant.",
)


@dataclass(frozen=True, kw_only=True)
class DPGAN(Method):
    """DPGAN with a conditional convolutional critic; defaults near the revision's, for one large GPU."""

    steps: int = count(30_000, "T, steps of the critic")
    batch: int = count(512, "real records expected a step", low=2)
    fakes: int = count(256, "generated images a step; 0: as many as batch", low=0)
    critic_steps: int = count(8, "n, critic steps for one of the generator")
    least: float = setting(0.0, "critic's accuracy on fakes below which n grows; 0: n stays", low=0, high=1)
    grace: int = count(200, "generator steps before n grows again")
    loss: str = setting("nonsaturating", "what each player pays", choices=tuple(OBJECTIVES))
    penalty: float = setting(0.0, "lambda, weight of the gradient penalty", low=0, high=1e6)
    weight_clip: float = setting(
        0.0, "limit of the critic's weights, as in the first WGAN; no part of the guarantee", low=0, high=1e6
    )
    clip: float = setting(1.0, "C, clipping norm", low=1e-6, high=1e6)
    clipping: str = setting("flat", "of whole gradients, layer by layer, or automatic", choices=CLIPPINGS)
    clip_decay: float = setting(1.0, "the last C over the first", low=1e-3, high=1e3)
    clip_fakes: bool = setting(True, "fakes are clipped like records")
    clip_public: bool = setting(False, "C is the mean norm of gradients of public images")
    public_steps: int = count(0, "ordinary steps on public images first", low=0)
    decoder: str = setting("none", "an autoencoder first, whose decoder ends the generator", choices=WAYS)
    decoder_steps: int = count(1000, "of the autoencoder")
    codes: int = count(16, "numbers of its code")
    learning_rate: float = setting(3e-4, "of Adam for the generator", low=1e-12, high=1)
    critic_learning_rate: float = setting(3e-4, "of Adam for the critic", low=1e-12, high=1)
    ema_decay: float = setting(0.99, "of the averaged generator; 0: the last one", low=0, high=0.999999)
    latent: int = count(128, "dimensions of the latent z")
    generator: str = setting("dcgan", "network of the generator", choices=tuple(GENERATORS))
    width: int = count(64, "channels of the generator's last layers")
    critic_width: int = count(128, "channels of the critic's first layer", low=2, multiple=2)
    critic_norm: bool = setting(False, "group normalisation in the critic")
    critic_heads: bool = setting(False, "a score for each class, in the place of labels shown beside the image")
    bfloat16: bool = setting(False, "the critic's gradients in bfloat16")
    keep_critic: bool = setting(False, "the critic is part of the release")

    name: ClassVar[str] = "dpgan"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "GAN with a critic trained by DP-SGD"
    good_for: ClassVar[str] = "Large budgets (epsilon 10), tens of thousands of records and a GPU; weak at epsilon 1."
    paper: ClassVar[str] = (
        "Xie, Lin, Wang, Wang, Zhou: DPGAN (2018); Bie, Kamath, Zhang: Private GANs, Revisited (TMLR 2023)"
    )
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def contradictions(self) -> Iterator[str]:
        if self.fakes == 1:
            yield "Expected fakes=0 or at least 2, as a generator may normalise over its batch, found fakes=1."
        if self.generator == "conv" and self.width % 8:
            yield f"Expected width as a multiple of 8 for generator=conv, found width={self.width}."
        if self.critic_norm and self.critic_width % GROUPS:
            yield f"Expected critic_width as a multiple of {GROUPS} for critic_norm, found {self.critic_width}."
        if self.decoder != "none" and self.width % 8:
            yield f"Expected width as a multiple of 8 for a decoder, found width={self.width}."
        if self.decoder == "public" and self.public_steps:
            yield f"Expected public_steps=0 for decoder=public, which has {self.decoder_steps} steps of its own."
        if self.least and not OBJECTIVES[self.loss].bounded:
            yield f"Expected least=0 for loss={self.loss}, whose scores tell no accuracy, found least={self.least}."
        if (self.clip_decay != 1 or self.clip_public) and self.clipping != "flat":
            yield f"Expected clipping=flat for a threshold that moves, found clipping={self.clipping}."

    def gradients(self, spec: DataSpec) -> CriticGradients:
        """What is asked of the critic; a set smaller than four batches gives a quarter of its records."""
        batch = min(self.batch, max(2, spec.records // 4))
        return CriticGradients(OBJECTIVES[self.loss], batch, self.clip, self.clipping, self.penalty, self.bfloat16)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        asked = self.gradients(spec)
        first = {DECODER: self.before(spec).crossing(spec, z)} if self.decoder == "private" else {}
        return first | {CRITIC: DPSGDConfig(self.steps, asked.batch, asked.clip_at(self.clip)).crossing(spec, z)}

    def before(self, spec: DataSpec) -> DPSGDConfig:
        """Of the private autoencoder."""
        return DPSGDConfig(self.decoder_steps, self.gradients(spec).batch)

    def facts(self, plan: Plan) -> dict[str, Any]:
        z = plan.crossings[CRITIC].mechanism.multiplier
        return {"steps": self.steps, "sigma": z, "generator_steps": self.steps // self.critic_steps}

    def claim(self, plan: Plan) -> Claim:
        rate = self.gradients(plan.data).batch / plan.data.records
        said = (rate, plan.facts["sigma"], self.steps, plan.budget.delta)
        if DECODER not in plan.crossings:
            return by_paper(*said)
        return dp_sgd(*said, also=[plan.crossings[DECODER].event(Relation.ADD_REMOVE)])

    def warnings(self, plan: Plan) -> Iterator[str]:
        z = plan.facts["sigma"]
        batch = self.gradients(plan.data).batch
        if z >= batch / 20:
            yield (
                f"The noise is {z:.3g} clipping norms on a sum of {batch} gradients; take a larger batch, fewer steps, "
                "more data or a larger epsilon."
            )

    def small(self) -> DPGAN:
        """The same question by small networks."""
        width = 8 if self.generator == "conv" or self.decoder != "none" else 2
        few = self.at_most(width=width, critic_width=8, latent=4, fakes=8, critic_steps=1, public_steps=1)
        return few.at_most(decoder_steps=1, codes=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        asked = self.gradients(spec)
        fakes = self.fakes or asked.batch
        seen = self._public(public, spec)
        first = Before(self.decoder, spec, self.codes, self.width, self.before(spec), run, public)
        players = self._players(spec, run, label_histogram.shares(self.labels, barrier, run), first)
        real, fake = asked.queries(players.critic)
        preview = Preview(run, players.net, spec)
        state = {"players": players, "preview": preview} | first.kept
        for i in run.steps(first.steps + self.steps, stages=(first.steps,), **state):
            t = i - first.steps
            if t < 0:
                first.step(barrier.release(DECODER, first.asked(i)))  # the barrier
                continue
            if t == 0:
                self._begin(players, asked, first, seen, run, fakes)
            images, labels = players.fakes(fakes, run, t)
            given = images, partner_key(run, t)
            threshold = self._threshold(t, real, players, seen, given, run)
            clip = asked.clip_at(threshold)
            total = barrier.release(CRITIC, replace(real, clip=clip), *given)  # the barrier
            gradient = asked.unit(threshold) * total / asked.batch
            gradient += asked.of_fakes(replace(fake, clip=clip), images, labels, threshold if self.clip_fakes else None)
            players.critic_step(gradient, self.weight_clip)
            if players.turns.due():
                players.generator_step(asked.objective, fakes, run, t)
            preview.snapshot(i, first.steps + self.steps, lambda: players.finished(run.generator("preview statistics")))
        if self.keep_critic:
            run.made[CRITIC] = torch.cat([p.detach().flatten() for p in players.critic.parameters()])
        return players.finished(run.generator("statistics"))

    def _begin(
        self,
        players: Players[Any],
        asked: CriticGradients,
        first: Before,
        seen: Labelled | None,
        run: Run,
        fakes: int,
    ) -> None:
        """Before the first step of the game: the decoder that was learned, and the game on public images."""
        first.end(players.net)
        if seen and self.public_steps:
            public_game(players, asked, seen, run, steps=self.public_steps, fakes=fakes, weight_clip=self.weight_clip)

    def _threshold(
        self,
        t: int,
        real: ClippedGradient,
        players: Players[Any],
        seen: Labelled | None,
        given: tuple[Tensor, Tensor],
        run: Run,
    ) -> float:
        """C at a step: by a public schedule, or the mean norm of gradients of public images."""
        if seen and self.clip_public:
            return typical_norm(real, public_images(players, seen, len(given[0]), run, t), given)
        falling: float = self.clip_decay ** (t / self.steps)
        return self.clip * falling

    def _public(self, public: PublicImages | None, spec: DataSpec) -> Labelled | None:
        if public is None and (self.public_steps or self.clip_public or self.decoder == "public"):
            raise InputError(
                "Expected public images for public_steps, clip_public and decoder=public, found none; name them with "
                "--public."
            )
        return known(public, spec) if public is not None else None

    def _players(self, spec: DataSpec, run: Run, weights: list[float] | None, first: Before) -> Players[Any]:
        return Players(
            self._generator(spec, run, weights),
            self._critic(spec, run, first.encoder),
            Turns(self.critic_steps, self.least, self.grace),
            learning_rate=self.learning_rate,
            critic_learning_rate=self.critic_learning_rate,
            ema_decay=self.ema_decay,
        )

    def _generator(self, spec: DataSpec, run: Run, weights: list[float] | None) -> Generator:
        sizes = (spec.shape, spec.classes, self.latent, self.width)
        if self.decoder != "none":
            return seeded(run, lambda: DecodedGenerator(*sizes, label_weights=weights, codes=self.codes))
        make = GENERATORS[self.generator]
        net: Generator = seeded(run, lambda: make(*sizes, label_weights=weights))
        return net

    def _critic(self, spec: DataSpec, run: Run, encoder: Encoder | None) -> ConvCritic | CodeCritic:
        guesses = OBJECTIVES[self.loss].guesses
        if encoder:
            return seeded(run, lambda: CodeCritic(encoder, self.codes, auxiliary=guesses))
        return seeded(
            run,
            lambda: ConvCritic(
                spec.shape,
                len(spec.classes),
                self.critic_width,
                norm=self.critic_norm,
                heads=self.critic_heads,
                auxiliary=guesses,
            ),
        )
