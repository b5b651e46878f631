"""The Gaussian's privacy loss distribution, subsampled or not: the library's pairs, computed on whole arrays.

dp-accounting evaluates the same hockey-stick curves point by point in Python, which takes most of the time of a
calibration; here they are closed formulas on arrays. A test holds the two against each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from sfumato.accounting.budget import Relation

Floats = NDArray[np.float64]


def pair(relation: Relation) -> Any:
    """The library's name of the relation."""
    from dp_accounting import NeighboringRelation

    return {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
    }[relation]


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


def falling(deltas: Floats) -> Floats:
    """Rounding errors made harmless: values in [0, 1] that never rise, corrected upwards."""
    raised: Floats = np.maximum.accumulate(np.clip(deltas, 0.0, 1.0)[::-1])[::-1]
    return raised


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
