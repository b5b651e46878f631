"""From the events of a statement back to its numbers: what anyone can recompute without the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.accounting.accountant import Profile
    from sfumato.accounting.events import Event

CLOSE = 1e-6  # a stated number may be this much larger than the derived one
# The derived number may exceed the stated one by rounding alone: that of closed formulas, or of Fourier transforms.
DUST_EXACT, DUST_GRID = 1e-9, 1e-7
NOTHING = 1e-9


def read_event(stated: dict[str, Any]) -> Event:
    """The event that `Event.to_json` wrote."""
    from sfumato.accounting.budget import Relation
    from sfumato.accounting.events import Event

    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in stated.items()}
    return Event(**fields | {"relation": Relation(stated["relation"])})


def read_events(statement: dict[str, Any]) -> list[Event]:
    """All events of a statement, in the absolute numbers that were accounted."""
    return [read_event(event["accounted"]) for event in statement["mechanisms"]["events"]]


def advantage_of(profile: Profile) -> float | None:
    """The total variation distance of the two worlds, delta at epsilon = 0; None where mu says it already."""
    return None if profile.mu is not None else min(1.0, profile.delta(0.0))


def number_problems(statement: dict[str, Any]) -> list[str]:
    """Where a stated number is not what the events give; empty when all re-derive."""
    from sfumato.accounting.accountant import profile

    for event in statement["mechanisms"]["events"]:
        if not isinstance(event.get("accounted"), dict):
            return [f"The event {event.get('name')!r} lacks the numbers that were accounted."]
    events = read_events(statement)
    relation = statement["guarantee"]["relation"]
    if any(event.relation != relation for event in events):
        return [f"An event is not stated under the relation {relation} of the guarantee."]
    derived = profile(events)
    dust = DUST_GRID if derived.mu is None else DUST_EXACT
    compared = _numbers(statement, events, derived)
    return [*_shown_otherwise(statement), *(f for row in compared if (f := _problem(*row, dust)))]


def _numbers(
    statement: dict[str, Any], events: list[Event], derived: Profile
) -> Iterator[tuple[str, float | None, float | None]]:
    """What is stated, and what the events give."""
    from sfumato.accounting.accountant import epsilon_by_renyi

    given, opinion = statement["guarantee"], statement["accountant"]["second_opinion"]
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
    """Events whose shown numbers are not those that were accounted."""
    same = ("mechanism", "sigma", "sensitivity", "times")
    return [
        f"The event {event['name']!r} shows another {key} than was accounted."
        for event in statement["mechanisms"]["events"]
        for key in same
        if event[key] != event["accounted"][key]
    ]
