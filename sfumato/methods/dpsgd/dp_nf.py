"""DP-NF: a normalising flow trained by DP-SGD (Waites and Cummings, AIES 2021). Site B4.

    a_i         low cosine coefficients of x_i + n_i,                         n_i: grain within one of 256 levels
    f_c         an invertible map of coefficients to codes, for each class c: affine couplings
    l_i       = -log N(f_c(a_i); 0, I) - log |det f_c'(a_i)|
    released  = sum over a Poisson sample of clip_C(gradient of l_i) + N(0, (z C)^2)        Delta = C (add-remove)
    sampling    the image of f_c^-1(z), z standard normal: free

All parameters are in the clipped gradient and none is initialised from data: Glow's first batch, which sets its
scaling layers, and flows with batch normalisation would leak (privacy.md 2.12).

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> DPNF().plan(spec, Budget(epsilon=1)).crossings["gradient"].times
    1000
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT
from sfumato.engine.generator_dpsgd import GeneratorDPSGD, seeded
from sfumato.engine.public_pretrain import public_facts, public_pretrain
from sfumato.methods.dpsgd.dpsgd_method import DPSGDMethod
from sfumato.methods.settings import count, setting
from sfumato.networks.flow import FlowGenerator
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.record_rng import record_keys, uniform
from sfumato.run.run import Run
from sfumato.types import Site

DEVIATIONS = (
    "Affine couplings on the low frequencies of an image; the paper has masked autoregressive flows for tables.",
    "No layer is initialised from data; numbers change places by fixed permutations.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
)


@dataclass(frozen=True, kw_only=True)
class DPNF(DPSGDMethod):
    """A differentially private conditional normalising flow."""

    noise_multiplicity: int = count(1, "K, draws of grain for a record a step")
    width: int = count(128, "hidden numbers of a coupling")
    layers: int = count(6, "couplings", high=100)
    frequencies: int = count(12, "of a side that the flow models", low=2)
    temperature: float = setting(0.8, "of the latents when sampling", above=0, high=2)
    public_steps: int = count(2000, "ordinary steps on public images, where they are given", low=0)

    name: ClassVar[str] = "dp-nf"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "normalising flow, trained by DP-SGD"
    good_for: ClassVar[str] = (
        "Small grey images that may be soft, since only low frequencies are modelled; wants many records and a GPU."
    )
    paper: ClassVar[str] = "Waites, Cummings: Differentially Private Normalizing Flows (AIES 2021)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("explicit", "tractable")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def facts(self, plan: Plan) -> dict[str, Any]:
        return super().facts(plan) | public_facts(self.public_steps)

    def small(self) -> DPNF:
        """The same gradients of a small network."""
        return self.at_most(width=8, layers=2, public_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        K = self.noise_multiplicity
        weights = label_histogram.shares(self.labels, barrier, run)
        sizes = (self.width, self.layers, self.frequencies, weights, self.temperature)
        f = seeded(run, lambda: FlowGenerator(spec.shape, spec.classes, *sizes))
        public_pretrain(f, self.loss, public, spec, run, steps=self.public_steps, noise_multiplicity=K)
        dpsgd = self.dpsgd(spec)
        sgd = GeneratorDPSGD(
            f,
            self.loss,
            run,
            spec,
            dpsgd,
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            noise_multiplicity=K,
            bfloat16=self.bfloat16,
        )
        for _ in sgd.steps():
            G = barrier.release(GRADIENT, sgd.query)  # the barrier
            sgd.step(G / dpsgd.batch)
            sgd.average()
        return sgd.finished()

    def loss(self, net: FlowGenerator, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the log density of each row, with grain of its own."""
        grain = uniform(record_keys(images, keys), net.shape)
        return net.surprise(images, grain, labels)
