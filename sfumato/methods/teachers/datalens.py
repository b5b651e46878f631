"""DataLens: thousands of teachers vote on compressed gradients (Wang et al., CCS 2021). Site B3.

    teacher i      a critic on its own part of the data, trained as in any GAN                        (Algorithm 1)
    g_i            minus the gradient of its generator loss with respect to one fake image
    v_i            +1 or -1 on the k pixels where |g_i| is largest, at random without bias, 0 elsewhere  (Algorithm 2)
    released       V = sum_i v_i + N(0, sigma^2), discrete, for each fake image                          (Algorithm 3)
    student        one step of G from G(z) towards G(z) + gamma g, where g is the sign of V beyond beta N, else 0

A record lies in one part and may turn one teacher's vote over: Delta = 2 sqrt(k) under either relation, so that
mu = 2 sqrt(k Q) / sigma after Q fake images. The guarantee even holds for all records of a part together. All that
follows V is free post-processing: smoothing, other rules, averaging, replay.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DataLens(topk=200, sigma=5000).plan(spec, Budget(epsilon=1))
    >>> plan.facts["queries_max"], plan.paper["queries_max"], plan.facts["steps"]
    (2245, 1301, 149)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.student import direction
from sfumato.methods.base import Method
from sfumato.methods.teachers import voting
from sfumato.methods.teachers.compressions import compression
from sfumato.methods.teachers.votes import Compression
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Plan
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

DEVIATIONS = (
    "A record's teacher is found by a keyed hash; the official code walks through the classes and wraps around.",
    "Each teacher has an optimiser of its own; the official code hands its state from teacher to teacher.",
    "The noise is discrete, from a secret source; the official code draws it from a generator with a public seed.",
    "A zero or broken gradient votes nothing; Algorithm 2 divides zero by zero.",
    "Exact accounting in place of the paper's bound: 1.7 times the queries at epsilon 1.",
)


@dataclass(frozen=True, kw_only=True)
class DataLens(Method):
    """DataLens with sound accounting; every component can be switched."""

    teachers: int = 4000  # N
    topk: int = 200  # k
    sigma: float = 0.0  # of the votes; 0: the least that `steps` allow within the budget
    threshold: float = 0.0  # beta; 0: 0.7 sigma/N, amid the paper's sigma/2N to sigma/N
    clip: float = 1e-5  # c
    steps: int = 150  # of the generator; with a given sigma as many as the budget allows
    batch: int = 15  # fake images a step, each a query
    teacher_batch: int = 15  # real images a teacher sees in each update
    updates: int = 2  # of each teacher a step
    warmup: int = 10  # updates before the first step
    order: str = "code"  # "paper": the teachers are updated before each image
    compress: str = "topk"  # "levels", "lattice", "unit" or "sketch"
    levels: int = 5  # of compress="levels"
    stochastic: bool = True  # signs drawn at random; else the plain ones
    sparse: bool = True  # only the k largest vote; else all pixels
    share: float = 1.0  # of the teachers, drawn anew for each image
    rule: str = "sign"  # "soft", "tanh", "shrunk", "mean"
    blur: float = 0.0  # pixels, of the noisy votes
    learning_rate: float = 1e-3
    anneal: bool = False  # the rate falls along a cosine to nothing at the end
    student: str = "step"  # or "field": the generator explains all votes so far, not the last ones
    fits: int = 1  # generator steps a query
    finish: int = 0  # of student="field": generator steps after the last query
    cross: bool = False  # of student="field": half of the queries are about another label
    ema_decay: float = 0.0  # decay of the averaged generator
    replay: int = 0  # queries remembered
    latent: int = 50
    latent_distribution: str = "gaussian"  # or "uniform", as in the official code
    generator: str = "dcgan"  # or "conv"
    width: int = 64
    hidden: int = 1024
    conditional: bool = True
    critic: str = "network"  # or "kernel": in closed form
    shown: int = 0  # further fake images that teachers learn from and are not asked about
    critic_width: int = 32
    critic_hidden: int = 256
    critic_norm: bool = True  # batch normalisation, of real and fake images apart
    critic_heads: bool = False  # a last layer of its own for each label
    critic_learning_rate: float = 1e-3
    bandwidth: float = 0.25  # of critic="kernel", in grey levels a pixel
    octaves: float = 0.0  # of critic="kernel": its widths, in turn or in its waves
    waves: int = 0  # of critic="kernel": a sum of so many in place of a Gaussian
    precision: str = "tf32"
    moments: str = "float32"

    name: ClassVar[str] = "datalens"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "teachers vote on gradients"
    paper: ClassVar[str] = "Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        voting.check(self)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        return voting.plan(self, self.votes(), spec, budget, DEVIATIONS)

    def votes(self) -> Compression:
        """How a teacher's direction becomes a vote."""
        return compression(
            self.compress, self.topk, self.clip, stochastic=self.stochastic, sparse=self.sparse, levels=self.levels
        )

    def small(self) -> DataLens:
        """The same votes by a few small teachers."""
        few = self.at_most(
            teachers=8, critic_width=4, critic_hidden=8, warmup=1, teacher_batch=2, shown=4, finish=1, waves=64
        )
        return few.at_most(hidden=8, width=2 if self.generator == "dcgan" else 8, batch=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        facts = barrier.plan.facts
        votes = self.votes()
        d = spec.pixels
        sigma = facts["sigma"] * votes.gain
        steps = facts["steps"]
        m = 1 if self.order == "paper" else self.batch  # images a question is about
        weights = label_histogram.shares(self.labels, barrier, run)
        student = voting.student(self, spec, weights, run, steps)
        teachers = barrier.hold(voting.critics(self, spec), self.teachers)  # each record in one part
        ask = lambda team, random, x, y, j: votes.encode(team.directions(x, y)[:, j : j + m], random)  # noqa: E731
        query = PartitionSum(teachers, ask, votes.bound(d), votes.shape(d), m)
        preview = Preview(run, student.net, spec)

        def voted(x: Tensor, y: Tensor, j: int) -> Tensor:
            noisy = barrier.release("votes", query, x, y, j)  # the barrier
            seen = votes.decode(noisy, d, round(self.share * self.teachers))
            n = self.share * self.teachers
            return direction(
                seen.view(-1, *spec.shape),
                teachers=n,
                sigma=sigma,
                blur=self.blur,
                rule=self.rule,
                threshold=self.threshold or 0.7 * sigma / n,
            )

        for t in run.steps(steps, student=student, teachers=teachers, preview=preview):
            z, y = voting.asked(student.net, self.batch, run, t)
            x = student.fakes(z, y)
            about = student.about(y)
            lesson = voting.lesson(self, student, x, y, run, t)
            moves = []
            for j in range(0, self.batch, m):
                for _ in range(self.updates if t or j else self.warmup + self.updates):
                    barrier.train(teachers, *lesson)
                moves.append(voted(x, about, j))
            student.step(z, y, torch.cat(moves))
            preview.snapshot(t, steps, student.finished)
        return student.finished(run.generator("statistics"))
