"""DP-Sinkhorn: noisy gradients of a distance without a critic (Cao, Bie, Vahdat, Fidler and Kreis 2021). Site B3.

    X          a Poisson sample of the records with their labels, rate q = batch / records
    Y          `fakes` generated images with public labels, always as many
    S(X, Y)    the debiased Sinkhorn divergence with a cost of labels (`sinkhorn.py`)
    released   G = clip(dS/dY as a whole, C) + N(0, (2 C z)^2)
    generator  one step with G as the gradient of its images

G is not a sum over records: with one record more or less all of it may change. It stays in a ball of radius C, so that
Delta = 2C under either relation. Nothing private is kept from step to step, so that amplification by sampling holds:
T subsampled Gaussians with multiplier z (`privacy.batch`).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> round(DPSinkhorn(steps=100_000, batch=50).plan(spec, Budget(epsilon=10)).facts["noise"], 2)
    0.51
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, dp_sgd
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.student import Student
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.sinkhorn import Sinkhorn
from sfumato.methods.settings import count, setting
from sfumato.networks import kind_of
from sfumato.networks.generator import LATENT_DISTRIBUTIONS, Generator
from sfumato.networks.labels import allot
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import expected_batch
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

GRADIENT = "gradient"
GENERATORS = ("conv", "dcgan")
REASON = "Renyi DP of Poisson samples; official code makes as many fakes as records were drawn and skips empty draws"
DEVIATIONS = (
    "The number of fakes is constant; the official code takes that of the sampled records, which is private.",
    "An empty sample is a release of noise, not a step that is skipped.",
    "Fully debiased unless `debias` says otherwise; the official code holds a share of the fakes against new ones.",
    "No learned features: a critic on real data would need releases of its own.",
)


@dataclass(frozen=True, kw_only=True)
class DPSinkhorn(Method):
    """DP-Sinkhorn with sound accounting."""

    steps: int = count(20_000, "T, steps of the generator")
    batch: int = count(200, "real images a step, expected")
    fakes: int = count(200, "generated images a step", low=2, high=100_000)
    clip: float = setting(0.5, "C, norm that the gradient of all fakes together is clipped to", low=1e-6, high=1e6)
    blur: float = setting(0.05, "e, weight of the entropy of the transport", above=0)
    mixture: float = setting(1.0, "m, weight of the L1 cost beside the squared L2 cost", low=0, below=1e6)
    label_cost: float = setting(15.0, "w, factor on one-hot labels in the cost", low=0, below=1e6)
    debias: float = setting(1.0, "factor on the transport within each set", low=0, below=1e6)
    rounds: int = count(3, "Sinkhorn updates at each blur")
    learning_rate: float = setting(2e-4, "of Adam for the generator", above=0, high=1)
    ema_decay: float = setting(0.999, "decay of the averaged generator; 0 for no average", low=0, below=1)
    latent: int = count(16, "dimensions of the latent z")
    latent_distribution: str = setting("uniform", "law of the latent z", choices=LATENT_DISTRIBUTIONS)
    generator: str = setting("conv", "the generator's kind", choices=GENERATORS)
    width: int = count(64, "channels of the generator's last layers")
    hidden: int = count(512, "units of the first layer of generator=dcgan")

    name: ClassVar[str] = "dp-sinkhorn"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "noisy gradients of a transport distance"
    good_for: ClassVar[str] = "Small images at large budgets, with a GPU; weak at epsilon 1."
    paper: ClassVar[str] = "Cao, Bie, Vahdat, Fidler, Kreis: DP-Sinkhorn (NeurIPS 2021)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def divergence(self) -> Sinkhorn:
        """The public critic."""
        return Sinkhorn(self.blur, self.mixture, self.label_cost, self.debias, self.rounds)

    def contradictions(self) -> Iterator[str]:
        if self.generator == "conv" and self.width % 8:
            yield f"Expected width as a multiple of 8 for generator=conv, found width={self.width}."

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        sampler = expected_batch(self.batch, spec.records)
        return {GRADIENT: crossing(BatchBound(self.clip), 2 * z, sampler, self.steps)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        noise = plan.crossings[GRADIENT].mechanism.multiplier / 2  # z
        return {"steps": self.steps, "batch": min(self.batch, plan.data.records), "noise": noise}

    def claim(self, plan: Plan) -> Claim:
        q = plan.crossings[GRADIENT].sampler.rate
        return dp_sgd(q, plan.facts["noise"], self.steps, plan.budget.delta, reason=REASON)

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return synthetic_set.unamplified(plan, self.batch)

    def small(self) -> DPSinkhorn:
        """The same releases for a few fakes of a small generator."""
        return self.at_most(fakes=4, width=8, hidden=8, latent=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        net = self._network(spec, label_histogram.shares(self.labels, barrier, run), run)
        student = Student(net, learning_rate=self.learning_rate, ema_decay=self.ema_decay, scale=1.0, total=self.steps)
        preview = Preview(run, net, spec)
        divergence = self.divergence()

        def slope(real: Tensor, real_labels: Tensor, Y: Tensor, labels: Tensor) -> Tensor:
            return divergence.gradient(real.to(Y), real_labels, Y, labels)

        query = BatchValue(slope, BatchBound(self.clip), (self.fakes, *spec.shape))
        for t in run.steps(self.steps, student=student, preview=preview):
            random = run.generator("fakes", t)
            z = net.latents(self.fakes, random).to(run.device)
            labels = allot(self.fakes, net.label_weights, random).to(run.device)
            Y = student.fakes(z, labels)
            G = barrier.release(GRADIENT, query, Y, labels)  # the barrier
            student.step(z, labels, -G)
            preview.snapshot(t, self.steps, student.finished)
        return student.finished(run.generator("statistics"))

    def _network(self, spec: DataSpec, weights: list[float] | None, run: Run) -> Generator:
        """A generator with first weights from the user's seed."""
        more = {"hidden": self.hidden} if self.generator == "dcgan" else {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            net = kind_of(self.generator)(
                spec.shape,
                spec.classes,
                self.latent,
                self.width,
                label_weights=weights,
                latent_distribution=self.latent_distribution,
                **more,
            )
        return net.to(run.device)
