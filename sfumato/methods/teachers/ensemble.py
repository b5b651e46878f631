"""What methods share that ask critics on disjoint parts about fake images: settings, critics, generator and facts.

The critics are held behind the barrier and trained there as in any GAN, all of them, at public times: which of them
are asked later has no say in it. So a unit changes one critic, whatever that critic has become, and a query may draw
critics by chance and claim it (privacy.md 1.5, lemma S).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from sfumato.engine import label_histogram
from sfumato.engine.teachers.critics import MOMENTS, PRECISIONS, Critics
from sfumato.methods.base import Method
from sfumato.methods.settings import count, setting
from sfumato.methods.teachers import wasserstein
from sfumato.methods.teachers.wasserstein import SteepCritics
from sfumato.networks.conv import ConvGenerator
from sfumato.networks.dcgan import DCGANGenerator
from sfumato.networks.generator import LATENT_DISTRIBUTIONS, Generator

if TYPE_CHECKING:
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.partitions import PartitionHandle, TeacherModel
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run
    from sfumato.types import DataSpec

GENERATORS = ("dcgan", "conv")
LOSSES = ("logistic", "wasserstein")
WHOLE_PART = "the guarantee holds for all records of a teacher's part together"
LEAST_RECORDS = 5  # of a part, on average


def few_records(spec: DataSpec, teachers: int) -> tuple[str, ...]:
    """A warning of parts that are too small to learn anything from."""
    each = spec.records / teachers
    if each >= LEAST_RECORDS:
        return ()
    return (f"A teacher has about {each:.1f} records; take fewer teachers, each with 10 or more.",)


@dataclass(frozen=True, kw_only=True)
class CriticEnsemble(Method):
    """Networks as teachers, each on its own part of the data, and a generator whose images they are asked about."""

    teachers: int = count(4000, "N, critics, each on its own part of the data")
    steps: int = count(150, "T, steps of the generator")
    batch: int = count(15, "m, fake images a step, each a query")
    teacher_batch: int = count(15, "real images that a critic sees in each update")
    updates: int = count(2, "updates of each critic a step")
    warmup: int = count(10, "more updates of each critic before the first step", low=0)
    learning_rate: float = setting(1e-3, "of Adam for the generator", above=0, high=1)
    ema_decay: float = setting(0.0, "decay of the averaged generator; 0 for none", low=0, below=1)
    latent: int = count(50, "dimensions of the latent z")
    generator: str = setting("dcgan", "the generator's network", choices=GENERATORS)
    width: int = count(64, "channels of the generator's last layers; a multiple of 8 for generator=conv")
    hidden: int = count(1024, "units of the first layer of generator=dcgan")
    critic_width: int = count(32, "channels of a critic's last convolution")
    critic_hidden: int = count(256, "units of a critic's linear layer")
    critic_learning_rate: float = setting(1e-3, "of Adam for the critics", above=0, high=1)
    precision: str = setting("tf32", "of the critics' matrix products", choices=PRECISIONS)
    moments: str = setting("float32", "how Adam's moments of the critics are stored", choices=MOMENTS)

    def contradictions(self) -> Iterator[str]:
        if self.generator == "dcgan" and self.batch < 2:
            yield f"Expected batch of at least 2 for generator=dcgan, which normalises over it, found {self.batch}."
        if self.generator == "conv" and self.width % 8:
            yield f"Expected width as a multiple of 8 for generator=conv, found width={self.width}."

    def facts(self, plan: Plan) -> Mapping[str, Any]:
        asked = {name: c for name, c in plan.crossings.items() if c.held}
        return {
            "queries": max(c.times for c in asked.values()),
            "steps": self.steps,
            "sigma": {name: c.mechanism.std(c.bound) for name, c in asked.items()},
            "part": WHOLE_PART,
        }

    def warnings(self, plan: Plan) -> tuple[str, ...]:
        return few_records(plan.data, self.teachers)

    def small(self) -> Self:
        """The same questions to a few small critics."""
        critics = self.at_most(teachers=8, critic_width=4, critic_hidden=8, warmup=1, teacher_batch=2)
        return critics.at_most(latent=4, hidden=8, width=2 if self.generator == "dcgan" else 8)

    def critics(self, spec: DataSpec) -> TeacherModel:
        """What a teacher is: a network that tells real images of a label from fake ones."""
        return self._logistic(spec, norm=True)

    def _logistic(self, spec: DataSpec, *, norm: bool) -> Critics:
        return Critics(
            spec.shape,
            len(spec.classes),
            width=self.critic_width,
            hidden=self.critic_hidden,
            norm=norm,
            teacher_batch=self.teacher_batch,
            learning_rate=self.critic_learning_rate,
            moments=self.moments,
            precision=self.precision,
        )

    def new_generator(
        self, barrier: Barrier, run: Run, latent_distribution: str = LATENT_DISTRIBUTIONS[0]
    ) -> Generator:
        """A generator with first weights from the user's seed and the labels' public proportions."""
        spec = barrier.spec
        network: dict[str, Any] = {
            "latent": self.latent,
            "width": self.width,
            "label_weights": label_histogram.shares(self.labels, barrier, run),
            "latent_distribution": latent_distribution,
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            if self.generator == "dcgan":
                return DCGANGenerator(spec.shape, spec.classes, hidden=self.hidden, **network).to(run.device)
            return ConvGenerator(spec.shape, spec.classes, **network).to(run.device)

    def teach(self, barrier: Barrier, teachers: PartitionHandle, x: Tensor, y: Tensor | None, *, first: bool) -> None:
        """The updates of all critics before a question; more of them before the first one."""
        for _ in range(self.warmup + self.updates if first else self.updates):
            barrier.train(teachers, x, y)


@dataclass(frozen=True, kw_only=True)
class SteepEnsemble(CriticEnsemble):
    """Critics with a penalty on their slope, or logistic ones where asked for."""

    loss: str = setting("wasserstein", "of the critics; wasserstein has a penalty on their slope", choices=LOSSES)
    penalty: float = setting(10.0, "lambda, weight of the penalty on the slope", low=0, below=1e6)
    critic_norm: bool = setting(False, "batch normalisation of logistic critics, of real and fake images apart")

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        plain = self.precision in wasserstein.PRECISIONS and self.moments == "float32" and not self.critic_norm
        if self.loss == "wasserstein" and not plain:
            yield (
                "Expected precision=tf32 or float32, moments=float32 and critic_norm=False for loss=wasserstein, found "
                f"precision={self.precision}, moments={self.moments}, critic_norm={self.critic_norm}."
            )

    def critics(self, spec: DataSpec) -> TeacherModel:
        """What a teacher is: a critic of either kind, conditional on the label."""
        if self.loss == "logistic":
            return self._logistic(spec, norm=self.critic_norm)
        return SteepCritics(
            spec.shape,
            len(spec.classes),
            width=self.critic_width,
            hidden=self.critic_hidden,
            teacher_batch=self.teacher_batch,
            learning_rate=self.critic_learning_rate,
            penalty=self.penalty,
            precision=self.precision,
        )
