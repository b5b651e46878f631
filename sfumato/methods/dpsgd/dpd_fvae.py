"""DPD-fVAE: encoders stay with the data, the decoder is trained privately and shared (Pfitzner and Arnrich 2022). B4.

    N sites     each record lies at one site, by a secret hash; a site has an encoder of its own, which nobody sees
    for t = 1 ... T
        encoders  steps of Adam at each site on its own records, against the public decoder        not released
        g_i       gradient of the decoder, averaged over a batch of site i's records, by its own encoder
        released  sum over sites of clip_C(g_i) + N(0, (z C)^2)            Delta = 2 C under either relation
        decoder   Adam on the sum over the expected number of sites        post-processing

An encoder that saw the data without noise makes everything behind it depend on its records. So nothing here is clipped
record by record: a site's gradient is one term. A record changes its own site's encoder in whatever way, and with it
one term of the sum, from one point of a ball of radius C to another. Encoders of other sites never see it. With `share`
each site takes part in a round by a coin of its own; encoders are trained at all sites in every round, so that the
coins have no say in their state, and the draw is claimed (see `teachers/ensemble.py`).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPDfVAE(steps=100).plan(spec, Budget(epsilon=10))
    >>> plan.crossings["decoder"].times, plan.crossings["decoder"].held
    (100, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.ema import EMA, finished
from sfumato.engine.generator_dpsgd import seeded
from sfumato.engine.gradients.per_example import assign
from sfumato.methods.base import Method
from sfumato.methods.dpsgd.local_encoders import EncoderBlock, LocalEncoders
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers.ensemble import WHOLE_PART, few_records
from sfumato.networks.generator import Generator
from sfumato.networks.vae import VAEGenerator, surprise
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DECODER = "decoder"
REASON = (
    "what DP-FedAvg would state of the same noise: a site that comes or goes moves the sum by C; one whose records "
    "change moves it by 2 C, which is what is charged above"
)
DEVIATIONS = (
    "Sites are parts of one data set by a secret hash, behind one barrier; the paper has clients that a server asks.",
    "A site answers with one gradient a round, clipped as a whole; no gradient is clipped record by record.",
    "Encoders are trained at every site in every round, whether or not it takes part.",
    "Encoders are small dense networks.",
)


@dataclass(frozen=True, kw_only=True)
class DPDfVAE(Method):
    """A decoder trained by noisy sums of gradients of sites, each with a private encoder of its own."""

    sites: int = count(1000, "N, parts of the data, each with an encoder of its own")
    share: float = setting(1.0, "of the sites, that take part in a round", above=0, high=1)
    steps: int = count(200, "T, rounds")
    site_batch: int = count(16, "records that a site looks at in a round")
    local_steps: int = count(2, "steps of a site's encoder a round")
    warmup: int = count(5, "more rounds of the encoders before the first", low=0)
    clip: float = setting(1.0, "C, clipping norm of a site's gradient", above=0, below=1e6)
    learning_rate: float = setting(5e-3, "of Adam for the decoder", above=0, high=1)
    encoder_learning_rate: float = setting(5e-3, "of Adam for the encoders", above=0, high=1)
    ema_decay: float = setting(0.95, "of the averaged decoder", low=0, below=1)
    latent: int = count(8, "dimensions of the latent z")
    width: int = count(8, "channels of the decoder", low=8, multiple=8)
    hidden: int = count(32, "hidden numbers of an encoder")
    beta: float = setting(1.0, "weight of the KL term", low=0)

    name: ClassVar[str] = "dpd-fvae"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "variational autoencoder with a private decoder alone"
    good_for: ClassVar[str] = (
        "Records that lie at many sites which keep their encoders; at large budgets, or with many sites."
    )
    paper: ClassVar[str] = "Pfitzner, Arnrich: DPD-fVAE (2022)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("explicit", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def bound(self) -> Bound:
        """Of one site's gradient."""
        return Bound(self.clip)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        sampler = Poisson(self.share) if self.share < 1 else FullBatch()
        return {DECODER: crossing(self.bound, z, sampler, self.steps, held=True)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        return {"steps": self.steps, "noise": plan.crossings[DECODER].mechanism.multiplier, "part": WHOLE_PART}

    def claim(self, plan: Plan) -> Claim:
        return dp_sgd(self.share, plan.facts["noise"], self.steps, plan.budget.delta, reason=REASON)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return few_records(plan.data, self.sites)

    def small(self) -> DPDfVAE:
        """The same question to a few sites with small networks."""
        few = self.at_most(sites=8, site_batch=2, local_steps=1, warmup=1)
        return few.at_most(width=8, latent=4, hidden=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        decoder = seeded(run, lambda: VAEGenerator(spec.shape, spec.classes, self.latent, self.width, weights))
        rates = (self.hidden, self.encoder_learning_rate, self.local_steps, self.site_batch)
        sites = barrier.hold(LocalEncoders(decoder, self.loss, *rates), self.sites)  # each record at one site
        numbers = sum(p.numel() for p in decoder.parameters())
        query = PartitionSum(sites, slopes, self.bound, (numbers,))
        adam = torch.optim.Adam(decoder.parameters(), lr=self.learning_rate, betas=(0.9, 0.99))
        average = EMA(decoder, self.ema_decay)
        preview = Preview(run, decoder, spec)
        for t in run.steps(self.steps, net=decoder, adam=adam, average=average, sites=sites, preview=preview):
            theta = torch.cat([p.detach().flatten() for p in decoder.parameters()])
            key = torch.randint(2**62, (), generator=run.generator("records", t))
            for _ in range(1 if t else 1 + self.warmup):
                barrier.train(sites, theta, key)
            G = barrier.release(DECODER, query, theta, key)[0]  # the barrier
            assign(decoder, G / (self.share * self.sites))
            adam.step()
            average.update(decoder)
            preview.snapshot(t, self.steps, lambda: finished(decoder, average))
        return finished(decoder, average)

    def loss(self, decoder: VAEGenerator, z: Tensor, images: Tensor, labels: Tensor, kl: Tensor) -> Tensor:
        """Minus the lower bound of each row's likelihood, for a Bernoulli pixel."""
        return surprise(decoder.logits(z, labels), images, "bernoulli", 1.0) + self.beta * kl


def slopes(block: EncoderBlock, random: torch.Generator, theta: Tensor, key: Tensor) -> Tensor:
    """(sites, 1, P): what each site answers."""
    return block.slopes(theta, key)[:, None]
