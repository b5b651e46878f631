"""Renyi differential privacy of events: a second opinion, the papers' currency, and the road to selection."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import lru_cache

from sfumato.accounting.budget import Relation
from sfumato.accounting.events import AnyEvent, Event, Selected
from sfumato.accounting.profile import RenyiCurve
from sfumato.accounting.selection import selected_renyi

ORDERS: tuple[float, ...] = (
    *(round(1.05 + 0.05 * i, 2) for i in range(219)),
    *map(float, range(12, 64)),
    *(float(round(2.0 ** (i / 4))) for i in range(24, 49)),
)


def curve(events: Sequence[AnyEvent], orders: Sequence[float] = ORDERS) -> list[float] | None:
    """Renyi divergence bounds at `orders` of all events together; None where no sound formula is at hand."""
    total = [0.0] * len(orders)
    for event in (e for e in events if e.times):
        one = _selected(event, tuple(orders)) if isinstance(event, Selected) else _plain(event, tuple(orders))
        if one is None:
            return None
        total = [a + event.times * b for a, b in zip(total, one, strict=True)]
    return total


def renyi(events: Sequence[AnyEvent], order: float) -> float | None:
    """Renyi divergence bound at `order`; None where no sound formula is at hand (Poisson under replace-one)."""
    found = curve(events, (order,))
    return None if found is None else found[0]


def epsilon_by_renyi(
    events: Sequence[AnyEvent], delta: float, conversion: str = "balle", *, orders: Sequence[float] = ORDERS
) -> float | None:
    """Epsilon through Renyi DP: "balle" (Canonne et al. 2020) as a second opinion, "mironov" for paper mode."""
    found = curve(events, orders)
    return None if found is None else RenyiCurve(tuple(orders), tuple(found), conversion).epsilon(delta)


def _selected(event: Selected, orders: tuple[float, ...]) -> list[float] | None:
    # The formula may borrow from any order, so the whole list is always computed.
    wider = tuple(sorted({*ORDERS, *orders}))
    base = curve(event.events, wider)
    if base is None:
        return None
    after = dict(zip(wider, selected_renyi(wider, base, event.mean, event.shape), strict=True))
    return [after[order] for order in orders]


def _plain(e: Event, orders: tuple[float, ...]) -> list[float] | None:
    """One release of the event."""
    if e.mechanism in ("gaussian", "discrete-gaussian") and e.rate == 1.0:
        # The discrete Gaussian obeys the same bound as the continuous one.
        return [order * (e.sensitivity / e.sigma) ** 2 / 2 for order in orders]
    if e.mechanism == "laplace" and e.rate == 1.0:
        return [laplace_renyi(e.sensitivity / e.sigma, order) for order in orders]
    if e.mechanism == "discrete-laplace":
        return [max(n * response_renyi(by / e.sigma, order) for n, by in e.patterns) for order in orders]
    if e.mechanism == "gaussian" and e.pair is Relation.ADD_REMOVE and e.cap is None:
        return list(_poisson(e.rate, e.sigma / e.bound, orders))
    return None


def laplace_renyi(epsilon: float, order: float) -> float:
    """Renyi divergence of a Laplace release that is `epsilon`-DP (Mironov 2017, proposition 6)."""
    inner = (order - 1) * math.expm1((1 - 2 * order) * epsilon) / (2 * order - 1)
    return epsilon + math.log1p(inner) / (order - 1)


def response_renyi(epsilon: float, order: float) -> float:
    """Renyi divergence of randomised response, the worst of all that is `epsilon`-DP.

    Whole-number Laplace noise of scale t, moved by one, is just this with epsilon = 1/t: all its losses are +-1/t.

    >>> response_renyi(0.1, 2.0) > laplace_renyi(0.1, 2.0)
    True
    """
    likely = -math.log1p(math.exp(-epsilon))
    rare = likely - epsilon
    a = order * likely + (1 - order) * rare
    b = order * rare + (1 - order) * likely
    return (max(a, b) + math.log1p(math.exp(-abs(a - b)))) / (order - 1)


@lru_cache(maxsize=512)
def _poisson(rate: float, multiplier: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    # The library says on standard error which orders it leaves out (as infinite); nobody needs to read that.
    logging.getLogger("absl").setLevel(logging.ERROR)
    accountant = RdpAccountant(list(orders))
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)))
    return tuple(float(value) for value in accountant._rdp)


def without_replacement(rate: float, multiplier: float, orders: Sequence[float]) -> list[float]:
    """Renyi bounds of a Gaussian on a fixed-size subset (Wang, Balle, Kasiviswanathan), replace-one only.

    `multiplier` is sigma over the replace-one sensitivity.
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.dp_event import GaussianDpEvent, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE)
    parts = round(1 / rate)
    accountant.compose(SampledWithoutReplacementDpEvent(parts, 1, GaussianDpEvent(multiplier)))
    return [float(value) for value in accountant._rdp]
