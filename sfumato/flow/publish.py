"""A noisy accuracy that may be published: the one number of an evaluation that goes through the barrier.

A CNN is trained on the synthetic images alone, which is free. Each unit of the private test set then casts one vote,
"wrong" or "right"; the two counts leave with discrete Gaussian noise, charged to the account of the test set before a
record is read. The result is a small folder of its own: accuracy.json, and its privacy statement.

    (wrong, right) = sum of votes + N_Z(0, sigma^2) each          Delta = 1 (add-remove), sqrt 2 (replace-one)
    accuracy       = (right + n - wrong) / 2n                     n public; right / (right + wrong) where it is not

The first form uses both counts: its noise has standard deviation sigma / (n sqrt 2). A person with several images
votes once, by the majority of them; a tie is "wrong".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sfumato import __version__
from sfumato.accounting.budget import Budget
from sfumato.accounting.calibrate import noise_within
from sfumato.classify.release import holds_classifier
from sfumato.errors import InputError
from sfumato.evaluate import stacked
from sfumato.evaluate.networks import judge
from sfumato.evaluate.place import check_place
from sfumato.evaluate.real import class_numbers, matched, open_test
from sfumato.flow.approval import Approval
from sfumato.flow.flow import Audited, Others, Reserved, Task, carry_out
from sfumato.flow.make import make_budget
from sfumato.flow.rehearsal import Expected, Stage, trying
from sfumato.privacy.barrier import Barrier
from sfumato.privacy.bounds import BoundedSum, IntegerBound
from sfumato.privacy.plan import Crossing, Plan, crossing, events_of
from sfumato.release import Release, ensure_free, make_statement, to_markdown
from sfumato.release.files import schema
from sfumato.release.files.bundle import appearing
from sfumato.release.files.content import text_problem
from sfumato.release.files.gate import json_rule, rule
from sfumato.run.progress import Silent
from sfumato.run.run import Run
from sfumato.types import DataSpec, Images

METHOD = "publish-accuracy"
CROSSING = "accuracy"
FORMAT = "sfumato-accuracy/1"
VOTE = IntegerBound(1, low=0)
RULES = (
    json_rule("accuracy.json", schema.ACCURACY),
    json_rule("privacy.json", schema.STATEMENT),
    rule(r"PRIVACY\.md", text_problem),
)


def publish_accuracy(
    release_folder: str | Path,
    data: Any,
    epsilon: float,
    out: str | Path | None = None,
    *,
    ledger: str | Path | None = None,
    test: Any = None,
    delta: float = 1e-5,
    relation: str = "add-remove",
    test_split: str = "test",
    label: str | None = None,
    person: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Silent | None = None,
    schedule: Any = None,
    approval: Approval | None = None,
) -> dict[str, Any]:
    """Spend `epsilon` of the test set's budget on the accuracy of a CNN trained on the release; write a new folder.

    The folder, RELEASE-accuracy unless `out` names another, holds accuracy.json, privacy.json and PRIVACY.md. The
    release itself is not touched, and no number without noise is shown or kept.
    """
    if holds_classifier(release_folder):
        raise InputError(
            f"{release_folder} holds a classifier, and an accuracy is published of synthetic images alone; leave out "
            "--publish-accuracy to score it inside."
        )
    run = Run(device=device)
    place = ensure_free(check_place(release_folder, out, "accuracy"))
    release = Release.load(release_folder)
    with open_test(data, release.images, test=test, test_split=test_split, label=label, person=person) as box:
        budget = make_budget(epsilon, delta, relation, str(box.spec.unit))
        plan = plan_accuracy(box.spec, budget, release_folder, seed)
        numbers = class_numbers(box.spec, release.images)
        matched(np.empty((0, *box.spec.shape), np.uint8), release.images, box.spec)
        net = _train(release.images, seed, run.device, schedule, progress or Silent())
        task = Publication(plan, _query(net, numbers, release.images), release.statement, place)
        accuracy = carry_out(task, box, run, ledger=ledger, approval=approval)
    return accuracy.facts | {"out": str(place)}


def plan_accuracy(spec: DataSpec, budget: Budget, folder: str | Path, seed: int) -> Plan:
    """Two counts, once, with the least noise that the budget allows."""

    def crossings(z: float) -> dict[str, Crossing]:
        return {CROSSING: crossing(VOTE, z)}

    z = noise_within(lambda z: events_of(crossings(z), budget.relation), budget.epsilon, budget.delta)
    settings = {"classifier": "cnn", "seed": seed, "release": Path(folder).resolve().name}
    plan = Plan(METHOD, settings, spec, budget, crossings(z), labels={"kind": "none", "weights": None})
    return replace(plan, warnings=plan.large_delta())


def _train(images: Images, seed: int, device: str, schedule: Any, progress: Silent) -> nn.Module:
    """The CNN on synthetic images alone; a few of them stand in for test images, whose accuracy nobody asks for."""
    trained = stacked.train(
        "cnn",
        images.pixels,
        images.labels,
        images.pixels[:1],
        images.labels[:1],
        classes=len(images.classes),
        seeds=[seed],
        device=device,
        schedule=schedule,
        looks=1,
        progress=progress,
    )
    assert trained.network is not None
    return judge(trained.network, "cnn", images.pixels.shape[1:], len(images.classes), 0, 1)


def _query(net: nn.Module, numbers: np.ndarray, like: Images) -> BoundedSum:
    wide = like.pixels.shape[1]

    def votes(images: Tensor, labels: Tensor) -> Tensor:
        # Each row depends on its own image alone: the network is in evaluation mode.
        known = torch.from_numpy(numbers).to(labels)
        right = net(images.float().expand(-1, wide, -1, -1)).argmax(1) == known[labels]
        return torch.stack([~right, right], 1).double()

    return BoundedSum(votes, VOTE, (2,))


@dataclass(frozen=True)
class Counts:
    """Two noisy counts, guessed wrong and right, and the barrier that they came through."""

    values: Tensor
    barrier: Barrier


@dataclass(frozen=True)
class Accuracy:
    """What is published of them; with its privacy statement."""

    facts: dict[str, Any]
    statement: dict[str, Any]


@dataclass(frozen=True)
class Publication(Task[Counts, Accuracy]):
    """One question to a test set, of the release with this statement; so short a run cannot be resumed."""

    plan: Plan
    query: BoundedSum
    release: dict[str, Any]
    out: Path | None

    verb: ClassVar[str] = METHOD
    shows_images: ClassVar[bool] = False

    def made(self) -> str:
        """One number."""
        return "the accuracy of a classifier on these test images, with noise, as one number with its interval"

    def rehearse(self, run: Run, complete: Callable[[Counts], None]) -> Expected:
        """Ask the same question of made-up records."""
        with trying(self.plan, run.device, run.microbatch):
            stage = Stage(self.plan, run)
            complete(Counts(stage.release(CROSSING, self.query).cpu(), stage.barrier))
        return stage.expected()

    def learn(self, reserved: Reserved) -> Counts:
        """Ask it."""
        barrier, run = reserved.start(self.plan)
        counts = barrier.release(CROSSING, self.query)  # the barrier
        run.finished()
        return Counts(counts.cpu(), barrier)

    def state(self, learned: Counts, others: Others, audited: Audited) -> Accuracy:
        """The accuracy with its interval."""
        statement = make_statement(
            self.plan.to_json(),
            released=["two noisy counts of test images, guessed wrong and right"],
            account=others,
            noise={"source": learned.barrier.noise.source, "sampler": "exact discrete Gaussian"},
            public_data=None,
            audit=audited,
            tuning="not charged: the classifier has one fixed schedule; no other was tried on the private data",
            version=__version__,
        )
        return Accuracy(_facts(learned.values, self.plan, statement, self.release), statement)

    def save(self, made: Accuracy, place: Path) -> None:
        """Through an export gate with a list of its own; the folder appears whole or not at all."""
        write(place, made)


def _facts(counts: Tensor, plan: Plan, statement: dict[str, Any], release: dict[str, Any]) -> dict[str, Any]:
    wrong, right = (float(x) for x in counts)
    sigma = plan.crossings[CROSSING].mechanism.std(VOTE)
    spec = plan.data
    if spec.count_public:
        value = (right + spec.records - wrong) / (2 * spec.records)
        spread = sigma / (spec.records * math.sqrt(2))
    else:
        total = max(right + wrong, 1.0)
        value = right / total
        spread = sigma * math.hypot(value, 1 - value) / total
    low = value - 1.96 * spread
    high = value + 1.96 * spread
    return {
        "format": FORMAT,
        "accuracy": min(1.0, max(0.0, value)),
        "low": min(1.0, max(0.0, low)),
        "high": min(1.0, max(0.0, high)),
        "interval": "95 %, of the privacy noise alone",
        "counts": {"wrong": wrong, "right": right},
        "sigma": sigma,
        "classifier": "cnn trained on the synthetic images, fixed schedule, last step",
        "test_units": spec.records,
        "unit": str(spec.unit),
        "guarantee": statement["guarantee"]["summary"],
        "release": {"method": release["reproducibility"]["method"], "statement": _hash(release)},
    }


def _hash(statement: dict[str, Any]) -> str:
    """Which release the number belongs to: SHA-256 of its statement."""
    return hashlib.sha256(json.dumps(statement, sort_keys=True).encode()).hexdigest()


def write(place: Path, accuracy: Accuracy) -> None:
    """The three files."""
    with appearing(place, RULES) as gate:
        gate.json("privacy.json", accuracy.statement)
        gate.write("PRIVACY.md", to_markdown(accuracy.statement))
        gate.json("accuracy.json", accuracy.facts)
