"""From the events of a statement back to its numbers: what anyone can recompute without the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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


def advantage_of(profile: Profile) -> float | None:
    """The total variation distance of the two worlds, delta at epsilon = 0; None where mu says it already."""
    return None if profile.mu is not None else min(1.0, profile.delta(0.0))


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
        return [f"{len(shown)} crossings are shown, and {len(accounted)} were accounted."]
    return [
        f"The crossing {row['name']!r} shows another {key} than was accounted."
        for row, event in zip(shown, accounted, strict=True)
        for key in ("mechanism", "sigma", "sensitivity", "times")
        if row[key] != event[key]
    ]
