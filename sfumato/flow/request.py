"""A request: all that a run needs, in plain words, as a command line says it and a resumed run reads it back.

What is slow to import is imported where it is needed, so that a wrong option is refused at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.loading import must_exist
from sfumato.errors import InputError
from sfumato.flow import config
from sfumato.flow.config import check_config_place
from sfumato.flow.make import (
    AUTO,
    built,
    check_out,
    chosen_texts,
    fit_settings,
    make_budget,
    make_method,
    make_plan,
)
from sfumato.flow.make import (
    labels_for as labels_for,
)
from sfumato.methods.registry import check_name
from sfumato.recipes import RECIPES, find
from sfumato.release.files.command import CLASSIFIERS as CLASSIFIERS
from sfumato.release.publication import publication
from sfumato.types import DataSpec, Unit

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.classify.method import NetworkTraining
    from sfumato.classify.release import TrainedClassifier
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.flow.approval import Approval
    from sfumato.flow.proposal import Proposal
    from sfumato.flow.synthesize import Synthesis
    from sfumato.flow.train_classifier import Training
    from sfumato.ledger.job import Job
    from sfumato.methods import Method
    from sfumato.privacy.plan import Plan
    from sfumato.release import Release
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

HOUSE = "sfumato"  # the method where none is named
NOT_OF_CLASSIFIERS = frozenset({"method", "recipe", "labels", "count", "format", "isolate"})
# Left out of the printed command. They say where the books, the key and the folder lie, on what is computed and how the
# release is presented, all of it the custodian's own affair: neither what is asked of the data nor the guarantee
# depends on them.
UNTOLD = frozenset(
    {"ledger", "out", "sign", "signer", "device", "microbatch", "isolate", "license", "title", "contact"}
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Flags of `sfumato synthesize` and `sfumato train-classifier`; none of them is computed from data."""

    data: str
    method: str
    recipe: str | None = None  # by name, for the report; what it says is in the other fields
    epsilon: float
    delta: float = 1e-5
    relation: str = "add-remove"
    private_count: bool = False
    records: int | None = None
    size: int | None = None
    grey: bool = False
    split: str = "train"
    label: str | None = None
    person: str | None = None
    labels: str = AUTO
    public: str | None = None
    provenance: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    count: int = 10_000
    format: str = "png"
    seed: int = 0
    device: str = "auto"
    microbatch: int = 1024
    isolate: bool = False
    ledger: str | None = None
    out: str = "release"
    sign: str | None = None
    signer: str | None = None
    license: str | None = None
    title: str | None = None
    contact: str | None = None

    @property
    def unit(self) -> Unit:
        """A person where a person column is named."""
        return Unit.PERSON if self.person else Unit.RECORD

    def load(self, progress: Any = None) -> PrivateImages:
        """The data, boxed."""
        from sfumato.data import load

        return load(
            self.data,
            size=self.size,
            grey=self.grey,
            split=self.split,
            label=self.label,
            person=self.person,
            private_count=self.private_count,
            records=self.records,
            progress=progress,
        )

    def budget(self, spec: DataSpec) -> Budget:
        """What may be spent on data of this description."""
        return make_budget(self.epsilon, self.delta, self.relation, spec.unit)

    def settled(self) -> Request:
        """The same request as a run that is resumed in another folder reads it: places are absolute."""
        ledger, sign = (str(Path(place).absolute()) if place else None for place in (self.ledger, self.sign))
        out = str(Path(self.out).absolute())
        labels = absolute(self.labels) if Path(self.labels).is_file() else self.labels
        return replace(self, data=absolute(self.data), labels=labels, ledger=ledger, out=out, sign=sign)

    def command(self) -> str:
        """A public line that asks for the same: every field that is not as it is by default, and no local path."""
        from sfumato.release.files.command import write

        known = self._recipe_texts()
        shown: dict[str, Any] = {"recipe": self.recipe} if known else {"method": self.method}
        shown |= {name: getattr(self, name) for name in ("epsilon", "delta", "relation", "count", "seed")}
        rest = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in {*shown, *UNTOLD, "data", "method", "recipe", "settings"}
            and getattr(self, f.name) != f.default
        }
        changed = {name: text for name, text in self.settings.items() if known.get(name) != text}
        by = next((by for by, name in CLASSIFIERS.items() if name == self.method), None)
        if by not in (None, "dpsgd"):
            shown["by"] = by
        verb = "synthesize" if by is None else "train-classifier"
        return write(verb, self.data, shown | rest | {"settings": changed})

    def _recipe_texts(self) -> dict[str, str]:
        """What the recipe of this request says; nothing where there is none, or it is of another version."""
        made = RECIPES.get(self.recipe or "")
        fits = made is not None and made.method == self.method and made.texts().keys() <= self.settings.keys()
        return made.texts() if made and fits else {}


def typed(params: dict[str, Any], given: Sequence[str], settings: dict[str, str]) -> dict[str, Any]:
    """Options as typed, with the method, the budget and the settings of a recipe where they were not."""
    if params["recipe"] is None:
        return params | {"method": params["method"] or HOUSE, "settings": settings}
    recipe = find(params["recipe"])
    if params["method"] not in (None, recipe.method):
        raise InputError(
            f"The recipe {recipe.name} is for {recipe.method}, not for {params['method']}; "
            "leave out --method or --recipe."
        )
    filled = {k: getattr(recipe, k) for k in ("method", "epsilon", "delta") if k not in given}
    if "labels" in params and "labels" not in given:
        filled["labels"] = "uniform"  # as its numbers were measured
    return params | filled | {"settings": recipe.texts() | settings}


def described(recipe: str, *given: Any) -> tuple[Any, Any, Any]:
    """Records, shape and classes as given, or else those that a recipe was made for."""
    made = find(recipe)
    own = (made.records, "x".join(map(str, made.shape)), made.classes)
    records, shape, classes = (there if part is None else part for part, there in zip(given, own, strict=True))
    return records, shape, classes


def made_up(unit: str = "record", recipe: str | None = None) -> DataSpec:
    """The data that an audit makes up: as a recipe describes its own, or small, and yet large enough for a sample, a
    choice of the largest values and a network's strides to be at work."""
    records, shape, classes = described(recipe, None, None, None) if recipe else (6000, "1x16x16", 3)
    return replace(describe(records=records, shape=shape, classes=classes, unit=unit), name="made up")


def describe(records: int, shape: str, classes: int, *, unit: str = "record", private_count: bool = False) -> DataSpec:
    """A data set that need not exist, for `sfumato plan` without files."""
    try:
        sides = tuple(int(side) for side in shape.lower().split("x"))
        kind = make_budget(1.0, unit=unit).unit
        names = tuple(str(i) for i in range(classes))
        return DataSpec("described", records, sides, names, kind, not private_count)  # type: ignore[arg-type]
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"Expected --records N --shape 1x28x28 --classes 10: {error}") from error


def plan_for(request: Request, spec: DataSpec) -> Plan:
    """The plan of a request for data of this public description."""
    return make_plan(method_for(request, spec), spec, request.budget(spec))


def method_for(request: Request, spec: DataSpec) -> Method:
    """The method of a request, with settings that nobody chose fitted to data of this public description."""
    return _fitted(request, make_method(request.method, request.settings), spec)[1]


def proposed(request: Request) -> tuple[Plan, Proposal]:
    """The plan of a request and what it is about to do with the data, timed by a rehearsal; nothing is spent."""
    method = _method(request, again=True)
    from sfumato.flow.flow import rehearsed
    from sfumato.flow.proposal import hopeless, propose

    with request.load() as box:
        task = _synthesis(request.settled(), method, box.spec)
        useless = hopeless(task.plan)
        told = propose(task.plan, box, request.ledger, made=task.made(), out=task.out, useless=useless)
        return task.plan, told.timed(rehearsed(task, _run(request, None), None))


def expected_seconds(request: Request, spec: DataSpec) -> float:
    """How long a request will take on its device, by a rehearsal on made-up records."""
    from sfumato.flow.flow import rehearsed

    task = _synthesis(request.settled(), _method(request, again=True), spec)
    return rehearsed(task, _run(request, None), None)


def explained(request: Request, plan: Plan) -> list[dict[str, Any]]:
    """The plan of a request in sentences, section by section."""
    return [section.to_json() for section in method_for(request, plan.data).explain(plan)]


def carry_out(request: Request, progress: Silent | None = None, approval: Approval | None = None) -> Release:
    """Synthesize as requested, once it is approved; a stopped run can be taken up by `resume`."""
    method = _method(request)
    from sfumato.flow import flow
    from sfumato.ledger.job import Job, unless_refused
    from sfumato.privacy.ranks import join

    with request.load(shown(progress)) as box:
        settled, method = _fitted(request.settled(), method, box.spec)
        task = _synthesis(settled, method, box.spec)
        with unless_refused(Job.create(asdict(settled), settled.ledger)) as job:
            run = _run(settled, progress, ranks=join())
            release = flow.carry_out(task, box, run, job=job, ledger=settled.ledger, approval=approval)
    write_config(settled)
    return release


def resume(run: str, progress: Silent | None = None, ledger: str | None = None) -> tuple[Request, Release]:
    """Take up a stopped run where its checkpoint stands, under the same reservation; what was asked, and the result.

    `ledger` is for a ledger that lies elsewhere than when the run began.
    """
    with _stopped(run, ledger) as (request, job):
        if request is None or request.method in CLASSIFIERS.values():
            raise InputError(f"The run {run} was begun from Python or by another version; resume it there.")
        from sfumato.flow import flow
        from sfumato.privacy.ranks import join

        method = _method(request, again=True)
        with request.load(shown(progress)) as box:
            task = _synthesis(request, method, box.spec)
            how = _run(request, progress, ranks=join())
            release = flow.carry_out(task, box, how, job=job, ledger=request.ledger)
        write_config(request)
        return request, release


def follows() -> bool:
    """Whether this process is one of several (torchrun) and not the first, which keeps the books."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0


def assist(request: Request | None, run: str | None) -> None:
    """What a rank other than the first does in a run of several (torchrun), new or resumed."""
    from sfumato.flow import flow
    from sfumato.ledger.manifest import asked_of
    from sfumato.privacy.ranks import join

    request = request or Request(**asked_of(str(run)))
    with request.load() as box:
        task = _synthesis(request, _method(request, again=True), box.spec)
        flow.assist(task.method, task.plan, box, _run(request, None, ranks=join()), task.public)


def train(
    request: Request,
    test: PublicImages | None = None,
    progress: Silent | None = None,
    approval: Approval | None = None,
) -> tuple[TrainedClassifier, float | None]:
    """Train as requested; a stopped run can be taken up by `resume_training`. With `test`, the accuracy there too."""
    classifier = _classifier(request)
    from sfumato.flow import flow
    from sfumato.ledger.job import Job, unless_refused

    with request.load(shown(progress)) as box:
        settled = request.settled()
        task = _training(settled, classifier, box.spec, test)
        with unless_refused(Job.create(asdict(settled), settled.ledger)) as job:
            run = _run(settled, progress)
            trained = flow.carry_out(task, box, run, job=job, ledger=settled.ledger, approval=approval)
    write_config(settled)
    return trained, _accuracy(trained, test)


def resume_training(
    run: str, test: PublicImages | None = None, progress: Silent | None = None, ledger: str | None = None
) -> tuple[Request, TrainedClassifier, float | None]:
    """Take up a stopped run where its checkpoint stands, under the same reservation."""
    with _stopped(run, ledger) as (request, job):
        if request is None or request.method not in CLASSIFIERS.values():
            raise InputError(f"The run {run} is not one of `sfumato train-classifier`, or of another version of it.")
        from sfumato.flow import flow

        classifier = make_classifier(request.settings, request.method)
        with request.load(shown(progress)) as box:
            task = _training(request, classifier, box.spec, test)
            trained = flow.carry_out(task, box, _run(request, progress), job=job, ledger=request.ledger)
        write_config(request)
        return request, trained, _accuracy(trained, test)


def make_classifier(settings: Mapping[str, str] | None = None, name: str = "classifier") -> NetworkTraining:
    """A classifier, by DP-SGD or of another name, from `--set field=value` settings as text.

    >>> make_classifier({"network": "cnn", "k": "0.8"}).settings()["k"]
    0.8
    """
    from sfumato.classify.classifier import Classifier
    from sfumato.classify.pate import PATE

    made: type[NetworkTraining] = PATE if name == PATE.name else Classifier
    return built(made, settings or {})


def read_test(test: str | None, provenance: str | None, split: str, **options: Any) -> PublicImages | None:
    """Test images that may be looked at: a named public set, or one that somebody declares public.

    Accuracy on private images is as private as they are, so that a private test set is refused.
    """
    from sfumato.data import load, load_public

    if test is None:
        return None
    try:
        with load(test, split=split, **options) as box:
            public = box.spec.public
    except InputError as error:
        raise InputError(str(error).replace("--split", "--public-test-split")) from error
    if not public and provenance is None:
        raise InputError(
            "The accuracy on a private test set would leak from it; say with --provenance TEXT where public test "
            "images are from, or leave out --public-test and score the classifier inside with `sfumato evaluate`."
        )
    return load_public(test, provenance or "a named public set", split=split, **options)


@contextmanager
def _stopped(run: str, ledger: str | None = None) -> Iterator[tuple[Request | None, Job]]:
    """A run that was stopped, and what it was asked for; None where that was not by a request of this version."""
    from sfumato.ledger.manifest import read_manifest

    read_manifest(run)  # a name that no run has is refused before what is slow to import
    from sfumato.ledger.job import Job
    from sfumato.ledger.unfinished import moved

    job = Job.find(run)
    try:
        if ledger is not None:
            moved(job, ledger)
        asked = job.manifest["request"] or {}
        whole = set(asked) == {each.name for each in fields(Request)}
        yield Request(**asked) if whole else None, job
    finally:
        job.close()


def write_config(request: Request) -> None:
    """What was asked, beside what was made, so that a run can be repeated from it."""
    asked = asdict(request) | {"set": request.settings}
    by = next((by for by, name in CLASSIFIERS.items() if name == request.method), None)
    verb = "synthesize" if by is None else "train-classifier"
    if by is not None:
        asked = {"data": request.data, "by": by} | {k: v for k, v in asked.items() if k not in NOT_OF_CLASSIFIERS}
    config.write(verb, request.out, {name: value for name, value in asked.items() if name != "settings"})


def verb_of(asked: Mapping[str, Any]) -> str:
    """The verb that a stopped run was begun with; one that was begun from Python is resumed there."""
    if "method" not in asked:
        raise InputError("This run was begun from Python; call the same function again with resume=RUN.")
    return "train-classifier" if asked["method"] in CLASSIFIERS.values() else "synthesize"


def _method(request: Request, again: bool = False) -> Method:
    """The method, once all is refused that can be without reading the data; a run that goes on was asked before.

    Weights of labels that lie in a file wait for the names of the classes.
    """
    if not again:
        check_name(request.method)
        must_exist(request.data)
        check_out(request.out, request.count, request.format)
        check_config_place(request.out)
        _check(request)
        if (request.public is None) != (request.provenance is None):
            raise InputError(
                "Public data and their provenance go together: give both --public DATA and --provenance TEXT."
            )
    later = request.labels == AUTO or Path(request.labels).is_file()
    return make_method(request.method, request.settings, None if later else request.labels)


def _classifier(request: Request) -> NetworkTraining:
    """The classifier, once all is refused that can be without reading the data."""
    from sfumato.release import ensure_free

    must_exist(request.data)
    ensure_free(request.out)
    check_config_place(request.out)
    _check(request)
    return make_classifier(request.settings, request.method)


def _check(request: Request) -> None:
    from sfumato.release.files.sign import check_signer, read_key
    from sfumato.run.run import pick_device

    make_budget(request.epsilon, request.delta, request.relation, request.unit)
    publication(request.license, request.title, request.contact)
    pick_device(request.device)
    if request.isolate and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("An isolated run has one process for the data; leave out --isolate, or do without torchrun.")
    if request.sign is not None:
        read_key(request.sign)
        check_signer(request.signer)
    elif request.signer is not None:
        raise InputError("A signer needs a key; add --sign FILE, made by `sfumato keygen FILE`.")


def _fitted(request: Request, method: Method, spec: DataSpec) -> tuple[Request, Method]:
    """What is done: the printed command, the config and a resumed run ask for it, on another device too."""
    from sfumato.data.labels import parse_labels
    from sfumato.run.run import pick_device

    labels = labels_for(request.labels, spec, request.budget(spec))
    if request.labels == AUTO and labels != "uniform":
        request = replace(request, labels=labels)
    method = replace(method, labels=parse_labels(labels, spec.classes))
    fitted = fit_settings(method, spec, request.budget(spec), pick_device(request.device))
    if fitted == method:
        return request, method
    return replace(request, settings=request.settings | chosen_texts(fitted)), fitted


def _synthesis(request: Request, method: Method, spec: DataSpec) -> Synthesis:
    from sfumato.flow.synthesize import Synthesis

    request, method = _fitted(request, method, spec)
    return Synthesis(
        method,
        make_plan(method, spec, request.budget(spec)),
        _public(request),
        request.count,
        Path(request.out),
        request.format,
        request.command(),
        request.sign,
        request.signer,
        publication(request.license, request.title, request.contact),
        request.isolate,
    )


def _training(request: Request, classifier: NetworkTraining, spec: DataSpec, test: PublicImages | None) -> Training:
    from sfumato.flow.train_classifier import Training, plan_training

    plan = plan_training(classifier, spec, request.budget(spec))
    if test is not None and test.images.pixels.shape[1:] != spec.shape:
        found, wanted = ("x".join(map(str, s)) for s in (test.images.pixels.shape[1:], spec.shape))
        raise InputError(f"Expected test images of {wanted}, found {found}; choose --size and --grey for both.")
    public = _public(request)
    return Training(classifier, plan, public, Path(request.out), request.command(), request.sign, request.signer)


def _accuracy(trained: TrainedClassifier, test: PublicImages | None) -> float | None:
    from sfumato.flow.train_classifier import accuracy

    return None if test is None else accuracy(trained, test)


def _run(request: Request, progress: Silent | None, **more: Any) -> Run:
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

    return Run(request.device, request.seed, request.microbatch, progress=progress or Silent(), **more)


def _public(request: Request) -> PublicImages | None:
    from sfumato.data import load_public

    if request.public is None or request.provenance is None:
        return None
    return load_public(request.public, request.provenance, size=request.size, grey=request.grey)


def absolute(data: str) -> str:
    """A path that a resumed run finds from another folder; a named set keeps its name."""
    name, colon, path = data.partition(":")
    if colon and Path(path).exists():
        return f"{name}:{Path(path).absolute()}"
    return str(Path(data).absolute()) if Path(data).exists() else data


def shown(progress: Silent | None) -> Callable[[int, int, str], None] | None:
    """What `load` tells of its progress, as stages of a display; nothing without one."""
    if progress is None:
        return None
    stage: list[str] = []

    def show(done: int, total: int, what: str) -> None:
        if stage != [what]:
            stage[:] = [what]
            progress.start(what, total or None)
        progress.advance(done)

    return show
