"""What was measured of a method: accuracies and times from the results that ship, never typed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.bench.results import NEUTRAL, Result, read
from sfumato.methods import find
from sfumato.recipes import RECIPES

BESIDE = {"size", *NEUTRAL}  # what a row may say that is no setting of a method


def measured(method: str, results: Sequence[Result] | None = None) -> list[dict[str, Any]]:
    """A line for each set, budget, network and recipe (or settings of one's own), by accuracy at the last step.

    Of several runs of a recipe the one with most seeds is told, then fewest changes, then the newest. What is not
    private, and what an earlier version of the method made with settings that it no longer has, is left out.

    >>> [line["seeds"] for line in measured("dp-merf") if (line["data"], line["epsilon"]) == ("mnist", 0.2)]
    [3]
    """
    best: dict[tuple[Any, ...], Result] = {}
    for result in _told(method, read() if results is None else results):
        known = best.setdefault(_place(result), result)
        if _order(result) > _order(known):
            best[_place(result)] = result
    return [_line(best[place]) for place in sorted(best)]


def _told(method: str, results: Sequence[Result]) -> Iterator[Result]:
    fields = set(find(method)().settings()) | BESIDE
    for result in results:
        private = result.epsilon is not None and not result.as_printed
        if private and _method(result) == method and "fixed" in result.values and set(result.settings) <= fields:
            yield result


def _method(result: Result) -> str:
    return RECIPES[result.recipe].method if result.recipe in RECIPES else "" if result.recipe else result.method


def _place(result: Result) -> tuple[Any, ...]:
    return result.data, result.epsilon, result.network, result.recipe


def _order(result: Result) -> tuple[Any, ...]:
    return result.seeds(), -len(set(result.settings) - NEUTRAL), result.date


def _line(result: Result) -> dict[str, Any]:
    found = result.values["fixed"]
    return {
        "data": result.data,
        "epsilon": result.epsilon,
        "accuracy": found["mean"],
        "spread": found["std"],
        "seeds": result.seeds(),
        "network": result.network,
        "seconds": result.seconds,
        "machine": result.machine,
        "recipe": result.recipe,
        "settings": result.settings,
        "note": result.note,
        "command": result.command,
    }
