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
from typing import ClassVar

from torch import Tensor, nn

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import generator_dpsgd, label_histogram
from sfumato.engine.dpsgd import DPSGDConfig
from sfumato.engine.match import warm_cosine
from sfumato.engine.public_pretrain import warm_start
from sfumato.methods.base import Method
from sfumato.networks.flow import FlowGenerator
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.record_rng import record_keys, uniform
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Affine couplings on the low frequencies of an image; the paper has masked autoregressive flows for tables.",
    "No layer is initialised from data; numbers change places by fixed permutations.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
)


@dataclass(frozen=True, kw_only=True)
class DPNF(Method):
    """A differentially private conditional normalising flow."""

    steps: int = 1000
    batch: int = 1024  # expected; of a smaller set, a quarter
    noise_multiplicity: int = 1  # draws of grain for a record a step
    clip: float = 1.0  # C
    learning_rate: float = 2e-3  # of Adam
    ema_decay: float = 0.999
    width: int = 128
    layers: int = 6
    frequencies: int = 12  # of a side that the flow models
    temperature: float = 0.8  # of the latents when sampling
    bfloat16: bool = False
    public_steps: int = 2000  # where public images are given

    name: ClassVar[str] = "dp-nf"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "normalising flow, trained by DP-SGD"
    paper: ClassVar[str] = "Waites, Cummings: Differentially Private Normalizing Flows (AIES 2021)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("explicit", "static", "point-wise", "tractable")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "noise_multiplicity", "width", "layers", "frequencies"):
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise ValueError(f"Expected {name} from 1 to ten million, found {name}={getattr(self, name)}.")
        if not (
            0 < self.learning_rate <= 1
            and 0 < self.clip < 1e6
            and 0 <= self.ema_decay < 1
            and 0 < self.temperature <= 2
        ):
            raise ValueError(
                "Expected rate up to 1, clip above 0, average below 1 and temperature up to 2, found "
                f"{self.learning_rate}, {self.clip}, {self.ema_decay}, {self.temperature}."
            )
        if self.layers > 100 or self.public_steps < 0 or self.frequencies < 2:
            raise ValueError(
                "Expected up to 100 layers, public_steps from 0 and frequencies from 2, found "
                f"{self.layers}, {self.public_steps}, {self.frequencies}."
            )

    def descent(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip; a set smaller than four batches gives a quarter of its records."""
        return DPSGDConfig(self.steps, min(self.batch, max(1, spec.records // 4)), self.clip)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return generator_dpsgd.plan(
            self, self.descent(spec), spec, budget, deviations=DEVIATIONS, warm=self.public_steps
        )

    def small(self) -> DPNF:
        """The same gradients of a small network."""
        return self.at_most(width=8, layers=2, public_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net = generator_dpsgd.seeded(
            run,
            lambda: FlowGenerator(
                spec.shape, spec.classes, self.width, self.layers, self.frequencies, weights, self.temperature
            ),
        )
        warm_start(
            net, self.loss, public, spec, run, steps=self.public_steps, noise_multiplicity=self.noise_multiplicity
        )
        return generator_dpsgd.train(
            net,
            self.loss,
            barrier,
            run,
            self.descent(spec),
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            pace=lambda t: warm_cosine(t, self.steps),
            noise_multiplicity=self.noise_multiplicity,
            bfloat16=self.bfloat16,
        )

    def loss(self, net: nn.Module, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
        """Minus the log density of each row, with grain of its own."""
        grain = uniform(record_keys(images, keys), net.shape)  # type: ignore[arg-type]
        return net.surprise(images, grain, labels)  # type: ignore[operator]
