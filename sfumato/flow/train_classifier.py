"""A classifier that may be published, from private images: what `sfumato train-classifier` plans, learns and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sfumato import __version__
from sfumato.accounting.budget import Budget
from sfumato.classify.method import NetworkTraining
from sfumato.classify.networks import Network
from sfumato.classify.release import TrainedClassifier, holds_classifier
from sfumato.data.public import PublicImages
from sfumato.errors import InputError
from sfumato.flow.flow import Audited, Others, Reserved, Resumable, carry_out
from sfumato.flow.make import Learner, boxed, make_plan
from sfumato.flow.rehearsal import Expected, Stage, rehearse
from sfumato.flow.synthesize import noise_facts, tuning_of
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.plan import Plan
from sfumato.release import ensure_free, make_statement
from sfumato.release.files.sign import read_key
from sfumato.run.run import Run
from sfumato.types import DataSpec

RELEASED = ["the weights of the classifier"]


def train_classifier(
    classifier: NetworkTraining,
    data: Any,
    budget: Budget,
    run: Run | None = None,
    *,
    public: PublicImages | None = None,
    out: str | Path | None = None,
    ledger: str | Path | None = None,
    resume: str | None = None,
    command: str | None = None,
    key: str | Path | None = None,
    signer: str | None = None,
) -> TrainedClassifier:
    """Train a classifier on private `data` within `budget` and return what may be published.

    As in `synthesize`, an impossible plan is refused before a record is read, training is audited on made-up records
    (level 0), the budget is reserved in the ledger of the data before the first crossing, and `resume` names a run
    that was stopped. `classifier` is a `Classifier` (DP-SGD) or a `PATE`, which asks about `public` images.

    >>> from sfumato.classify import Classifier
    >>> trained = train_classifier(Classifier(steps=2), "digits", Budget(epsilon=5))
    >>> trained.network.architecture.shape, len(trained.classes)
    ((1, 8, 8), 10)
    """
    box = boxed(data)
    plan = plan_training(classifier, box.spec, budget)
    task = Training(classifier, plan, public, None if out is None else Path(out), command, key, signer)
    return carry_out(task, box, run or Run(), resume=resume, ledger=ledger)


def plan_training(classifier: NetworkTraining, spec: DataSpec, budget: Budget) -> Plan:
    """The plan; a network that cannot be built for such images is refused with it."""
    plan = make_plan(classifier, spec, budget)
    classifier.build(spec)
    return plan


@dataclass(frozen=True)
class Learned:
    """A network that was trained, and the barrier that it was trained through."""

    network: Network
    barrier: Barrier
    seed: int  # of public choices


@dataclass(frozen=True)
class Training(Resumable[Learned, TrainedClassifier]):
    """A classifier with its plan, and how it is to be written."""

    classifier: NetworkTraining
    plan: Plan
    public: PublicImages | None = None
    out: Path | None = None
    command: str | None = None
    key: str | Path | None = None
    signer: str | None = None

    verb: ClassVar[str] = "train-classifier"

    def check(self) -> None:
        """Refuse a place or a key with which nothing could be written."""
        if self.out is not None:
            ensure_free(self.out)
        if self.key is not None:
            read_key(self.key)

    def audits(self) -> Iterable[tuple[Learner, Plan, PublicImages | None]]:
        """The training."""
        return [(self.classifier, self.plan, self.public)]

    def made(self) -> str:
        """A classifier."""
        return "the weights of a classifier, which answers with the names of the classes"

    def rehearse(self, run: Run, complete: Callable[[Learned], None]) -> Expected:
        """A step of training."""

        def after(stage: Stage, network: Network, brief: Run) -> None:
            complete(Learned(network, stage.barrier, brief.seed))

        return rehearse(self.classifier, self.plan, run, self.public, after=after)

    def learn(self, reserved: Reserved) -> Learned:
        """Train."""
        barrier, run = reserved.start(self.plan)
        with run.interruptible():
            network: Network = self.classifier.learn(barrier, run, self.public)  # type: ignore[assignment]
            run.ranks.wait()
            run.finished()
            run.check()
        return Learned(network, barrier, run.seed)

    def state(self, learned: Learned, others: Others, audited: Audited) -> TrainedClassifier:
        """The network and its privacy statement."""
        statement = make_statement(
            self.plan.to_json(),
            released=RELEASED,
            account=others,
            public_data=self.classifier.public_facts(learned.network, self.public, learned.seed),
            version=__version__,
            noise=noise_facts(self.plan, learned.barrier),
            audit=audited,
            tuning=tuning_of(self.classifier, self.plan),
        )
        return TrainedClassifier(learned.network, statement)

    def save(self, made: TrainedClassifier, place: Path) -> None:
        """As a folder that verifies."""
        made.save(place, command=self.command, key=self.key, signer=self.signer, verified=True)

    def digest(self, made: TrainedClassifier) -> str:
        """SHA-256 of what was trained."""
        return made.digest()

    def load(self, place: Path) -> TrainedClassifier | None:
        """The classifier there."""
        return TrainedClassifier.load(place) if holds_classifier(place) else None


def accuracy(trained: TrainedClassifier, test: PublicImages) -> float:
    """Of public test images, by class name; an image of a class that it was not taught counts as wrong."""
    images = test.images
    shape = trained.network.architecture.shape
    if images.pixels.shape[1:] != shape:
        found, wanted = ("x".join(map(str, s)) for s in (images.pixels.shape[1:], shape))
        raise InputError(f"Expected test images of {wanted}, found {found}; give them with --size or --grey.")
    known = {name: number for number, name in enumerate(trained.classes)}
    labels = [known.get(images.classes[label], -1) for label in images.labels]
    return float((trained.predict(images.pixels) == labels).mean())
