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
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT
from sfumato.engine.generator_dpsgd import GeneratorDPSGD, seeded
from sfumato.engine.public_pretrain import public_facts, public_pretrain
from sfumato.methods.dpsgd import mixture
from sfumato.methods.dpsgd.dpsgd_method import DPSGDMethod
from sfumato.methods.settings import count, setting
from sfumato.networks.generator import Generator
from sfumato.networks.vae import VAE, VAEGenerator, surprise
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import BudgetShare, Plan
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
class DPVAE(DPSGDMethod):
    """A differentially private conditional variational autoencoder."""

    noise_multiplicity: int = count(1, "K, latents drawn for a record a step")
    latent: int = count(16, "dimensions of the latent z")
    width: int = count(32, "channels of encoder and decoder", low=8, multiple=8)
    likelihood: str = setting("bernoulli", "of a pixel", choices=LIKELIHOODS)
    noise: float = setting(0.3, "deviation of the Gaussian likelihood", above=0)
    beta: float = setting(1.0, "weight of the KL term; small ones go with a mixture", low=0)
    components: int = count(0, "of a mixture of latents for each class; 0: N(0, I)", low=0, high=1000)
    rounds: int = count(5, "of DP-EM")
    share: float = setting(0.1, "of the budget, in squared mu, for the mixture", above=0, below=1)
    public_steps: int = count(2000, "ordinary steps on public images, where they are given", low=0)

    name: ClassVar[str] = "dp-vae"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "variational autoencoder, trained by DP-SGD"
    good_for: ClassVar[str] = (
        "Digits and other nearly black-and-white images at large budgets, with many records and a GPU."
    )
    paper: ClassVar[str] = "Acs, Melis, Castelluccia, De Cristofaro: DP-GM (ICDM 2017)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("explicit", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def shares(self, spec: DataSpec) -> dict[str, BudgetShare]:
        return mixture.shares(self.rounds, self.share) if self.components else {}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return super().facts(plan) | public_facts(self.public_steps)

    def small(self) -> DPVAE:
        """The same gradients of a small network."""
        return self.at_most(width=8, latent=4, public_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        K = self.noise_multiplicity
        weights = label_histogram.shares(self.labels, barrier, run)
        sizes = (self.latent, self.width, weights, self.components)
        net = seeded(run, lambda: VAE(VAEGenerator(spec.shape, spec.classes, *sizes)))
        public_pretrain(net, self.loss, public, spec, run, steps=self.public_steps, noise_multiplicity=K)
        dpsgd = self.dpsgd(spec)
        sgd = GeneratorDPSGD(
            net.decoder,
            self.loss,
            run,
            spec,
            dpsgd,
            within=net,
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            noise_multiplicity=K,
            bfloat16=self.bfloat16,
        )
        for _ in sgd.steps():
            G = barrier.release(GRADIENT, sgd.query)  # the barrier
            sgd.step(G / dpsgd.batch)
            sgd.average()
        decoder = sgd.finished()
        if self.components:
            reach: float = 2 * self.latent**0.5  # codes of N(0, I) are rarely longer

            def encode(images: Tensor, labels: Tensor) -> Tensor:
                m: Tensor = net.encoder(images, labels)[0]
                return m / reach

            mixture.place(decoder, mixture.fit(encode, self.components, self.latent, self.rounds, barrier, run), reach)
        return decoder

    def loss(self, net: VAE, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the lower bound of each row's likelihood."""
        m, log_variance = net.encoder(images, labels)
        z = m + torch.exp(log_variance / 2) * normal(record_keys(images, keys), (self.latent,))
        logits = net.decoder.logits(z, labels)
        kl: Tensor = (m.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        return surprise(logits, images, self.likelihood, self.noise) + self.beta * kl
