"""Two further pairs of the library on whole arrays: mixtures of Gaussians, and truncated Poisson sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from sfumato.accounting.budget import Relation
from sfumato.accounting.subsampled import Floats, falling, gaussian_pld


def truncated_pld(multiplier: float, rate: float, cap: int, records: int, relation: Relation, interval: float) -> Any:
    """Poisson sampling of which no more than `cap` are kept, for a public number of records.

    As in dp-accounting: where the batch overflows, keeping a record pushes another out, so the change doubles; this
    happens with the probability below and is charged as the replace-one pair at half the multiplier.
    """
    from scipy.stats import binom

    plain = gaussian_pld(multiplier, rate, relation, interval)
    overflow = float(binom.sf(cap - 1, records - 1, rate))
    if overflow == 0.0:
        return plain
    kept = float(binom.sf(cap, records, rate)) * cap / overflow / records
    if kept == 0.0:
        return plain
    pushed = gaussian_pld(multiplier / 2, min(1.0, kept), Relation.REPLACE_ONE, interval)
    return pushed.compute_mixture(plain, overflow)


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
        deltas = _removed(knots, sigma, every) if direction is AdjacencyType.REMOVE else _added(knots, sigma, every)
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, falling(deltas)))
    return PrivacyLossDistribution(*pmfs)


def _loss(x: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    terms = [math.log(p) + (c * x - c * c / 2) / sigma**2 for c, p in parts]
    total: Floats = np.logaddexp.reduce(terms)
    return total


def _crossing(loss: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    """Where the loss, which rises with x, reaches each value; far out where it never does."""
    reach = 40 * sigma + 2 * max(c for c, _ in parts)
    low = np.full_like(loss, -reach)
    high = np.full_like(loss, reach)
    for _ in range(60):
        middle = (low + high) / 2
        below = _loss(middle, sigma, parts) < loss
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    return high


def _removed(epsilon: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    x = _crossing(epsilon, sigma, parts)
    mass = sum(p * ndtr((c - x) / sigma) for c, p in parts)
    deltas: Floats = mass - np.exp(epsilon + log_ndtr(-x / sigma))
    return np.maximum(deltas, -np.expm1(np.minimum(epsilon, 0.0)))


def _added(epsilon: Floats, sigma: float, parts: Sequence[tuple[float, float]]) -> Floats:
    x = _crossing(-epsilon, sigma, parts)
    mass = sum(p * ndtr((x - c) / sigma) for c, p in parts)
    deltas: Floats = ndtr(x / sigma) - np.exp(epsilon) * mass
    return np.maximum(deltas, -np.expm1(np.minimum(epsilon, 0.0)))
