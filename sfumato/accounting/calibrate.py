"""Find the least noise that meets a budget."""

from __future__ import annotations

from collections.abc import Callable


def least_noise(epsilon: Callable[[float], float], target: float, *, tolerance: float = 1e-9) -> float:
    """Smallest noise scale x (up to a relative `tolerance`) with epsilon(x) <= target, for a falling function.

    The returned scale always meets the target: the search ends on the safe side.

    >>> least_noise(lambda x: 1 / x, 0.5, tolerance=1e-6) >= 2.0
    True
    """
    if target <= 0:
        raise ValueError(f"Expected a target epsilon above 0, found {target}.")
    low, high = 0.0, 1.0
    while epsilon(high) > target:
        low, high = high, 4 * high
        if high > 1e12:
            raise ValueError(f"Expected a reachable budget, but no noise below 1e12 gives epsilon={target}.")
    if low == 0.0:
        low = high
        while low > 1e-6 and epsilon(low) <= target:
            high, low = low, low / 4
    while high - low > tolerance * high:
        mid = (low + high) / 2
        low, high = (low, mid) if epsilon(mid) <= target else (mid, high)
    return high
