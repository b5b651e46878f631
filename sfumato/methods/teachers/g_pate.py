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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sfumato.accounting.budget import Budget
from sfumato.accounting.claims import g_pate
from sfumato.data.public import PublicImages
from sfumato.engine.student import Student
from sfumato.methods.base import Method
from sfumato.methods.teachers import pate
from sfumato.methods.teachers.projections import Binned
from sfumato.networks.generator import Generator
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan, crossing
from sfumato.run.run import Run
from sfumato.types import DataSpec, Site

HISTOGRAM = "histogram"
TEST = "test"
DEVIATIONS = (
    "Data-independent accounting; the paper reports an epsilon that depends on the votes, and stops by it.",
    "The histogram comes first and the test asks about its leading bin, a sum over teachers; the paper tests the "
    "largest count before it answers.",
    "A direction is brought to length one before it is projected, so that bins suit sure and unsure critics alike.",
    "The noise is discrete and from a secret source, a record's teacher found by a keyed hash, and each teacher has an "
    "optimiser of its own; in the official code seed, order and optimiser are shared.",
    "The critics are those of GS-WGAN, with a penalty on their slope; the paper's have a logistic loss (`loss`).",
    "A zero or broken gradient votes nothing.",
)


@dataclass(frozen=True, kw_only=True)
class GPATE(Method):
    """G-PATE with sound accounting."""

    teachers: int = 2000  # N
    dimensions: int = 10  # p
    bins: int = 10  # B
    clip: float = 2.0  # c, in standard deviations of a projected direction
    ratio: float = 3.0  # sigma_1 / sigma_2
    threshold: float = 0.2  # share of teachers that must agree
    confident: bool = True  # False: no test, and all of the budget for the histogram
    answer: str = "plurality"  # or "mean": of the bins' centres, as the noisy counts weigh them
    loss: str = "wasserstein"  # of the critics, with a penalty on their slope; or "logistic"
    penalty: float = 10.0  # lambda
    steps: int = 150  # of the generator
    batch: int = 64  # fake images a step, each a query
    teacher_batch: int = 15  # real images a teacher sees in each update
    updates: int = 2  # of each teacher a step
    warmup: int = 10  # updates before the first step
    learning_rate: float = 1e-3
    ema_decay: float = 0.0  # decay of the averaged generator
    latent: int = 50
    generator: str = "dcgan"  # or "conv"
    width: int = 64
    hidden: int = 1024
    critic_width: int = 32
    critic_hidden: int = 256
    critic_norm: bool = False  # batch normalisation of logistic critics, of real and fake images apart
    critic_learning_rate: float = 1e-3
    precision: str = "tf32"
    moments: str = "float32"

    name: ClassVar[str] = "g-pate"
    site: ClassVar[Site] = Site.B3
    family: ClassVar[str] = "teachers vote on projected gradients"
    paper: ClassVar[str] = "Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li: G-PATE (NeurIPS 2021)"
    framework: ClassVar[str] = "PATE"
    axes: ClassVar[tuple[str, str, str, str]] = ("implicit", "learnable", "distribution-wise", "approximate")
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS

    def __post_init__(self) -> None:
        pate.check(
            self,
            counts=("dimensions",),
            least=("penalty",),
            choices={"answer": ("plurality", "mean"), "loss": pate.LOSSES},
        )
        if not (1e-3 <= self.ratio <= 1e3 and 0 <= self.threshold <= 1 and 2 <= self.bins <= 1000):
            raise ValueError(
                "Expected ratio from 0.001 to 1000, threshold from 0 to 1 and bins from 2 to 1000, found "
                f"ratio={self.ratio}, threshold={self.threshold}, bins={self.bins}."
            )
        self.votes()

    def votes(self) -> Binned:
        """How a teacher's direction becomes a vote."""
        return Binned(self.dimensions, self.bins, self.clip)

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        votes = self.votes()
        queries = self.steps * self.batch

        def at(noise: float) -> dict[str, Crossing]:
            found = {HISTOGRAM: crossing(votes.histogram, noise, times=queries, held=True)}
            test = {TEST: crossing(votes.confirmation, self.ratio * noise, times=queries, held=True)}
            return found | (test if self.confident else {})

        def claim(made: Mapping[str, Crossing]) -> dict[str, Any]:
            answers = made[HISTOGRAM].mechanism.std(votes.histogram)
            return g_pate(self.dimensions, self.ratio * answers, answers, queries, budget.delta)

        return pate.plan(self, spec, budget, at, claim=claim, deviations=DEVIATIONS, queries=queries)

    def small(self) -> GPATE:
        """The same votes by a few small teachers."""
        few = self.at_most(
            teachers=8, critic_width=4, critic_hidden=8, warmup=1, teacher_batch=2, latent=4, hidden=8, batch=4
        )
        return few.at_most(width=2 if self.generator == "dcgan" else 8)

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Generator:
        votes = self.votes()
        d = barrier.spec.pixels
        m = self.batch
        student = Student(
            pate.generator(self, barrier, run), learning_rate=self.learning_rate, ema_decay=self.ema_decay
        )
        teachers = barrier.hold(pate.critics(self, barrier.spec), self.teachers)  # each record in one part
        histogram = PartitionSum(
            teachers,
            lambda team, random, x, y, r: votes.encode(team.directions(x, y), r),
            votes.histogram,
            (self.dimensions, self.bins),
            m,
        )
        test = PartitionSum(
            teachers,
            lambda team, random, x, y, r, named: votes.agree(team.directions(x, y), r, named),
            votes.confirmation,
            (self.dimensions,),
            m,
        )

        def ask(step: int, x: Tensor, y: Tensor) -> Tensor:
            r = votes.matrix(d, run.generator("projection", step)).to(x)
            counts = barrier.release(HISTOGRAM, histogram, x, y, r)  # the barrier
            named = counts.argmax(-1)
            agreed = barrier.release(TEST, test, x, y, r, named) if self.confident else counts.amax(-1)  # the barrier
            if self.answer == "mean":
                return votes.mean(counts / self.teachers, r).view_as(x)
            return votes.decode(named, agreed >= self.threshold * self.teachers, r).view_as(x)

        return pate.follow(self, barrier, run, teachers, student, ask)
