"""The verbs of Sfumato from Python, each in a few lines: what they do lies in the packages below."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.accounting.budget import Budget
from sfumato.flow.make import boxed, check_out, make_budget, make_method, make_plan
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
    from sfumato.flow.flow import carry_out
    from sfumato.flow.synthesize import Synthesis
    from sfumato.run.run import Run

    box = boxed(data)
    plan = make_plan(method, box.spec, budget)
    place = None if out is None else Path(out)
    task = Synthesis(method, plan, public, count, place, format, command, key, signer)
    return carry_out(task, box, run or Run(), resume=resume, ledger=ledger)


def assist(method: Method, data: Any, budget: Budget, run: Run, public: PublicImages | None = None) -> None:
    """Do the share of a rank other than the first, which keeps the books, in the same run of `synthesize`."""
    from sfumato.flow import flow

    box = boxed(data)
    flow.assist(method, make_plan(method, box.spec, budget), box, run, public)


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
    from sfumato.ledger.reservation import shown

    with boxed(data, **options) as box:
        return shown(box, total, ledger)


def methods(name: str | None = None) -> list[dict[str, Any]]:
    """The methods, or the one of this name: what each says of itself, and its settings."""
    from sfumato.methods import find, names

    return [describe_method(find(each)) for each in (names() if name is None else [name])]


def describe_method(cls: type[Method]) -> dict[str, Any]:
    """What a method says of itself; settings with their defaults, ranges and descriptions."""
    from sfumato.methods import RELEASABLE
    from sfumato.methods.settings import declared

    releasable, attacker = RELEASABLE[cls.site]
    about = {name: {"range": s.range(), "unit": s.unit, "about": s.about} for name, s in declared(cls).items()}
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
        "deviations": list(cls.deviations),
        "settings": {name: {"default": value, **about.get(name, {})} for name, value in cls().settings().items()},
    }


def recipes(name: str | None = None) -> list[dict[str, Any]]:
    """The recipes, or the one of this name: a method (or a classifier) with settings, a budget, and their source."""
    from sfumato.recipes import CLASSIFIERS, RECIPES, find_any

    return [recipe.to_json() for recipe in ((RECIPES | CLASSIFIERS).values() if name is None else [find_any(name)])]


# Verbs that live in packages of their own, imported when they are first asked for.
_ELSEWHERE = {
    "as_printed": ("sfumato.flow.printed", "as_printed"),
    "audit_gallery": ("sfumato.audit.gallery", "run"),
    "audit_method": ("sfumato.audit", "check"),
    "audit_release": ("sfumato.audit.games.attack", "attack"),
    "carry_out_training": ("sfumato.flow.request", "train"),
    "classifier_recipe": ("sfumato.recipes.topagg", "find"),
    "compare": ("sfumato.evaluate.compare", "compare"),
    "evaluate": ("sfumato.evaluate.evaluate", "evaluate"),
    "make_key": ("sfumato.release.files.sign", "make_key"),
    "publish_accuracy": ("sfumato.flow.publish", "publish_accuracy"),
    "read_test": ("sfumato.flow.request", "read_test"),
    "refit": ("sfumato.flow.refit", "refit"),
    "resume_training": ("sfumato.flow.request", "resume_training"),
    "train_classifier": ("sfumato.flow.train_classifier", "train_classifier"),
    "tune": ("sfumato.flow.tune", "tune"),
    "verify": ("sfumato.classify.verify", "verify"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'sfumato.api' has no attribute '{name}'")
    module, function = _ELSEWHERE[name]
    return getattr(import_module(module), function)
