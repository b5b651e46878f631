"""PATE: a student classifier from the noisy votes of teachers (Papernot et al., ICLR 2017 and 2018).

    d_1, ..., d_N   disjoint parts of the data, by a keyed hash of each record
    f_i             a teacher: a classifier trained on d_i alone, held behind the barrier
    x_1, ..., x_Q   public images, whose labels nobody knows
    n_j(x)          how many teachers see class j in x
    released        n(x) + noise on every count, for each x: Gaussian (GNMax, 2018) or Laplace (LNMax, 2017), whole
    y(x)            the class with the largest noisy count
    student         a classifier trained as any other on (x_1, y_1), ..., (x_Q, y_Q); this is what is released

A record lies in one part and may turn one teacher's vote: one count falls by 1 and another rises by 1, under either
relation. So the counts move by sqrt(2) in L2 and by 2 in L1, mu = sqrt(2 Q) / sigma after Q images, and the guarantee
holds for all records of a part together. All that follows the counts is free.

    >>> from sfumato import Budget, DataSpec
    >>> spec = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))
    >>> plan = PATE(queries=500).plan(spec, Budget(epsilon=1))
    >>> round(plan.facts["sigma"]), round(plan.events()[0].sensitivity, 3)
    (118, 1.414)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sfumato.accounting.claims import Claim, gnmax, lnmax
from sfumato.accounting.data_dependent import gaussian_likely_outcome
from sfumato.accounting.pate import gnmax_failure, lnmax_data_dependent
from sfumato.accounting.rdp import ORDERS
from sfumato.classify.method import NetworkTraining
from sfumato.classify.networks import Network
from sfumato.classify.teachers import LinearBlock, LinearTeachers
from sfumato.data.public import PublicImages
from sfumato.data.random_process import NAME, dead_leaves, provenance
from sfumato.errors import InputError
from sfumato.methods.explain import Section
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers.ensemble import WHOLE_PART, few_records
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import IntegerBound
from sfumato.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from sfumato.privacy.partitions import PartitionSum
from sfumato.privacy.plan import Crossing, Plan
from sfumato.run.run import Run
from sfumato.types import DataSpec

VOTES = "votes"
FEATURES = ("scattering", "features", "linear")
MADE_UP = "the votes are made up for this explanation"
AGREED = (0.6, 0.8, 0.9, 1.0)  # shares of the teachers
AGGREGATIONS = ("gnmax", "lnmax")
DEVIATIONS = (
    "A record's teacher is found by a keyed hash; the papers cut the data set into pieces of equal size.",
    "The noise is discrete, and the whole noisy histogram is charged as released; the papers tell its largest class.",
    "Accounting does not depend on the votes; the papers' epsilon does, and may not be released as it is.",
    "Teachers and student are heads on fixed features; the papers train convolutional networks, and the student "
    "semi-supervised.",
)


@dataclass(frozen=True, kw_only=True)
class PATE(NetworkTraining):
    """Public settings; N teachers, Q queries and the noise are all that the guarantee depends on."""

    teachers: int = count(500, "N, each on its own part of the data")
    queries: int = count(1000, "Q, public images that the teachers vote on")
    aggregation: str = setting("gnmax", "Gaussian noise on the counts; lnmax: Laplace", choices=AGGREGATIONS)
    batch: int = count(100, "public images asked about at once; each is a query")
    teacher: str = setting("scattering", "fixed features of the teachers, which are linear in them", choices=FEATURES)
    updates: int = count(30, "steps of SGD of each teacher, before the first query")
    teacher_batch: int = count(32, "records of a teacher's part in each of its steps")
    teacher_learning_rate: float = setting(0.01, "of SGD with momentum for the teachers", above=0, high=1e3)
    student_steps: int = count(200, "of Adam for the student")
    student_batch: int = count(128, "labelled public images in each of them")
    student_learning_rate: float = setting(3e-4, "of Adam for the student", above=0, high=1)
    decay: float = setting(0.01, "of the student's weights, by AdamW", low=0, high=10)

    name: ClassVar[str] = "pate"
    family: ClassVar[str] = "classifier, taught by noisy votes"
    paper: ClassVar[str] = "Papernot et al.: PATE (ICLR 2017, ICLR 2018)"
    framework: ClassVar[str] = "PATE"
    public_data: ClassVar[str] = "optional"
    deviations: ClassVar[tuple[str, ...]] = DEVIATIONS
    stand_ins: ClassVar[tuple[str, ...]] = ("network", "teacher")

    def small(self) -> PATE:
        """The same votes by a few teachers; public networks are left out, as they see each image alone."""
        plain: dict[str, Any] = {name: "linear" for name in self.stand_ins if getattr(self, name) == "features"}
        sizes = {"teachers": 8, "queries": 40, "batch": 4, "updates": 2, "teacher_batch": 4, "student_steps": 4}
        return replace(self.at_most(**sizes), **plain)

    def ballot(self, spec: DataSpec) -> IntegerBound:
        """One class of all, by one teacher on one image."""
        return IntegerBound(1, low=0, coordinates=len(spec.classes))

    def crossings(self, spec: DataSpec, z: float) -> dict[str, Crossing]:
        bound = self.ballot(spec)
        noise = DiscreteLaplace(z) if self.aggregation == "lnmax" else DiscreteGaussian(z)
        return {VOTES: Crossing(bound, noise, times=self.queries, held=True)}

    def facts(self, plan: Plan) -> dict[str, Any]:
        votes = plan.crossings[VOTES]
        sigma = votes.mechanism.std(votes.bound)
        return {
            "queries": votes.times,
            "steps": math.ceil(votes.times / self.batch),
            "sigma": sigma,
            "part": WHOLE_PART,
        }

    def claim(self, plan: Plan) -> Claim:
        paper = lnmax if self.aggregation == "lnmax" else gnmax
        return paper(plan.facts["queries"], plan.facts["sigma"], plan.budget.delta)

    def remarks(self, plan: Plan) -> list[Section]:
        """The papers' own epsilon, which depends on the votes, at made-up ones."""
        return [data_dependent(self, plan)]

    def warnings(self, plan: Plan) -> Iterator[str]:
        yield from few_records(plan.data, self.teachers)
        if 2 * plan.facts["sigma"] > self.teachers:
            yield (
                f"The noise of {plan.facts['sigma']:.0f} is more than half of {self.teachers} votes, so that labels "
                "are wrong even where all teachers agree; take more teachers or fewer queries."
            )

    def public_facts(self, network: Network, public: PublicImages | None, seed: int) -> dict[str, Any]:
        """Of the images that were asked about, and of public networks."""
        words = [public.provenance if public else provenance(self.queries, seed)]
        if named := super().public_facts(network, public, seed):
            words.append(str(named["provenance"]))
        if self.teacher == "features":
            words.append(f"teachers see features of the public network {self.features}, declared public")
        return {
            "name": "public images" if public else NAME,
            "provenance": "; ".join(words),
            "records": len(public.images) if public else self.queries,
        }

    def asked(self, spec: DataSpec, run: Run, public: PublicImages | None) -> Tensor:
        """x_1, ..., x_Q in [0, 1]: some of the public images by public chance, or made up from the user's seed."""
        pixels = (public.images if public else dead_leaves(self.queries, spec.shape, run.seed)).pixels
        if pixels.shape[1:] != spec.shape:
            found, wanted = ("x".join(map(str, s)) for s in (pixels.shape[1:], spec.shape))
            raise InputError(
                f"Expected public images of {wanted}, as the data are, found {found}; use --size or --grey."
            )
        if len(pixels) < self.queries:
            raise InputError(
                f"Expected at least {self.queries} public images to ask about, found {len(pixels)}; give more, or "
                "lower queries with --set."
            )
        order = torch.randperm(len(pixels), generator=run.generator("queries"))[: self.queries]
        return torch.from_numpy(pixels)[order].to(run.device).float() / 255

    def ensemble(self, spec: DataSpec, run: Run) -> LinearTeachers:
        """What a teacher is."""
        net = replace(self, network=self.teacher).build(spec, run)
        return LinearTeachers(
            net.body,
            net.head.in_features,  # type: ignore[arg-type]  # a linear head, of all kinds of teachers
            len(spec.classes),
            teacher_batch=self.teacher_batch,
            learning_rate=self.teacher_learning_rate,
        )

    def learn(  # type: ignore[override]  # what is released is a network that classifies, and no generator
        self, barrier: Barrier, run: Run, public: PublicImages | None = None
    ) -> Network:
        spec = barrier.spec
        x = self.asked(spec, run, public)
        ensemble = self.ensemble(spec, run)
        seen = ensemble.seen(x)
        teachers = barrier.hold(ensemble, self.teachers)  # f_1, ..., f_N, on d_1, ..., d_N
        told = Told(torch.zeros(len(x), len(spec.classes), dtype=torch.float64, device=run.device))
        for t in run.steps(math.ceil(len(x) / self.batch), teachers=teachers, told=told):
            for _ in range(self.updates if t == 0 else 0):
                run.check()
                barrier.train(teachers)
            some = slice(t * self.batch, (t + 1) * self.batch)
            query = PartitionSum(teachers, votes, self.ballot(spec), (len(spec.classes),), len(x[some]))
            told.counts[some] = barrier.release(VOTES, query, seen[some])  # the barrier
        return self.student(x, told.counts.argmax(1), spec, run)

    def student(self, x: Tensor, y: Tensor, spec: DataSpec, run: Run) -> Network:
        """A network trained on public images and the labels that the noisy votes give them."""
        net = self.build(spec, run)
        with torch.no_grad():
            features = torch.cat([net.body(some) for some in x.split(self.student_batch)])
        optimiser = torch.optim.AdamW(net.head.parameters(), lr=self.student_learning_rate, weight_decay=self.decay)
        random = run.generator("student")
        for _ in run.rounds(self.student_steps):
            some = torch.randint(len(x), (self.student_batch,), generator=random).to(x.device)
            optimiser.zero_grad(set_to_none=True)
            cross_entropy(net.head(features[some]), y[some]).backward()
            optimiser.step()
        return net.requires_grad_(False)


def data_dependent(method: PATE, plan: Plan) -> Section:
    """What the papers would state if so many of the teachers agreed on every image."""
    queries, noise, delta = plan.facts["queries"], plan.facts["sigma"], plan.budget.delta
    log = math.log(1 / delta)
    rows = []
    for share in AGREED:
        counts = (round(share * method.teachers), method.teachers - round(share * method.teachers))
        if method.aggregation == "lnmax":
            found = lnmax_data_dependent([counts] * queries, noise, delta).reveal(MADE_UP)
        else:
            one = (gaussian_likely_outcome(o, gnmax_failure(counts, noise), noise**-2) for o in ORDERS)
            found = min(queries * cost + log / (order - 1) for order, cost in zip(ORDERS, one, strict=True))
        rows.append((f"{share:.0%} agree", found))
    return Section(
        "The epsilon that looks at the votes",
        (
            "MAY NOT BE RELEASED: the papers' epsilon depends on the votes, which are private; comparing it, or "
            "stopping by it, leaks. Releasing it takes noise of its own (Papernot et al. 2018, and for GNMax "
            "accounting/pate_smooth.py here). The guarantee above does not use it.",
            f"At made-up votes, the same for all {queries:,} images, with two classes in dispute, it would be:",
        ),
        ("votes", "epsilon"),
        tuple(rows),
    )


@dataclass(eq=False)
class Told:
    """The noisy counts so far, for a checkpoint."""

    counts: Tensor

    def state_dict(self) -> dict[str, Tensor]:
        """All of them."""
        return {"counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """As they were."""
        self.counts.copy_(state["counts"])


def votes(block: LinearBlock, random: torch.Generator, seen: Tensor) -> Tensor:
    """The ballots of some teachers on the images with these features."""
    return block.votes(seen)
