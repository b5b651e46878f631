"""What it costs to return the best of several runs, and how many runs there are.

A fixed number of runs composes: `compose_all`. A random number, of which only the best is ever seen, costs much
less (Papernot and Steinke 2022). The number must be drawn in secret and never be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.accounting.events import Event


@dataclass(frozen=True)
class Runs:
    """The law of the number of runs K: truncated negative binomial, or Poisson where `shape` is infinite.

    A truncated negative binomial gives at least one run. A Poisson law may give none: then nothing is released.

    >>> round(Runs(10, 1).pmf(1), 12), Runs(10, 1).kind
    (0.1, 'geometric')
    """

    mean: float
    shape: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.mean >= 1 and self.shape >= 0):
            raise ValueError(f"Expected a finite mean of at least 1 and a shape of at least 0, found {self}.")

    @property
    def kind(self) -> str:
        """The name of the law."""
        if math.isinf(self.shape):
            return "poisson"
        return {0.0: "logarithmic", 1.0: "geometric"}.get(self.shape, "truncated negative binomial")

    @property
    def gamma(self) -> float:
        """The halting parameter of a truncated negative binomial with this mean."""
        return gamma_of(self.mean, self.shape)

    def pmf(self, k: int) -> float:
        """Probability of exactly k runs."""
        if math.isinf(self.shape):
            return math.exp(k * math.log(self.mean) - self.mean - math.lgamma(k + 1)) if k >= 0 else 0.0
        if k < 1:
            return 0.0
        gamma = self.gamma
        if gamma == 1.0:
            return float(k == 1)
        if self.shape == 0:
            return (1 - gamma) ** k / (k * math.log(1 / gamma))
        grow = math.lgamma(k + self.shape) - math.lgamma(self.shape) - math.lgamma(k + 1)
        return math.exp(grow + k * math.log1p(-gamma)) / math.expm1(-self.shape * math.log(gamma))


def _mean(gamma: float, shape: float) -> float:
    if shape == 0:
        return (1 / gamma - 1) / math.log(1 / gamma)
    return shape * (1 / gamma - 1) / -math.expm1(shape * math.log(gamma))


def gamma_of(mean: float, shape: float) -> float:
    """The parameter gamma in (0, 1] whose truncated negative binomial has this mean."""
    from scipy.optimize import brentq

    if mean == 1:
        return 1.0
    if shape == 1:
        return 1 / mean
    # On logarithms; the mean falls from infinity to 1 as gamma rises to 1.
    found = brentq(lambda u: math.log(_mean(math.exp(u), shape) / mean), -600.0, -1e-9, xtol=1e-14)
    return math.exp(float(found))


def selected_renyi(orders: Sequence[float], values: Sequence[float], mean: float, shape: float) -> list[float]:
    """Renyi bounds of selection from those of one run, at the same orders.

    Theorem 2 (truncated negative binomial) and theorem 6 (Poisson) of Papernot and Steinke 2022.
    """
    if math.isinf(shape):
        raw = [
            value + mean * _delta(orders, values, math.log1p(1 / (order - 1))) + math.log(mean) / (order - 1)
            for order, value in zip(orders, values, strict=True)
        ]
    else:
        log_gamma = math.log(gamma_of(mean, shape))
        pairs = zip(orders, values, strict=True)
        borrowed = (1 + shape) * min((1 - 1 / order) * value - log_gamma / order for order, value in pairs)
        raw = [v + math.log(mean) / (o - 1) + borrowed for o, v in zip(orders, values, strict=True)]
    # Divergences grow with the order, so a bound at a higher order holds at all lower ones.
    return [min(r for o, r in zip(orders, raw, strict=True) if o >= order) for order in orders]


def _delta(orders: Sequence[float], values: Sequence[float], epsilon: float) -> float:
    from sfumato.accounting.profile import RenyiCurve

    return RenyiCurve(tuple(orders), tuple(values)).delta(epsilon)


def compose_all(events: Sequence[Event], runs: int) -> tuple[Event, ...]:
    """The events of `runs` runs that may all be looked at: nothing is saved, nothing need be hidden."""
    return tuple(replace(event, times=event.times * runs) for event in events)
