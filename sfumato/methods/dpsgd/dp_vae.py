"""DP-VAE: a conditional variational autoencoder, all of it trained by DP-SGD. Site B4.

After Acs et al. (DP-GM, ICDM 2017), Chen et al. (DP-VaeGM, 2018) and Abay et al. (DP-SYN, ECML-PKDD 2018).

    q(z | x, c) = N(m(x, c), diag s(x, c)^2)     the encoder
    p(x | z, c)   Bernoulli or Gaussian          the decoder, which is the generator
    l_i         = -log p(x_i | z_i, c_i) + beta KL(q(z | x_i, c_i) || N(0, I)),     z_i = m + s n_i
    released    = sum over a Poisson sample of clip_C(gradient of l_i in encoder and decoder) + N(0, (z C)^2)

Encoder and decoder make one vector that is clipped as a whole: Delta = C (add-remove). A decoder alone, beside an
encoder that saw the data without noise, would have Delta = 2 B C and no amplification (privacy.md 2.13).

With `components` the law of the latent is a mixture of Gaussians for each class, found by DP-EM on the codes of the
trained encoder (as DP-SYN does): `rounds` more crossings that have `share` of the budget.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> sorted(DPVAE(components=3, rounds=2).plan(spec, Budget(epsilon=1)).crossings)
    ['gradient', 'mixture-1', 'mixture-2']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import generator_dpsgd, label_histogram
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.gradients.per_example import Loss
from sfumato.engine.match import warm_cosine
from sfumato.engine.public_pretrain import warm_start
from sfumato.methods.base import Method
from sfumato.methods.dpsgd import mixture
from sfumato.networks.generator import Generator
from sfumato.networks.vae import VAE, VAEGenerator, surprise
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.record_rng import normal, record_keys
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "One conditional network for all classes in place of one for each class or cluster.",
    "The mixture's means and variances come from the same noisy statistics; nothing unreleased is used.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
)
LIKELIHOODS = ("bernoulli", "gaussian")


@dataclass(frozen=True, kw_only=True)
class DPVAE(Method):
    """A differentially private conditional variational autoencoder."""

    steps: int = 1000
    batch: int = 1024  # expected; of a smaller set, a quarter
    noise_multiplicity: int = 1  # latents drawn for a record a step
    clip: float = 1.0  # C
    learning_rate: float = 2e-3  # of Adam
    ema_decay: float = 0.999
    latent: int = 16
    width: int = 32
    likelihood: str = "bernoulli"  # or "gaussian"
    noise: float = 0.3  # deviation of the Gaussian likelihood
    beta: float = 1.0  # weight of the KL term; small ones go with a mixture
    components: int = 0  # of a mixture for each class; 0: N(0, I)
    rounds: int = 5  # of DP-EM
    share: float = 0.1  # of the budget, in squared mu, for the mixture
    bfloat16: bool = False
    public_steps: int = 2000  # where public images are given

    name: ClassVar[str] = "dp-vae"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "variational autoencoder, trained by DP-SGD"
    paper: ClassVar[str] = "Acs, Melis, Castelluccia, De Cristofaro: DP-GM (ICDM 2017)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("explicit", "learnable", "point-wise", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "noise_multiplicity", "latent", "width", "rounds"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise ValueError(f"Expected {name} from 1 to ten million, found {name}={getattr(self, name)}.")
        if self.likelihood not in LIKELIHOODS or self.width % 8 or not 0 <= self.components <= 1000:
            raise ValueError(
                f"Expected likelihood={' or likelihood='.join(LIKELIHOODS)}, width a multiple of 8, up to "
                f"1000 components, found {self.likelihood}, {self.width}, {self.components}."
            )
        if not (0 < self.learning_rate <= 1 and 0 < self.clip < 1e6 and 0 <= self.ema_decay < 1 and 0 < self.share < 1):
            raise ValueError(
                "Expected rate up to 1, clip above 0, average from 0 and share between 0 and 1, found "
                f"{self.learning_rate}, {self.clip}, {self.ema_decay}, {self.share}."
            )
        if not (self.noise > 0 and self.beta >= 0 and self.public_steps >= 0):
            raise ValueError("Expected noise above 0, beta and public_steps of at least 0.")

    def descent(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip; a set smaller than four batches gives a quarter of its records."""
        return DPSGDConfig(self.steps, min(self.batch, max(1, spec.records // 4)), self.clip)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        parts = mixture.crossings(self.rounds, self.share) if self.components else {}
        return generator_dpsgd.plan(
            self, self.descent(spec), spec, budget, deviations=DEVIATIONS, parts=parts, warm=self.public_steps
        )

    def small(self) -> DPVAE:
        """The same gradients of a small network."""
        return self.at_most(width=8, latent=4, public_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net = generator_dpsgd.seeded(
            run, lambda: VAE(VAEGenerator(spec.shape, spec.classes, self.latent, self.width, weights, self.components))
        )
        loss = self.loss()
        warm_start(net, loss, public, spec, run, steps=self.public_steps, noise_multiplicity=self.noise_multiplicity)
        made = generator_dpsgd.train(
            net,
            loss,
            barrier,
            run,
            self.descent(spec),
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            pace=lambda t: warm_cosine(t, self.steps),
            noise_multiplicity=self.noise_multiplicity,
            bfloat16=self.bfloat16,
            generator=net.decoder,
        )
        if self.components:
            reach = 2 * self.latent**0.5  # codes of N(0, I) are rarely longer
            codes = lambda images, labels: net.encoder(images, labels)[0] / reach  # noqa: E731
            generator_dpsgd.place(
                made, mixture.fit(codes, self.components, self.latent, self.rounds, barrier, run), reach
            )
        return made

    def loss(self) -> Loss:
        """Minus the lower bound of each row's likelihood; `keys` are those of `chance.drawing`."""

        def elbo(net: nn.Module, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
            mean, spread = net.encoder(images, labels)  # type: ignore[operator]
            z = mean + torch.exp(spread / 2) * normal(record_keys(images, keys), (self.latent,))
            logits = net.decoder.logits(z, labels)  # type: ignore[operator, union-attr]
            kl = (mean.square() + spread.exp() - 1 - spread).sum(1) / 2
            return surprise(logits, images, self.likelihood, self.noise) + self.beta * kl

        return elbo
