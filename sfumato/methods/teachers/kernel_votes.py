"""Kernel votes: kernels as teachers, and a generator that explains all of their votes. Sfumato's own; site B3.

DataLens (Wang et al. 2021) shows that a record in one of N parts can change one vote of N, whatever the teacher of a
part is and whatever is done with the noisy sum. Here both are chosen anew:

    teacher i      D_i(x, y) = mean of k(x, r) over its own images r of label y: no training            (mmd_witness)
    v_i            the slope of D_i in a fake image x, cut to length 1 and rounded at random to a lattice
    released       V = sum_i v_i + N(0, sigma^2 I), discrete, for each fake image
    generator      min over G of sum over all queries j of | p_y slope_G(x_j, y_j) - V_j / N |^2      (slope_matching)

    for T steps
        x = G(z), y                                      m fake images and their labels
        every teacher looks at its next records          behind the barrier
        V = the noisy sum of votes at x, y               released
        `fits` steps of G on all queries so far, `finish` more after the last one

k is a mean of cosines of random frequencies, the same for everyone. slope_G is that of the kernel mean of G's own
images, and p_y the part of the teachers that have an image of the label, from the labels' public proportions. Were G's
law the data's, both slopes would agree everywhere: D_i less G's kernel mean is the witness of their maximum mean
discrepancy. Noise averages over all queries, and thousands of steps follow a few of them.

A record lies in one part and may turn one vote over: Delta = 2 (a little more after rounding) under either relation.
The guarantee even holds for all records of a part together.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = KernelVotes().plan(spec, Budget(epsilon=1))
    >>> plan.facts["queries"], round(plan.facts["sigma"] / 64, 1)  # in units of a vote's length
    (4000, 490.9)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, datalens
from sfumato.data.public import PublicImages
from sfumato.engine import label_histogram
from sfumato.engine.student import latents_and_labels
from sfumato.methods.base import Method
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers import wasserstein
from sfumato.methods.teachers.ensemble import WHOLE_PART, few_records
from sfumato.methods.teachers.mmd_witness import KernelTeachers, MMDWitness
from sfumato.methods.teachers.quantise import Lattice
from sfumato.methods.teachers.slope_matching import SlopeMatching, present
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

VOTES = "votes"
UNIT = Lattice(norm=1.0, spacing=1 / 64)  # a vote: a slope, cut to length 1, in whole numbers of 1/64
DEVIATIONS = (
    "A method of its own after DataLens: kernels in place of networks, dense votes of length one in place of signs, "
    "and a generator that is fitted to all votes in place of one step a query.",
)


@dataclass(frozen=True, kw_only=True)
class KernelVotes(Method):
    """Votes of kernel means on how fake images should move, and a generator that explains all of them."""

    teachers: int = count(4000, "N, kernel means, each of its own part of the data")
    teacher_batch: int = count(24, "real images that a teacher looks at in a step")
    frequencies: int = count(4000, "of the kernel, a mean of cosines")
    bandwidth: float = setting(0.214, "width of the kernel / sqrt(pixels), for pixels in [0, 1]", above=0, below=1e6)
    octaves: float = setting(1.5, "widths are spread over so many octaves around the middle one", low=0, high=20)
    steps: int = count(40, "T, times that the teachers are asked")
    batch: int = count(100, "m, fake images a step, each a query")
    fits: int = count(30, "steps of the generator after each step's queries")
    finish: int = count(800, "more steps of the generator after the last query", low=0)
    fakes: int = count(500, "generated images whose slopes are compared with the votes")
    learning_rate: float = setting(3e-3, "of Adam for the generator, at first", above=0, high=1)
    latent: int = count(50, "dimensions of the latent z")
    width: int = count(32, "channels of the generator's last layers", low=8, multiple=8)
    precision: str = setting("tf32", "of the kernels' matrix products", choices=wasserstein.PRECISIONS)

    name: ClassVar[str] = "kernel-votes"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "teachers vote on gradients"
    good_for: ClassVar[str] = (
        "Votes of teachers, where those of networks fail: tens of thousands of small images and a GPU; weak below "
        "epsilon 1."
    )
    paper: ClassVar[str] = "Sfumato's own, after Wang, Wu, Long, Rimanic, Zhang, Li: DataLens (CCS 2021)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "static", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        return {VOTES: crossing(UNIT.bound(spec.pixels), z, times=self.steps * self.batch, held=True)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        votes = plan.crossings[VOTES]
        sigma = votes.mechanism.std(votes.bound)
        return {"queries": votes.times, "steps": self.steps, "sigma": sigma, "part": WHOLE_PART}

    def claim(self, plan: Plan) -> Claim:
        k = plan.crossings[VOTES].bound.norm ** 2  # of signs that are as long
        return datalens(k, plan.facts["sigma"], plan.budget.delta, queries=plan.facts["queries"])

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return few_records(plan.data, self.teachers)

    def small(self) -> KernelVotes:
        """The same votes by a few teachers with few frequencies."""
        few = self.at_most(teachers=8, teacher_batch=2, frequencies=64, batch=4)
        return few.at_most(fakes=4, finish=1, width=8)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        d = spec.pixels
        N = self.teachers
        witness = self._witness(spec)
        G = self._generator(barrier, run)
        student = SlopeMatching(
            G,
            run,
            kernel=witness.kernel,
            present=present(spec.records / N, self.teacher_batch, G.label_weights),
            learning_rate=self.learning_rate,
            fakes=self.fakes,
            total=self.steps * self.fits + self.finish,
            precision=self.precision,
        )

        def vote(block: KernelTeachers, random: torch.Generator, x: Tensor, y: Tensor) -> Tensor:
            return UNIT.encode(block.directions(x, y), random)

        teachers = barrier.hold(witness, N)  # each record in one part
        query = PartitionSum(teachers, vote, UNIT.bound(d), UNIT.shape(d), self.batch)
        preview = Preview(run, G, spec)
        for t in run.steps(self.steps, student=student, teachers=teachers, preview=preview):
            z, y = latents_and_labels(G, self.batch, run, t)
            x = student.fakes(z, y)
            barrier.train(teachers)  # each teacher looks at its next records
            V = barrier.release(VOTES, query, x, y)  # the barrier
            student.hear(x, y, (UNIT.decode(V, d) / N).float())
            for _ in range(self.fits if t < self.steps - 1 else self.fits + self.finish):
                student.step()
            preview.snapshot(t, self.steps, student.finished)
        return student.finished(run.generator("statistics"))

    def _witness(self, spec: DataSpec) -> MMDWitness:
        """What a teacher is."""
        return MMDWitness(
            spec.shape,
            frequencies=self.frequencies,
            bandwidth=self.bandwidth,
            octaves=self.octaves,
            teacher_batch=self.teacher_batch,
            asked=self.batch,
            precision=self.precision,
        )

    def _generator(self, barrier: Barrier, run: Run) -> ConvGenerator:
        """With first weights from the user's seed and the labels' public proportions."""
        spec = barrier.spec
        weights = label_histogram.shares(self.labels, barrier, run)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            return ConvGenerator(spec.shape, spec.classes, self.latent, self.width, weights).to(run.device)
