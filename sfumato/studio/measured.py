"""How useful recommended methods were found on public sets that look alike, from the results that ship."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from sfumato.bench import measured as bench
from sfumato.methods.registry import RECOMMENDED
from sfumato.types import DataSpec

ALIKE = {1: ("fashion-mnist", "mnist"), 3: ("fairface", "cifar10")}  # by channels


@cache
def _lines(method: str) -> tuple[dict[str, Any], ...]:
    return tuple(bench.measured(method))


def recommended(spec: DataSpec, epsilon: float) -> list[dict[str, Any]]:
    """Two or three methods, each with what was measured at the nearest epsilon."""
    return [{"method": name, "measured": measured(name, spec, epsilon)} for name in RECOMMENDED]


def measured(method: str, spec: DataSpec, epsilon: float) -> list[dict[str, Any]]:
    """Of each public set that looks alike the measurement with most seeds, at the nearest epsilon."""
    found = []
    for data in ALIKE[spec.shape[0]]:
        lines = [line for line in _lines(method) if line["data"] == data]
        if lines:
            nearest = min({line["epsilon"] for line in lines}, key=lambda e: abs(math.log(e / epsilon)))
            found.append(max((each for each in lines if each["epsilon"] == nearest), key=lambda each: each["seeds"]))
    return found
