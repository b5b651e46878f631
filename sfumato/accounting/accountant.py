"""From events to a guarantee: the exact Gaussian formula where it applies, privacy loss distributions elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sfumato.accounting import gaussian, pld, rdp
from sfumato.accounting.events import AnyEvent, Event, Selected
from sfumato.accounting.pld import LOUD, LossDistribution, smoothed
from sfumato.accounting.profile import ExactGaussian, Profile, RenyiCurve
from sfumato.accounting.rdp import ORDERS, epsilon_by_renyi, renyi

__all__ = [
    "BACKENDS",
    "ORDERS",
    "ExactGaussian",
    "LossDistribution",
    "Profile",
    "RenyiCurve",
    "curve",
    "dominating_gaussian",
    "epsilon",
    "epsilon_by_renyi",
    "profile",
    "profile_by",
    "renyi",
]

Backend = Literal["exact", "pld", "rdp_balle", "rdp_mironov"]
BACKENDS: tuple[Backend, ...] = ("exact", "pld", "rdp_balle", "rdp_mironov")


def profile(events: Sequence[AnyEvent]) -> Profile:
    """The guarantee of `events` together, by the tightest sound accountant.

    >>> from sfumato.accounting.budget import Relation
    >>> e = Event("gaussian", 5000, 2 * 200**0.5, 200**0.5, Relation.ADD_REMOVE, times=1301)
    >>> round(profile([e]).epsilon(1e-5), 3)
    0.742
    """
    used = _used(events)
    if all(e.exact for e in used):
        return profile_by(used, "exact")
    return profile_by(used, "rdp_balle" if any(map(_renyi_only, used)) else "pld")


def _renyi_only(event: AnyEvent) -> bool:
    """Selections, and whole-number noise so small that its losses leave the range of floats."""
    if isinstance(event, Selected):
        return True
    return event.mechanism == "discrete-gaussian" and event.sensitivity > LOUD * event.sigma


def profile_by(events: Sequence[AnyEvent], backend: Backend, interval: float | None = None) -> Profile:
    """The guarantee by a named accountant; an upper bound from each of them, ValueError where it has none."""
    used = _used(events)
    if backend == "exact":
        return ExactGaussian(math.sqrt(math.fsum(e.mu**2 for e in _gaussians(used))))
    if backend == "pld":
        plain = _plain(used)
        if not plain:
            return ExactGaussian(0.0)
        every = pld.INTERVAL if all(e.exact for e in plain) else pld.interval_for(plain)
        interval = interval or every
        return LossDistribution(pld.composed(plain, interval), interval)
    if backend not in BACKENDS:
        raise ValueError(f"Expected one of {', '.join(BACKENDS)}, found {backend!r}.")
    values = rdp.curve(used)
    if values is None:
        raise ValueError("Expected events with a Renyi formula; subsampling under replace-one has none. Use pld.")
    return RenyiCurve(ORDERS, tuple(values), backend.removeprefix("rdp_"))


def epsilon(events: Sequence[AnyEvent], delta: float, backend: Backend | None = None) -> float:
    """Epsilon at any delta, by the tightest sound accountant or by a named one.

    >>> from sfumato.accounting.budget import Relation
    >>> one = [Event("gaussian", 4.0, 1.0, 1.0, Relation.ADD_REMOVE)]
    >>> [round(epsilon(one, 1e-5, b), 3) for b in ("exact", "pld", "rdp_balle", "rdp_mironov")]
    [0.926, 0.926, 1.013, 1.231]
    """
    found = profile(events) if backend is None else profile_by(events, backend)
    return found.epsilon(delta)


def curve(events: Sequence[AnyEvent], deltas: Sequence[float], backend: Backend | None = None) -> list[list[float]]:
    """[delta, epsilon] pairs."""
    found = profile(events) if backend is None else profile_by(events, backend)
    return [[d, found.epsilon(d)] for d in deltas]


def _used(events: Sequence[AnyEvent]) -> tuple[AnyEvent, ...]:
    used = tuple(smoothed(e) for e in events if e.times)
    if len({e.relation for e in used}) > 1:
        raise ValueError("Expected all events under one relation; convert them before composing.")
    return used


def _plain(events: Sequence[AnyEvent]) -> tuple[Event, ...]:
    if any(isinstance(e, Selected) for e in events):
        raise ValueError("Expected no selection: it is accounted by Renyi DP alone.")
    return tuple(e for e in events if isinstance(e, Event))


def _gaussians(events: Sequence[AnyEvent]) -> tuple[Event, ...]:
    if not all(e.exact for e in events):
        raise ValueError("Expected plain Gaussians for the exact formula; use pld.")
    return _plain(events)


def dominating_gaussian(events: Sequence[AnyEvent], slack: float) -> tuple[float, float]:
    """The least (mu, slack used) such that all events together are no worse than "with probability
    `slack` everything is revealed, otherwise a mu-Gaussian".

    By Blackwell's theorem it is enough that delta(eps) <= slack + (1 - slack) delta_mu(eps) for all eps >= 0 in
    both directions. This is what lets whole runs of any kind compose under a Gaussian-DP filter.
    """
    run = profile(events)
    if run.mu is not None:
        return run.mu, 0.0
    top = run.epsilon(slack)
    if not math.isfinite(top):
        raise ValueError("Expected a run that a Gaussian can dominate; take a larger slack.")
    grid = np.linspace(0.0, top, 401)
    # Between two grid points delta only falls, so left values against right values cover the whole interval;
    # beyond `top` the slack alone is enough.
    left = np.array([run.delta(float(e)) for e in grid[:-1]])

    def covered(mu: float) -> bool:
        right = np.array([gaussian.delta_of(float(e), mu) for e in grid[1:]])
        return bool(np.all(left <= slack + (1 - slack) * right))

    low = 0.0
    high = 1e-3
    while not covered(high):
        low = high
        high = 2 * high
        if high > 1e9:
            raise ValueError("Expected a run that a Gaussian can dominate; take a larger slack.")
    while high - low > 1e-6 * high:
        mid = (low + high) / 2
        low, high = (low, mid) if covered(mid) else (mid, high)
    return high, slack
