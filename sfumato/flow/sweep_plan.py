"""The file of a sweep: which methods, settings, seeds and budgets on which data, and how they are judged.

    data: digits
    epsilon: [1, 10]
    seeds: 5
    methods:
      dp-merf:
        steps: [100, 400]
      dp-ntk: {}

A field with a list is a field with several values: the runs are all combinations. Light to import, so that a slip of
the finger is answered at once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import InputError, did_you_mean
from sfumato.flow.config import contents
from sfumato.flow.make import AUTO, make_budget
from sfumato.flow.request import absolute
from sfumato.methods.registry import check_name

JUDGES = ("held-out", "test")
CLASSIFIERS = ("linear", "cnn")
LAWS = {"geometric": 1.0, "logarithmic": 0.0}
LEAST_EPSILON, MOST_EPSILON = 0.001, 1000.0
OF_FREE = ("judge", "classifier", "slurm")
OF_PRIVATE = ("person", "runs", "law")
MOST = 10_000  # runs
MOST_PRIVATE = 1000  # settings to choose among
Settings = dict[str, str]


@dataclass(frozen=True)
class SweepPlan:
    """What a plan file says, checked."""

    path: str
    data: tuple[str, ...]
    methods: tuple[tuple[str, Settings], ...]  # every combination of settings of every method
    epsilon: tuple[float, ...]
    seeds: tuple[int, ...] = (0,)
    delta: float = 1e-5
    relation: str = "add-remove"
    labels: str = AUTO
    size: int | None = None
    grey: bool = False
    label: str | None = None
    person: str | None = None
    count: int | None = None
    classifier: str = "linear"
    judge: str = "held-out"
    device: str = "auto"
    private: bool = False
    runs: float = 10.0  # on average, of a private sweep
    law: str = "geometric"
    slurm: Mapping[str, Any] = field(default_factory=dict)

    def trials(self) -> dict[str, dict[str, Any]]:
        """What every run of a free sweep asks, by an id that stays the same for as long as it asks the same."""
        same = ("delta", "relation", "labels", "size", "grey", "label", "count", "classifier", "judge", "device")
        common = {name: getattr(self, name) for name in same}
        asked = [
            {"data": absolute(data), "method": name, "settings": settings, "epsilon": epsilon, "seed": seed, **common}
            for data, (name, settings), epsilon, seed in itertools.product(
                self.data, self.methods, self.epsilon, self.seeds
            )
        ]
        return {trial_id(each): each for each in asked}


def trial_id(asked: Mapping[str, Any]) -> str:
    """A name for what a run asks of this version.

    >>> trial_id({"seed": 1}) == trial_id({"seed": 1}) != trial_id({"seed": 2})
    True
    """
    text = json.dumps([__version__, asked], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


KNOWN = tuple(each.name for each in fields(SweepPlan) if each.name != "path")


def read(path: str | Path) -> SweepPlan:
    """The plan of a file, or one sentence that names the field and says what to write."""
    said = {_known(str(name), path): part for name, part in contents(path, "plan", "fields").items()}
    for name in ("data", "methods", "epsilon"):
        if said.get(name) is None:
            raise InputError(f"The plan {path} has no {name!r}; add `{name}: …`.")
    given = {name: _Reader(path, name)(part) for name, part in said.items() if part is not None}
    plan = SweepPlan(str(path), **given)
    _check_kind(plan, given)
    _check(plan)
    return plan


def _check_kind(plan: SweepPlan, given: Collection[str]) -> None:
    """Refuse what would be read and not heeded."""
    for name in given:
        if name in (OF_FREE if plan.private else OF_PRIVATE):
            kind, remedy = ("private", "leave it out") if plan.private else ("free", "leave it out, or `private: yes`")
            raise InputError(f"The plan {plan.path} has {name!r}, which a {kind} sweep does not heed; {remedy}.")


def _known(name: str, path: str | Path) -> str:
    if name in KNOWN:
        return name
    hint = did_you_mean(name, KNOWN, otherwise=f"it may have {', '.join(KNOWN)}.")
    raise InputError(f"The plan {path} has {name!r}, which is no field of a sweep; {hint}")


@dataclass(frozen=True)
class _Reader:
    """Reads the value of one field."""

    path: str | Path
    name: str

    def __call__(self, value: Any) -> Any:
        if self.name in ("data", "epsilon"):
            kind = str if self.name == "data" else float
            return tuple(self.one(part, kind) for part in self.several(value))
        if self.name == "seeds":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return tuple(self.one(part, int) for part in (range(value) if whole else self.several(value)))
        if self.name == "methods":
            return self.combinations(value)
        if self.name == "slurm":
            return self.mapping(value, "`timeout_min: 60`")
        if self.name in ("grey", "private"):
            return self.expect(isinstance(value, bool), value, "yes or no")
        if self.name in ("size", "count"):
            return self.one(value, int)
        return self.one(value, float if self.name in ("delta", "runs") else str)

    def several(self, value: Any) -> list[Any]:
        parts = value if isinstance(value, list) else [value]
        self.expect(parts and len(parts) == len({str(part) for part in parts}), value, "values that differ")
        return parts

    def one(self, value: Any, kind: type) -> Any:
        words = {str: "a text", int: "a whole number from 0", float: "a number"}[kind]
        self.expect(not isinstance(value, (dict, list, bool)) and value is not None, value, words)
        try:
            found = kind(value)
        except (ValueError, OverflowError):
            found = None
        good = found is not None and (kind is str or (math.isfinite(found) and found >= 0 and found == float(value)))
        self.expect(good, value, words)
        return found

    def text(self, value: Any) -> str:
        return str(self.one(str(value) if isinstance(value, bool) else value, str))

    def mapping(self, value: Any, example: str) -> dict[str, Any]:
        self.expect(isinstance(value, dict), value, f"lines such as {example}")
        return {str(key): part for key, part in value.items()}

    def combinations(self, value: Any) -> tuple[tuple[str, Settings], ...]:
        if isinstance(value, (str, list)):
            value = dict.fromkeys(self.several(value))
        found: list[tuple[str, Settings]] = []
        for name, grid in self.mapping(value, "`dp-merf: {steps: [100, 400]}`").items():
            check_name(name)
            asked = self.mapping({} if grid is None else grid, "`steps: [100, 400]`")
            values = [[self.text(part) for part in self.several(listed)] for listed in asked.values()]
            found += [(name, dict(zip(asked, row, strict=True))) for row in itertools.product(*values)]
        self.expect(found, value, "at least one method, see `sfumato methods`")
        return tuple(found)

    def expect(self, good: Any, value: Any, wanted: str) -> Any:
        if not good:
            raise InputError(f"The plan {self.path} has {self.name}: {value!r}; write {wanted}.")
        return value


def _check(plan: SweepPlan) -> None:
    """Refuse values that are no choice, and more runs than anyone waits for."""
    for name, choices in (("judge", JUDGES), ("classifier", CLASSIFIERS), ("law", tuple(LAWS))):
        if getattr(plan, name) not in choices:
            raise InputError(f"The plan {plan.path} has {name}: {getattr(plan, name)!r}; write {' or '.join(choices)}.")
    for epsilon in plan.epsilon:
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            raise InputError(
                f"The plan {plan.path} has epsilon: {epsilon:g}; write {LEAST_EPSILON:g} to {MOST_EPSILON:g}."
            )
        try:
            make_budget(epsilon, plan.delta, plan.relation)
        except InputError as error:
            raise InputError(f"The plan {plan.path} cannot be kept: {error}") from error
    many = len(plan.data) * len(plan.methods) * len(plan.epsilon) * len(plan.seeds)
    if not 1 <= many <= MOST:
        raise InputError(f"The plan {plan.path} asks for {many:,} runs; ask for 1 to {MOST:,}.")
    if plan.count == 0:
        raise InputError(f"The plan {plan.path} has count: 0; write at least 1.")
    if plan.private:
        _check_private(plan)


def _check_private(plan: SweepPlan) -> None:
    """On private data a sweep is one selection: of one set, within one budget."""
    for name in ("data", "epsilon", "seeds"):
        if len(getattr(plan, name)) > 1:
            raise InputError(
                f"The plan {plan.path} is private and has several values for {name!r}: a sweep on private data is one "
                "selection within one budget; give one."
            )
    if len(plan.methods) > MOST_PRIVATE:
        raise InputError(f"The plan {plan.path} has more than {MOST_PRIVATE} combinations of settings; narrow them.")
    if not 1 <= plan.runs <= MOST:
        raise InputError(f"The plan {plan.path} has runs: {plan.runs:g}; write 1 to {MOST:,}.")
