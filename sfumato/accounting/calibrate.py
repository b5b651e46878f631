"""Find the least noise that meets a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from scipy.optimize import brentq


def least_noise(
    epsilon: Callable[[float], float], target: float, *, tolerance: float = 1e-8, start: float = 1.0
) -> float:
    """Smallest noise scale x (up to a relative `tolerance`) with epsilon(x) <= target, for a falling function.

    The returned scale always meets the target: the search ends on the safe side. It works on logarithms, where
    epsilon is nearly a straight line, so that a dozen calls are enough; fewer from a good `start`.

    >>> 2.0 <= least_noise(lambda x: 1 / x, 0.5) < 2.0 + 1e-6
    True
    """
    if target <= 0:
        raise ValueError(f"Expected a target epsilon above 0, found {target}.")

    @cache
    def excess(log_noise: float) -> float:
        return math.log(max(epsilon(math.exp(log_noise)), 1e-300) / target)

    low, high = _bracket(excess, math.log(start))
    root = float(brentq(excess, low, high, xtol=tolerance / 4, rtol=1e-12)) if low < high else high
    while excess(root) > 0:
        root += tolerance / 2
    return math.exp(root)


def _bracket(excess: Callable[[float], float], start: float) -> tuple[float, float]:
    """Logarithms of a noise that is too small and of one that is enough, by growing steps from `start`."""
    at, step = start, 0.15
    direction = 1 if excess(at) > 0 else -1
    while (excess(at) > 0) == (direction > 0):
        if at > 28:
            raise ValueError("Expected a reachable budget, but no noise below 1e12 meets it.")
        if at < -14:
            return at, at  # next to no noise is enough
        before, at, step = at, at + direction * step, 2 * step
    return (before, at) if direction > 0 else (at, before)
