"""What a guarantee means in words, and how often an attacker can be right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sfumato.release.statement.numbers import epsilon, one_in, percent, show, up

MU = "Gaussian differential privacy: telling two adjacent data sets apart is as hard as telling N(0, 1) from N(mu, 1)"


def advantage(guarantee: dict[str, Any], curve: Sequence[Sequence[float]] = ()) -> float:
    """How far above guessing any membership attack can get, between 0 and 1.

    The total variation distance of the two worlds: exact for a Gaussian mechanism (2 Phi(mu/2) - 1);
    otherwise the accountant's delta at epsilon = 0, or the best bound that the stated point and the curve give.

    >>> round(advantage({"epsilon": 1.0, "delta": 1e-5, "mu": 0.26805}), 4)
    0.1066
    """
    if guarantee.get("mu") is not None:
        return math.erf(float(guarantee["mu"]) / 2 / math.sqrt(2))
    points = [(guarantee["delta"], guarantee["epsilon"]), *curve]
    accounted = 1.0 if guarantee.get("advantage") is None else float(guarantee["advantage"])
    return min(1.0, accounted, *(_bound(float(eps), float(delta)) for delta, eps in points))


def _bound(eps: float, delta: float) -> float:
    """(e^eps - 1 + 2 delta) / (e^eps + 1), without overflow."""
    return math.tanh(eps / 2) + 2 * delta * math.exp(-eps) / (1 + math.exp(-eps))


def relation_words(relation: str, count_public: bool) -> str:
    """The relation as it is printed; a public count turns add-remove into zero-out."""
    if relation == "add-remove":
        return "add-remove with a public count (zero-out)" if count_public else "add-remove with a private count"
    return relation


def neighbour_words(relation: str, unit: str, count_public: bool) -> str:
    """Which two data sets the guarantee makes hard to tell apart."""
    record = "one record (an image, its label and all that goes with it)"
    thing = "the set of one person's records" if unit == "person" else record
    if relation == "replace-one":
        return f"two data sets that differ in {thing}, replaced by any other"
    if count_public:
        return f"two data sets of the same public size, where {thing} is blanked out in one of them"
    return f"two data sets, one of which has {thing} more than the other"


def count_words(data: dict[str, Any]) -> str:
    """The number of units, named for what it is: a public count, or a size declared without looking."""
    things = "persons" if data["unit"] == "person" else "records"
    if data["count_public"]:
        return f"{show(data['records'])} {things} (the count is public)"
    return f"declared size {show(data['records'])} {things} (the true count is private and appears nowhere)"


def opinion_words(opinion: dict[str, Any] | str) -> str:
    """A second accountant's figure, or the paper's with its note."""
    if isinstance(opinion, str):
        return opinion
    notes = [str(opinion[key]) for key in ("accountant", "note") if opinion.get(key)]
    figure = f"epsilon = {epsilon(opinion['epsilon'])}" if opinion.get("epsilon") is not None else "no figure"
    return f"{figure} ({'; '.join(notes)})" if notes else figure


def plain_words(
    guarantee: dict[str, Any], curve: Sequence[Sequence[float]], data: dict[str, Any], made: str = "synthetic images"
) -> dict[str, Any]:
    """Point 12: the guarantee of what was `made` for a reader who does not know differential privacy."""
    gain = advantage(guarantee, curve)
    success = min(1.0, up(0.5 + gain / 2))
    whose = "one given person" if guarantee["unit"] == "person" else "one given record"
    if guarantee["relation"] == "replace-one":
        question = f"which of two candidates for {whose.replace('given ', '')} was used"
    else:
        question = f"whether {whose} was used"
    often = percent(success)
    attack = (
        f"An attacker who is certain of everything else and starts undecided can be right about {question} "
        f"{often if often.startswith('more') else f'at most about {often}'} of the time; tossing a coin gives 50 %."
    )
    return {
        "summary": attack,
        "attacker_success": success,
        "attacker_advantage": min(1.0, up(gain)),
        "basis": _basis(guarantee),
        "sentences": [
            attack,
            f"The two numbers behind this are epsilon = {epsilon(guarantee['epsilon'])} and delta = "
            f"{show(guarantee['delta'])} ({one_in(guarantee['delta'])}); smaller means more private.",
            "This holds for every attack, now and later, whatever else the attacker learns, and it cannot be "
            "weakened by processing, sampling or sharing these files again.",
            "It does not hide what is true of the group as a whole: a pattern that many records share may show in the "
            f"{made}.",
            _own_words(data),
        ],
    }


def _basis(guarantee: dict[str, Any]) -> str:
    if guarantee.get("mu") is not None:
        return "exact for a Gaussian mechanism"
    if guarantee.get("advantage") is not None:
        return "the accountant's delta at epsilon = 0, which bounds every attack"
    return "bound from epsilon and delta"


def _own_words(data: dict[str, Any]) -> str:
    if data.get("public"):
        return "The source is a benchmark set that is public already; the guarantee shows what the method would give."
    if data["unit"] == "person":
        return "It covers each person with all of their records together."
    return "It covers one record at a time: a person with several records, or near-duplicates of one, is covered less."
