"""The whole flow on one screen: plan, reserve, learn through the barrier, sample, bundle."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.accounting.budget import Budget, Relation, Unit
from sfumato.errors import AuditFailed, InputError
from sfumato.types import DataSpec, Images

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.ledger.job import Job
    from sfumato.methods import Method
    from sfumato.privacy.barrier import Barrier, Noise
    from sfumato.privacy.plan import Plan
    from sfumato.release import Release
    from sfumato.run.run import Run

DEFAULTS = "tuned on public data: these are the defaults of the software, and no private data had a part in them"
CHOSEN = "not charged: settings were chosen by the user; the software tried no other on the private data"


def synthesize(
    method: Method,
    data: PrivateImages | Any,
    budget: Budget,
    run: Run | None = None,
    *,
    count: int = 10_000,
    public: PublicImages | None = None,
    out: str | Path | None = None,
    format: str = "png",
    ledger: str | Path | None = None,
    job: Job | None = None,
    resume: str | None = None,
    command: str | None = None,
    key: str | Path | None = None,
    signer: str | None = None,
) -> Release:
    """Learn a generator from private `data` within `budget` and return what may be published.

    The plan is made, and an impossible one refused, before a record is read; the budget is reserved in the ledger of
    the data before the first crossing. With `out` the release is also written there. `resume` names a run that was
    stopped; everything else must then be as it was. `key` is a file to sign the release with. Before anything is
    reserved, the method is audited on made-up records (level 0), and refused if it does what it does not declare; then
    it is rehearsed on such records with all that it needs, so that what is missing is missed before it costs.

    >>> from sfumato import DPMERF, Budget
    >>> release = synthesize(DPMERF(features=20, steps=2), "digits", Budget(epsilon=5), count=20)
    >>> release.images.pixels.shape
    (20, 1, 8, 8)
    """
    from sfumato.ledger.job import Job
    from sfumato.ledger.reservation import charged, costly
    from sfumato.privacy.odometer import Odometer
    from sfumato.release.files.sign import read_key
    from sfumato.run.run import Run

    box = _box(data)
    plan = make_plan(method, box.spec, budget)
    check_out(out, count, format)
    run = run or Run()
    if key is not None:
        read_key(key)
    audited = audit_first(method, plan, public, run.device)
    if costly(box.spec, ledger):
        rehearsed(method, plan, run, public, format=format, command=command, key=key, signer=signer)
    job = job or (Job.find(resume) if resume else Job.create({}, str(ledger) if ledger else None))
    with charged(plan, box, job, ledger) as charge:
        run = replace(run, folder=job.folder, ledger=Odometer(plan, charge.begin), owned=charge.check)
        run.ranks.told(str(job.folder))
        with run.interruptible():
            barrier = _barrier(box, run)
            generator = method.learn(barrier, run, public)
            run.ranks.wait()
            run.finished()
            images = generator.sample(count, seed=run.seed)
            run.check()
        charge.check()
        stated = state(plan, barrier.noise, public, charge.others(), audited)
        release = bundle(generator, images, stated, run.kept | run.made, run.pictures.get("strip"))
        if out is not None:
            _save(release, job, Path(out), format=format, command=command, key=key, signer=signer)
        charge.finish()
    return release


def _barrier(box: PrivateImages, run: Run) -> Barrier:
    from sfumato.privacy.barrier import Barrier

    return Barrier(
        box, box.spec, run.ledger, device=run.device, microbatch=run.microbatch, tick=run.tick, ranks=run.ranks
    )


def assist(
    method: Method, data: PrivateImages | Any, budget: Budget, run: Run, public: PublicImages | None = None
) -> None:
    """Do the share of a rank other than the first, which keeps the books, in the same run of `synthesize`."""
    from sfumato.privacy.odometer import Odometer

    box = _box(data)
    ledger = Odometer(make_plan(method, box.spec, budget))
    run = replace(run, folder=Path(run.ranks.told("")), ledger=ledger)
    with run.interruptible():
        method.learn(_barrier(box, run), run, public)
        run.ranks.wait()


def audit_first(
    method: Method, plan: Plan, public: PublicImages | None, device: str, verb: str = "synthesize"
) -> dict[str, Any]:
    """Refuse a method that is caught doing other than it declares; each kind of run is audited once a process.

    What comes back is what the statement says of it. The audit is made on the device of the run, in a process that
    does not hold the private set.
    """
    from sfumato.audit.apart import level0_apart

    shape = (plan.data.shape, len(plan.data.classes), plan.data.unit, plan.data.count_public, plan.budget.relation)
    kind = device.split(":")[0]  # of several alike any will do
    asked = (type(method), tuple(sorted(method.settings().items())), plan.labels["kind"], shape, kind, verb)
    found = passed(device)
    if asked in _AUDITED:
        return found
    report = level0_apart(method, plan, public, verb=verb, device=device)
    if report.failed:
        why = f"{report.failed[0].check}, {report.failed[0].detail}"
        raise AuditFailed(f"{plan.method} is refused by its audit before anything is spent: {why}.")
    _AUDITED.add(asked)
    return found


_AUDITED: set[Any] = set()


def passed(device: str) -> dict[str, Any]:
    """What the statement says of a level 0 that found nothing."""
    kind = device.split(":")[0]
    return {"levels": [0], "verdict": "pass", "records": "made up: no private data were used", "audited_on": kind}


def rehearsed(method: Method, plan: Plan, run: Run, public: PublicImages | None, **writing: Any) -> None:
    """Try all that a run needs on made-up records, down to the files of a release, before anything is reserved."""
    from sfumato.flow.rehearsal import IMAGES, elsewhere, rehearse

    def after(stage: Any, generator: Any, run: Run) -> None:
        stated = state(plan, stage.noise, public, None, passed(run.device))
        images = generator.sample(IMAGES, seed=run.seed)
        with elsewhere() as folder:
            made = bundle(generator, images, stated, run.kept | run.made, run.pictures.get("strip"))
            made.save(folder, verified=True, **writing)

    rehearse(method, plan, run, public, after=after)


def make_plan(method: Method, spec: DataSpec, budget: Budget) -> Plan:
    """The plan of a method for data of this public description; refuses what cannot be kept."""
    if spec.unit is not budget.unit:
        raise InputError(
            f"The data are described per {spec.unit} and the budget per {budget.unit}; "
            "name the person column with --person, or choose --unit record."
        )
    if not spec.count_public and budget.relation is Relation.REPLACE_ONE:
        raise InputError(
            "Replace-one keeps the number of records public; leave out --private-count, "
            "or choose --relation add-remove."
        )
    try:
        return method.plan(spec, budget)
    except ValueError as error:
        raise InputError(str(error)) from error


def refit(
    folder: str | Path,
    out: str | Path,
    *,
    seed: int = 1,
    count: int = 10_000,
    settings: Mapping[str, str] | None = None,
    format: str = "png",
    run: Run | None = None,
) -> Release:
    """Train a new generator from the sanitised measurement that a release carries. Costs no privacy."""
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.odometer import Odometer
    from sfumato.release import Release, restated
    from sfumato.release.files.command import write
    from sfumato.run.run import Run

    release = Release.load(folder)
    if not release.measurement:
        raise InputError(
            f"{folder} carries no sanitised measurement, so there is nothing to refit from; sample it instead."
        )
    check_out(out, count, format)
    method, spec, budget = _from_statement(release.statement, settings or {}, folder)
    plan = replace(make_plan(method, spec, budget), crossings={})  # nothing may cross any more
    run = replace(run or Run(), seed=seed, ledger=Odometer(plan))
    run.kept.update({name: value.value for name, value in release.measurement.items()})
    generator = method.learn(Barrier(None, spec, run.ledger, device=run.device), run)
    statement = restated(release.statement, method.settings())
    again = Release(generator, generator.sample(count, seed=seed), statement, dict(release.measurement))
    asked = {"count": count, "seed": seed, "format": format, "settings": settings or {}}
    again.save(out, format=format, command=write("refit", str(folder), asked))
    return again


def sample(
    folder: str | Path, count: int, out: str | Path, *, label: str | None = None, seed: int = 0, format: str = "png"
) -> Images:
    """More images from a release, at no cost in privacy, written as an image folder or a parquet file."""
    from sfumato.release import Release, save_images

    check_out(out, count, format)
    images = Release.load(folder).sample(count, labels=label, seed=seed)
    save_images(images, out, format)
    return images


def budget_of(
    data: Any, *, total: Budget | None = None, ledger: str | Path | None = None, **options: Any
) -> dict[str, Any]:
    """What the ledger knows of a data set; with `total`, the custodian's grant is set first."""
    from sfumato.ledger.charge import account_name, digests_of, is_named
    from sfumato.ledger.reservation import give_back_unbegun, open_accounts

    with _box(data, **options) as box, open_accounts(box.spec, ledger) as accounts:
        give_back_unbegun(accounts)
        name = account_name(box)
        digests = digests_of(box)
        if total is not None:
            accounts.set_total(name, digests, total, named=is_named(box))
        return accounts.show(name, digests) | {"throw_away": box.spec.public and ledger is None}


def methods() -> list[dict[str, Any]]:
    """The methods, each with what it says of itself and its settings."""
    from sfumato.methods import find, names

    return [describe_method(find(name)) for name in names()]


def describe_method(cls: type[Method]) -> dict[str, Any]:
    """What a method says of itself; settings with their defaults, ranges and descriptions."""
    from sfumato.methods import RELEASABLE
    from sfumato.methods.settings import declared

    releasable, attacker = RELEASABLE[cls.site]
    return {
        "name": cls.name,
        "site": cls.site.name,
        "barrier": str(cls.site),
        "family": cls.family,
        "paper": cls.paper,
        "framework": cls.framework,
        "axes": list(cls.axes),
        "relations": list(cls.relations),
        "sensitivity": cls.sensitivity,
        "releasable": releasable,
        "attacker_sees": attacker,
        "public_data": cls.public_data,
        "status": cls.status,
        "settings": cls().settings(),
        "about": {name: {"about": s.about, "range": s.range(), "unit": s.unit} for name, s in declared(cls).items()},
    }


def recipes(name: str | None = None) -> list[dict[str, Any]]:
    """The recipes, or the one of this name: a method (or a classifier) with settings, a budget, and their source."""
    from sfumato.recipes import CLASSIFIERS, RECIPES, look

    return [recipe.to_json() for recipe in ((RECIPES | CLASSIFIERS).values() if name is None else [look(name)])]


def make_method(
    name: str, settings: Mapping[str, str] | None = None, labels: str | None = None, classes: tuple[str, ...] = ()
) -> Method:
    """A method by its name, with `--set field=value` settings as text and a `--labels` option."""
    from sfumato.data.labels import parse_labels
    from sfumato.methods import find
    from sfumato.methods.settings import parse

    cls = find(name)
    given = parse(cls, settings or {})
    if labels is not None:
        given["labels"] = parse_labels(labels, classes)
    try:
        return cls(**given)
    except ValueError as error:
        raise InputError(str(error)) from error


def make_budget(epsilon: float, delta: float = 1e-5, relation: str = "add-remove", unit: str = "record") -> Budget:
    """A budget from plain values, with one sentence for what is wrong with them."""
    for what, value, kinds in (("relation", relation, Relation), ("unit", unit, Unit)):
        if value not in set(kinds):
            raise InputError(f"Expected --{what} as {' or '.join(kinds)}, found '{value}'.")
    try:
        return Budget(epsilon, delta, Relation(relation), Unit(unit))
    except ValueError as error:
        raise InputError(str(error)) from error


def _box(data: Any, **options: Any) -> PrivateImages:
    from sfumato.data import load
    from sfumato.data.private import PrivateImages

    return data if isinstance(data, PrivateImages) else load(data, **options)


def check_out(out: str | Path | None, count: int, format: str) -> None:
    """Refuse a place or a format that a release could not be written in, before anything is spent."""
    from sfumato.release import check_format, ensure_free

    check_format(format)
    if count < 1:
        raise InputError(f"Expected --count of at least 1, found {count}.")
    if out is not None:
        ensure_free(out)


def state(
    plan: Plan,
    noise: Noise,
    public: PublicImages | None,
    others: dict[str, Any] | None,
    audited: dict[str, Any],
    tuning: str | None = None,
) -> dict[str, Any]:
    """The privacy statement of a plan that was carried out, after the audit that `audit_first` tells of."""
    from sfumato.methods import find
    from sfumato.release import make_statement

    cls = find(plan.method)
    tuning = tuning or (DEFAULTS if cls().settings() == dict(plan.settings) else CHOSEN)
    released = ["synthetic images", "generator weights", "sample grids on the way", "label shares"]
    released += ["the noisy measurement"] * bool(cls.measured)
    released += ["weights of the critic, made of released values"] * bool(plan.settings.get("keep_critic"))
    kinds = {c.mechanism.kind for c in plan.crossings.values()}
    samplers = {"gaussian": noise.sampler, "discrete-gaussian": "exact discrete Gaussian on whole numbers"}
    return make_statement(
        plan.to_json(),
        released=released,
        account=others,
        noise={"source": noise.source, "sampler": "; ".join(samplers[k] for k in sorted(kinds))},
        public_data=public and {"provenance": public.provenance, "records": len(public.images)},
        tuning=tuning,
        audit=audited,
        version=__version__,
    )


def bundle(
    generator: Any, images: Images, statement: dict[str, Any], kept: Mapping[str, Any], strip: Any = None
) -> Release:
    """Everything that may be published, as one object."""
    from sfumato.release import Public, Release

    # Values kept by a run are what the barrier released, under the names of their crossings.
    measurement = {name: Public.after(value, name) for name, value in kept.items()}
    return Release(generator, images, statement, measurement, strip and strip.moments())


def _weights_hash(generator: Any) -> str:
    digest = hashlib.sha256(json.dumps(generator.config(), sort_keys=True).encode())
    for name, tensor in sorted(generator.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _save(release: Release, job: Job, out: Path, **options: Any) -> None:
    job.manifest["weights"] = _weights_hash(release.generator)
    job.store()
    release.save(out, verified=True, **options)


def saved_before(job: Job, out: Path, box: PrivateImages, ledger: str | None) -> Release | None:
    """The release that this run wrote just before it was stopped, if it got so far; half-written ones are removed."""
    from sfumato.ledger.reservation import open_accounts
    from sfumato.release import Release

    for part in out.absolute().parent.glob(f".{out.name}.*.part"):
        shutil.rmtree(part, ignore_errors=True)
    if job.manifest["weights"] is None or not (out / "privacy.json").is_file():
        return None
    release = Release.load(out)
    if _weights_hash(release.generator) != job.manifest["weights"]:
        return None
    with open_accounts(box.spec, ledger) as accounts:
        job.finish(accounts)
    return release


def _from_statement(
    statement: dict[str, Any], changes: Mapping[str, str], folder: str | Path
) -> tuple[Method, DataSpec, Budget]:
    """Method, data description and budget as a statement records them."""
    try:
        made = statement["reproducibility"]["configuration"]
        return _rebuilt(made, statement["reproducibility"]["labels"], changes, folder)
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder}/privacy.json does not describe a run; fetch the release again.") from error


def _rebuilt(
    made: dict[str, Any], labels: dict[str, Any], changes: Mapping[str, str], folder: str | Path
) -> tuple[Method, DataSpec, Budget]:
    from sfumato.data.labels import LabelPrior
    from sfumato.methods import find
    from sfumato.methods.settings import parse

    cls = find(made["method"])
    if fixed := sorted(set(changes) & set(cls.measured)):
        raise InputError(f"The measurement in {folder} fixes {', '.join(fixed)}; leave it out of --set.")
    weights = labels["weights"] and tuple(labels["weights"])
    prior = LabelPrior(labels["kind"], weights, 0.5 if labels["kind"] == "private" else None)
    given = made["settings"] | parse(cls, changes)
    try:
        method = cls(**given, labels=prior)
    except ValueError as error:
        raise InputError(str(error)) from error
    data = made["data"] | {"shape": tuple(made["data"]["shape"]), "classes": tuple(made["data"]["classes"])}
    return method, DataSpec(**data | {"unit": Unit(data["unit"])}), make_budget(**made["budget"])


# Verbs that live in packages of their own, imported when they are first asked for.
_ELSEWHERE = {
    "as_printed": ("sfumato.flow.printed", "as_printed"),
    "audit_gallery": ("sfumato.audit.gallery", "run"),
    "audit_method": ("sfumato.audit", "check"),
    "audit_release": ("sfumato.audit.games.attack", "attack"),
    "carry_out_training": ("sfumato.classify.request", "carry_out"),
    "classifier_recipe": ("sfumato.recipes.topagg", "find"),
    "compare": ("sfumato.evaluate.compare", "compare"),
    "evaluate": ("sfumato.evaluate.evaluate", "evaluate"),
    "make_key": ("sfumato.release.files.sign", "make_key"),
    "publish_accuracy": ("sfumato.evaluate.publish", "publish_accuracy"),
    "read_test": ("sfumato.classify.request", "read_test"),
    "resume_training": ("sfumato.classify.request", "resume"),
    "train_classifier": ("sfumato.classify.train", "train_classifier"),
    "tune": ("sfumato.flow.tune", "tune"),
    "verify": ("sfumato.release.files.verify", "verify"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'sfumato.api' has no attribute '{name}'")
    module, function = _ELSEWHERE[name]
    return getattr(import_module(module), function)
