"""Privacy loss distributions: what one release loses, what many lose together, and how that is read.

The curves here are those of dp-accounting, computed on whole arrays. The library evaluates the same hockey-stick curves
point by point in Python, which takes most of the time of a calibration. Tests hold the two against each other.

    curves         delta(epsilon) of a Gaussian against its neighbour, subsampled or not, in closed form
    one Gaussian   a discretised loss distribution that dominates the curve
    other pairs    truncated Poisson sampling, mixtures of Gaussians, whole-number noise
    composition    a distribution with itself, many times
    events         a plan's events as one distribution: the relation is applied here and nowhere else
    reading        epsilon at delta and delta at epsilon

Every rounding is pessimistic, so that each answer is an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import log_ndtr, ndtr

from sfumato.accounting import gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import AnyEvent, Event
from sfumato.accounting.rdp import epsilon_by_renyi

Floats = NDArray[np.float64]

INTERVAL = 1e-4  # discretisation of privacy losses where little is composed; rounding is pessimistic
FINEST = INTERVAL / 8
FEW = (1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)  # orders, for a size
ERROR = 1e-3  # relative error of epsilon that discretisation may add
TAIL = 1e-15  # mass that may be cut off; it is added to the mass that is lost outright, as in the library
ROUNDING = 2.0  # r, of the detour from whole-number noise to continuous noise
WIDE = 200.0  # sigma below which the loss distribution of the integer shifts themselves is tighter than the detour
LOUD = 20.0  # sensitivity over sigma from which on there is no privacy to speak of


# -------------------- curves


def plain(epsilon: Floats, mu: float) -> Floats:
    """Hockey-stick divergence of N(mu, 1) from N(0, 1)."""
    deltas: Floats = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return deltas


def removed(epsilon: Floats, sigma: float, rate: float) -> Floats:
    """Hockey-stick divergence of (1-q) N(0) + q N(1) from N(0), each with this sigma."""
    above = epsilon - math.log1p(-rate)
    inside = above > 0
    gap = np.where(inside, above, 1.0)
    # e^eps - (1-q) = (1-q) (e^above - 1)
    log_excess = math.log1p(-rate) + gap + np.log(-np.expm1(-gap))
    x = sigma**2 * (log_excess - math.log(rate)) + 0.5
    # The mass beyond x: q of it comes from N(1), and (1-q) - e^eps of it counts for N(0).
    deltas = rate * ndtr((1 - x) / sigma) - np.exp(log_excess + log_ndtr(-x / sigma))
    return np.where(inside, deltas, -np.expm1(epsilon))


def added(epsilon: Floats, sigma: float, rate: float) -> Floats:
    """Hockey-stick divergence of N(0) from (1-q) N(0) + q N(1)."""
    below = -epsilon - math.log1p(-rate)
    inside = below > 0
    gap = np.where(inside, below, 1.0)
    # e^-eps - (1-q) = (1-q) (e^below - 1)
    log_excess = math.log1p(-rate) + gap + np.log(-np.expm1(-gap))
    x = sigma**2 * (log_excess - math.log(rate)) + 0.5
    deltas = np.exp(epsilon) * (np.exp(log_excess) * ndtr(x / sigma) - rate * ndtr((x - 1) / sigma))
    return np.where(inside, deltas, 0.0)


def replaced(epsilon: Floats, sigma: float, rate: float) -> Floats:
    """Hockey-stick divergence of (1-q) N(0) + q N(1) from (1-q) N(0) + q N(-1), for epsilon of at least 0."""
    grown = np.exp(epsilon)
    log_a = math.log(rate) - 0.5 / sigma**2
    b = (1 - rate) * np.expm1(epsilon)
    # The losses cross epsilon where a y^2 - b y - a e^eps = 0 with y = exp(x / sigma^2) and a = q exp(-1/(2 sigma^2)).
    root = np.logaddexp(2 * np.log(np.maximum(b, 1e-300)), math.log(4) + 2 * log_a + epsilon) / 2
    log_y = np.logaddexp(np.log(np.maximum(b, 1e-300)), root) - math.log(2) - log_a
    x = sigma**2 * log_y
    both: Floats = rate * ndtr((1 - x) / sigma) - grown * rate * ndtr((-1 - x) / sigma) - b * ndtr(-x / sigma)
    return both


def falling(deltas: Floats) -> Floats:
    """Rounding errors made harmless: values in [0, 1] that never rise, corrected upwards."""
    raised: Floats = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
    return raised


# -------------------- one Gaussian


def gaussian_pld(multiplier: float, rate: float, relation: Relation, interval: float = 1e-4) -> Any:
    """One Gaussian; `multiplier` is sigma over the norm of one record's term."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    reach = _reach(multiplier, rate)
    if reach / interval < 2000 or reach > 300:  # short enough for the library, or out of float range
        return pld.from_gaussian_mechanism(
            multiplier, sampling_prob=rate, value_discretization_interval=interval, neighboring_relation=pair(relation)
        )
    if rate == 1.0:
        mu = (1.0 if relation is Relation.ADD_REMOVE else 2.0) / multiplier
        top = _bounds(1 / mu, rate, "REMOVE").epsilon_upper
        return through(plain(np.arange(math.ceil(top / interval) + 1) * interval, mu), interval)
    if relation is Relation.REPLACE_ONE:
        knots = np.arange(math.ceil(_bounds(multiplier, rate, "REPLACE").epsilon_upper / interval) + 1) * interval
        return through(replaced(knots, multiplier, rate), interval)
    return pld.PrivacyLossDistribution(
        _pmf(multiplier, rate, interval, "REMOVE"), _pmf(multiplier, rate, interval, "ADD")
    )


def pair(relation: Relation) -> Any:
    """The library's name of the relation."""
    from dp_accounting import NeighboringRelation

    return {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }[relation]


def _reach(multiplier: float, rate: float) -> float:
    """About the largest loss that matters."""
    return max(0.0, 0.5 / multiplier**2 + 10 / multiplier + math.log(rate))


def _bounds(multiplier: float, rate: float, direction: str) -> Any:
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    loss = GaussianPrivacyLoss(multiplier, sampling_prob=rate, adjacency_type=AdjacencyType[direction])
    return loss.connect_dots_bounds()


def _pmf(multiplier: float, rate: float, interval: float, direction: str) -> Any:
    from dp_accounting.pld import pld_pmf

    bounds = _bounds(multiplier, rate, direction)
    low = math.floor(bounds.epsilon_lower / interval)
    high = math.ceil(bounds.epsilon_upper / interval)
    knots = np.arange(low, high + 1) * interval
    deltas = (removed if direction == "REMOVE" else added)(knots, multiplier, rate)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, falling(deltas))


def through(deltas: Floats, interval: float) -> Any:
    """The symmetric distribution whose hockey-stick curve takes these values at 0, h, 2h and so on."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    high = len(deltas) - 1
    # delta(-eps) = 1 - e^-eps + e^-eps delta(eps) for a symmetric pair.
    steps = -np.arange(1, high + 1) * interval
    mirrored = (-np.expm1(steps) + np.exp(steps) * deltas[1:])[::-1]
    everything = falling(np.concatenate([mirrored, deltas]))
    return pld.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -high, high, everything)
    )


# -------------------- truncated sampling and mixtures of Gaussians


def truncated_pld(multiplier: float, rate: float, cap: int, records: int, relation: Relation, interval: float) -> Any:
    """Poisson sampling of which no more than `cap` are kept, for a public number of records.

    As in dp-accounting: where the batch overflows, keeping a record pushes another out, so the change doubles; this
    happens with the probability below and is charged as the replace-one pair at half the multiplier.
    """
    from scipy.stats import binom

    poisson = gaussian_pld(multiplier, rate, relation, interval)
    overflow = float(binom.sf(cap - 1, records - 1, rate))
    if overflow == 0.0:
        return poisson
    kept = float(binom.sf(cap, records, rate)) * cap / overflow / records
    if kept == 0.0:
        return poisson
    pushed = gaussian_pld(multiplier / 2, min(1.0, kept), Relation.REPLACE_ONE, interval)
    return pushed.compute_mixture(poisson, overflow)


def mixture_pld(sigma: float, parts: Sequence[tuple[float, float]], interval: float) -> Any:
    """N(0) against a mixture of N(shift) with these probabilities, in both directions; the rest stays at 0."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, MixtureGaussianPrivacyLoss

    rest = 1 - math.fsum(p for _, p in parts)
    every = [*([(0.0, rest)] if rest > 1e-15 else []), *parts]
    shifts = [c for c, _ in every]
    chances = [p for _, p in every]
    pmfs = []
    for direction in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        bounds = MixtureGaussianPrivacyLoss(sigma, shifts, chances, adjacency_type=direction).connect_dots_bounds()
        low = math.floor(bounds.epsilon_lower / interval)
        high = math.ceil(bounds.epsilon_upper / interval)
        knots = np.arange(low, high + 1) * interval
        deltas = (
            _mixture_removed(knots, sigma, every)
            if direction is AdjacencyType.REMOVE
            else _mixture_added(knots, sigma, every)
        )
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, falling(deltas)))
    return PrivacyLossDistribution(*pmfs)


def _mixture_loss(x: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    terms = [math.log(p) + (c * x - c * c / 2) / sigma**2 for c, p in parts]
    total: Floats = np.logaddexp.reduce(terms)
    return total


def _mixture_crossing(loss: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    """Where the loss, which rises with x, reaches each value; far out where it never does."""
    reach = 40 * sigma + 2 * max(c for c, _ in parts)
    low = np.full_like(loss, -reach)
    high = np.full_like(loss, reach)
    for _ in range(60):
        middle = (low + high) / 2
        below = _mixture_loss(middle, sigma, parts) < loss
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return high


def _mixture_removed(epsilon: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    x = _mixture_crossing(epsilon, sigma, parts)
    mass = sum(p * ndtr((c - x) / sigma) for c, p in parts)
    deltas: Floats = mass - np.exp(epsilon + log_ndtr(-x / sigma))
    return np.maximum(deltas, -np.expm1(np.minimum(epsilon, 0.0)))


def _mixture_added(epsilon: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    x = _mixture_crossing(-epsilon, sigma, parts)
    mass = sum(p * ndtr((x - c) / sigma) for c, p in parts)
    deltas: Floats = ndtr(x / sigma) - np.exp(epsilon) * mass
    return np.maximum(deltas, -np.expm1(np.minimum(epsilon, 0.0)))


# -------------------- whole-number noise
#
# A wide discrete Gaussian is post-processing of a continuous one, and may be accounted as that.
#
# Round x ~ N(c, s^2) to the whole number y with probability proportional to exp(-(y - x)^2 / 2 r^2). The normaliser
# sum_y exp(-(y - x)^2 / 2 r^2) is r sqrt(2 pi) (1 +- 2 exp(-2 pi^2 r^2)) for every x, by Poisson's summation formula.
# So y follows the discrete Gaussian around c of parameter sigma = sqrt(s^2 + r^2), up to a factor of that size, in each
# coordinate: with r = 2 it is 1 +- 1e-33, nothing even over 2^60 coordinates. Whatever is true of the Gaussian with
# s = sqrt(sigma^2 - 4) is therefore true of the discrete one: any integer neighbour, composition, subsampling.


def smoothed(event: AnyEvent) -> AnyEvent:
    """The continuous event that a discrete one is post-processing of, where that is the tighter or the only way.

    >>> from sfumato.accounting.budget import Relation
    >>> votes = Event("discrete-gaussian", 5000, 28.3, 14.2, Relation.ADD_REMOVE)
    >>> smoothed(votes).mechanism, round(smoothed(votes).sigma, 4)
    ('gaussian', 4999.9996)
    """
    if not isinstance(event, Event):
        return event
    if event.mechanism == "gaussian" and event.rate < 1 and event.sensitivity > LOUD * event.sigma:
        # Losses out of the range of floats. That only some take part never hurts, and would not help here.
        return replace(event, rate=1.0, cap=None, records=None)
    if event.mechanism != "discrete-gaussian":
        return event
    if event.rate < 1 and event.sigma <= 1.25 * ROUNDING:
        return replace(event, rate=1.0)  # too narrow for the detour: being drawn by chance is not made use of
    if event.rate == 1.0 and event.sigma < WIDE:
        return event
    return replace(event, mechanism="gaussian", sigma=math.sqrt(event.sigma**2 - ROUNDING**2), shift=(1, 1), shifts=())


def _shifted(sigma: float, coordinates: int, by: int, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_discrete_gaussian_mechanism(
        sigma, sensitivity=by, value_discretization_interval=interval, use_connect_dots=True
    )
    return power(one, coordinates)


def _shifted_laplace(scale: float, coordinates: int, by: int, interval: float) -> Any:
    """Whole-number Laplace noise, of which one step is randomised response: no continuous Laplace loss covers it."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_discrete_laplace_mechanism(
        1 / scale, sensitivity=by, value_discretization_interval=interval, use_connect_dots=True
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


# -------------------- composition


def power(pld: Any, times: int) -> Any:
    """The distribution of `times` releases."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    if times == 1:
        return pld
    first = _pmf_power(pld._pmf_remove.to_dense_pmf(), times)
    return PrivacyLossDistribution(first, None if pld._symmetric else _pmf_power(pld._pmf_add.to_dense_pmf(), times))


def _pmf_power(pmf: Any, times: int) -> Any:
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from scipy.fft import irfft, next_fast_len, rfft

    probs = np.asarray(pmf._probs, dtype=np.float64)
    interval = float(pmf._discretization)
    if not probs.sum():  # next to no noise: one release reveals everything, and so do many
        return pmf
    low, high = _window(probs, times)
    length = next_fast_len(max(high - low + 1, len(probs)), real=True)
    spread = irfft(_repeated_square(rfft(probs, length), times), length)
    kept = np.maximum(np.roll(spread, -(low % length))[: high - low + 1], 0.0)
    lost = -math.expm1(times * math.log1p(-float(pmf._infinity_mass))) + TAIL
    return DensePLDPmf(interval, times * int(pmf._lower_loss) + low, kept, min(1.0, lost), True)


def _repeated_square(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    found: NDArray[np.complex128] | None = None
    while times:
        if times & 1:
            found = values.copy() if found is None else found * values
        times >>= 1
        if times:
            values = values * values
    assert found is not None
    return found


def _window(probs: NDArray[np.float64], times: int) -> tuple[int, int]:
    """Sums of indices outside of which no more than `TAIL` lies, by Chernoff's bound at several orders."""
    index = np.arange(len(probs), dtype=np.float64)
    mass = float(probs.sum())
    mean = float(probs @ index) / mass
    centred = index - mean
    reach = math.log(2 / TAIL)
    low = 0.0
    high = float(times * (len(probs) - 1))
    # From the weakest order that could cut anything to the strongest that floats can hold.
    for order in np.geomspace(reach / (times * len(probs)), 600.0 / len(probs), 28).tolist():
        up, down = (math.log(float(probs @ np.exp(sign * order * centred))) for sign in (1, -1))
        high = min(high, times * mean + (times * up + reach) / order)
        low = max(low, times * mean - (times * down + reach) / order)
    return math.floor(low), max(math.ceil(high), math.floor(low))


# -------------------- events
#
# A plain Gaussian is called with sigma over the absolute sensitivity, as add-remove, whatever the relation: the
# sensitivity already speaks for it. Subsampled Gaussians take sigma over the norm of one record's term, and the
# library's own pair for each relation.


@lru_cache(maxsize=256)
def composed(events: tuple[Event, ...], interval: float) -> Any:
    """The distribution of all events together."""
    total = None
    gaussians = [e for e in events if e.exact]
    if gaussians:  # one Gaussian for all of them: no discretisation error is added up
        mu = math.sqrt(sum(e.mu**2 for e in gaussians))
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
    if event.mechanism == "discrete-laplace":
        return worst([_shifted_laplace(event.sigma, n, by, interval) for n, by in event.patterns], interval)
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


# -------------------- reading
#
# The library walks over all losses in Python for each question; a picture of the whole curve asks hundreds.


@dataclass(frozen=True)
class LossDistribution:
    """A composed privacy loss distribution of dp-accounting; an upper bound by construction."""

    pld: Any
    interval: float
    mu: None = None

    @property
    def name(self) -> str:
        return f"PLD (dp-accounting, interval {self.interval:.2g})"

    @cached_property
    def tails(self) -> tuple[Tail, ...]:
        """Both directions, ready to be read."""
        return both_tails(self.pld)

    def delta(self, epsilon: float) -> float:
        return max(tail.delta(epsilon) for tail in self.tails)

    def epsilon(self, delta: float) -> float:
        return max(tail.epsilon(delta) for tail in self.tails)


class Tail:
    """One direction: masses at losses of at least 0 and the mass that is lost outright."""

    def __init__(self, pmf: Any) -> None:
        dense = pmf.to_dense_pmf()
        skip = max(0, -int(dense._lower_loss))
        probs = np.asarray(dense._probs, dtype=np.float64)[skip:]
        losses = (np.arange(len(probs)) + int(dense._lower_loss) + skip) * float(dense._discretization)
        # Sums from the far end: smallest first, and each knot counts what lies at it and beyond.
        self.losses = losses
        self.upper = np.cumsum(probs[::-1])[::-1] + float(dense._infinity_mass)
        # The same with each mass weighed by e^(knot - loss): a running sum that fades, and never leaves floats.
        fading = math.exp(-float(dense._discretization))
        self.lower = lfilter([1.0], [1.0, -fading], probs[::-1])[::-1] if len(probs) else probs
        self.infinite = float(dense._infinity_mass)
        self.deltas = self.upper - self.lower

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at an epsilon of at least 0."""
        at = int(np.searchsorted(self.losses, epsilon))
        if at == len(self.losses):
            return self.infinite
        nearer = math.exp(epsilon - float(self.losses[at]))
        return max(self.infinite, float(self.upper[at] - nearer * self.lower[at]))

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon of at least 0 with no more than this delta."""
        if delta < self.infinite:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        # Beyond the last knot that is still above delta the curve is straight in e^epsilon.
        above = np.flatnonzero(self.deltas > delta)
        at = int(above[-1]) + 1 if len(above) else 0
        if at == len(self.losses) or self.lower[at] <= 0:
            return float(self.losses[min(at, len(self.losses) - 1)])
        start = float(self.losses[at - 1]) if at else 0.0
        share = max(self.upper[at] - delta, 1e-300) / self.lower[at]
        return max(start, float(self.losses[at]) + math.log(share))


def both_tails(pld: Any) -> tuple[Tail, ...]:
    """The one or two directions of a distribution."""
    return (Tail(pld._pmf_remove),) if pld._symmetric else (Tail(pld._pmf_remove), Tail(pld._pmf_add))
