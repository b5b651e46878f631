"""The verbs of Sfumato from Python, each in a few lines: what they do lies in the packages below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.accounting.budget import Budget
from sfumato.errors import pythonic
from sfumato.flow.make import boxed, check_out, fit_settings, following, make_budget, make_method, make_plan
from sfumato.types import Images

if TYPE_CHECKING:
    from sfumato.data.public import PublicImages
    from sfumato.methods import Method
    from sfumato.release import Release
    from sfumato.run.run import Run

__all__ = [
    "Budget",
    "assist",
    "budget_of",
    "check_out",
    "describe_method",
    "make_budget",
    "make_method",
    "make_plan",
    "methods",
    "recipes",
    "sample",
    "synthesize",
]


@pythonic
def synthesize(
    method: Method,
    data: Any,
    budget: Budget,
    run: Run | None = None,
    *,
    count: int = 10_000,
    public: PublicImages | None = None,
    out: str | Path | None = None,
    format: str = "png",
    ledger: str | Path | None = None,
    resume: str | None = None,
    command: str | None = None,
    key: str | Path | None = None,
    signer: str | None = None,
    license: str | None = None,
    title: str | None = None,
    contact: str | None = None,
    force: bool = False,
    isolate: bool = False,
) -> Release:
    """Learn a generator from private `data` within `budget` and return what may be published.

    The plan is made, and an impossible one refused, before a record is read; the budget is reserved in the ledger of
    the data before the first crossing. With `out` the release is also written there. `resume` names a run that was
    stopped; everything else must then be as it was. `key` is a file to sign the release with; `license` (such as
    cc-by-4.0), `title` and `contact` go into its documents. A plan of which nothing useful can come is refused unless
    you `force` it. Before anything is reserved, the method is audited on made-up records (level 0), and refused if it
    does what it does not declare; then it is rehearsed on such records with all that it needs, so that what is missing
    is missed before it costs. With `isolate` the method runs in a process of its own that never holds a record.

    >>> from sfumato import DPMERF, Budget
    >>> release = synthesize(DPMERF(features=20, steps=2), "digits", Budget(epsilon=5), count=20)
    >>> release.images.pixels.shape
    (20, 1, 8, 8)
    """
    from sfumato.flow.approval import Approval
    from sfumato.flow.flow import carry_out
    from sfumato.flow.synthesize import Synthesis
    from sfumato.release.publication import publication
    from sfumato.run.run import Run

    said = publication(license, title, contact)
    box = boxed(data)
    run = run or Run()
    method = fit_settings(method, box.spec, budget, run.device)
    plan = make_plan(method, box.spec, budget)
    place = None if out is None else Path(out)
    task = Synthesis(method, plan, public, count, place, format, command, key, signer, said, isolate)
    return carry_out(task, box, run, resume=resume, ledger=ledger, approval=Approval(yes=True, force=force))


@pythonic
def assist(method: Method, data: Any, budget: Budget, run: Run, public: PublicImages | None = None) -> None:
    """Do the share of a rank other than the first, which keeps the books, in the same run of `synthesize`."""
    from sfumato.flow import flow

    box = boxed(data)
    method = fit_settings(method, box.spec, budget, run.device)
    flow.assist(method, make_plan(method, box.spec, budget), box, run, public)


@pythonic
def sample(
    folder: str | Path, count: int, out: str | Path, *, label: str | None = None, seed: int = 0, format: str = "png"
) -> Images:
    """More images from a release, at no cost in privacy, written as an image folder or a parquet file."""
    from sfumato.release import Release, save_images

    check_out(out, count, format)
    images = Release.load(folder).sample(count, labels=label, seed=seed)
    save_images(images, out, format)
    return images


@pythonic
def budget_of(
    data: Any, *, total: Budget | None = None, ledger: str | Path | None = None, **options: Any
) -> dict[str, Any]:
    """What the ledger knows of a data set; with `total`, the custodian's grant is set first."""
    with boxed(data, **options) as box:
        from sfumato.ledger.reservation import shown  # slow; a mistyped path is answered before

        return shown(box, total and following(total, box.spec), ledger)


@pythonic
def methods(name: str | None = None) -> list[dict[str, Any]]:
    """The methods, or the one of this name: what each says of itself, and its settings."""
    from sfumato.methods import find, names

    return [describe_method(find(each)) for each in (names() if name is None else [name])]


def describe_method(cls: type[Method]) -> dict[str, Any]:
    """What a method says of itself; settings with their defaults, ranges and descriptions."""
    from sfumato.methods import RECOMMENDED, RELEASABLE, family_of
    from sfumato.methods.settings import declared

    releasable, attacker = RELEASABLE[cls.site]
    about = {name: {"range": s.range(), "unit": s.unit, "about": s.about} for name, s in declared(cls).items()}
    return {
        "name": cls.name,
        "recommended": RECOMMENDED.index(cls.name) + 1 if cls.name in RECOMMENDED else None,
        "good_for": cls.good_for,
        "site": cls.site.name,
        "barrier": str(cls.site),
        "group": family_of(cls.name),
        "family": cls.family,
        "paper": cls.paper,
        "framework": cls.framework,
        "axes": list(cls.axes),
        "model": cls.in_words(),
        "relations": list(cls.relations),
        "sensitivity": cls.sensitivity,
        "releasable": releasable,
        "attacker_sees": attacker,
        "public_data": cls.public_data,
        "status": cls.status,
        "deviations": list(cls.deviations),
        "settings": {name: {"default": value, **about.get(name, {})} for name, value in cls().settings().items()},
    }


@pythonic
def recipes(
    name: str | None = None, *, method: str | None = None, data: str | None = None, epsilon: float | None = None
) -> list[dict[str, Any]]:
    """The recipes, the one of this name, or those of a method, a set and a budget: settings, budget, and their source.

    A recipe is of a method or, as `method="classifier"`, of a classifier.
    """
    from sfumato.recipes import find_any, select

    found = select(method, data, epsilon) if name is None else [find_any(name)]
    return [recipe.to_json() for recipe in found]


# Verbs that live in packages of their own, imported when they are first asked for.
_ELSEWHERE = {
    "Approval": ("sfumato.flow.approval", "Approval"),
    "asked_of": ("sfumato.ledger.manifest", "asked_of"),
    "discard_run": ("sfumato.ledger.unfinished", "discard"),
    "known_runs": ("sfumato.ledger.manifest", "known_runs"),
    "read_config": ("sfumato.flow.config", "read"),
    "unfinished_run": ("sfumato.ledger.unfinished", "described"),
    "unfinished_runs": ("sfumato.ledger.unfinished", "unfinished"),
    "verb_of": ("sfumato.flow.request", "verb_of"),
    "as_printed": ("sfumato.flow.printed", "as_printed"),
    "audit_gallery": ("sfumato.audit.gallery", "run"),
    "audit_method": ("sfumato.audit", "check"),
    "audit_release": ("sfumato.audit.games.attack", "attack"),
    "carry_out_training": ("sfumato.flow.request", "train"),
    "classifier_recipe": ("sfumato.recipes.topagg", "find"),
    "compare": ("sfumato.evaluate.compare", "compare"),
    "evaluate": ("sfumato.flow.evaluate", "evaluate"),
    "coordinate": ("sfumato.federation.runs", "coordinate_far"),
    "plan_federation": ("sfumato.federation.runs", "planned"),
    "read_agreement": ("sfumato.federation.agreement", "read"),
    "serve_site": ("sfumato.federation.runs", "serve"),
    "simulate_federation": ("sfumato.federation.runs", "simulate_in"),
    "must_exist": ("sfumato.data.loading", "must_exist"),
    "release_folder": ("sfumato.release.files.reading", "release_folder"),
    "make_key": ("sfumato.release.files.sign", "make_key"),
    "publish": ("sfumato.flow.send", "publish"),
    "publish_accuracy": ("sfumato.flow.publish", "publish_accuracy"),
    "read_sweep": ("sfumato.flow.sweep_plan", "read"),
    "read_test": ("sfumato.flow.request", "read_test"),
    "refit": ("sfumato.flow.refit", "refit"),
    "resume_training": ("sfumato.flow.request", "resume_training"),
    "sweep": ("sfumato.flow.sweep", "sweep"),
    "train_classifier": ("sfumato.flow.train_classifier", "train_classifier"),
    "tune": ("sfumato.flow.tune", "tune"),
    "verify": ("sfumato.classify.verify", "verify"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'sfumato.api' has no attribute '{name}'")
    module, function = _ELSEWHERE[name]
    return pythonic(getattr(import_module(module), function))
