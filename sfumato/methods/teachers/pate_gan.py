"""PATE-GAN: teachers vote real or fake, a student learns from the noisy count (Yoon et al., ICLR 2019). Site B2.

    teacher i   a critic D_i on its own part of the data, trained as in any GAN                      (Algorithm 1)
    v_i         1 if D_i finds a fake image better than the others of its label in the batch, on average, else 0;
                `vote="hard"`: 1 if it takes it for real (D_i > 0); `vote="drawn"`: 1 with probability sigmoid(D_i)
    released    n_1 = sum_i v_i + N(0, sigma^2), discrete, for each fake image
    student     a discriminator, trained on fake images and what n_1 says about them; it never sees a real one
    generator   against the student

The number of teachers is public, so the count of the other votes says nothing new. A record lies in one part and may
turn one vote over: Delta = 1 under either relation, mu = sqrt(Q) / sigma after Q = steps x batch labels. Q is fixed
beforehand; the paper stops by a number that depends on the votes. All that follows n_1 is free post-processing.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = PATEGAN().plan(spec, Budget(epsilon=10))
    >>> plan.facts["queries"], round(plan.facts["sigma"]["votes"])
    (64000, 126)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import pate_gan_independent
from sfumato.data.public import PublicImages
from sfumato.methods.base import Method
from sfumato.methods.teachers import pate
from sfumato.methods.teachers.student_discriminator import (
    TARGETS,
    StudentDiscriminator,
    StudentNetwork,
    above,
    target,
    varied,
)
from sfumato.methods.teachers.voting import asked
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import IntegerBound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

VOTES = "votes"
YES_NO = IntegerBound(1, low=0, coordinates=1)
DEVIATIONS = (
    "Only the noisy count of real votes is released; the paper adds noise to both counts, at twice the squared cost.",
    "The noise is Gaussian and discrete, in place of Laplace, which composes worse over thousands of labels.",
    "The number of labels is fixed beforehand; the paper stops by an epsilon that depends on the votes.",
    "The student and the teachers are convolutional and conditional on the label; the paper is about tables.",
    "A teacher votes for images above its own mean over the batch, as it soon takes none at all for real; teachers are "
    "Wasserstein critics, and images are asked about with public noise on them.",
    "A record's teacher is found by a keyed hash, and each teacher has an optimiser of its own.",
)


@dataclass(frozen=True, kw_only=True)
class PATEGAN(Method):
    """PATE-GAN with sound accounting, for images."""

    teachers: int = 1000  # k in the paper
    vote: str = "relative"  # above the teacher's mean; "hard": where D is above 0; "drawn": by a coin, sigmoid(D)
    target: str = "majority"  # what the student is told: as in the paper, or "share" or "rank"
    loss: str = "wasserstein"  # of the teachers, with a penalty on their slope; or "logistic" as in the paper
    penalty: float = 10.0  # on it
    explore: float = 0.3  # size of the public noise on images that are asked about
    steps: int = 1000  # of queries
    batch: int = 64  # fake images a step, each a query
    teacher_batch: int = 15  # real images a teacher sees in each update
    updates: int = 1  # of each teacher a step
    warmup: int = 20  # updates before the first step
    fits: int = 2  # steps of the student a query
    moves: int = 1  # steps of the generator a query
    replay: int = 20  # labelled batches that the student remembers
    learning_rate: float = 1e-3
    student_rate: float = 1e-3
    student_width: int = 32
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

    name: ClassVar[str] = "pate-gan"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "teachers label fakes for a student"
    paper: ClassVar[str] = "Yoon, Jordon, van der Schaar: PATE-GAN (ICLR 2019)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        choices = {"vote": ("relative", "hard", "drawn"), "target": TARGETS, "loss": pate.LOSSES}
        counts = ("fits", "moves", "student_width")
        least = ("replay", "explore", "penalty")
        pate.check(self, counts=counts, least=least, choices=choices)
        if self.loss == "wasserstein" and self.vote != "relative":
            raise ValueError(f"Expected loss=logistic for vote={self.vote}: other scores have no zero that means real.")
        if not 0 < self.student_rate <= 1:
            raise ValueError(f"Expected student_rate above 0 and up to 1, found student_rate={self.student_rate}.")

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        queries = self.steps * self.batch

        def at(noise: float) -> dict[str, Crossing]:
            return {VOTES: crossing(YES_NO, noise, times=queries, held=True)}

        def claim(made: Mapping[str, Crossing]) -> dict[str, Any]:  # Laplace noise of the same deviation
            return dict(pate_gan_independent(queries, math.sqrt(2) / made[VOTES].mechanism.std(YES_NO), budget.delta))

        return pate.plan(self, spec, budget, at, claim=claim, deviations=DEVIATIONS, queries=queries)

    def small(self) -> PATEGAN:
        """The same votes by a few small teachers."""
        few = self.at_most(
            teachers=8, critic_width=4, critic_hidden=8, warmup=1, teacher_batch=2, latent=4, hidden=8, batch=4
        )
        return few.at_most(width=8, student_width=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        pair = self._pair(pate.generator(self, barrier, run), spec, run)
        teachers = barrier.hold(pate.critics(self, spec), self.teachers)  # each record in one part
        query = PartitionSum(teachers, self._votes, YES_NO, (1,), self.batch)
        preview = Preview(run, pair.net, spec)
        for t in run.steps(self.steps, pair=pair, teachers=teachers, preview=preview):
            z, y = asked(pair.net, self.batch, run, t)
            x = varied(pair.fakes(z, y), self.explore, run.generator("explore", t))
            pate.teach(self, barrier, teachers, t, x, y)
            votes = barrier.release(VOTES, query, x, y)[:, 0]  # the barrier
            pair.learn(x, y, target(votes, self.teachers, self.target), run.generator("replay", t))
            for move in range(self.moves):
                pair.step(*asked(pair.net, self.batch, run, self.steps + t * self.moves + move))
            preview.snapshot(t, self.steps, pair.finished)
        return pair.finished(run.generator("statistics"))

    def _votes(self, team: Any, random: torch.Generator, x: Tensor, y: Tensor) -> Tensor:
        scores = team.scores(x[None], y[None])
        if self.vote != "drawn":
            return (above(scores, y) if self.vote == "relative" else scores > 0)[..., None].to(torch.int8)
        drawn = torch.rand(scores.shape, generator=random, device=scores.device) < torch.sigmoid(scores)
        return drawn[..., None].to(torch.int8)

    def _pair(self, net: Generator, spec: DataSpec, run: Run) -> StudentDiscriminator:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed + 1)
            judge = StudentNetwork(spec.shape, len(spec.classes), self.student_width).to(run.device)
        return StudentDiscriminator(
            net,
            judge,
            learning_rate=self.learning_rate,
            judge_rate=self.student_rate,
            fits=self.fits,
            ema_decay=self.ema_decay,
            replay=self.replay,
        )
