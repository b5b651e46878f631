"""DP-Sinkhorn: noisy gradients of a distance without a critic (Cao, Bie, Vahdat, Fidler and Kreis 2021). Site B3.

    X          a Poisson sample of the records with their labels, rate q = batch / records
    Y          `fakes` generated images with public labels, always as many
    S(X, Y)    the debiased Sinkhorn divergence with a cost of labels (`measure.sinkhorn`)
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

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.student import Student
from sfumato.methods.base import Method
from sfumato.methods.sets import synthetic_set
from sfumato.methods.sets.sinkhorn import Sinkhorn
from sfumato.methods.teachers.voting import fresh
from sfumato.networks.generator import LAWS, Generator
from sfumato.networks.labels import allot
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.batch import BatchValue
from sfumato.privacy.bounds import BatchBound
from sfumato.privacy.plan import Plan
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

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

    steps: int = 20_000  # T
    batch: int = 200  # real images a step, expected
    fakes: int = 200  # generated images a step
    clip: float = 0.5  # C
    blur: float = 0.05  # of the entropy
    mixture: float = 1.0  # m: weight of the L1 cost beside the squared L2 cost
    label_cost: float = 15.0  # factor on one-hot labels
    debias: float = 1.0
    rounds: int = 3  # Sinkhorn updates at each blur
    learning_rate: float = 2e-4
    ema_decay: float = 0.999  # decay of the averaged generator
    latent: int = 16
    latent_distribution: str = "uniform"
    generator: str = "conv"  # or "dcgan"
    width: int = 64
    hidden: int = 512  # of generator="dcgan"

    name: ClassVar[str] = "dp-sinkhorn"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "noisy gradients of a transport distance"
    paper: ClassVar[str] = "Cao, Bie, Vahdat, Fidler, Kreis: DP-Sinkhorn (NeurIPS 2021)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "static", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "latent", "width", "hidden"):
            if not 1 <= getattr(self, name) <= 1_000_000:
                raise ValueError(f"Expected {name} from 1 to a million, found {name}={getattr(self, name)}.")
        if not (2 <= self.fakes <= 100_000 and 0 < self.learning_rate <= 1 and 1e-6 <= self.clip <= 1e6):
            raise ValueError(
                f"Expected fakes from 2 to 100000, rate above 0 and up to 1, clip from 1e-6 to 1e6, found "
                f"fakes={self.fakes}, rate={self.learning_rate}, clip={self.clip}."
            )
        for name, allowed in {"generator": GENERATORS, "latent_distribution": LAWS}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"Expected {name}={f' or {name}='.join(allowed)}, found {getattr(self, name)}.")
        if self.generator == "conv" and self.width % 8 or not 0 <= self.ema_decay < 1:
            raise ValueError("Expected width as a multiple of 8 for generator=conv, and average from 0 to below 1.")
        self.divergence()

    def divergence(self) -> Sinkhorn:
        """The public critic."""
        return Sinkhorn(self.blur, self.mixture, self.label_cost, self.debias, self.rounds)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return synthetic_set.plan(
            self,
            "gradient",
            BatchBound(self.clip),
            spec,
            budget,
            batch=self.batch,
            steps=self.steps,
            unit=2.0,
            deviations=DEVIATIONS,
            reason=REASON,
        )

    def small(self) -> DPSinkhorn:
        """The same releases for a few fakes of a small generator."""
        return self.at_most(fakes=4, width=8, hidden=8, latent=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        divergence = self.divergence()
        weights = label_histogram.shares(self.labels, barrier, run)
        net = fresh(
            self.generator,
            spec,
            weights,
            run,
            latent=self.latent,
            width=self.width,
            hidden=self.hidden,
            latent_distribution=self.latent_distribution,
        )
        student = Student(net, learning_rate=self.learning_rate, ema_decay=self.ema_decay, scale=1.0, total=self.steps)
        preview = Preview(run, net, spec)

        def slope(images: Tensor, labels: Tensor, x: Tensor, y: Tensor) -> Tensor:
            return divergence.gradient(images.to(x), labels, x, y)

        query = BatchValue(slope, BatchBound(self.clip), (self.fakes, *spec.shape))
        for t in run.steps(self.steps, student=student, preview=preview):
            random = run.generator("fakes", t)
            z = net.latents(self.fakes, random).to(run.device)
            y = allot(self.fakes, net.label_weights, random)
            x = student.fakes(z, y.to(run.device))
            released = barrier.release("gradient", query, x, y.to(run.device))  # the barrier
            student.step(z, y.to(run.device), -released)
            preview.snapshot(t, self.steps, student.finished)
        return student.finished(run.generator("statistics"))
