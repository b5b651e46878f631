"""DPGAN: a GAN whose critic learns by DP-SGD (Xie et al. 2018; revised by Bie, Kamath and Zhang 2023). Site B2.

    S          a Poisson sample of the records, each with probability q = batch / records
    released   G_t = sum over S of clip_C( grad l_real(x_i, y_i) ) + N(0, (z C)^2), T times     Delta = C, or 2C
    critic     Adam on G_t / batch + mean over fakes of grad l_fake        the fakes' part is public, without noise
    generator  Adam on the public critic, after every n critic steps       free post-processing

Delta = C under add-remove and 2C under replace-one, as a record's loss is its own: the real term and, for Wasserstein
critics, the penalty between this record and one fake. The losses are in `engine/gan_losses.py`, the loop in
`methods/gan/critic_dpsgd.py`. No layer of the critic mixes examples. The critic is made of released values and may be
published (`keep_critic`).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPGAN(steps=20_000, batch=1024).plan(spec, Budget(epsilon=10))
    >>> round(plan.facts["sigma"], 2), plan.crossings["critic"].times
    (1.39, 20000)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import dpgan as by_paper
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.adversarial import Players, Turns
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.gan_losses import OBJECTIVES
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.public_pretrain import known
from sfumato.errors import InputError
from sfumato.methods.base import Method
from sfumato.methods.gan import critic_dpsgd
from sfumato.methods.gan.critic_dpsgd import GANConfig
from sfumato.networks import kind_of
from sfumato.networks.critic import ConvCritic
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import BudgetShare, Plan, within
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

CRITIC = "critic"  # the crossing
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

    steps: int = 30_000  # T, of the critic
    batch: int = 512  # real records expected a step
    fakes: int = 256  # a step; 0: as many as `batch`
    critic_steps: int = 8  # n, critic steps for one of the generator
    least: float = 0.0  # of the critic's accuracy on fakes, below which n grows; 0: n stays
    grace: int = 200  # generator steps before n grows again
    loss: str = "nonsaturating"  # "wgan" or "acgan"
    penalty: float = 0.0  # lambda, of the gradient penalty
    weight_clip: float = 0.0  # of the critic's weights, as the first WGAN has it; no part of the guarantee
    clip: float = 1.0  # C
    clipping: str = "flat"  # "layers" or "automatic"
    clip_decay: float = 1.0  # the last C over the first
    clip_fakes: bool = True  # fakes are clipped like records
    clip_public: bool = False  # C is the mean norm of gradients of public images
    warm: int = 0  # ordinary steps on public images first
    learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    ema_decay: float = 0.99  # decay of the averaged generator; 0: the last one
    latent: int = 128
    generator: str = "dcgan"  # "deconv" or "conv"
    width: int = 64
    critic_width: int = 128
    critic_norm: bool = False  # group normalisation
    critic_heads: bool = False  # a score for each class, in the place of labels shown beside the image
    bfloat16: bool = False
    keep_critic: bool = False  # in the release

    name: ClassVar[str] = "dpgan"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "GAN with a critic trained by DP-SGD"
    paper: ClassVar[str] = (
        "Xie, Lin, Wang, Wang, Zhou: DPGAN (2018); Bie, Kamath, Zhang: Private GANs, Revisited (TMLR 2023)"
    )
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        critic_dpsgd.check(self)

    def rules(self, spec: DataSpec) -> GANConfig:
        """Of the game between generator and critic; a set smaller than four batches gives a quarter of its records."""
        batch = min(self.batch, max(2, spec.records // 4))
        return GANConfig(
            OBJECTIVES[self.loss],
            self.steps,
            batch,
            self.fakes or batch,
            len(spec.classes),
            self.clip,
            self.clipping,
            self.clip_decay,
            self.clip_fakes,
            self.penalty,
            self.weight_clip,
            self.bfloat16,
        )

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        rules = self.rules(spec)
        others = {}
        descent = DPSGDConfig(self.steps, rules.batch, rules.clip_at(self.clip))
        if self.labels.kind == "private":
            others = {
                label_histogram.CROSSING: BudgetShare(label_histogram.VOTE, self.labels.fraction or 0).crossing(budget)
            }

        def at(noise: float) -> Plan:
            facts = {"steps": self.steps, "sigma": noise, "generator_steps": self.steps // self.critic_steps}
            return Plan(
                self.name,
                self.settings(),
                spec,
                budget,
                {**others, CRITIC: descent.crossing(spec, noise)},
                paper=by_paper(rules.batch / spec.records, noise, self.steps, budget.delta),
                facts=facts,
                labels=label_histogram.describe(self.labels),
                deviations=DEVIATIONS,
                warnings=_warnings(rules.batch, noise),
            )

        return within(budget, at)

    def small(self) -> DPGAN:
        """The same question by small networks."""
        width = 8 if self.generator == "conv" else 2
        return self.at_most(width=width, critic_width=8, latent=4, fakes=8, critic_steps=1, warm=1)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        if public is None and (self.warm or self.clip_public):
            raise InputError("Expected public images for warm and clip_public, found none; name them with --public.")
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net: Generator = seeded(
            run,
            lambda: kind_of(self.generator)(spec.shape, spec.classes, self.latent, self.width, label_weights=weights),
        )
        critic = seeded(
            run,
            lambda: ConvCritic(
                spec.shape,
                len(spec.classes),
                self.critic_width,
                norm=self.critic_norm,
                heads=self.critic_heads,
                auxiliary=OBJECTIVES[self.loss].guesses,
            ),
        )
        players = Players(
            net,
            critic,
            Turns(self.critic_steps, self.least, self.grace),
            learning_rate=self.learning_rate,
            critic_learning_rate=self.critic_learning_rate,
            ema_decay=self.ema_decay,
        )
        made = critic_dpsgd.play(
            players,
            lambda query, *given: barrier.release(CRITIC, query, *given),
            run,  # the barrier
            self.rules(spec),
            Preview(run, net, spec),
            known=known(public, spec) if public else None,
            warm=self.warm,
            follow=self.clip_public,
        )
        if self.keep_critic:
            run.made[CRITIC] = torch.cat([p.detach().flatten() for p in critic.parameters()])
        return made


def _warnings(batch: int, noise: float) -> tuple[str, ...]:
    if noise < batch / 20:
        return ()
    return (
        f"The noise is {noise:.3g} clipping norms on a sum of {batch} gradients; take a larger batch, fewer steps, "
        "more data or a larger epsilon.",
    )
