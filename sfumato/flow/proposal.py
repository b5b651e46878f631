"""What a run is about to do, for whoever answers for the data: shown and confirmed before anything is spent.

All of it follows from the plan, the public description of the data and the ledger; no record has a part in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.accounting.gaussian import mu_of
from sfumato.data.private import PrivateImages
from sfumato.engine.label_histogram import CROSSING
from sfumato.flow.expected_memory import Memory
from sfumato.flow.expected_time import in_words
from sfumato.flow.rehearsal import Expected
from sfumato.ledger.reservation import foreseen
from sfumato.privacy.plan import Plan
from sfumato.release.statement.numbers import epsilon, one_in, show
from sfumato.release.statement.statement import advantage_of
from sfumato.release.statement.wording import count_words, plain_words
from sfumato.types import Unit

WEAK = 0.9  # an attacker who may be right so often is hardly held back
FEWEST = 100  # units: below, nothing but noise comes out at any budget that protects
HOPELESS = 1.0  # noise in the mean image of a class, in lengths of the image, if all of the budget went there
MOST_NAMED = 12
TOO_FEW = "Too few data"


@dataclass(frozen=True)
class Caution:
    """A sentence to heed. A serious one needs an answer: a person's, or --yes."""

    text: str
    serious: bool = False


@dataclass(frozen=True)
class Proposal:
    """A plan, what it makes, what it costs, and what is to be heeded."""

    plan: Plan
    made: str  # what is released, in words
    out: Path | None
    account: dict[str, Any] | None  # of ledger.reservation.foreseen, for those who may see it
    cautions: tuple[Caution, ...]
    hopeless: str | None = None  # why nothing useful can come of it, if that is so
    expected: Expected | None = None  # what the run will take; known once it was rehearsed

    def expecting(self, expected: Expected | None) -> Proposal:
        """With the expected time and memory."""
        return replace(self, expected=expected)

    @property
    def memory(self) -> Memory | None:
        """That it will need, where that is known."""
        return None if self.expected is None else self.expected.memory

    @property
    def serious(self) -> list[str]:
        """What needs an answer."""
        return [caution.text for caution in self.cautions if caution.serious]

    def rows(self) -> Iterator[tuple[str, str]]:
        """What to read before saying yes: what it is about, and what it says."""
        given, words = guaranteed(self.plan)
        spec = self.plan.data
        yield "released", self.made + ("" if self.out is None else f", in {self.out}")
        yield "protected", _protected(self.plan)
        numbers = f"epsilon {epsilon(given['epsilon'])} at delta {show(given['delta'])}"
        yield "guarantee", f"{numbers}. {words['summary']} {_odds(given)}"
        if self.account is not None:
            yield from _cost(self.account)
        yield "made public", f"{_shape(spec.shape)}; {count_words(self.plan.data.to_json())}; {_classes(spec.classes)}"
        yield "labels", _labels(self.plan)
        if self.expected is not None:
            yield "time", f"{in_words(self.expected.seconds)} on this device, by a rehearsal on made-up records"
        if self.memory is not None:
            yield "memory", str(self.memory)

    def to_json(self) -> dict[str, Any]:
        """For programs, and for pages that show the same."""
        return {
            "rows": [{"name": name, "text": text} for name, text in self.rows()],
            "account": self.account,
            "seconds": None if self.expected is None else self.expected.seconds,
            "memory": None if self.memory is None else self.memory.to_json(),
            "warnings": [{"text": caution.text, "serious": caution.serious} for caution in self.cautions],
            "hopeless": self.hopeless,
        }


def _cost(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    cost = f"epsilon {epsilon(told['cost'])} of the account {told['account']}"
    if not told["named"]:
        yield "cost", f"epsilon {epsilon(told['cost'])}; these data came without a name, and are known by their records"
    elif told["opened"]:
        yield "cost", f"{cost}, which this run opens: its budget becomes the total, and nothing remains after it."
    else:
        runs = f"{told['runs']} run{'s' * (told['runs'] != 1)} so far"
        yield (
            "cost",
            f"{cost} (total {epsilon(told['total'])}, {runs}): {_down(told['remaining'])} remains "
            f"for one more run now, {_down(told['afterwards'])} afterwards.",
        )
    if told["ledger"]:
        yield "ledger", told["ledger"] + (" (new: it will be made)" if told["new"] else "")


def propose(
    plan: Plan,
    box: PrivateImages,
    ledger: str | Path | None,
    *,
    made: str,
    out: Path | None = None,
    useless: str | None = None,
) -> Proposal:
    """What a plan is about to do with these data; raises where the account has no room for it."""
    return Proposal(plan, made, out, foreseen(plan, box, ledger), tuple(cautions(plan, box.unused)), useless)


def cautions(plan: Plan, unused: Sequence[str] = ()) -> Iterator[Caution]:
    """What to heed, from public facts and the names of columns that seem to say who is shown and are not read."""
    if unused and plan.data.unit is Unit.RECORD:
        column = unused[0]
        yield Caution(
            f"The column {column} looks as if it said who is shown, and is not used: a person with several images is "
            f"protected less. Name it with --person {column}, unless every image is of another person.",
            serious=True,
        )
    given, words = guaranteed(plan)
    if words["attacker_success"] >= WEAK:
        yield Caution(f"Epsilon {epsilon(given['epsilon'])} hardly holds an attacker back; take less.", serious=True)
    if plan.labels["kind"] == "uniform" and plan.data.conditional and not plan.data.public:
        yield Caution(
            "Every class is made equally often, whatever its share of the data: a class that is rare in them comes out "
            "as noise. Measure the shares with --labels private:0.05, or declare them in a file."
        )
    for warning in plan.warnings:
        yield Caution(warning, serious=warning.startswith((TOO_FEW, "delta=")))


def guaranteed(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """The guarantee of a plan in numbers, and in words for a reader who does not know differential privacy."""
    given = plan.guarantee() | {"advantage": advantage_of(plan.profile())}
    return given, plain_words(given, plan.curve(), plan.data.to_json())


def noise_to_signal(plan: Plan) -> float:
    """Length of the noise in the mean image of a class, in lengths of an image, if the whole budget went there.

    No method can do better than this by much: what comes out at 1 is as much noise as image.
    """
    mu = mu_of(plan.budget.epsilon, plan.budget.delta)
    return math.sqrt(plan.data.pixels) * len(plan.data.classes) / (mu * plan.data.records)


def hopeless(plan: Plan) -> str | None:
    """Why nothing useful can come of a plan, if that is so."""
    spec = plan.data
    things = "persons" if spec.unit is Unit.PERSON else "records"
    whole = f"{spec.records:,} {things} in {len(spec.classes)} classes at epsilon {plan.budget.epsilon:g}"
    if spec.records < FEWEST:
        return f"{TOO_FEW} to make anything useful: {whole}"
    if (ratio := noise_to_signal(plan)) > HOPELESS:
        return f"{TOO_FEW}: with {whole} the noise is about {ratio:.1f} times the signal"
    return None


def _protected(plan: Plan) -> str:
    if plan.budget.unit is Unit.PERSON:
        return "each person, with all of their images together"
    return "one record (an image and its label) at a time; a person with several images less"


def _odds(given: dict[str, Any]) -> str:
    factor = math.exp(min(given["epsilon"], 30.0))
    times = f"{factor:,.1f}" if factor < 100 else f"{math.ceil(factor):,}" if factor < 1e6 else "more than a million"
    return f"The odds of any outcome change at most {times} times, but for a chance of {one_in(given['delta'])}."


def _shape(shape: tuple[int, int, int]) -> str:
    return f"images of {shape[2]}x{shape[1]} pixels, {'grey' if shape[0] == 1 else 'colour'}"


def _classes(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"class names {', '.join(names[:MOST_NAMED])}{more}. A single record can set these: they go out as they are."


def share_of(plan: Plan, name: str) -> float:
    """The part of the budget, in squared mu, that a crossing of all records takes."""
    event = plan.crossings[name].event(plan.budget.relation)
    return event.times * (event.sensitivity / event.sigma / mu_of(plan.budget.epsilon, plan.budget.delta)) ** 2


def _labels(plan: Plan) -> str:
    kind = plan.labels["kind"]
    if kind == "private":
        part = share_of(plan, CROSSING)
        return f"shares of the classes are measured with noise, for {part:.1%} of the budget; nobody sees them before"
    if kind == "declared":
        return "shares of the classes as declared in a file"
    return "every class equally often" if plan.data.conditional else "one class"


def _down(value: float) -> str:
    """What is left, never shown larger than it is."""
    return f"epsilon {math.floor(value * 1000) / 1000:g}"
