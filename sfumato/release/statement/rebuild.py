"""A statement made anew from its own facts; where the two differ, words were typed and not generated."""

from __future__ import annotations

from typing import Any

from sfumato.release.files.gate import POINTS
from sfumato.release.statement.derive import read_events
from sfumato.release.statement.statement import STATEMENT_FORMAT, TUNING_OUTCOMES, configuration_hash, from_public_plan


def word_problems(statement: dict[str, Any]) -> list[str]:
    """Where a statement does not follow from its own facts; empty when all of it does."""
    if statement.get("format") != STATEMENT_FORMAT:
        return [f"privacy.json is not of format {STATEMENT_FORMAT}; use the version of sfumato that wrote it."]
    if list(statement) != ["format", *POINTS, "measurement"]:
        return ["privacy.json does not have the twelve points in their order."]
    if not str(statement["tuning"]["summary"]).lower().startswith(TUNING_OUTCOMES):
        return ["The tuning point is none of the three outcomes."]
    if statement["reproducibility"]["configuration_hash"] != configuration_hash(_plan(statement)):
        return ["The configuration hash is not that of the configuration."]
    if foreign := _foreign_settings(statement):
        return foreign
    anew = rebuilt(statement)
    return [
        f"The point {point} does not follow: {_where(statement[point], anew[point], point)} differs."
        for point in POINTS
        if statement[point] != anew[point]
    ]


def _foreign_settings(statement: dict[str, Any]) -> list[str]:
    """Settings that a method of this package does not have; those of somebody's own method are not known here."""
    from sfumato.methods import names
    from sfumato.release.files.command import settings_of

    method = statement["reproducibility"]["method"]
    if method not in {"classifier", *names()}:
        return []
    known = settings_of(method)
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
    made = statement["reproducibility"]
    noise = statement["randomness"]
    anew = from_public_plan(
        _plan(statement),
        released=statement["coverage"]["released"],
        account=others if {"epsilon_total", "named"} & set(others) else None,
        noise=noise,
        public_data=public if isinstance(public, dict) else None,
        tuning=statement["tuning"]["summary"],
        audit=None if str(audit["summary"]).startswith("Does not apply") else audit,
        version=str(made["software"]).removeprefix("sfumato "),
    )
    # Facts that nothing else in the statement tells.
    anew["accountant"]["version"] = statement["accountant"]["version"]
    anew["tuning"] = statement["tuning"]
    anew["reproducibility"] |= {key: made[key] for key in ("command",) if key in made}
    return anew


def _plan(statement: dict[str, Any]) -> dict[str, Any]:
    """The public plan that the statement was made from; accountant and grid come from the events."""
    from sfumato.accounting.accountant import profile

    made = statement["reproducibility"]
    given = statement["guarantee"]
    told = statement["accountant"]
    events = statement["mechanisms"]["events"]
    derived = profile(read_events(statement))
    numbers = {key: given[key] for key in ("epsilon", "delta", "relation", "unit", "mu", "advantage")}
    configuration = made["configuration"]
    return {
        "method": made["method"],
        "settings": configuration["settings"],
        "data": configuration["data"],
        "guarantee": numbers | {"accountant": derived.name, "discretisation": getattr(derived, "interval", None)},
        "curve": given["curve"],
        "crossings": [_without(event, "bound_enforced") for event in events],
        "events": statement["mechanisms"]["accounted"],
        "second_opinion": told["second_opinion"] if isinstance(told["second_opinion"], dict) else None,
        "paper": told["paper"] if isinstance(told["paper"], dict) else None,
        "labels": made["labels"],
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
