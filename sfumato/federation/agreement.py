"""What all sites agree to before a run: a file of public facts, from which each of them makes the same plan.

    data: {name: scans, shape: [1, 28, 28], classes: [ill, well]}
    sites:
      north: {records: 30000}
      south: {records: 20000}
      isle: {records: 30}
    method: kernel-votes
    settings: {teachers: 400}
    epsilon: 1
    dropouts: 1

A site reads its own copy, and answers no coordinator that has another.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError, did_you_mean
from sfumato.flow.config import contents
from sfumato.flow.make import AUTO, fit_settings, labels_for, make_budget, make_method, make_plan
from sfumato.methods.registry import check_name
from sfumato.privacy import shares
from sfumato.privacy.bounds import BatchBound
from sfumato.types import DataSpec, Unit

if TYPE_CHECKING:
    from sfumato.accounting.budget import Budget
    from sfumato.methods import Method
    from sfumato.privacy.plan import Crossing, Plan

CURIOUS = "curious"
TRUSTED = "trusted"
WHOLE = {"dropouts": 0, "colluders": 0, "persons_at_most": 1}  # the least of each, and what it is without a word
FIELDS = ("data", "sites", "method", "settings", "labels", "epsilon", "delta", "relation", "trust", *WHOLE)
NEEDED = ("data", "sites", "method", "epsilon")
OF_DATA = ("name", "shape", "classes", "unit", "count_public")
OF_SITE = ("records", "teachers")


@dataclass(frozen=True)
class Agreement:
    """The public facts of a federation, checked."""

    spec: DataSpec  # of all sites together
    records: Mapping[str, int]  # of each site, in the order in which they are named everywhere
    method: str
    epsilon: float
    settings: Mapping[str, str] = field(default_factory=dict)
    labels: str = AUTO
    delta: float = 1e-5
    relation: str = "add-remove"
    trust: str = CURIOUS
    dropouts: int = 0  # sites that may be missing from any question
    colluders: int = 0  # sites that may tell the coordinator what they know
    persons_at_most: int = 1  # sites that hold records of one person
    teachers: Mapping[str, int] = field(default_factory=dict)  # of each site, where they do not follow the records

    @property
    def sites(self) -> Sequence[str]:
        """Their names."""
        return tuple(self.records)

    @property
    def least(self) -> int:
        """Sites that must answer a question."""
        return len(self.records) - self.dropouts

    @property
    def shares(self) -> int | None:
        """Shares of noise that are sure to be there and to be secret; None where the coordinator adds all of it."""
        return self.least - self.colluders if self.trust == CURIOUS else None

    @cached_property
    def budget(self) -> Budget:
        """What a record at one site may cost.

        A person at k sites is hidden by group privacy: (epsilon, delta) for k records follows from epsilon / k for one,
        and a delta that is smaller by the geometric sum of the factors in between. That holds for every mechanism.
        """
        whole = make_budget(self.epsilon, self.delta, self.relation, self.spec.unit)
        k = self.persons_at_most
        part = self.epsilon / k
        return replace(whole, epsilon=part, delta=self.delta / sum(math.exp(part * i) for i in range(k)))

    @cached_property
    def made(self) -> Method:
        """The method with its settings."""
        labels = labels_for(self.labels, self.spec, self.budget)
        method = make_method(self.method, dict(self.settings), labels, self.spec.classes)
        return fit_settings(method, self.spec, self.budget, "cpu")

    @cached_property
    def plan(self) -> Plan:
        """Every crossing, the same at all sites; refused where a crossing's noise cannot come in shares."""
        plan = make_plan(self.made, self.spec, self.budget)
        for name, crossing in plan.crossings.items():
            why = self._unfit(crossing)
            if why is not None:
                raise InputError(f"The crossing '{name}' of {self.method} cannot be federated: {why}.")
        facts = {**plan.facts, "federated": self.facts(plan)}
        return replace(plan, facts=facts, warnings=(*plan.warnings, *self._said()))

    def _unfit(self, crossing: Crossing) -> str | None:
        if isinstance(crossing.bound, BatchBound):
            return "it is one value of a whole sample, and sites can form sums alone; take another method"
        if crossing.cycle > 1:
            return "its noise goes on from that of earlier steps, which no site holds whole; take bands=1"
        return None if self.shares is None else shares.unfit(crossing, self.shares)

    def facts(self, plan: Plan) -> dict[str, Any]:
        """What a statement says of the federation."""
        cost = -math.inf if self.shares is None else shares.log_excess(plan.crossings.values(), self.shares)
        return {
            "sites": list(self.records),
            "records": list(self.records.values()),
            "trust": self.trust,
            "dropouts": self.dropouts,
            "colluders": self.colluders,
            "persons_at_most": self.persons_at_most,
            "log10_of_shares": None if cost == -math.inf else cost / math.log(10),
        }

    def _said(self) -> tuple[str, ...]:
        k = self.persons_at_most
        if k == 1:
            return ("Every person is taken to be at one site; one at several sites is protected for each alone.",)
        whole = f"epsilon {self.epsilon:g} at delta {self.delta:g}"
        return (f"The guarantee is for the records of one site; a person at up to {k} sites has {whole}.",)

    @cached_property
    def digest(self) -> str:
        """By which two sites see that they agree: of the plan with all its numbers, and of the facts behind it."""
        told = [self.plan.to_json(), {each.name: _plain(getattr(self, each.name)) for each in fields(self)}]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def spec_of(self, site: str) -> DataSpec:
        """What is public of one site's records."""
        return replace(self.spec, records=self.records[site])

    def parts(self, total: int) -> dict[str, int]:
        """Of so many teachers, those of each site: in proportion to its records and at least one, or as agreed.

        >>> spec = DataSpec("scans", 130, (1, 8, 8), ("ill", "well"))
        >>> Agreement(spec, {"a": 90, "b": 37, "c": 3}, "kernel-votes", 1.0).parts(10)
        {'a': 6, 'b': 3, 'c': 1}
        """
        if self.teachers:
            if sum(self.teachers.values()) != total:
                found = sum(self.teachers.values())
                raise InputError(f"The sites have {found} teachers in all and the method {total}; let them agree.")
            return dict(self.teachers)
        if total < len(self.records):
            raise InputError(f"Expected at least {len(self.records)} teachers, one for each site, found {total}.")
        return _dealt(total, self.records)

    def __post_init__(self) -> None:
        n = len(self.records)
        least = 2 if self.trust == CURIOUS else 1
        if n < least:
            raise InputError(f"Expected at least {least} sites with trust: {self.trust}, found {n}.")
        if not 0 <= self.dropouts < n or not self.colluders >= 0 or self.least - self.colluders < 1:
            raise InputError(
                f"Expected an honest site that answers, found {n} sites, dropouts: {self.dropouts} and colluders: "
                f"{self.colluders}; lower them."
            )
        if self.trust not in (CURIOUS, TRUSTED):
            raise InputError(f"Expected trust as {CURIOUS} or {TRUSTED}, found {self.trust!r}.")
        if not 1 <= self.persons_at_most <= n:
            raise InputError(
                f"Expected persons_at_most from 1 to {n}, the number of sites, found {self.persons_at_most}."
            )


def _dealt(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """One for each, and the rest in proportion by largest remainders."""
    left = total - len(weights)
    exact = {name: left * weight / sum(weights.values()) for name, weight in weights.items()}
    found = {name: 1 + math.floor(part) for name, part in exact.items()}
    first = sorted(exact, key=lambda name: (math.floor(exact[name]) - exact[name], name))
    for name in first[: total - sum(found.values())]:
        found[name] += 1
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, DataSpec):
        return value.to_json()
    return dict(value) if isinstance(value, Mapping) else value


def read(path: str | Path) -> Agreement:
    """The agreement of a file, or one sentence that names the field and says what to write."""
    said = _Said(str(path), contents(path, "plan", "fields"))
    said.known(FIELDS, "a federation")
    for name in NEEDED:
        if said.fields.get(name) is None:
            raise InputError(f"The plan {path} has no '{name}'; add `{name}: …`.")
    sites = {str(name): said.inner(facts, f"site {name}", OF_SITE) for name, facts in said.mapping("sites").items()}
    data = said.inner(said.fields["data"], "data", OF_DATA)
    check_name(str(said.fields["method"]))
    records = {name: said.whole(facts.get("records"), f"records of {name}") for name, facts in sites.items()}
    teachers = {name: said.whole(f["teachers"], f"teachers of {name}") for name, f in sites.items() if "teachers" in f}
    if teachers and set(teachers) != set(sites):
        raise InputError(f"The plan {path} has teachers for some sites; give them for all or for none.")
    return Agreement(
        spec=said.spec(data, sum(records.values())),
        records=records,
        method=str(said.fields["method"]),
        epsilon=said.number("epsilon", 1.0),
        settings={str(name): str(value) for name, value in said.mapping("settings").items()},
        labels=str(said.fields.get("labels", AUTO)),
        delta=said.number("delta", 1e-5),
        relation=str(said.fields.get("relation", "add-remove")),
        trust=str(said.fields.get("trust", CURIOUS)),
        teachers=teachers,
        **{name: said.whole(said.fields.get(name, least), name, least) for name, least in WHOLE.items()},
    )


@dataclass(frozen=True)
class _Said:
    """The fields of a file, each read with one sentence for what is wrong with it."""

    path: str
    fields: dict[Any, Any]

    def known(self, names: Sequence[str], whose: str) -> None:
        for name in self.fields:
            if name not in names:
                hint = did_you_mean(str(name), names, otherwise=f"it may have {', '.join(names)}.")
                raise InputError(f"The plan {self.path} has '{name}', which is no field of {whose}; {hint}")

    def inner(self, value: Any, whose: str, names: Sequence[str]) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise self.wrong(whose, value, f"lines such as `{names[0]}: …`")
        _Said(self.path, value).known(names, whose)
        return dict(value)

    def mapping(self, name: str) -> dict[Any, Any]:
        value = self.fields.get(name) or {}
        if not isinstance(value, dict):
            raise self.wrong(name, value, "one `name: value` a line")
        return dict(value)

    def number(self, name: str, otherwise: float) -> float:
        value = self.fields.get(name, otherwise)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise self.wrong(name, value, "a number") from None

    def whole(self, value: Any, name: str, least: int = 1) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(name, value, f"a whole number from {least}")
        return int(value)

    def spec(self, data: dict[Any, Any], records: int) -> DataSpec:
        unit = data.get("unit", "record")
        if unit not in set(Unit):
            raise self.wrong("unit", unit, " or ".join(Unit))
        shape, classes = data.get("shape"), data.get("classes")
        if not isinstance(shape, list) or not all(isinstance(side, int) for side in shape):
            raise self.wrong("shape", shape, "[channels, height, width]")
        if not isinstance(classes, list) or not classes:
            raise self.wrong("classes", classes, "a list of names")
        count_public = data.get("count_public", True)
        if not isinstance(count_public, bool):
            raise self.wrong("count_public", count_public, "yes or no")
        name = str(data.get("name", "federated"))
        try:
            return DataSpec(name, records, tuple(shape), tuple(map(str, classes)), Unit(unit), count_public)
        except ValueError as error:
            raise InputError(f"The plan {self.path} cannot be kept: {error}") from error

    def wrong(self, name: str, value: Any, wanted: str) -> InputError:
        return InputError(f"The plan {self.path} has {name}: {value!r}; write {wanted}.")
