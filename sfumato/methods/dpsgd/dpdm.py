"""DPDM: a diffusion model trained by DP-SGD (Dockhorn, Cao, Vahdat and Kreis, TMLR 2023). Site B4.

    Algorithm 1, for t = 1, ..., T
        B         ~ Poisson sample of the N records x_i in [-1, 1], each with probability |B| / N
        l_i       = 1/K sum_k lambda(sigma_ik) || D(x_i + n_ik; sigma_ik, c_i) - x_i ||^2                    (eq. 7)
                    ln sigma_ik ~ N(P_mean, P_std^2),  n_ik ~ N(0, sigma_ik^2 I)
                    lambda(sigma) = (sigma^2 + sigma_data^2) / (sigma sigma_data)^2
        G         = 1/|B| (sum over B of clip_C(gradient of l_i) + C z),  z ~ N(0, sigma_DP^2 I)      the crossing
        theta     = theta - eta Adam(G)

D is the denoiser of Karras et al. (2022), c_i the class, |B| the expected batch. The K noise levels of a record (noise
multiplicity) are averaged before clipping, so that a step is one event: Delta = C (add-remove), the Poisson pair of
privacy.md 1.4 (replace-one). The levels of a record's copies lie in K equally likely slices of their law, which is the
same law with less variance. Noise of a record is a function of the record, the step and the copy: it does not depend on
who else is in the batch. Averaged weights, guidance and sampler are free post-processing.

With public images come ordinary steps first, on all of them or on those of classes that a noisy histogram chose
(`public_classes.py`); in pixels or among codes (`public_codes.py`); and of the network all is tuned, or a part.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DPDM(steps=1000, batch=4096).plan(spec, Budget(epsilon=10))
    >>> 1.2 < plan.facts["noise"] < 1.5
    True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.dpsgd import GRADIENT
from sfumato.engine.generator_dpsgd import GeneratorDPSGD, seeded
from sfumato.engine.match import warm_cosine
from sfumato.engine.public_pretrain import public_facts, public_pretrain
from sfumato.methods.dpsgd.dpsgd_method import DPSGDMethod
from sfumato.methods.dpsgd.embedding_pretrain import DEVIATION, embedding_images, embedding_shares
from sfumato.methods.dpsgd.noise_levels import AUGMENTS, LEVELS, changed, middle_levels, normal_levels
from sfumato.methods.dpsgd.public_classes import DEVIATION as CHOSEN
from sfumato.methods.dpsgd.public_classes import like_private, query_shares
from sfumato.methods.dpsgd.public_codes import DEVIATION as CODED
from sfumato.methods.dpsgd.public_codes import STAND_IN, teach_codes
from sfumato.methods.settings import count, setting
from sfumato.networks.coded import CodedGenerator
from sfumato.networks.diffusion import SAMPLERS, DiffusionGenerator
from sfumato.networks.generator import Generator
from sfumato.networks.part import ALL, PARTS, adapt, multiplied, train_only
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import BudgetShare, Crossing, Plan
from sfumato.record_rng import normal, record_keys, uniform
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "Noise levels of a record's copies are stratified; the paper draws them independently.",
    "The step's sum is divided by the expected batch, and empty batches are steps.",
    "Loss distributions in place of the paper's Renyi accountant: less noise for the same epsilon.",
    "No FID against private images chooses a checkpoint: the last averaged weights are released.",
)
MOST_POSITIONS = 4096  # maps of 64x64: 16 million pairs of positions for each copy of a record


@dataclass(frozen=True, kw_only=True)
class DPDM(DPSGDMethod):
    """A differentially private diffusion model."""

    batch: int = count(4096, "|B|, expected records of a step; of a smaller set, a quarter")
    noise_multiplicity: int = count(4, "K, noise levels of a record a step")
    learning_rate: float = setting(1e-3, "eta, of Adam", above=0, high=1)
    cosine: bool = setting(True, "the learning rate falls to nothing; else it stays after its rise")
    P_mean: float = setting(-1.2, "mean of ln sigma, the noise levels in training", above=-20, below=20)
    P_std: float = setting(1.2, "deviation of ln sigma", above=0)
    sigma_data: float = setting(0.5, "deviation of pixels in [-1, 1], a public guess", above=0)
    levels: str = setting("normal", "law of the noise levels; middle: by steps of a schedule", choices=LEVELS)
    augment: str = setting("none", "a change of each copy of a record", choices=AUGMENTS)
    drop: float = setting(0.0, "share of labels left out in training, for guidance", low=0, below=1)
    guidance: float = setting(1.0, "of the sampler by labels; 1: none", low=0)
    sampler: str = setting("heun", "of Karras et al.: algorithm 1 or 2", choices=SAMPLERS)
    sampler_steps: int = count(18, "noise levels of the sampler", low=2, high=1000)
    churn: float = setting(20.0, "S_churn, fresh noise of sampler=churn", low=0)
    width: int = count(32, "channels at the highest resolution", low=8, multiple=8)
    depth: int = count(3, "resolutions; widths double from one to the next", high=6)
    blocks: int = count(1, "of a resolution")
    attention: int = count(1, "of the lowest resolutions that have it", low=0)
    patch: int = count(1, "pixels a side that become one position")
    public_steps: int = count(2000, "ordinary steps on public images, where they are given", low=0)
    public_batch: int = count(256, "images of such a step, each with all of its copies")
    query_share: float = setting(
        0.0, "share of the budget, in squared mu, for the choice of public classes", low=0, below=1
    )
    query_classes: int = count(5, "public classes chosen for each class")
    query_steps: int = count(2000, "steps of the classifier of public classes")
    query_width: int = count(128, "its channels")
    codes: int = count(0, "channels of an autoencoder's codes that are denoised; 0: pixels", low=0, high=64)
    code_steps: int = count(4000, "steps of the autoencoder on public images")
    code_width: int = count(32, "its channels", low=8, multiple=8)
    trainable: str = setting(ALL, "what DP-SGD trains: all, or attention and labels", choices=tuple(PARTS))
    adapters: int = count(0, "rank of what is trained beside frozen layers; 0: the layers", low=0, high=256)
    embedding_share: float = setting(
        0.0, "share of the budget, in squared mu, for an embedding whose images come first", low=0, below=1
    )
    embedding_features: int = count(10_000, "random features of that embedding", low=2, multiple=2)
    embedding_steps: int = count(1000, "steps of the generator that is fitted to it")

    name: ClassVar[str] = "dpdm"
    site: ClassVar[Site] = Site.B4
    family: ClassVar[str] = "diffusion model, trained by DP-SGD"
    good_for: ClassVar[str] = (
        "Large budgets (epsilon 10), tens of thousands of records and a GPU, on which it takes minutes."
    )
    paper: ClassVar[str] = "Dockhorn, Cao, Vahdat, Kreis: Differentially Private Diffusion Models (TMLR 2023)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("explicit", "approximate")
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    audit_side: ClassVar[int] = 8

    def contradictions(self) -> Iterator[str]:
        if self.guidance != 1 and not self.drop:
            # A network that never goes without labels cannot be guided by them.
            yield f"Expected drop above 0 for guidance={self.guidance}, found drop=0."
        if self.embedding_share and not self.public_steps:
            yield f"Expected public_steps above 0 for embedding_share={self.embedding_share}, found public_steps=0."
        if self.embedding_share + self.query_share >= 1:
            yield f"Expected embedding_share and query_share below 1 together, found query_share={self.query_share}."
        if self.adapters and self.trainable != ALL:
            yield f"Expected trainable={ALL} for adapters={self.adapters}, found trainable={self.trainable}."

    def shares(self, spec: DataSpec) -> dict[str, BudgetShare]:
        return embedding_shares(self.embedding_share) | query_shares(self.query_share)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        if (found := self.positions(spec)) > MOST_POSITIONS:
            wanted = math.ceil(self.patch * math.sqrt(found / MOST_POSITIONS))
            raise ValueError(
                f"Expected at most {MOST_POSITIONS} positions for attention, found {found} for "
                f"images of {spec.shape[2]}x{spec.shape[1]}; take patch={wanted}, a larger depth, or attention=0."
            )
        return super().crossings(spec, z)

    def positions(self, spec: DataSpec) -> int:
        """At the highest resolution that has attention; 0 without it."""
        smaller = self.patch * 2 ** max(0, self.depth - self.attention)
        return math.prod(-(-side // smaller) for side in spec.shape[1:]) if self.attention else 0

    def facts(self, plan: Plan) -> dict[str, Any]:
        return super().facts(plan) | public_facts(self.public_steps)

    def stated_deviations(self) -> tuple[str, ...]:
        also = ((self.embedding_share, DEVIATION), (self.query_share, CHOSEN), (self.codes, CODED))
        return (*super().stated_deviations(), *(sentence for true, sentence in also if true))

    def public_used(self, public: PublicImages | None) -> dict[str, Any] | None:
        return STAND_IN if self.codes and public is None else super().public_used(public)

    def small(self) -> DPDM:
        """The same gradients of a small network."""
        few = self.at_most(width=8, depth=2, blocks=1, attention=1, sampler_steps=2, noise_multiplicity=2)
        few = few.at_most(query_steps=2, query_width=8, codes=2, code_steps=2, code_width=8, adapters=2)
        return few.at_most(public_steps=2, public_batch=4, embedding_features=20, embedding_steps=2)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        K = self.noise_multiplicity
        weights = label_histogram.shares(self.labels, barrier, run)
        public = like_private(self, public, barrier, run)  # the barrier, where asked: one noisy histogram
        D = seeded(run, lambda: self.denoiser(spec, weights))
        if isinstance(D, CodedGenerator):
            teach_codes(D, public, spec, run, self.code_steps)
        first = [] if public is None else [public]
        if self.embedding_share:
            first.append(embedding_images(self, barrier, run))  # the barrier: one release of DP-MERF
        for images in first:
            public_pretrain(
                D,
                self.loss,
                images,
                spec,
                run,
                steps=self.public_steps,
                batch=self.public_batch,
                noise_multiplicity=K,
                bfloat16=self.bfloat16,
            )
        self.freeze(D, run)
        dpsgd = self.dpsgd(spec)
        sgd = GeneratorDPSGD(
            D,
            self.loss,
            run,
            spec,
            dpsgd,
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            pace=self.pace,
            noise_multiplicity=K,
            bfloat16=self.bfloat16,
        )
        for _ in sgd.steps():  # t = 1, ..., T
            G = barrier.release(GRADIENT, sgd.query)  # the barrier: sum over B of clip_C(gradient of l_i) + C z
            sgd.step(G / dpsgd.batch)  # theta - eta Adam(G)
            sgd.average()  # EMA of theta
        return multiplied(sgd.finished())

    def freeze(self, D: DiffusionGenerator | CodedGenerator, run: Run) -> None:
        """Leave to DP-SGD the part that it is to train."""
        if self.adapters:
            seeded(run, lambda: adapt(D.net, self.adapters))
        elif self.trainable != ALL:
            train_only(D, PARTS[self.trainable])

    def pace(self, t: int) -> float:
        """The factor on eta at a step: up over the first twentieth, then down along a cosine where wanted."""
        return warm_cosine(t, self.steps) if self.cosine else min(1.0, 20 * (t + 1) / self.steps)

    def loss(
        self,
        net: DiffusionGenerator | CodedGenerator,
        images: Tensor,
        labels: Tensor,
        keys: Tensor,
        copy: Tensor,
    ) -> Tensor:
        """lambda(sigma) || D(x + n; sigma, c) - x ||^2 of each row, a record at one of its K noise levels."""
        own = record_keys(images, keys)
        slice_ = (copy + uniform(own, ())) / self.noise_multiplicity
        middle = self.levels == "middle"
        sigma = middle_levels(slice_) if middle else normal_levels(slice_, self.P_mean, self.P_std)
        x = net.seen(changed(images, own, self.augment)) * 2 - 1
        c = labels.where(uniform(own, (), 1) >= self.drop, -1)
        n = sigma[:, None, None, None] * normal(own, x.shape[1:], 2)
        away = net.denoise(x + n, sigma, c) - x
        return away.square().sum((1, 2, 3)) * (sigma.square() + self.sigma_data**2) / (sigma * self.sigma_data).square()

    def denoiser(self, spec: DataSpec, weights: list[float] | None) -> DiffusionGenerator | CodedGenerator:
        """The network before its first step."""
        same = ("width", "blocks", "attention", "patch", "sampler", "sampler_steps", "guidance", "churn", "sigma_data")
        model: dict[str, Any] = {name: getattr(self, name) for name in (*same, "bfloat16")}
        model["multipliers"] = [2**i for i in range(self.depth)]
        if self.codes:
            return CodedGenerator(spec.shape, spec.classes, weights, self.codes, self.code_width, model)
        return DiffusionGenerator(spec.shape, spec.classes, weights, **model)
