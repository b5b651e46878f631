"""What a run is made of, from plain values: a budget, a method, a plan, a box of data; each refused in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from sfumato.accounting.budget import Budget, Relation, Unit
from sfumato.errors import InputError
from sfumato.types import DataSpec

if TYPE_CHECKING:
    from sfumato.data.private import PrivateImages
    from sfumato.data.public import PublicImages
    from sfumato.methods import Method
    from sfumato.privacy.barrier import Barrier
    from sfumato.privacy.plan import Plan
    from sfumato.run.run import Run

AUTO = "auto"  # labels: measured where data are private, even where they are public
NOISE = 0.02  # of an average class, in the measured shares of classes
LEAST_SHARE = 0.01  # of the budget for them
MOST_SHARE = 0.1
Made = TypeVar("Made")
Fit = TypeVar("Fit", bound="Method")


class Learner(Protocol):
    """What a run is planned for and learns by: a method, or a classifier."""

    name: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        """The public settings."""

    def plan(self, spec: DataSpec, budget: Budget) -> Plan:
        """Every crossing, from public facts alone."""

    def learn(self, barrier: Barrier, run: Run, public: PublicImages | None = None) -> Any:
        """What is learned through the barrier."""


def boxed(data: Any, **options: Any) -> PrivateImages:
    """Data in the box that only a barrier opens."""
    from sfumato.data import load
    from sfumato.data.private import PrivateImages

    return data if isinstance(data, PrivateImages) else load(data, **options)


def make_budget(epsilon: float, delta: float = 1e-5, relation: str = "add-remove", unit: str = "record") -> Budget:
    """A budget from plain values, with one sentence for what is wrong with them."""
    for what, value, kinds in (("relation", relation, Relation), ("unit", unit, Unit)):
        if value not in set(kinds):
            raise InputError(f"Expected --{what} as {' or '.join(kinds)}, found '{value}'.")
    try:
        return Budget(epsilon, delta, Relation(relation), Unit(unit))
    except ValueError as error:
        raise InputError(str(error)) from error


def make_method(
    name: str, settings: Mapping[str, str] | None = None, labels: str | None = None, classes: tuple[str, ...] = ()
) -> Method:
    """A method by its name, with `--set field=value` settings as text and a `--labels` option."""
    from sfumato.data.labels import parse_labels
    from sfumato.methods import find

    prior = {} if labels is None else {"labels": parse_labels(labels, classes)}
    return built(find(name), settings or {}, **prior)


def labels_for(text: str, spec: DataSpec, budget: Budget) -> str:
    """The option `--labels` with `auto` spelt out: equal shares for public sets, a small histogram for private ones.

    It takes as much of the budget as keeps its noise at a fiftieth of an average class, within a hundredth and a tenth.

    >>> labels_for("auto", DataSpec("scans", 5000, (1, 28, 28), ("ill", "well")), Budget(epsilon=1))
    'private:0.01'
    """
    from sfumato.accounting.gaussian import mu_of  # slow; a slip of the finger is answered before

    if text != AUTO:
        return text
    if spec.public or not spec.conditional:
        return "uniform"
    wanted = len(spec.classes) / (NOISE * spec.records * mu_of(budget.epsilon, budget.delta))
    return f"private:{min(MOST_SHARE, max(LEAST_SHARE, wanted**2)):.2g}"


def built(cls: type[Made], settings: Mapping[str, str], **values: Any) -> Made:
    """A method or a classifier with settings as text, and further `values` as they are."""
    from sfumato.methods.settings import parse

    try:
        return cls(**parse(cls, settings), **values)
    except ValueError as error:
        raise InputError(str(error)) from error


def fit_settings(method: Fit, spec: DataSpec, budget: Budget, device: str) -> Fit:
    """The method with settings that nobody chose fitted to public facts."""
    try:
        return method.fitted_to(spec, budget, device)
    except ValueError as error:
        raise InputError(str(error)) from error


def chosen_texts(method: Method) -> dict[str, str]:
    """Settings that are not the class' own defaults, as `--set` takes them."""
    default = type(method)().settings()
    return {name: str(value) for name, value in method.settings().items() if value != default[name]}


def following(budget: Budget, spec: DataSpec) -> Budget:
    """The budget with the unit of the data: where they say who is shown, persons are protected.

    A budget for persons is refused where nothing says who is shown: it would protect single records.
    """
    if budget.unit is Unit.PERSON and spec.unit is Unit.RECORD:
        raise InputError(
            "The budget is for persons, and the data do not say who is shown; name the person column with "
            "--person COLUMN, or choose --unit record."
        )
    return replace(budget, unit=spec.unit)


def make_plan(method: Learner, spec: DataSpec, budget: Budget) -> Plan:
    """The plan of a method for data of this public description; refuses what cannot be kept."""
    budget = following(budget, spec)
    if not spec.count_public and budget.relation is Relation.REPLACE_ONE:
        raise InputError(
            "Replace-one keeps the number of records public; leave out --private-count, "
            "or choose --relation add-remove."
        )
    try:
        return method.plan(spec, budget)
    except ValueError as error:
        raise InputError(str(error)) from error


def check_out(out: str | Path | None, count: int, format: str) -> None:
    """Refuse a place or a format that a release could not be written in, before anything is spent."""
    from sfumato.release import check_format, ensure_free

    check_format(format)
    if count < 1:
        raise InputError(f"Expected --count of at least 1, found {count}.")
    if out is not None:
        ensure_free(out)
