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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, pate_gan_independent
from sfumato.data.public import PublicImages
from sfumato.engine.student import latents_and_labels
from sfumato.engine.teachers.critics import CriticBlock
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers.ensemble import GENERATORS, SteepEnsemble
from sfumato.methods.teachers.student_discriminator import (
    TARGETS,
    StudentDiscriminator,
    StudentNetwork,
    above,
    target,
    varied,
)
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import IntegerBound
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

WAYS_TO_VOTE = ("relative", "hard", "drawn")
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
class PATEGAN(SteepEnsemble):
    """PATE-GAN with sound accounting, for images."""

    teachers: int = count(1000, "k in the paper, teachers, each on its own part of the data")
    vote: str = setting(
        "relative", "above the teacher's mean; hard: where D > 0; drawn: by a coin, sigmoid(D)", choices=WAYS_TO_VOTE
    )
    target: str = setting("majority", "what the student is told; majority is the paper's", choices=TARGETS)
    explore: float = setting(0.3, "size of the public noise on images that are asked about", low=0, below=1e9)
    fits: int = count(2, "steps of the student a query")
    moves: int = count(1, "steps of the generator a query")
    replay: int = count(20, "labelled batches that the student remembers", low=0)
    student_learning_rate: float = setting(1e-3, "of Adam for the student", above=0, high=1)
    student_width: int = count(32, "channels of the student's first convolution")
    steps: int = count(1000, "queries of `batch` images")
    batch: int = count(64, "fake images a step, each a query")
    updates: int = count(1, "updates of each teacher a step")
    warmup: int = count(20, "more updates of each teacher before the first step", low=0)
    ema_decay: float = setting(0.99, "decay of the averaged generator; 0 for none", low=0, below=1)
    latent: int = count(32, "dimensions of the latent z")
    generator: str = setting("conv", "the generator's network", choices=GENERATORS)
    hidden: int = count(512, "units of the first layer of generator=dcgan")
    critic_hidden: int = count(128, "units of a teacher's linear layer")

    name: ClassVar[str] = "pate-gan"
    site: ClassVar[Site] = Site.B2
    family: ClassVar[str] = "teachers label fakes for a student"
    good_for: ClassVar[str] = (
        "Tens of thousands of small grey images and a GPU; a vote is one bit about a whole image, and mean "
        "embeddings do better."
    )
    paper: ClassVar[str] = "Yoon, Jordon, van der Schaar: PATE-GAN (ICLR 2019)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.loss == "wasserstein" and self.vote != "relative":
            yield f"Expected loss=logistic for vote={self.vote}: other scores have no zero that means real."

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {VOTES: crossing(YES_NO, z, times=self.steps * self.batch, held=True)}

    def claim(self, plan: Plan) -> Claim:
        laplace = math.sqrt(2) / plan.facts["sigma"][VOTES]  # of the same deviation
        return pate_gan_independent(plan.facts["queries"], laplace, plan.budget.delta)

    def small(self) -> PATEGAN:
        """The same votes by a few small teachers."""
        return super().small().at_most(batch=4, student_width=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        pair = self._pair(self.new_generator(barrier, run), spec, run)
        teachers = barrier.hold(self.critics(spec), self.teachers)  # each record in one part
        query = PartitionSum(teachers, self.votes, YES_NO, (1,), self.batch)
        preview = Preview(run, pair.net, spec)
        for t in run.steps(self.steps, pair=pair, teachers=teachers, preview=preview):
            z, y = latents_and_labels(pair.net, self.batch, run, t)
            x = varied(pair.fakes(z, y), self.explore, run.generator("explore", t))
            self.teach(barrier, teachers, x, y, first=t == 0)
            n_1 = barrier.release(VOTES, query, x, y)[:, 0]  # the barrier
            pair.learn(x, y, target(n_1, self.teachers, self.target), run.generator("replay", t))
            for move in range(self.moves):
                pair.step(*latents_and_labels(pair.net, self.batch, run, self.steps + t * self.moves + move))
            preview.snapshot(t, self.steps, pair.finished)
        return pair.finished(run.generator("statistics"))

    def votes(self, block: CriticBlock, random: torch.Generator, x: Tensor, y: Tensor) -> Tensor:
        """v_i of each teacher and image, 0 or 1."""
        scores = block.scores(x[None], y[None])
        if self.vote == "relative":
            yes = above(scores, y)
        elif self.vote == "hard":
            yes = scores > 0
        else:
            yes = torch.rand(scores.shape, generator=random, device=scores.device) < torch.sigmoid(scores)
        return yes[..., None].to(torch.int8)

    def _pair(self, net: Generator, spec: DataSpec, run: Run) -> StudentDiscriminator:
        """The generator and a student with first weights from the user's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed + 1)
            judge = StudentNetwork(spec.shape, len(spec.classes), self.student_width).to(run.device)
        return StudentDiscriminator(
            net,
            judge,
            learning_rate=self.learning_rate,
            judge_learning_rate=self.student_learning_rate,
            fits=self.fits,
            ema_decay=self.ema_decay,
            replay=self.replay,
        )
