"""GS-WGAN: noisy gradients of critics on disjoint parts (Chen, Orekondy and Fritz, NeurIPS 2020). Site B3.

    critic i   on its own part of the data, all of them trained at public times, before the first one for longer
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
from sfumato.engine.student import Student, direction, latents_and_labels
from sfumato.engine.teachers.critics import CriticBlock
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers.ensemble import GENERATORS, SteepEnsemble
from sfumato.methods.teachers.projections import clipped_length, unit_length
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import Bound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

GRADIENT = "gradient"
DEVIATIONS = (
    "Critics are drawn by a coin each, at rate 1/N: none, one or more answer a query; the paper draws exactly one.",
    "Critics are drawn anew for each image (fix a), or the images of a step are one event (fix b); the official code "
    "draws once a step and charges once an image.",
    "All critics are trained at the same public times (`every`); the official code trains the one that was drawn, so "
    "that secret draws shape later answers.",
    "A record's critic is found by a keyed hash; the official code cuts the data into slices.",
    "Fake batches have one size, and no step is made beyond those that are counted.",
    "A critic compares its records with fakes of their own labels; gradients are brought to length C, where the paper "
    "clips those that its penalty holds near it.",
)


@dataclass(frozen=True, kw_only=True)
class GSWGAN(SteepEnsemble):
    """GS-WGAN with sound accounting, in either of its two repairs."""

    teachers: int = count(1000, "N, critics, each on its own part of the data")
    fix: str = setting("a", "critics are drawn for each image; b: once a step", choices=("a", "b"))
    share: float = setting(0.0, "of the critics in a query; 0: 1/N, and 1 asks all of them", low=0, high=1)
    clip: float = setting(1.0, "C, length of a critic's gradient", above=0, below=1e6)
    sigma: float = setting(0.0, "noise in units of 2C; 0: the least that the steps allow", low=0, below=1e9)
    unit: bool = setting(True, "gradients are brought to length C, where the penalty would hold them; else clipped")
    blur: float = setting(0.0, "width of a blur of the noisy gradients", low=0, below=1e9, unit="pixels")
    steps: int = count(2000, "T, steps of the generator")
    batch: int = count(32, "m, fake images a step")
    teacher_batch: int = count(16, "real images that a critic sees in each update")
    updates: int = count(1, "updates of each critic at a time")
    every: int = count(1, "steps from one update of all critics to the next")
    warmup: int = count(50, "more updates of each critic before the first step", low=0)
    learning_rate: float = setting(2e-4, "of Adam for the generator", above=0, high=1)
    ema_decay: float = setting(0.99, "decay of the averaged generator; 0 for none", low=0, below=1)
    latent: int = count(32, "dimensions of the latent z")
    generator: str = setting("conv", "the generator's network", choices=GENERATORS)
    hidden: int = count(512, "units of the first layer of generator=dcgan")
    critic_hidden: int = count(128, "units of a critic's linear layer")

    name: ClassVar[str] = "gs-wgan"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "noisy gradients of drawn critics"
    good_for: ClassVar[str] = (
        "Tens of thousands of small images, shared out among many critics, with a GPU; mean embeddings do better."
    )
    paper: ClassVar[str] = "Chen, Orekondy, Fritz: GS-WGAN (NeurIPS 2020)"
    framework: ClassVar[str] = "DP-SGD"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def drawn(self) -> float:
        """The chance of each critic to be asked."""
        return self.share or 1 / self.teachers

    @property
    def bound(self) -> Bound:
        """Of one critic's answer to one query."""
        return Bound(self.clip * (1 if self.fix == "a" else math.sqrt(self.batch)))

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        sampler = Poisson(self.drawn) if self.drawn < 1 else FullBatch()
        times = self.steps * (self.batch if self.fix == "a" else 1)
        return {GRADIENT: crossing(self.bound, z, sampler, times, held=True)}

    def calibrated(self, spec: DataSpec, budget: Budget, taken: Mapping[str, Crossing]) -> Mapping[str, Crossing]:
        """The least noise, or a given one that is no less."""
        least = super().calibrated(spec, budget, taken)
        if not self.sigma:
            return least
        given = self.crossings(spec, 2 * self.clip * self.sigma / self.bound.norm)
        missing = least[GRADIENT].mechanism.std(self.bound) / given[GRADIENT].mechanism.std(self.bound)
        if missing > 1:
            raise ValueError(
                f"Expected sigma at least {missing:.4g} times as large for epsilon {budget.epsilon:g}, found "
                f"sigma={self.sigma:g}; raise it, or leave it at 0 for the least that fits."
            )
        return given

    def claim(self, plan: Plan) -> dict[str, Any]:
        sigma = plan.facts["sigma"][GRADIENT] / (2 * self.clip)
        asked = max(2, round(1 / self.drawn)), sigma, self.batch, self.steps
        told = sigma > 0.15 * math.sqrt(self.batch)  # below, it is out of reach of the accountant
        official = gs_wgan_sound(*asked, plan.budget.delta) if told else None  # of the paper's draws, with this noise
        return {**gs_wgan(*asked, plan.budget.delta), "official_draws_sound": official}

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        sigma = barrier.plan.facts["sigma"][GRADIENT]
        asked = self.drawn * self.teachers
        net = self.new_generator(barrier, run)
        student = Student(net, learning_rate=self.learning_rate, ema_decay=self.ema_decay)
        critics = barrier.hold(self.critics(spec), self.teachers)  # each record in one part
        images = self.batch if self.fix == "a" else 1  # that are queries of their own
        shape = (spec.pixels,) if self.fix == "a" else (self.batch, spec.pixels)
        query = PartitionSum(critics, self.answers, self.bound, shape, images)
        preview = Preview(run, net, spec)
        for t in run.steps(self.steps, student=student, teachers=critics, preview=preview):
            z, y = latents_and_labels(net, self.batch, run, t)
            x = student.fakes(z, y)
            if t % self.every == 0:
                self.teach(barrier, critics, x, y, first=t == 0)
            g = barrier.release(GRADIENT, query, x, y).view_as(x)  # the barrier
            student.step(z, y, direction(g, teachers=asked, sigma=sigma, threshold=0.0, blur=self.blur, rule="soft"))
            preview.snapshot(t, self.steps, student.finished)
        return student.finished(run.generator("statistics"))

    def answers(self, block: CriticBlock, random: torch.Generator, x: Tensor, y: Tensor) -> Tensor:
        """g_i of each critic and image, of length C or at most that; all of a step in one row with `fix="b"`."""
        g = len(x) * block.directions(x, y)  # of each image's own loss
        g = self.clip * unit_length(g) if self.unit else clipped_length(g, self.clip)
        return g[:, None] if self.fix == "b" else g
