"""Find the least noise that meets a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from scipy.optimize import brentq

from sfumato.accounting import accountant, pld
from sfumato.accounting.events import AnyEvent, Event, Selected
from sfumato.accounting.pld import smoothed


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
    at = start
    step = 0.15
    direction = 1 if excess(at) > 0 else -1
    while (excess(at) > 0) == (direction > 0):
        if at > 28:
            raise ValueError("Expected a reachable budget, but no noise below 1e12 meets it.")
        if at < -14:
            return at, at  # next to no noise is enough
        before = at
        at = at + direction * step
        step = 2 * step
    return (before, at) if direction > 0 else (at, before)


def noise_within(events_at: Callable[[float], Sequence[AnyEvent]], target: float, delta: float) -> float:
    """Least noise scale at which `events_at(scale)` is (target, delta)-DP by the accountant that will be stated.

    Plain Gaussians are solved to the last digits. Elsewhere the search goes from cheap to dear: Renyi DP for the
    region, a coarse loss distribution for the slope, then the final accountant, which has the last word; the
    scale is within one part in ten thousand of the least one.
    """

    def stated(scale: float) -> float:
        return accountant.epsilon(events_at(scale), delta)

    sample = [e for e in events_at(1.0) if e.times]
    if all(e.exact for e in sample):
        return least_noise(stated, target)
    if any(isinstance(e, Selected) for e in sample):
        return least_noise(stated, target, tolerance=1e-6)
    near = _region(events_at, target, delta)
    start = near or 1.0
    if all(smoothed(e).exact for e in _events(events_at(start))):
        return least_noise(stated, target, start=start)
    interval = 8 * pld.interval_for(_events(events_at(start)))

    def coarse(scale: float) -> float:
        return accountant.profile_by(events_at(scale), "pld", interval).epsilon(delta)

    start, slope = _secant(coarse, target, near or least_noise(coarse, target, tolerance=1e-2))
    return _settle(stated, target, start, slope)


def _events(events: Sequence[AnyEvent]) -> list[Event]:
    return [e for e in events if isinstance(e, Event) and e.times]


def most_times(events_at: Callable[[int], Sequence[AnyEvent]], target: float, delta: float) -> int:
    """The largest count (0 where not even one fits) at which `events_at(count)` is within (target, delta).

    >>> from sfumato.accounting.budget import Relation
    >>> def queries(count):
    ...     return [Event("gaussian", 5000, 2 * 200**0.5, 200**0.5, Relation.ADD_REMOVE, times=count)]
    >>> most_times(queries, 1.0, 1e-5)
    2245
    """
    if accountant.epsilon(events_at(1), delta) > target:
        return 0
    low = 1
    high = 2
    while accountant.epsilon(events_at(high), delta) <= target:
        if high > 2**40:
            raise ValueError("Expected a sigma that a budget can be spent with, found one too large to count with.")
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accountant.epsilon(events_at(middle), delta) <= target else (low, middle)
    return low


def _region(events_at: Callable[[float], Sequence[AnyEvent]], target: float, delta: float) -> float | None:
    """A scale near the answer, by Renyi DP of events of about the same size.

    None where events of fixed noise take nearly all of the target: Renyi DP, which is looser, may find it overspent.
    """

    def rough(scale: float) -> float:
        return (
            accountant.epsilon_by_renyi([pld.rough(e) for e in _events(events_at(scale))], delta, orders=pld.FEW) or 0.0
        )

    return least_noise(rough, target, tolerance=1e-2) if rough(1e9) < target else None


def _secant(epsilon: Callable[[float], float], target: float, scale: float) -> tuple[float, float]:
    """A scale close to the answer and d log(epsilon) / d log(scale) there. Nothing rests on either being exact."""
    slope = -1.0
    excess = 0.0
    step = 0.0
    for turn in range(12):
        before = excess
        excess = math.log(max(epsilon(scale), 1e-300) / target)
        if turn and step:
            slope = min(-0.05, max(-30.0, (excess - before) / step))
        if abs(excess) < 1e-3:
            return scale, slope
        step = max(-0.7, min(0.7, -excess / slope))
        scale *= math.exp(step)
    return scale, slope


def _settle(stated: Callable[[float], float], target: float, scale: float, slope: float) -> float:
    """From a scale close to the answer to one that meets the target, by the known slope on logarithms."""
    safe = math.inf
    margin = 2e-5
    for _ in range(40):
        excess = math.log(max(stated(scale), 1e-300) / target)
        if excess <= 0:
            safe = min(safe, scale)
            if excess > slope * 1e-4:  # within 1e-4 of the least noise
                return safe
        step = -excess / slope
        if scale * math.exp(step + margin) >= safe:
            return safe
        scale *= math.exp(step + margin)
        margin *= 1.0 if excess <= 0 else 2.0
    if math.isinf(safe):
        raise ValueError("Expected a reachable budget, but the search for the noise did not settle.")
    return safe
