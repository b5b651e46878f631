"""DP-VAE: a conditional variational autoencoder, all of it trained by DP-SGD. Site B4.

After Acs et al. (DP-GM, ICDM 2017), Chen et al. (DP-VaeGM, 2018) and Abay et al. (DP-SYN, ECML-PKDD 2018).

    q(z | x, c) = N(m(x, c), diag s(x, c)^2)     the encoder
    p(x | z, c)   Bernoulli or Gaussian          the decoder, which is the generator
    l_i         = -log p(x_i | z_i, c_i) + beta KL(q(z | x_i, c_i) || N(0, I)),     z_i = m + s n_i
    released    = sum over a Poisson sample of clip_C(gradient of l_i in encoder and decoder) + N(0, (z C)^2)

Encoder and decoder make one vector that is clipped as a whole: Delta = C (add-remove). A decoder alone, beside an
encoder that saw the data without noise, would have Delta = 2 B C and no amplification (B13 of the gallery).

With `components` the law of the latent is a mixture of Gaussians for each class, found by DP-EM on the codes of the
trained encoder (as DP-SYN does): `rounds` more crossings that have `share` of the budget.

With `models` there is an autoencoder for each class (DP-VaeGM, DP-SYN) or for each cluster of a private kernel k-means
(DP-GM). A record's gradient lies in the weights of its own autoencoder and is 0 in all others, so that the gradients of
all of them side by side are clipped as one and Delta stays C: each class has the whole budget.

With `second` the encoder is frozen and a second stage of DP-SGD follows: see `second_stage.py`.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> sorted(DPVAE(components=3, rounds=2).plan(spec, Budget(epsilon=1)).crossings)
    ['gradient', 'mixture-1', 'mixture-2']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT, DPSGDConfig, in_stages
from sfumato.engine.generator_dpsgd import GeneratorDPSGD, seeded
from sfumato.engine.public_pretrain import public_facts, public_pretrain
from sfumato.methods.dpsgd import clusters, mixture
from sfumato.methods.dpsgd.dpsgd_method import DPSGDMethod
from sfumato.methods.dpsgd.second_stage import STAGES, SecondStage
from sfumato.methods.settings import count, setting
from sfumato.networks.generator import Generator
from sfumato.networks.latent_flow import EncodedFlow, LatentFlow
from sfumato.networks.several_vaes import Pair, SeveralDecoders, SeveralVAEs
from sfumato.networks.vae import VAE, VAEGenerator, surprise
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import BudgetShare, Crossing, Plan
from sfumato.record_rng import normal, record_keys
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

ONE = "One conditional network for all classes in place of one for each class or cluster."
TOLD = "Decoders of clusters are told the class; the share of each cluster in a class comes out of the last round."
DEVIATIONS = (
    "The mixture's means and variances come from the same noisy statistics; nothing unreleased is used.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
)
LIKELIHOODS = ("bernoulli", "gaussian")
MODELS = ("one", "class", "cluster")
FLOW_WIDTH = 64  # hidden numbers of a coupling


@dataclass(frozen=True, kw_only=True)
class DPVAE(DPSGDMethod):
    """A differentially private conditional variational autoencoder."""

    noise_multiplicity: int = count(1, "K, latents drawn for a record a step")
    latent: int = count(16, "dimensions of the latent z")
    width: int = count(32, "channels of encoder and decoder", low=8, multiple=8)
    likelihood: str = setting("bernoulli", "of a pixel", choices=LIKELIHOODS)
    noise: float = setting(0.3, "deviation of the Gaussian likelihood", above=0)
    beta: float = setting(1.0, "weight of the KL term; small ones go with a mixture", low=0)
    models: str = setting("one", "an autoencoder for all, for each class or for each cluster", choices=MODELS)
    clusters: int = count(10, "of a private k-means, with models=cluster", low=2, high=1000)
    components: int = count(0, "of a mixture of latents for each class; 0: N(0, I)", low=0, high=1000)
    rounds: int = count(5, "of DP-EM, or of k-means")
    share: float = setting(0.1, "of the budget, in squared mu, for the mixture or the clusters", above=0, below=1)
    second: str = setting("none", "second stage behind the frozen encoder: a new decoder, or a flow", choices=STAGES)
    second_steps: int = count(500, "of DP-SGD in the second stage")
    couplings: int = count(6, "of the flow", high=100)
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

    def contradictions(self) -> Iterator[str]:
        if self.models == "cluster" and self.components:
            yield f"Expected components=0 for models=cluster, whose clusters are the mixture, found {self.components}."
        if self.second != "none" and self.models != "one":
            yield f"Expected models=one for a second stage, found models={self.models} and second={self.second}."
        if self.second == "flow" and (self.components or self.latent < 2):
            yield f"Expected components=0 and latent from 2 for second=flow, found {self.components}, {self.latent}."

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        first = super().crossings(spec, z)
        return first if self.second == "none" else first | {self.second: self.again(spec).crossing(spec, z)}

    def again(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip of the second stage."""
        return replace(self.dpsgd(spec), steps=self.second_steps)

    def shares(self, spec: DataSpec) -> dict[str, BudgetShare]:
        if self.models == "cluster":
            return clusters.shares(self.rounds, self.share)
        return mixture.shares(self.rounds, self.share) if self.components else {}

    def stated_deviations(self) -> tuple[str, ...]:
        return {"one": (ONE,), "class": (), "cluster": (TOLD,)}[self.models] + super().stated_deviations()

    def facts(self, plan: Plan) -> dict[str, Any]:
        return super().facts(plan) | public_facts(self.public_steps)

    def small(self) -> DPVAE:
        """The same gradients of a small network."""
        few = self.at_most(width=8, latent=4, clusters=3, couplings=2, public_steps=2)
        return few if self.second == "none" else few.at_most(steps=1)  # so that the second stage is seen

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net = self.network(weights, barrier, run)
        K = self.noise_multiplicity
        public_pretrain(net, self.loss, public, spec, run, steps=self.public_steps, noise_multiplicity=K)
        first = GeneratorDPSGD(net.decoder, self.loss, run, spec, self.dpsgd(spec), within=net, **self.training())
        trainings = {GRADIENT: first} | self.second_stage(first, weights, spec, run)
        for name, sgd in in_stages(trainings):
            G = barrier.release(name, sgd.query)  # the barrier
            sgd.step(G / sgd.config.batch)
            sgd.average()
        decoder = [*trainings.values()][-1].finished()
        if self.components:
            reach: float = 2 * self.latent**0.5  # codes of N(0, I) are rarely longer

            def encode(images: Tensor, labels: Tensor) -> Tensor:
                m: Tensor = net.encoder(images, labels)[0]
                return m / reach

            found = mixture.fit(encode, self.components, self.latent, self.rounds, barrier, run)
            for each in getattr(decoder, "decoders", [decoder]):
                mixture.place(each, found, reach)
        return decoder

    def training(self) -> dict[str, Any]:
        """How the generators of both stages are trained."""
        return {
            "learning_rate": self.learning_rate,
            "ema_decay": self.ema_decay,
            "noise_multiplicity": self.noise_multiplicity,
            "bfloat16": self.bfloat16,
        }

    def network(self, weights: list[float] | None, barrier: Barrier, run: Run) -> VAE | SeveralVAEs:
        """What is to be trained; which record belongs to which cluster is found first."""
        spec = barrier.spec
        sizes = (self.latent, self.width, weights, self.components)
        if self.models == "one":
            return seeded(run, lambda: VAE(VAEGenerator(spec.shape, spec.classes, *sizes)))
        if self.models == "class":
            return seeded(run, lambda: SeveralVAEs(SeveralDecoders(spec.shape, spec.classes, *sizes), by_label))
        found = clusters.fit(self.clusters, self.rounds, barrier, run)
        decoder = seeded(run, lambda: SeveralDecoders(spec.shape, spec.classes, *sizes, self.clusters))
        decoder.choice.copy_(found.choice)
        return seeded(run, lambda: SeveralVAEs(decoder, found.own))

    def second_stage(
        self, first: GeneratorDPSGD, weights: list[float] | None, spec: DataSpec, run: Run
    ) -> dict[str, GeneratorDPSGD]:
        """The training that follows the first, by the name of its crossing."""
        if self.second == "none":
            return {}
        sizes = (spec.shape, spec.classes, self.latent, self.width, weights)
        asked = (run, spec, self.again(spec))
        if self.second == "flow":
            flow = seeded(run, lambda: EncodedFlow(LatentFlow(*sizes, FLOW_WIDTH, self.couplings)))
            made = SecondStage(first, flow.flow, self.flow_loss, *asked, flow, **self.training())
        else:
            again = seeded(run, lambda: VAE(VAEGenerator(*sizes, self.components)))
            again.encoder.requires_grad_(False)
            made = SecondStage(first, again.decoder, self.loss, *asked, again, **self.training())
        return {self.second: made}

    def loss(self, net: VAE | Pair | SeveralVAEs, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the lower bound of each row's likelihood; of several networks, by its own."""
        if isinstance(net, SeveralVAEs):
            each = [self.loss(pair, images, labels, keys, copy) for pair in net.pairs()]
            return net.of_own(each, images, labels)
        z, kl = self.code(net, images, labels, keys)
        logits = net.decoder.logits(z, labels)
        return surprise(logits, images, self.likelihood, self.noise) + self.beta * kl

    def flow_loss(self, net: EncodedFlow, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the log density of each row's code."""
        return net.flow.surprise(self.code(net, images, labels, keys)[0], labels)

    def code(
        self, net: VAE | Pair | EncodedFlow, images: Tensor, labels: Tensor, keys: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A code of each row, drawn from q, and how far q is from N(0, I)."""
        m, log_variance = net.encoder(images, labels)
        z: Tensor = m + torch.exp(log_variance / 2) * normal(record_keys(images, keys), (self.latent,))
        kl: Tensor = (m.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        return z, kl


def by_label(images: Tensor, labels: Tensor) -> Tensor:
    """The autoencoder of its class is a record's own."""
    return labels
