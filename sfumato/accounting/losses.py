"""Privacy loss distributions of events, through dp-accounting. The relation is applied here and nowhere else.

A plain Gaussian is called with sigma over the absolute sensitivity, as add-remove, whatever the relation: the
sensitivity already speaks for it. Subsampled Gaussians take sigma over the norm of one record's term, and the
library's own pair for each relation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.accounting import gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.accounting.mixtures import mixture_pld, truncated_pld
from sfumato.accounting.powers import power
from sfumato.accounting.rdp import epsilon_by_renyi
from sfumato.accounting.subsampled import gaussian_pld, through
from sfumato.accounting.tails import Tail

INTERVAL = 1e-4  # discretisation of privacy losses where little is composed; rounding is pessimistic
FINEST = INTERVAL / 8
FEW = (1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)  # orders, for a size
ERROR = 1e-3  # relative error of epsilon that discretisation may add


def interval_for(events: Sequence[Event]) -> float:
    """Coarser where epsilon is large, finer where many small losses are composed.

    Connecting the dots adds at most about h^2/6 to the variance of each composed loss, so `n` of them move
    epsilon by about n h^2/12 (1 + 4.3/mu) at delta = 1e-5. Half of `ERROR` is allowed for this.
    """
    about = epsilon_by_renyi([rough(e) for e in events], 1e-5, orders=FEW) or 0.0
    composed = sum(_steps(e) for e in events if not e.exact)
    size = min(max(about, 0.01), 1e4)
    mu = gaussian.mu_of(size, 1e-5)
    fine = math.sqrt(6 * ERROR * size / (max(composed, 1) * (1 + 4.3 / mu)))
    return _rounded(max(FINEST, min(INTERVAL * max(1.0, size / 2), fine)))


def _rounded(interval: float) -> float:
    """Down to a power of two, so that neighbouring noise scales are judged on one grid."""
    return INTERVAL * 2.0 ** math.floor(math.log2(interval / INTERVAL) + 1e-9)


def _steps(event: Event) -> int:
    return event.times * max((n for n, _ in event.patterns), default=1)


def rough(event: Event) -> Event:
    """An event of about this size that has a Renyi formula."""
    if event.mechanism == "mixture":
        rate = min(1.0, math.fsum(p for _, p in event.mixture))
        return replace(event, mechanism="gaussian", rate=rate, bound=event.sensitivity, mixture=())
    if event.mechanism == "laplace" and event.rate < 1:
        return replace(event, mechanism="gaussian", relation=Relation.ADD_REMOVE)
    kind = "gaussian" if event.rate < 1 else event.mechanism
    size = event.sensitivity if event.held else event.bound
    return replace(event, mechanism=kind, bound=size, relation=Relation.ADD_REMOVE, cap=None, records=None, held=False)


@lru_cache(maxsize=256)
def composed(events: tuple[Event, ...], interval: float) -> Any:
    """The distribution of all events together."""
    total = None
    plain = [e for e in events if e.exact]
    if plain:  # one Gaussian for all of them: no discretisation error is added up
        mu = math.sqrt(sum(e.mu**2 for e in plain))
        total = gaussian_pld(1 / mu, 1.0, Relation.ADD_REMOVE, interval)
    for event in (e for e in events if not e.exact):
        one = power(event_pld(event, interval), event.times)
        total = one if total is None else total.compose(one)
    return total


def event_pld(event: Event, interval: float) -> Any:
    """One release of the event."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if event.mechanism == "discrete-gaussian":
        return worst([_shifted(event.sigma, n, by, interval) for n, by in event.patterns], interval)
    if event.mechanism == "laplace":
        size = event.sensitivity if event.rate == 1.0 else event.bound
        return pld.from_laplace_mechanism(
            event.sigma / size, value_discretization_interval=interval, sampling_prob=event.rate
        )
    if event.mechanism == "mixture":
        return mixture_pld(event.sigma, event.mixture, interval)
    multiplier = event.sigma / event.bound
    if event.cap is None or event.records is None:
        return gaussian_pld(multiplier, event.rate, event.pair, interval)
    return truncated_pld(multiplier, event.rate, event.cap, event.records, event.pair, interval)


def _shifted(sigma: float, coordinates: int, by: int, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_discrete_gaussian_mechanism(
        sigma, sensitivity=by, value_discretization_interval=interval, use_connect_dots=True
    )
    return power(one, coordinates)


def worst(plds: Sequence[Any], interval: float) -> Any:
    """A distribution that dominates each of several symmetric ones, so that a neighbour may pick anew each time.

    Hockey-stick curves of discretised losses are straight in e^epsilon between multiples of the interval, so
    comparing at the multiples is exact, and connecting the larger values there dominates all of them.
    """
    if len(plds) == 1:
        return plds[0]
    top = max(_largest_loss(p) for p in plds)
    knots = np.arange(0, top + 2)
    curves = np.array([_at_knots(p, len(knots)) for p in plds])
    highest = curves.max(axis=0)
    for p, curve in zip(plds, curves, strict=True):
        if np.all(curve >= highest * (1 - 1e-12) - 1e-18):
            return p
    return through(highest, interval)


def _at_knots(pld: Any, count: int) -> Any:
    """Hockey-stick divergences of a symmetric distribution at 0, h, 2h and so on."""
    tail = Tail(pld._pmf_remove)
    first = round(float(tail.losses[0] / (tail.losses[1] - tail.losses[0]))) if len(tail.losses) > 1 else 0
    if first:
        raise ValueError("Expected losses that reach down to 0.")
    return np.concatenate([np.maximum(tail.deltas, tail.infinite), np.full(count, tail.infinite)])[:count]


def _largest_loss(pld: Any) -> int:
    pmf = pld._pmf_remove.to_dense_pmf()
    return int(pmf._lower_loss + pmf.size)
