"""From private images to a classifier that may be published: plan, reserve, learn through the barrier, write."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.accounting.budget import Budget
from sfumato.classify.classifier import Classifier
from sfumato.classify.networks import Network
from sfumato.classify.release import TrainedClassifier, holds_classifier
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.ledger.job import Job
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run

RELEASED = ["the weights of the classifier"]


def train_classifier(
    classifier: Classifier,
    data: PrivateImages | Any,
    budget: Budget,
    run: Run | None = None,
    *,
    out: str | Path | None = None,
    ledger: str | Path | None = None,
    job: Job | None = None,
    resume: str | None = None,
    command: str | None = None,
    key: str | Path | None = None,
    signer: str | None = None,
) -> TrainedClassifier:
    """Train a classifier on private `data` within `budget` and return what may be published.

    As in `synthesize`, an impossible plan is refused before a record is read, training is audited on made-up records
    (level 0), the budget is reserved in the ledger of the data before the first crossing, and `resume` names a run
    that was stopped.

    >>> made = train_classifier(Classifier(steps=2), "digits", Budget(epsilon=5))
    >>> made.network.made.shape, len(made.classes)
    ((1, 8, 8), 10)
    """
    from sfumato.api import audit_first
    from sfumato.data import load
    from sfumato.data.private import PrivateImages
    from sfumato.ledger.job import Job
    from sfumato.ledger.reservation import charged, costly
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.release.files.bundle import ensure_free
    from sfumato.release.files.sign import read_key
    from sfumato.run.run import Run

    box = data if isinstance(data, PrivateImages) else load(data)
    run = run or Run()
    plan = plan_for(classifier, box.spec, budget)
    if out is not None:
        ensure_free(out)
    if key is not None:
        read_key(key)
    audited = audit_first(classifier, plan, None, run.device, "train-classifier")  # type: ignore[arg-type]
    if costly(box.spec, ledger):
        rehearsed(classifier, plan, run, command=command, key=key, signer=signer)
    job = job or (Job.find(resume) if resume else Job.create({}, str(ledger) if ledger else None))
    with charged(plan, box, job, ledger) as charge:
        run = replace(run, folder=job.folder, odometer=Odometer(plan, charge.begin), owned=charge.check)
        with run.interruptible():
            barrier = Barrier(box, box.spec, run.odometer, device=run.device, microbatch=run.microbatch, tick=run.tick)
            network = classifier.learn(barrier, run)
            run.finished()
            run.check()
        charge.check()
        made = TrainedClassifier(network, state(plan, network, barrier.noise, charge.others(), audited))
        if out is not None:
            job.manifest["weights"] = made.digest()
            job.store()
            made.save(out, command=command, key=key, signer=signer, verified=True)
        charge.finish()
    return made


def rehearsed(classifier: Classifier, plan: Plan, run: Run, **writing: Any) -> None:
    """Try all that training needs on made-up records, down to the files, before anything is reserved."""
    from sfumato.api import passed
    from sfumato.flow.rehearsal import elsewhere, rehearse

    def after(stage: Any, network: Network, run: Run) -> None:
        with elsewhere() as folder:
            stated = state(plan, network, stage.noise, None, passed(run.device))
            TrainedClassifier(network, stated).save(folder, verified=True, **writing)

    rehearse(classifier, plan, run, after=after)


def plan_for(classifier: Classifier, spec: Any, budget: Budget) -> Plan:
    """The plan; a network that cannot be built for such images is refused with it."""
    from sfumato.api import make_plan

    plan = make_plan(classifier, spec, budget)  # type: ignore[arg-type]
    classifier.build(spec)
    return plan


def state(
    plan: Plan, network: Network, noise: Any, others: dict[str, Any] | None, audited: dict[str, Any]
) -> dict[str, Any]:
    """The privacy statement of a classifier that was trained."""
    from sfumato.api import CHOSEN, DEFAULTS
    from sfumato.release import make_statement

    made = network.made
    public = None
    if made.features:
        where = f"weights of the public network {made.features}, fingerprint {made.fingerprint}, declared public"
        public = {"name": made.features, "provenance": where}
    return make_statement(
        plan.to_json(),
        released=RELEASED,
        account=others,
        public_data=public,
        version=__version__,
        noise={"source": noise.source, "sampler": noise.sampler},
        audit=audited,
        tuning=DEFAULTS if Classifier().settings() == dict(plan.settings) else CHOSEN,
    )


def saved_before(job: Job, out: Path, box: PrivateImages, ledger: str | None) -> TrainedClassifier | None:
    """The classifier that a resumed run wrote just before it was stopped, if it got so far."""
    from sfumato.ledger.reservation import finish

    for part in out.absolute().parent.glob(f".{out.name}.*.part"):
        shutil.rmtree(part, ignore_errors=True)
    if job.manifest["weights"] is None or not holds_classifier(out):
        return None
    made = TrainedClassifier.load(out)
    if made.digest() != job.manifest["weights"]:
        return None
    finish(job, box, ledger)
    return made


def accuracy(made: TrainedClassifier, test: PublicImages) -> float:
    """Of public test images, by class name; an image of a class that it was not taught counts as wrong."""
    images = test.images
    if images.pixels.shape[1:] != made.network.made.shape:
        found, wanted = ("x".join(map(str, s)) for s in (images.pixels.shape[1:], made.network.made.shape))
        raise InputError(f"Expected test images of {wanted}, found {found}; give them with --size or --grey.")
    known = {name: number for number, name in enumerate(made.classes)}
    labels = [known.get(images.classes[label], -1) for label in images.labels]
    return float((made.predict(images.pixels) == labels).mean())
