"""DPDM: a diffusion model trained by DP-SGD (Dockhorn, Cao, Vahdat and Kreis, TMLR 2023). Site B4.

    D(x; s, c)  the denoiser of Karras et al. (2022): x = y + s n, n ~ N(0, I); c the class; y the image in [-1, 1]
    l_i         1/K sum_k lambda(s_k) || D(y_i + s_k n_k; s_k, c_i) - y_i ||^2,   ln s_k ~ N(level, width^2)  (eq. 7)
                lambda(s) = (s^2 + d^2) / (s d)^2
    released    G_t = sum over a Poisson sample of clip_C(gradient of l_i) + N(0, (z C)^2)                (Algorithm 1)

The K noise levels of a record (noise multiplicity) are averaged before clipping, so that a step is one event:
Delta = C (add-remove), the Poisson pair of privacy.md 1.4 (replace-one). The levels of a record's copies lie in K
equally likely slices of their law, which is the same law with less variance. Noise of a record is a function of the
record, the step and the copy: it does not depend on who else is in the batch. Averaged weights, guidance and sampler
are free post-processing.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPDM(steps=1000, batch=4096).plan(spec, Budget(epsilon=10))
    >>> 1.2 < plan.facts["noise"] < 1.5
    True
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
from sfumato.methods.dpsgd.embedding_pretrain import check_draft, draft, parts, told
from sfumato.networks.diffusion import SAMPLERS, DiffusionGenerator
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.record_rng import normal, record_keys, uniform
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Noise levels of a record's copies are stratified; the paper draws them independently.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
    "Loss distributions in place of the paper's Renyi accountant: less noise for the same epsilon.",
    "No FID against private images chooses a checkpoint: the last averaged weights are released.",
)


@dataclass(frozen=True, kw_only=True)
class DPDM(Method):
    """A differentially private diffusion model."""

    steps: int = 1000
    batch: int = 4096  # expected; of a smaller set, a quarter
    noise_multiplicity: int = 4  # K, noise levels of a record a step
    clip: float = 1.0  # C
    learning_rate: float = 1e-3  # of Adam
    cosine: bool = True  # the rate falls to nothing; else it stays after its rise
    ema_decay: float = 0.999  # decay of the averaged weights
    level: float = -1.2  # mean of ln s
    width_of_levels: float = 1.2  # and its deviation
    spread: float = 0.5  # d, deviation of pixels, a public guess
    drop: float = 0.0  # share of labels left out in training, for guidance
    guidance: float = 1.0  # 1: none
    sampler: str = "heun"  # or "churn"
    sampler_steps: int = 18  # noise levels of the sampler
    churn: float = 20.0
    width: int = 32
    depth: int = 3  # resolutions; widths double from one to the next
    blocks: int = 1
    attention: int = 1  # of the lowest resolutions
    patch: int = 1  # pixels a side that become one position
    bfloat16: bool = False
    public_steps: int = 2000  # where public images are given
    public_batch: int = 256  # images, each with all of its copies
    draft: float = 0.0  # share of the budget for images that the network learns from first (`train.draft`)
    draft_features: int = 10_000
    draft_steps: int = 1000

    name: ClassVar[str] = "dpdm"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "diffusion model, trained by DP-SGD"
    paper: ClassVar[str] = "Dockhorn, Cao, Vahdat, Kreis: Differentially Private Diffusion Models (TMLR 2023)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, str, str, str]] = ("explicit", "static", "point-wise", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    audit_side: ClassVar[int] = 8

    def __post_init__(self) -> None:
        counts = (
            "steps",
            "batch",
            "noise_multiplicity",
            "width",
            "depth",
            "blocks",
            "patch",
            "sampler_steps",
            "public_batch",
            "draft_features",
            "draft_steps",
        )
        for name in counts:
            if not 1 <= getattr(self, name) <= 10_000_000:
                raise ValueError(f"Expected {name} from 1 to ten million, found {name}={getattr(self, name)}.")
        if self.sampler not in SAMPLERS or self.width % 8 or not 2 <= self.sampler_steps <= 1000 or self.depth > 6:
            raise ValueError(
                f"Expected sampler={' or sampler='.join(SAMPLERS)}, width a multiple of 8, 2 to 1000 "
                f"evaluations and depth up to 6, found {self.sampler}, {self.width}, {self.sampler_steps}, "
                f"{self.depth}."
            )
        if not (0 < self.learning_rate <= 1 and 0 < self.clip < 1e6 and 0 <= self.ema_decay < 1 and 0 <= self.drop < 1):
            raise ValueError(
                "Expected rate up to 1, clip above 0, average and drop from 0 to below 1, found "
                f"{self.learning_rate}, {self.clip}, {self.ema_decay}, {self.drop}."
            )
        if not (self.width_of_levels > 0 and self.spread > 0 and self.public_steps >= 0 and abs(self.level) < 20):
            raise ValueError("Expected width_of_levels and spread above 0, public_steps from 0, level within 20.")
        check_draft(self)
        if self.guidance != 1 and not self.drop:
            raise ValueError("Expected drop above 0 with guidance: a network that never goes without labels has none.")

    def descent(self, spec: DataSpec) -> DPSGDConfig:
        """Steps, batch and clip; a set smaller than four batches gives a quarter of its records."""
        return DPSGDConfig(self.steps, min(self.batch, max(1, spec.records // 4)), self.clip)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return generator_dpsgd.plan(
            self,
            self.descent(spec),
            spec,
            budget,
            deviations=DEVIATIONS + told(self.draft),
            parts=parts(self.draft),
            warm=self.public_steps,
        )

    def small(self) -> DPDM:
        """The same gradients of a small network."""
        few = self.at_most(width=8, depth=2, blocks=1, attention=1, sampler_steps=2, noise_multiplicity=2)
        return few.at_most(public_steps=2, public_batch=4, draft_features=20, draft_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        net = generator_dpsgd.seeded(
            run,
            lambda: DiffusionGenerator(
                spec.shape,
                spec.classes,
                weights,
                self.width,
                [2**i for i in range(self.depth)],
                self.blocks,
                self.attention,
                self.patch,
                self.sampler,
                self.sampler_steps,
                self.guidance,
                self.churn,
                spread=self.spread,
                bfloat16=self.bfloat16,
            ),
        )
        loss = self.loss()
        warm = [] if public is None else [public]
        if self.draft:
            warm.append(draft(self, barrier, run))  # the barrier
        for images in warm:
            warm_start(
                net,
                loss,
                images,
                spec,
                run,
                steps=self.public_steps,
                batch=self.public_batch,
                noise_multiplicity=self.noise_multiplicity,
                bfloat16=self.bfloat16,
            )
        pace = lambda t: warm_cosine(t, self.steps) if self.cosine else min(1.0, 20 * (t + 1) / self.steps)  # noqa: E731
        return generator_dpsgd.train(
            net,
            loss,
            barrier,
            run,
            self.descent(spec),
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            pace=pace,
            noise_multiplicity=self.noise_multiplicity,
            bfloat16=self.bfloat16,
        )

    def loss(self) -> Loss:
        """The denoising loss of each row; `keys` and `copy` are those of `chance.drawing`."""

        def denoising(net: nn.Module, images: Tensor, labels: Tensor, keys: Tensor, copy: Tensor) -> Tensor:
            own = record_keys(images, keys)
            d = self.spread
            slice_ = (copy + uniform(own, ())) / self.noise_multiplicity
            s = (self.level + self.width_of_levels * torch.special.ndtri(slice_.clamp(1e-6, 1 - 1e-6))).exp()
            y = images * 2 - 1
            seen = labels.where(uniform(own, (), 1) >= self.drop, -1)
            noisy = y + s[:, None, None, None] * normal(own, images.shape[1:], 2)
            away = net.denoise(noisy, s, seen) - y  # type: ignore[operator]
            return away.square().sum((1, 2, 3)) * (s.square() + d * d) / (s * d).square()

        return denoising
