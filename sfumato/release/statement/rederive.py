"""What anyone can derive again without the data: a statement's numbers from its events, its words from its facts.

Where a number differs, it is not what the events give; where words differ, they were typed and not generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.release.files.command import FindClass, find_method
from sfumato.release.files.gate import POINTS
from sfumato.release.publication import problems as publication_problems
from sfumato.release.statement.statement import (
    STATEMENT_FORMAT,
    TUNING_OUTCOMES,
    advantage_of,
    configuration_hash,
    from_public_plan,
)

if TYPE_CHECKING:
    from sfumato.accounting.accountant import Profile
    from sfumato.accounting.events import AnyEvent

CLOSE = 1e-6  # a stated number may be this much larger than the derived one
# The derived number may exceed the stated one by rounding alone: that of closed formulas, or of Fourier transforms.
DUST_EXACT = 1e-9
DUST_GRID = 1e-7
NOTHING = 1e-9


def read_events(statement: dict[str, Any]) -> list[AnyEvent]:
    """All events of a statement, in the absolute numbers that were accounted."""
    from sfumato.accounting.events import event_from_json

    return [event_from_json(event) for event in statement["mechanisms"]["accounted"]]


def number_problems(statement: dict[str, Any]) -> list[str]:
    """Where a stated number is not what the events give; empty when all re-derive."""
    from sfumato.accounting.accountant import profile

    events = read_events(statement)
    relation = statement["guarantee"]["relation"]
    if any(event.relation != relation for event in events):
        return [f"An event is not stated under the relation {relation} of the guarantee."]
    derived = profile(events)
    dust = DUST_GRID if derived.mu is None else DUST_EXACT
    compared = _numbers(statement, events, derived)
    return [*_shown_otherwise(statement), *(f for row in compared if (f := _problem(*row, dust)))]


def _numbers(
    statement: dict[str, Any], events: list[AnyEvent], derived: Profile
) -> Iterator[tuple[str, float | None, float | None]]:
    """What is stated, and what the events give."""
    from sfumato.accounting.accountant import epsilon_by_renyi

    given = statement["guarantee"]
    opinion = statement["accountant"]["second_opinion"]
    yield "epsilon", given["epsilon"], derived.epsilon(given["delta"])
    yield "mu", given["mu"], derived.mu
    yield "advantage", given["advantage"], advantage_of(derived)
    for delta, epsilon in given["curve"]:
        yield f"epsilon at delta {delta:g}", epsilon, derived.epsilon(delta)
    if isinstance(opinion, dict):
        yield "the second opinion", opinion["epsilon"], epsilon_by_renyi(events, given["delta"])


def _problem(what: str, stated: float | None, derived: float | None, dust: float) -> str | None:
    if stated is None and derived is None:
        return None
    wrong = f"{what} is stated as {stated}, and the events give {derived}."
    if stated is None or derived is None:
        return wrong
    fits = stated * (1 - CLOSE) - NOTHING <= derived <= stated * (1 + dust) + NOTHING
    return None if fits else wrong


def _shown_otherwise(statement: dict[str, Any]) -> list[str]:
    """Crossings whose shown numbers are not those that were accounted."""
    shown = statement["mechanisms"]["events"]
    # A selection holds the events of one run.
    accounted = [part for event in statement["mechanisms"]["accounted"] for part in event.get("events", [event])]
    if len(shown) != len(accounted):
        return [f"{len(shown)} noisy queries are shown, and {len(accounted)} were accounted."]
    return [
        f"The noisy query {row['name']!r} shows another {key} than was accounted."
        for row, event in zip(shown, accounted, strict=True)
        for key in ("mechanism", "sigma", "sensitivity", "times")
        if row[key] != event[key]
    ]


def word_problems(statement: dict[str, Any], find: FindClass = find_method) -> list[str]:
    """Where a statement does not follow from its own facts; empty when all of it does."""
    if statement.get("format") != STATEMENT_FORMAT:
        return [f"privacy.json is not of format {STATEMENT_FORMAT}; use the version of sfumato that wrote it."]
    if list(statement) != ["format", *POINTS, "measurement", *(["publication"] if "publication" in statement else [])]:
        return ["privacy.json does not have the twelve points in their order."]
    if "publication" in statement and (wrong := publication_problems(statement["publication"])):
        return wrong
    if not str(statement["tuning"]["summary"]).lower().startswith(TUNING_OUTCOMES):
        return ["The tuning point is none of the three outcomes."]
    if statement["reproducibility"]["configuration_hash"] != configuration_hash(_plan(statement)):
        return ["The configuration hash is not that of the configuration."]
    if foreign := _foreign_settings(statement, find):
        return foreign
    anew = rebuilt(statement)
    return [
        f"The point {point} does not follow: {_where(statement[point], anew[point], point)} differs."
        for point in POINTS
        if statement[point] != anew[point]
    ]


def _foreign_settings(statement: dict[str, Any], find: FindClass) -> list[str]:
    """Settings that a method of this package does not have; those of somebody's own method are not known here."""
    method = statement["reproducibility"]["method"]
    cls = find(method)
    if cls is None:
        return []
    known = cls().settings()
    return [
        f"The setting '{name}' is not one of {method}."
        for name in statement["reproducibility"]["configuration"]["settings"]
        if name not in known
    ]


def rebuilt(statement: dict[str, Any]) -> dict[str, Any]:
    """The same statement, generated again."""
    others = statement["other_releases"]
    audit = statement["audit"]
    public = statement["declared_public"]["public_data"]
    origin = statement["reproducibility"]
    noise = statement["randomness"]
    anew = from_public_plan(
        _plan(statement),
        released=statement["coverage"]["released"],
        account=others if {"epsilon_total", "named"} & set(others) else None,
        noise=noise,
        public_data=public if isinstance(public, dict) else None,
        tuning=statement["tuning"]["summary"],
        audit=None if str(audit["summary"]).startswith("Does not apply") else audit,
        version=str(origin["software"]).removeprefix("sfumato "),
    )
    # Facts that nothing else in the statement tells.
    anew["accountant"]["version"] = statement["accountant"]["version"]
    anew["tuning"] = statement["tuning"]
    anew["reproducibility"] |= {key: origin[key] for key in ("command",) if key in origin}
    return anew


def _plan(statement: dict[str, Any]) -> dict[str, Any]:
    """The public plan that the statement was made from; accountant and grid come from the events."""
    from sfumato.accounting.accountant import profile

    origin = statement["reproducibility"]
    given = statement["guarantee"]
    told = statement["accountant"]
    events = statement["mechanisms"]["events"]
    derived = profile(read_events(statement))
    numbers = {key: given[key] for key in ("epsilon", "delta", "relation", "unit", "mu", "advantage")}
    configuration = origin["configuration"]
    return {
        "method": origin["method"],
        "settings": configuration["settings"],
        "data": configuration["data"],
        "guarantee": numbers | {"accountant": derived.name, "discretisation": getattr(derived, "interval", None)},
        "curve": given["curve"],
        "crossings": [_without(event, "bound_enforced") for event in events],
        "events": statement["mechanisms"]["accounted"],
        "second_opinion": told["second_opinion"] if isinstance(told["second_opinion"], dict) else None,
        "paper": told["paper"] if isinstance(told["paper"], dict) else None,
        "labels": origin["labels"],
        "federated": given.get("federated"),
        "deviations": statement["deviations"]["deviations"],
        # The last caveat of records is the statement's own.
        "warnings": statement["deviations"]["warnings"],
    }


def _without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: part for key, part in value.items() if key not in keys}


def _where(stated: Any, anew: Any, name: str) -> str:
    """The first place where two values part."""
    if isinstance(stated, dict) and isinstance(anew, dict):
        keys = [key for key in [*stated, *anew] if key not in stated or key not in anew or stated[key] != anew[key]]
        return _where(stated.get(keys[0]), anew.get(keys[0]), f"{name}.{keys[0]}") if keys else name
    if isinstance(stated, list) and isinstance(anew, list) and len(stated) == len(anew):
        at = next(number for number, pair in enumerate(zip(stated, anew, strict=True)) if pair[0] != pair[1])
        return _where(stated[at], anew[at], f"{name}[{at}]")
    return name
