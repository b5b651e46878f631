"""The command line that a statement prints: written whole, and read back to see that it asks for what is stated.

A line that leaves out --person would run per record: whoever repeats a release from it must get its guarantee.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.data.random_process import NAME as RANDOM_PROCESS
from sfumato.errors import InputError
from sfumato.release.files.names import base_name, public_command

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.privacy.plan import Plan
    from sfumato.types import DataSpec

DATA = "data"
SETTINGS = "settings"
WHOLE = ("records", "size", "count", "seed", "microbatch")
NUMBERS = ("epsilon", "delta")
FLAGS = ("private_count", "grey", "isolate")
_READING = (
    "epsilon",
    "delta",
    "relation",
    "unit",
    "private_count",
    "records",
    "size",
    "grey",
    "split",
    "label",
    "person",
    "set",
    "seed",
    "device",
    "microbatch",
    "ledger",
    "out",
    "sign",
    "signer",
)
_PRESENTED = ("license", "title", "contact")
# The options of the verbs that write a release, by the names of their parameters.
OPTIONS: dict[str, frozenset[str]] = {
    "synthesize": frozenset(
        (*_READING, "method", "recipe", "count", "labels", "public", "provenance", "format", "isolate", *_PRESENTED)
    ),
    "train-classifier": frozenset((*_READING, "network", "by", "public", "provenance")),
    "refit": frozenset(("out", "count", "seed", "set", "format")),
}
CLASSIFIERS = {"dpsgd": "classifier", "pate": "pate"}  # what `train-classifier --by` names, by the name of its class
CLOSE = 1e-3  # a calibrated epsilon lies this near to the one that was asked for


class Configured(Protocol):
    """What a release is made by: a method, or a classifier."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init__(self, **settings: Any) -> None: ...

    def settings(self) -> dict[str, Any]: ...

    def plan(self, spec: DataSpec, budget: Budget) -> Plan: ...


FindClass = Callable[[str], type[Configured] | None]


def find_method(name: str) -> type[Configured] | None:
    """The class of a method of this package; None of somebody's own."""
    from sfumato.methods import find, names

    return find(name) if name in names() else None


def flag(name: str) -> str:
    """A parameter as it is typed.

    >>> flag("private_count")
    '--private-count'
    """
    return "--" + name.replace("_", "-")


def write(verb: str, data: str, given: Mapping[str, Any]) -> str:
    """A line that a shell takes; local paths are cut to their last component.

    None, False and what the verb has no option for are left out.

    >>> write("synthesize", "/home/ann/scans", {"epsilon": 1.0, "person": "patient id", "settings": {"steps": "3"}})
    "sfumato synthesize scans --epsilon 1 --person 'patient id' --set steps=3"
    """
    taken = {name: value for name, value in given.items() if name in (*OPTIONS[verb], SETTINGS)}
    words = [word for name, value in taken.items() for word in _words(name, value)]
    # A name that begins with a dash is no option.
    line = ["sfumato", verb, *words, "--", data] if data.startswith("-") else ["sfumato", verb, data, *words]
    return public_command(shlex.join(line))


def _words(name: str, value: Any) -> Iterator[str]:
    if name == SETTINGS:
        for field, text in value.items():
            yield from ("--set", f"{field}={text}")
    elif value is True:
        yield flag(name)
    elif value is not None and value is not False:
        # All digits of a number: a shortened epsilon is another one.
        yield from (flag(name), repr(value).removesuffix(".0") if isinstance(value, float) else str(value))


def read(line: str) -> tuple[str, dict[str, Any]]:
    """The verb of a line and what it asks for, by the names of the parameters; settings as a table of text."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError("The command of the statement has an open quote.") from error
    if len(words) < 2 or words[0] != "sfumato" or words[1] not in OPTIONS:
        raise InputError(f"The command of the statement is not one of {', '.join(OPTIONS)} of sfumato.")
    verb = words[1]
    asked = dict[str, Any]()
    for name, value in _pairs(verb, words[2:]):
        if name == "set":
            field, _, text = value.partition("=")
            name = field.strip()
            value = text.strip()
            if asked.setdefault(SETTINGS, {}).setdefault(name, value) != value:
                raise InputError(f"The command of the statement sets {name} twice.")
        elif asked.setdefault(name, _value(name, value)) != _value(name, value):
            raise InputError(f"The command of the statement gives {flag(name)} twice.")
    if DATA not in asked:
        raise InputError("The command of the statement names no data.")
    return verb, asked


def _pairs(verb: str, words: list[str]) -> Iterator[tuple[str, Any]]:
    """Each option of a line with its value, and the data."""
    left = iter(words)
    for word in left:
        if word == "--":
            yield from ((DATA, rest) for rest in left)
        elif not word.startswith("--"):
            yield DATA, word
        else:
            option, equals, value = word.partition("=")
            name = option[2:].replace("-", "_")
            if name not in OPTIONS[verb] or (name in FLAGS and equals):
                raise InputError(f"The command of the statement has {word}, which `sfumato {verb}` does not take.")
            yield name, True if name in FLAGS else value if equals else next(left, "")


def _value(name: str, value: Any) -> Any:
    kind = int if name in WHOLE else float if name in NUMBERS else None
    try:
        return value if kind is None else kind(value)
    except ValueError as error:
        raise InputError(
            f"The command of the statement gives {flag(name)} as {value!r}, which is no number."
        ) from error


def command_problems(statement: dict[str, Any], find: FindClass = find_method) -> list[str]:
    """Where the printed command asks for something else than the statement states; empty without a command.

    `find` knows the class of what is stated: a method, or what another kind of release is made by.
    """
    line = statement["reproducibility"].get("command")
    if line is None:
        return []
    verb, asked = read(line)
    if verb == "refit":  # asks nothing of the data
        cls = _known(find, statement["reproducibility"]["method"])
        return _settings(cls, asked.get(SETTINGS, {}), statement, whole=False)
    asked = {"delta": 1e-5, "relation": "add-remove", "labels": "uniform", **_by_recipe(asked)}
    if verb == "train-classifier":
        asked["method"] = CLASSIFIERS.get(asked.get("by", "dpsgd"))
        if "network" in asked:
            asked[SETTINGS] = {**asked.get(SETTINGS, {}), "network": asked["network"]}
    differing = [
        f"The command asks for {what} {wanted}, and the statement is for {stated}."
        for what, wanted, stated in _compared(asked, statement)
        if wanted != stated
    ]
    if differing:
        return differing
    cls = _known(find, statement["reproducibility"]["method"])
    return [*_settings(cls, asked.get(SETTINGS, {}), statement), *_epsilon(cls, asked, statement)]


def _by_recipe(asked: dict[str, Any]) -> dict[str, Any]:
    """What is asked with all that a recipe fills in."""
    if "recipe" not in asked:
        return asked
    from sfumato.recipes import find

    recipe = find(asked["recipe"])
    filled = {"method": recipe.method, "epsilon": recipe.epsilon, "delta": recipe.delta}
    return filled | asked | {SETTINGS: recipe.texts() | asked.get(SETTINGS, {})}


def _compared(asked: dict[str, Any], statement: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """What the command asks for and what is stated, as far as it decides what is guaranteed, and to whom."""
    origin = statement["reproducibility"]
    given = statement["guarantee"]
    data = origin["configuration"]["data"]
    public = statement["declared_public"]["public_data"]
    yield "the method", asked.get("method"), origin["method"]
    yield "the unit", asked.get("unit", "person" if "person" in asked else "record"), given["unit"]
    yield "the person column", "person" in asked, given["unit"] == "person"
    yield "the relation", asked["relation"], given["relation"]
    yield "delta", asked["delta"], given["delta"]
    yield "a private count", asked.get("private_count", False), not data["count_public"]
    yield "the declared size", asked.get("records"), None if data["count_public"] else data["records"]
    if origin["method"] not in CLASSIFIERS.values():
        kind = "private" if asked["labels"].startswith("private:") else "declared"
        yield "labels", "uniform" if asked["labels"] == "uniform" else kind, origin["labels"]["kind"]
    if origin["method"] != CLASSIFIERS["dpsgd"]:  # whose public network goes by its settings
        elsewhere = (RANDOM_PROCESS, statement["declared_public"]["settings"].get("network", RANDOM_PROCESS))
        given = isinstance(public, dict) and public.get("name") not in elsewhere
        yield "public data", "public" in asked, given
    if "size" in asked:
        yield "images of side", [asked["size"]] * 2, list(data["shape"][1:])
    if asked.get("grey"):
        yield "colours", 1, data["shape"][0]


def _settings(cls: type[Configured], texts: dict[str, str], statement: dict[str, Any], whole: bool = True) -> list[str]:
    """Settings of the command that are not those of the statement; files go by their last component in both."""
    from sfumato.methods.settings import parse

    stated = statement["declared_public"]["settings"]
    asked = (cls().settings() if whole else {}) | parse(cls, texts)
    return [
        f"The command sets {name} to {value!r}, and the statement says {stated.get(name)!r}."
        for name, value in asked.items()
        if _named(value) != _named(stated.get(name))
    ]


def _named(value: Any) -> Any:
    if isinstance(value, str):
        return base_name(value) if "/" in value or "\\" in value else value
    return list(value) if isinstance(value, tuple) else value


def _known(find: FindClass, method: str) -> type[Configured]:
    cls = find(method)
    if cls is None:
        raise InputError(f"The command cannot be checked, since {method!r} is not a method of this package.")
    return cls


def _epsilon(cls: type[Configured], asked: dict[str, Any], statement: dict[str, Any]) -> list[str]:
    """A stated epsilon is what a plan makes of the one that was asked for: nearly all of it, or what fits into it."""
    stated = float(statement["guarantee"]["epsilon"])
    wanted = asked.get("epsilon")
    if wanted is None:
        return ["The command names no epsilon."]
    if stated <= wanted * (1 + 1e-6) and wanted <= stated * (1 + CLOSE):
        return []
    # Plans that spend in whole steps stop short of what was asked: such a plan is made again.
    planned = _planned(cls, asked, statement) if wanted > stated else wanted
    if abs(planned - stated) <= CLOSE * stated:
        return []
    return [f"The command asks for epsilon {wanted:g}, and the statement is for {stated:g}."]


def _planned(cls: type[Configured], asked: dict[str, Any], statement: dict[str, Any]) -> float:
    """The epsilon of the plan that the command leads to."""
    from sfumato.accounting.budget import Budget, Relation, Unit
    from sfumato.data.labels import LabelPrior
    from sfumato.types import DataSpec

    origin = statement["reproducibility"]
    given = statement["guarantee"]
    data = dict(origin["configuration"]["data"])
    kind = origin["labels"]["kind"]
    data |= {"shape": tuple(data["shape"]), "classes": tuple(data["classes"]), "unit": Unit(data["unit"])}
    settings = dict(origin["configuration"]["settings"])
    if any(field.name == "labels" for field in fields(cls)):
        weights = origin["labels"]["weights"] and tuple(origin["labels"]["weights"])
        share = float(asked["labels"].removeprefix("private:")) if kind == "private" else None
        settings["labels"] = LabelPrior(kind, weights, share)
    budget = Budget(asked["epsilon"], given["delta"], Relation(given["relation"]), Unit(given["unit"]))
    return float(cls(**settings).plan(DataSpec(**data), budget).epsilon())
