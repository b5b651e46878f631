"""GS-WGAN: noisy gradients of critics on disjoint parts (Chen, Orekondy and Fritz, NeurIPS 2020). Site B3.

    critic i   on its own part of the data, all of them trained at every step, before the first one for longer
    g_i        its gradient with respect to one fake image, clipped to C = 1 (or brought to length 1)     (eq. 7)
    released   g = sum over the drawn critics of g_i + N(0, sigma^2 I), for each fake image               (eq. 6, 8)
    generator  a step along g, by the chain rule through G(z)

Each critic is drawn by its own coin, of probability 1/N, for each query. A record lies in one part and may turn one
critic's answer round: the pair is (1-q) N(0) + q N(C) against (1-q) N(0) + q N(-C), with q = 1/N, composed by its
loss distribution. `fix="a"` draws for each image: T m events. `fix="b"` draws once a step, for all m images: T events
of length sqrt(m) C. The paper draws once and charges as if it had drawn m times; see docs/methods/gs-wgan.md.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = GSWGAN(steps=20_000).plan(spec, Budget(epsilon=10))
    >>> round(plan.facts["sigma"]["gradient"], 2), plan.crossings["gradient"].times
    (0.9, 640000)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import gs_wgan, gs_wgan_sound
from sfumato.data.public import PublicImages
from sfumato.engine.student import Student, direction
from sfumato.methods.base import Method
from sfumato.methods.teachers import pate
from sfumato.methods.teachers.projections import clipped_length, unit_length
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

GRADIENT = "gradient"
DEVIATIONS = (
    "Critics are drawn by a coin each, at rate 1/N: none, one or more answer a query; the paper draws exactly one.",
    "Critics are drawn anew for each image (fix a), or the images of a step are one event (fix b); the official code "
    "draws once a step and charges once an image.",
    "All critics are trained at every step; the official code trains the one that was drawn, so that secret draws "
    "shape later answers.",
    "A record's critic is found by a keyed hash; the official code cuts the data into slices.",
    "Fake batches have one size, and no step is made beyond those that are counted.",
    "A critic compares its records with fakes of their own labels; gradients are brought to length C, where the paper "
    "clips those that its penalty holds near it.",
)


@dataclass(frozen=True, kw_only=True)
class GSWGAN(Method):
    """GS-WGAN with sound accounting, in either of its two repairs."""

    teachers: int = 1000  # N critics
    fix: str = "a"  # critics drawn for each image; "b": once a step
    share: float = 0.0  # of the critics in a query; 0: 1/N, and 1 asks all of them
    clip: float = 1.0  # C
    sigma: float = 0.0  # of the noise, in units of 2C as in the paper; 0: the least that the steps allow
    loss: str = "wasserstein"  # of the critics, with a penalty on their slope; or "logistic", without
    penalty: float = 10.0  # lambda
    unit: bool = True  # gradients brought to length C, where the penalty would hold them; else only clipped
    steps: int = 2000  # T
    batch: int = 32  # m fake images a step
    teacher_batch: int = 16  # real images a critic sees in each update
    updates: int = 1  # of each critic a step
    warmup: int = 50  # updates before the first step
    blur: float = 0.0  # pixels, of the noisy gradients
    learning_rate: float = 2e-4
    ema_decay: float = 0.99  # decay of the averaged generator
    latent: int = 32
    generator: str = "conv"  # or "dcgan"
    width: int = 64
    hidden: int = 512  # of dcgan
    critic_width: int = 32
    critic_hidden: int = 128
    critic_norm: bool = False
    critic_learning_rate: float = 1e-3
    precision: str = "tf32"
    moments: str = "float32"

    name: ClassVar[str] = "gs-wgan"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "noisy gradients of drawn critics"
    paper: ClassVar[str] = "Chen, Orekondy, Fritz: GS-WGAN (NeurIPS 2020)"
    framework: ClassVar[str] = "Gaussian mechanism"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        pate.check(self, least=("blur", "share", "sigma", "penalty"), choices={"fix": ("a", "b"), "loss": pate.LOSSES})
        if not (0 < self.clip < 1e6 and self.share <= 1):
            raise ValueError(f"Expected clip above 0 and share up to 1, found clip={self.clip}, share={self.share}.")

    @property
    def drawn(self) -> float:
        """The chance of each critic to be asked."""
        return self.share or 1 / self.teachers

    @property
    def bound(self) -> Bound:
        """Of one critic's answer to one query."""
        return Bound(self.clip * (1 if self.fix == "a" else math.sqrt(self.batch)))

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        sampler = Poisson(self.drawn) if self.drawn < 1 else FullBatch()
        times = self.steps * (self.batch if self.fix == "a" else 1)

        def at(noise: float) -> dict[str, Crossing]:
            return {GRADIENT: crossing(self.bound, noise, sampler, times, held=True)}

        def claim(made: Mapping[str, Crossing]) -> dict[str, Any]:
            sigma = made[GRADIENT].mechanism.std(self.bound) / (2 * self.clip)
            asked = max(2, round(1 / self.drawn)), sigma, self.batch, self.steps
            told = sigma > 0.15 * math.sqrt(self.batch)  # below, it is out of reach of the accountant
            official = gs_wgan_sound(*asked, budget.delta) if told else None  # of the paper's draws, with this noise
            return {**gs_wgan(*asked, budget.delta), "official_draws_sound": official}

        given = 2 * self.clip * self.sigma / self.bound.norm
        return pate.plan(self, spec, budget, at, claim=claim, deviations=DEVIATIONS, queries=times, noise=given)

    def small(self) -> GSWGAN:
        """The same draws of a few small critics."""
        return self.at_most(
            teachers=8, critic_width=4, critic_hidden=8, warmup=1, teacher_batch=2, latent=4, hidden=8, width=8
        )

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        sigma = barrier.plan.facts["sigma"][GRADIENT]
        student = Student(
            pate.generator(self, barrier, run), learning_rate=self.learning_rate, ema_decay=self.ema_decay
        )
        critics = barrier.hold(pate.critics(self, spec), self.teachers)  # each record in one part
        of_step = self.fix == "b"
        shape = (self.batch, spec.pixels) if of_step else (spec.pixels,)
        query = PartitionSum(critics, self._answers, self.bound, shape, 1 if of_step else self.batch)

        def ask(step: int, x: Tensor, y: Tensor) -> Tensor:
            noisy = barrier.release(GRADIENT, query, x, y)  # the barrier
            return direction(
                noisy.view(-1, *spec.shape),
                teachers=self.drawn * self.teachers,
                sigma=sigma,
                threshold=0.0,
                blur=self.blur,
                rule="soft",
            )

        return pate.follow(self, barrier, run, critics, student, ask)

    def _answers(self, team: Any, random: torch.Generator, x: Tensor, y: Tensor) -> Tensor:
        found = len(x) * team.directions(x, y)  # of each image's own loss
        found = self.clip * unit_length(found) if self.unit else clipped_length(found, self.clip)
        return found[:, None] if self.fix == "b" else found
