"""G-PATE: teachers vote on bins of projected gradients (Long et al., NeurIPS 2021). Site B3.

    teacher i   a critic on its own part of the data, trained as in any GAN                          (Algorithm 1)
    u_i         its direction for one fake image, of length one; u_i R with a public matrix R, d x p  (Algorithm 2)
    v_i         in each of the p dimensions one vote for the bin of [-c, c] that holds the number
    histogram   H = sum_i v_i + N(0, sigma_2^2), discrete, p x B counts          Delta = sqrt(2p), one vote moves
    test        T_j = how many are for the bin that leads in H_j, + N(0, sigma_1^2)    Delta = sqrt(p), a yes or no
    generator   a step along R (centre of the leading bin where T_j >= threshold N, else 0) / p

Both are released for every fake image, whether an answer is then used or not, so that after Q images
mu^2 = Q p (1/sigma_1^2 + 2/sigma_2^2): no number depends on the votes, and which dimensions were answered is public.
The guarantee even holds for all records of a part together.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = GPATE().plan(spec, Budget(epsilon=10))
    >>> plan.facts["queries"], {name: round(sigma) for name, sigma in plan.facts["sigma"].items()}
    (9600, {'histogram': 225, 'test': 675})
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sfumato.accounting.claims import Claim, g_pate
from sfumato.data.public import PublicImages
from sfumato.engine.student import Student, latents_and_labels
from sfumato.engine.teachers.critics import CriticBlock
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers.ensemble import SteepEnsemble
from sfumato.methods.teachers.projections import Binned
from sfumato.networks.generator import LATENT_DISTRIBUTIONS, Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.preview import Preview
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

HISTOGRAM = "histogram"
TEST = "test"
ANSWERS = ("plurality", "mean")
DEVIATIONS = (
    "Data-independent accounting; the paper reports an epsilon that depends on the votes, and stops by it.",
    "The histogram comes first and the test asks about its leading bin, a sum over teachers; the paper tests the "
    "largest count before it answers.",
    "A direction is brought to length one before it is projected, so that bins suit sure and unsure critics alike "
    "(`unit`).",
    "The noise is discrete and from a secret source, a record's teacher found by a keyed hash, and each teacher has an "
    "optimiser of its own; in the official code seed, order and optimiser are shared.",
    "The critics are those of GS-WGAN, with a penalty on their slope; the paper's have a logistic loss (`loss`).",
    "A zero or broken gradient votes nothing.",
)


@dataclass(frozen=True, kw_only=True)
class GPATE(SteepEnsemble):
    """G-PATE with sound accounting."""

    teachers: int = count(2000, "N, critics, each on its own part of the data")
    batch: int = count(64, "m, fake images a step, each a query")
    dimensions: int = count(10, "p, of the projection")
    bins: int = count(10, "B, in each dimension", low=2, high=1000)
    clip: float = setting(2.0, "c, in standard deviations of a projected direction", above=0, below=1e6)
    unit: bool = setting(True, "directions are brought to length one; else c is in units of the gradient")
    ratio: float = setting(3.0, "sigma_1 / sigma_2", low=1e-3, high=1e3)
    threshold: float = setting(0.2, "share of the teachers that must agree", low=0, high=1)
    confident: bool = setting(True, "test the leading bin; else all of the budget is the histogram's")
    answer: str = setting("plurality", "the leading bin; mean: of the bins, weighed by their counts", choices=ANSWERS)
    latent_distribution: str = setting("gaussian", "law of the latent z", choices=LATENT_DISTRIBUTIONS)

    name: ClassVar[str] = "g-pate"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "teachers vote on projected gradients"
    good_for: ClassVar[str] = (
        "Large budgets and tens of thousands of records, shared out among many teachers, with a GPU; weak at epsilon 1."
    )
    paper: ClassVar[str] = "Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li: G-PATE (NeurIPS 2021)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, ...]] = ("implicit", "learnable", "distribution-wise")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    @property
    def votes(self) -> Binned:
        """How a teacher's direction becomes a vote."""
        return Binned(self.dimensions, self.bins, self.clip, self.unit)

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        Q = self.steps * self.batch
        found = {HISTOGRAM: crossing(self.votes.histogram, z, times=Q, held=True)}
        if self.confident:
            found[TEST] = crossing(self.votes.confirmation, self.ratio * z, times=Q, held=True)
        return found

    def claim(self, plan: Plan) -> Claim:
        sigma_2 = plan.facts["sigma"][HISTOGRAM]
        return g_pate(self.dimensions, self.ratio * sigma_2, sigma_2, plan.facts["queries"], plan.budget.delta)

    def small(self) -> GPATE:
        """The same votes by a few small teachers."""
        return super().small().at_most(batch=4)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        spec = barrier.spec
        votes = self.votes
        p = self.dimensions
        N = self.teachers

        def voted(block: CriticBlock, random: torch.Generator, x: Tensor, y: Tensor, R: Tensor) -> Tensor:
            return votes.encode(block.directions(x, y), R)

        def agreed(
            block: CriticBlock, random: torch.Generator, x: Tensor, y: Tensor, R: Tensor, leading: Tensor
        ) -> Tensor:
            return votes.agree(block.directions(x, y), R, leading)

        net = self.new_generator(barrier, run, self.latent_distribution)
        student = Student(net, learning_rate=self.learning_rate, ema_decay=self.ema_decay)
        teachers = barrier.hold(self.critics(spec), N)  # each record in one part
        histogram = PartitionSum(teachers, voted, votes.histogram, (p, self.bins), self.batch)
        test = PartitionSum(teachers, agreed, votes.confirmation, (p,), self.batch)
        preview = Preview(run, net, spec)
        for t in run.steps(self.steps, student=student, teachers=teachers, preview=preview):
            z, y = latents_and_labels(net, self.batch, run, t)
            x = student.fakes(z, y)
            # A Wasserstein critic finds fakes of its own labels by itself; a logistic one is shown some of every class.
            shown = (student.of_every_class(z), None) if self.loss == "logistic" else (x, y)
            self.teach(barrier, teachers, *shown, first=t == 0)
            R = votes.matrix(spec.pixels, run.generator("projection", t)).to(x)
            H = barrier.release(HISTOGRAM, histogram, x, y, R)  # the barrier
            leading = H.argmax(-1)
            agree = barrier.release(TEST, test, x, y, R, leading) if self.confident else H.amax(-1)  # the barrier
            if self.answer == "mean":
                moves = votes.mean(H / N, R)
            else:
                moves = votes.decode(leading, agree >= self.threshold * N, R)
            student.step(z, y, moves.view_as(x))
            preview.snapshot(t, self.steps, student.finished)
        return student.finished(run.generator("statistics"))
