"""A request: all that a run needs, in plain words, as a command line says it and a resumed run reads it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.api import make_budget, make_method, make_plan, saved_before, synthesize
from sfumato.errors import InputError
from sfumato.recipes import RECIPES, find
from sfumato.types import DataSpec, Unit

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.data.private import PrivateImages
    from sfumato.methods import Method
    from sfumato.privacy.plan import Plan
    from sfumato.release import Release
    from sfumato.run.progress import Silent


# Left out of the printed command. They say where the books, the key and the folder lie and on what is computed, all
# of it the custodian's own affair: neither what is asked of the data nor the guarantee depends on them.
UNTOLD = frozenset({"ledger", "out", "sign", "signer", "device", "microbatch"})


@dataclass(frozen=True, kw_only=True)
class Request:
    """Flags of `sfumato synthesize`; none of them is computed from data."""

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
    labels: str = "uniform"
    public: str | None = None
    provenance: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    count: int = 10_000
    format: str = "png"
    seed: int = 0
    device: str = "auto"
    microbatch: int = 1024
    ledger: str | None = None
    out: str = "release"
    sign: str | None = None
    signer: str | None = None

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

    def command(self, verb: str = "synthesize") -> str:
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
        return write(verb, self.data, shown | rest | {"settings": changed})

    def _recipe_texts(self) -> dict[str, str]:
        """What the recipe of this request says; nothing where there is none, or it is of another version."""
        made = RECIPES.get(self.recipe or "")
        fits = made is not None and made.method == self.method and made.texts().keys() <= self.settings.keys()
        return made.texts() if made and fits else {}


def typed(params: dict[str, Any], given: Sequence[str], settings: dict[str, str]) -> dict[str, Any]:
    """Options as typed, with the method, the budget and the settings of a recipe where they were not."""
    if params["recipe"] is None:
        return params | {"settings": settings}
    recipe = find(params["recipe"])
    if params["method"] not in (None, recipe.method):
        raise InputError(
            f"The recipe {recipe.name} is for {recipe.method}, not for {params['method']}; "
            "leave out --method or --recipe."
        )
    filled = {k: getattr(recipe, k) for k in ("method", "epsilon", "delta") if k not in given}
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


def describe(*, records: int, shape: str, classes: int, unit: str = "record", private_count: bool = False) -> DataSpec:
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
    method = make_method(request.method, request.settings, request.labels, spec.classes)
    return make_plan(method, spec, make_budget(request.epsilon, request.delta, request.relation, spec.unit))


def carry_out(request: Request, progress: Silent | None = None) -> Release:
    """Synthesize as requested; a stopped run can be taken up by `resume`."""
    from sfumato.ledger.job import Job, unless_refused

    _check(request)
    with request.load(shown(progress)) as box:
        plan_for(request, box.spec)
        ledger = str(Path(request.ledger).absolute()) if request.ledger else None
        sign = str(Path(request.sign).absolute()) if request.sign else None
        places = {"data": absolute(request.data), "ledger": ledger, "out": str(Path(request.out).absolute())}
        kept = asdict(request) | places | {"sign": sign}
        with unless_refused(Job.create(kept, ledger)) as job:
            return _go(Request(**kept), box, job, progress)


def resume(run: str, progress: Silent | None = None) -> tuple[Request, Release]:
    """Take up a stopped run where its checkpoint stands, under the same reservation; what was asked, and the result."""
    from sfumato.ledger.job import Job

    job = Job.find(run)
    try:
        if set(job.manifest["request"]) != {f.name for f in fields(Request)}:
            raise InputError(f"The run {run} was begun from Python or by another version; resume it there.")
        request = Request(**job.manifest["request"])
        with request.load(shown(progress)) as box:
            return request, _go(request, box, job, progress)
    finally:
        job.close()


def _go(request: Request, box: PrivateImages, job: Any, progress: Silent | None) -> Release:
    from sfumato.privacy.ranks import join
    from sfumato.run.progress import Silent
    from sfumato.run.run import Run

    if (release := saved_before(job, Path(request.out), box, request.ledger)) is not None:
        return release
    return synthesize(
        *_asked(request, box),
        Run(**_how(request), progress=progress or Silent(), ranks=join()),
        count=request.count,
        public=_public(request),
        out=request.out,
        format=request.format,
        ledger=request.ledger,
        job=job,
        command=request.command(),
        key=request.sign,
        signer=request.signer,
    )


def follows() -> bool:
    """Whether this process is one of several (torchrun) and not the first, which keeps the books."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0


def assist(request: Request | None, run: str | None) -> None:
    """What a rank other than the first does in a run of several (torchrun), new or resumed."""
    from sfumato.api import assist
    from sfumato.ledger.job import asked_of
    from sfumato.privacy.ranks import join
    from sfumato.run.run import Run

    request = request or Request(**asked_of(str(run)))
    with request.load() as box:
        assist(*_asked(request, box), Run(**_how(request), ranks=join()), _public(request))


def _asked(request: Request, box: PrivateImages) -> tuple[Method, PrivateImages, Budget]:
    method = make_method(request.method, request.settings, request.labels, box.spec.classes)
    return method, box, make_budget(request.epsilon, request.delta, request.relation, box.spec.unit)


def _how(request: Request) -> dict[str, Any]:
    return {"device": request.device, "seed": request.seed, "microbatch": request.microbatch}


def _check(request: Request) -> None:
    """All that can be refused without reading the data is refused first."""
    from sfumato.api import check_out
    from sfumato.release.files.sign import check_signer, read_key
    from sfumato.run.run import pick_device

    make_budget(request.epsilon, request.delta, request.relation, request.unit)
    # Class names are not known yet; a file of weights is read again when they are.
    make_method(request.method, request.settings, None if Path(request.labels).is_file() else request.labels)
    check_out(request.out, request.count, request.format)
    pick_device(request.device)
    if request.sign is not None:
        read_key(request.sign)
        check_signer(request.signer)
    elif request.signer is not None:
        raise InputError("A signer needs a key; add --sign FILE, made by `sfumato keygen FILE`.")
    if (request.public is None) != (request.provenance is None):
        raise InputError("Public data and their provenance go together: give both --public DATA and --provenance TEXT.")


def _public(request: Request) -> Any:
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


def shown(progress: Silent | None) -> Any:
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
