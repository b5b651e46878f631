"""How a budget is split over the parts of a method, in the notation of DPAF, and the noise that follows.

33%,34%,33%   parts of epsilon           0.1,x,0.1   epsilons, and x gets what is left           equal   the same noise
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sfumato.accounting import accountant
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.events import Event

REST = ("x", "X", "×")
EQUAL = "equal"
ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 160.0, 192.0, 256.0, 384.0, 512.0)


def parse_split(text: str, epsilon: float, parts: int) -> tuple[float, ...] | None:
    """The epsilons of the parts, or None for `equal`.

    >>> parse_split("0.1,x,0.1", 10.0, 3)
    (0.1, 9.8, 0.1)
    >>> parse_split("(x, 0.2)", 1.0, 2)
    (0.8, 0.2)
    >>> parse_split("33%,34%,33%", 1.0, 3)
    (0.33, 0.34, 0.33)
    """
    if text.strip() == EQUAL:
        return None
    given = [part.strip() for part in text.strip().strip("()").split(",")]
    if len(given) != parts:
        raise ValueError(f"Expected split=equal or {parts} parts divided by commas, found split={text}.")
    rest = sum(part in REST for part in given)
    try:
        values = [None if part in REST else _share(part, epsilon) for part in given]
    except ValueError as error:
        raise ValueError(f"Expected split as in 33%,34%,33% or 0.1,x,0.1, found split={text}.") from error
    left = epsilon - math.fsum(v for v in values if v is not None)
    found = tuple(round(left if v is None else v, 12) for v in values)
    if rest > 1 or not min(found) > 0 or (not rest and abs(left) > 1e-6 * epsilon):
        raise ValueError(
            f"Expected a split whose parts are above 0 and add up to epsilon {epsilon:g}, one of them x "
            f"at most, found split={text}."
        )
    return found


def _share(part: str, epsilon: float) -> float:
    return float(part.removesuffix("%")) * epsilon / 100 if part.endswith("%") else float(part)


def multipliers(parts: Mapping[str, Event], epsilons: Sequence[float], delta: float) -> dict[str, float]:
    """Noise over sensitivity for each part, with which it would spend its epsilon if it were alone.

    By Renyi DP of add-remove: only the proportions matter, since a plan scales them together until the whole meets
    its budget. `parts` have the noise that they would have at scale 1.
    """
    return {name: _alone(event, epsilon, delta) for (name, event), epsilon in zip(parts.items(), epsilons, strict=True)}


def _alone(event: Event, epsilon: float, delta: float) -> float:
    def spent(scale: float) -> float:
        return accountant.epsilon_by_renyi([replace(event, sigma=event.sigma * scale)], delta, orders=ORDERS) or 0.0

    return least_noise(spent, epsilon, tolerance=1e-3)
