"""DataLens: thousands of teachers vote on compressed gradients (Wang et al., CCS 2021). Site B3.

Algorithm 1. Input: batch m, teachers N, iterations T, clipping c, top-k, noise sigma, threshold beta, disjoint parts
d_1, ..., d_N of the data, step gamma.

     2  for T iterations
     4      z_1, ..., z_m                                                                        latents
     5      Psi(z_1), ..., Psi(z_m)                                                              fake images
     6      for each fake image j
     8          for each teacher i: update Gamma_i on d_i and the fakes                          behind the barrier
    11              g_j^(i) = - gradient of Gamma_i's loss at Psi(z_j)
                    v_j^(i) = TopkStoSignGrad(g_j^(i), c, k): +1 or -1 on the k pixels where it is largest, at random
                              without bias, and 0 elsewhere                                      (Algorithm 2)
    14          V_j = sum_i v_j^(i) + N(0, sigma^2)                                              released (Algorithm 3)
                g_j = +1 where V_j >= beta N, -1 where V_j <= -beta N, 0 elsewhere
    16          x_j = Psi(z_j) + gamma g_j
    18      one step of Psi on sum_j || Psi(z_j) - x_j ||^2

A record lies in one part and may turn one teacher's vote over: Delta = 2 sqrt(k) under either relation, so that
mu = 2 sqrt(k Q) / sigma after Q = T m fake images. The guarantee even holds for all records of a part together. All
that follows V is free post-processing. With a given sigma, T is as large as the budget allows.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = DataLens(topk=200, sigma=5000).plan(spec, Budget(epsilon=1))
    >>> plan.facts["queries_max"], plan.paper["queries_max"], plan.facts["steps"]
    (2245, 1301, 149)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import most_times
from sfumato.accounting.claims import datalens, datalens_queries
from sfumato.data.public import PublicImages
from sfumato.engine.student import RULES, Student, direction, latents_and_labels
from sfumato.engine.teachers.critics import CriticBlock, Critics
from sfumato.methods.explain import Section
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers import datalens_theorems
from sfumato.methods.teachers.ensemble import WHOLE_PART, CriticEnsemble
from sfumato.methods.teachers.quantise import Lattice, Levels
from sfumato.methods.teachers.sketch import Sketch
from sfumato.methods.teachers.votes import Compression, TopKSigns
from sfumato.networks.generator import LATENT_DISTRIBUTIONS, Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing, events_of
from sfumato.privacy.samplers import FullBatch, Poisson
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

VOTES = "votes"
GAMMA = 1e-3  # Adam, which looks at signs, makes little of it
NOISE = 0.7  # beta N / sigma where no threshold is given, amid the paper's 1/2 to 1
SPACINGS = 64  # of a lattice, in the radius of its ball
ORDERS = ("code", "paper")
FAKE_LABELS = ("own", "query")
SIGNS = ("topk", "dense", "plain-signs")  # compressions of which the paper's theorems speak
COMPRESSIONS = ("topk", "dense", "plain-signs", "levels", "rotated-levels", "lattice", "sketch")
DEVIATIONS = (
    "A record's teacher is found by a keyed hash; the official code walks through the classes and wraps around.",
    "Each teacher has an optimiser of its own; the official code hands its state from teacher to teacher.",
    "The noise is discrete, from a secret source; the official code draws it from a generator with a public seed.",
    "A zero or broken gradient votes nothing; Algorithm 2 divides zero by zero.",
    "Exact accounting in place of the paper's bound: 1.7 times the queries at epsilon 1.",
)


@dataclass(frozen=True, kw_only=True)
class DataLens(CriticEnsemble):
    """DataLens with sound accounting; the ablations of its tables 4, 5 and 7 are settings."""

    topk: int = count(200, "k, pixels that a teacher votes on")
    sigma: float = setting(0.0, "noise of the votes; 0: the least that `steps` allow", low=0, below=1e9)
    threshold: float = setting(0.0, "beta; 0: 0.7 sigma/N, a tiny number for none", low=0, below=1e9)
    clip: float = setting(1e-5, "c, limit of a gradient's entries; 0 for none", low=0, below=1e9)
    order: str = setting("code", "teachers are updated before each batch; paper: before each image", choices=ORDERS)
    compress: str = setting("topk", "how a gradient becomes a vote: Algorithm 2, or another", choices=COMPRESSIONS)
    fake_labels: str = setting("own", "labels of the fakes that a teacher learns from", choices=FAKE_LABELS)
    mismatch: bool = setting(False, "a teacher takes its records under other labels for fakes too")
    critic_norm: bool = setting(True, "batch normalisation of the teachers, of real and fake images apart")
    starts: int = count(0, "different first weights that teachers take in turn; 0: as many as teachers", low=0)
    share: float = setting(1.0, "of the teachers, drawn anew for each image", above=0, high=1)
    rule: str = setting("sign", "how noisy votes become a direction: Algorithm 3, or another", choices=RULES)
    blur: float = setting(0.0, "width of a blur of the noisy votes", low=0, below=1e9, unit="pixels")
    replay: int = count(0, "past queries that are remembered", low=0)
    latent_distribution: str = setting(
        "gaussian", "law of the latent z; the code has the uniform one", choices=LATENT_DISTRIBUTIONS
    )

    name: ClassVar[str] = "datalens"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "teachers vote on gradients"
    good_for: ClassVar[str] = (
        "Studying its paper: thousands of teachers want tens of thousands of records and a GPU, and stay far "
        "behind the others here."
    )
    paper: ClassVar[str] = "Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def compression(self) -> Compression:
        """How a teacher's gradient becomes a vote: Algorithm 2, or what tables 5 and 7 put in its place."""
        if self.compress in ("levels", "rotated-levels"):
            return Levels(clip=self.clip, rotate=self.compress == "rotated-levels")
        if self.compress == "lattice":
            radius = (self.clip or 1.0) * math.sqrt(self.topk)  # as long as a clipped vote can be
            return Lattice(radius, radius / SPACINGS)
        signs = TopKSigns(
            self.topk, self.clip, stochastic=self.compress != "plain-signs", sparse=self.compress != "dense"
        )
        return Sketch(signs) if self.compress == "sketch" else signs

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        sampler = FullBatch() if self.share == 1 else Poisson(self.share)
        votes = crossing(self.compression.bound(spec.pixels), z, sampler, self.steps * self.batch, held=True)
        return {VOTES: votes}

    def calibrated(self, spec: DataSpec, budget: Budget, taken: Mapping[str, Crossing]) -> Mapping[str, Crossing]:
        """The least noise for the steps or, with a given sigma, as many steps as it allows."""
        if not self.sigma:
            return super().calibrated(spec, budget, taken)
        votes = self.crossings(spec, self.sigma / self.compression.bound(spec.pixels).norm)[VOTES]
        steps = most_queries(replace(votes, times=1), tuple(taken.values()), budget) // self.batch
        if not steps:
            raise ValueError(
                f"Expected sigma large enough for one step of {self.batch} queries within epsilon "
                f"{budget.epsilon:g}, found sigma={self.sigma:g}; raise sigma or lower batch."
            )
        return {VOTES: replace(votes, times=steps * self.batch)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        votes = plan.crossings[VOTES]
        beside = tuple(c for name, c in plan.crossings.items() if name != VOTES)
        return {
            "queries": votes.times,
            "queries_max": most_queries(replace(votes, times=1), beside, plan.budget) if self.sigma else votes.times,
            "steps": votes.times // self.batch,
            "sigma": votes.mechanism.std(votes.bound),
            "part": WHOLE_PART,
        }

    def claim(self, plan: Plan) -> dict[str, Any]:
        # A lattice is not in the paper: its k is that of a vote as long.
        k = plan.crossings[VOTES].bound.norm ** 2 if self.compress == "lattice" else self.topk
        sigma = plan.facts["sigma"]
        most = datalens_queries(k, sigma, plan.budget.epsilon, plan.budget.delta)
        return {**datalens(k, sigma, plan.budget.delta, queries=plan.facts["queries"]), "queries_max": most}

    def critics(self, spec: DataSpec) -> Critics:
        """What a teacher is; its first weights are those of others too where `starts` says so."""
        return replace(self._logistic(spec, norm=self.critic_norm), starts=self.starts, mismatch=self.mismatch)

    def remarks(self, plan: Plan) -> Iterable[Section]:
        if self.compress not in SIGNS or self.share < 1:
            said = f"They speak of signs by all teachers, not of compress={self.compress} with share={self.share:g}."
            return [Section("Theorems 4 to 6", (said,))]
        sigma = plan.facts["sigma"]
        d = plan.data.pixels
        at = datalens_theorems.TopAgg(
            d=d,
            k=d if self.compress == "dense" else min(self.topk, d),
            N=self.teachers,
            T=plan.facts["steps"],
            m=self.batch,
            sigma=sigma,
            s=self.threshold * self.teachers or NOISE * sigma,
            delta=plan.budget.delta,
            rate=GAMMA,
        )
        return datalens_theorems.sections(at)

    def small(self) -> DataLens:
        """The same votes by a few small teachers."""
        return super().small().at_most(batch=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        T = barrier.plan.facts["steps"]
        m = self.batch
        N = self.share * self.teachers  # that vote
        compress = self.compression
        sigma = barrier.plan.facts["sigma"] * compress.gain  # of a pixel
        beta = self.threshold or NOISE * sigma / N
        asked = 1 if self.order == "paper" else m  # images between two updates of the teachers

        def vote(block: CriticBlock, random: torch.Generator, x: Tensor, y: Tensor, j: int) -> Tensor:
            g = block.directions(x, y)[:, j : j + asked]  # line 11
            return compress.encode(g, random)  # Algorithm 2

        psi = self.new_generator(barrier, run, self.latent_distribution)
        student = Student(
            psi, learning_rate=self.learning_rate, ema_decay=self.ema_decay, replay=self.replay, scale=GAMMA
        )
        teachers = barrier.hold(self.critics(spec), self.teachers)  # Gamma_1, ..., Gamma_N, on d_1, ..., d_N
        query = PartitionSum(teachers, vote, compress.bound(spec.pixels), compress.shape(spec.pixels), asked)
        preview = Preview(run, psi, spec)
        for t in run.steps(T, student=student, teachers=teachers, preview=preview):
            z, y = latents_and_labels(psi, m, run, t)  # line 4
            x = student.fakes(z, y)  # line 5
            shown = (student.of_every_class(z), None) if self.fake_labels == "own" else (x, y)
            g = []
            for j in range(0, m, asked):  # line 6
                self.teach(barrier, teachers, *shown, first=t == j == 0)  # lines 8 to 10
                V = barrier.release(VOTES, query, x, y, j)  # the barrier: line 14
                V = compress.decode(V, spec.pixels, round(N)).view(-1, *spec.shape)
                g.append(direction(V, teachers=N, sigma=sigma, threshold=beta, blur=self.blur, rule=self.rule))
            student.step(z, y, torch.cat(g))  # lines 16 and 18
            preview.snapshot(t, T, student.finished)
        return student.finished(run.generator("statistics"))


@lru_cache(maxsize=64)
def most_queries(votes: Crossing, beside: tuple[Crossing, ...], budget: Budget) -> int:
    """How many uses of a crossing a budget allows beside others. Kept, since the search may take a second."""

    def events(queries: int) -> list[Any]:
        crossings = {VOTES: replace(votes, times=queries), **{str(i): c for i, c in enumerate(beside)}}
        return events_of(crossings, budget.relation)

    return most_times(events, budget.epsilon, budget.delta)
