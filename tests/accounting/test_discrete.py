"""A wide discrete Gaussian against the continuous one that it is accounted as."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.discrete import ROUNDING, WIDE, smoothed
from sfumato.accounting.events import Event


def law(sigma, centre=0, reach=40):
    """The discrete Gaussian around a whole number, on -n..n."""
    at = np.arange(-math.ceil(reach * sigma), math.ceil(reach * sigma) + 1)
    weight = np.exp(-((at - centre) ** 2) / (2 * sigma**2))
    return weight / weight.sum()


def delta(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_the_normaliser_of_rounding_is_the_same_everywhere():
    whole = np.arange(-60, 61)
    for x in np.linspace(0, 1, 21):
        total = math.fsum(np.exp(-((whole - x) ** 2) / (2 * ROUNDING**2)))
        assert total == pytest.approx(ROUNDING * math.sqrt(2 * math.pi), rel=1e-14)


def test_a_rounded_gaussian_is_the_discrete_one():
    sigma = 6.0
    s = math.sqrt(sigma**2 - ROUNDING**2)
    x, h = np.linspace(-9 * s, 9 * s, 40_001, retstep=True)
    density = np.exp(-(x**2) / (2 * s**2)) / (s * math.sqrt(2 * math.pi)) * h
    at = np.arange(-30, 31)
    rounded = [float((density * np.exp(-((y - x) ** 2) / (2 * ROUNDING**2))).sum()) for y in at]
    assert np.allclose(
        np.array(rounded) / (ROUNDING * math.sqrt(2 * math.pi)), law(sigma)[240 - 30 : 240 + 31], rtol=1e-9
    )


@pytest.mark.parametrize("sigma", [20.0, 33.3, 250.0])
@pytest.mark.parametrize("shifts", [(1,), (2,), (2, 1), (2, 2), (1, 1, 1)])
def test_every_integer_neighbour_is_dominated(sigma, shifts):
    # Losses of independent coordinates add up: (2 s y - s^2) / 2 sigma^2 for a shift by s.
    length = math.sqrt(sum(s * s for s in shifts))
    event = Event("gaussian", math.sqrt(sigma**2 - ROUNDING**2), length, length, Relation.ADD_REMOVE)
    p = law(sigma, reach=8)
    at = np.arange(-(len(p) // 2), len(p) // 2 + 1)
    total, weight = np.zeros(1), np.ones(1)
    for s in shifts:
        combined = np.add.outer(total, (s * s + 2 * s * at) / (2 * sigma**2)).ravel()
        kept, place = np.unique(combined.round(12), return_inverse=True)
        total, weight = kept, np.bincount(place, np.multiply.outer(weight, p).ravel())
    for epsilon in (0.0, length / sigma, 3 * length / sigma):
        found = float((weight * np.maximum(0, 1 - np.exp(epsilon - total))).sum())
        assert found <= accountant.profile([event]).delta(epsilon) * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize(("sigma", "rate"), list(product([3.0, 20.0, 60.0], [0.02, 0.5])))
def test_subsampled_votes_are_dominated_by_the_pair_of_replace_one(sigma, rate):
    event = Event("discrete-gaussian", sigma, 2.0, 1.0, Relation.ADD_REMOVE, rate=rate, held=True)
    up, down = ((1 - rate) * law(sigma) + rate * law(sigma, c) for c in (1, -1))
    claim = accountant.profile([event])
    for epsilon in (0.0, rate / sigma, 5 * rate / sigma):
        assert delta(up, down, epsilon) <= claim.delta(epsilon) * (1 + 1e-4) + 1e-12


def test_narrow_noise_keeps_its_own_loss_distribution():
    votes = Event("discrete-gaussian", WIDE * 0.99, 2.0, 1.0, Relation.ADD_REMOVE, shifts=((1, 2), (2, 1)))
    assert smoothed(votes) is votes
    other = Event("laplace", 3.0, 1.0, 1.0, Relation.ADD_REMOVE)
    assert smoothed(other) is other


def test_very_narrow_noise_gains_nothing_from_sampling():
    whole = Event("discrete-gaussian", 2.0, 2.0, 1.0, Relation.ADD_REMOVE, held=True)
    drawn = Event("discrete-gaussian", 2.0, 2.0, 1.0, Relation.ADD_REMOVE, rate=0.1, held=True)
    assert accountant.epsilon([drawn], 1e-5) == accountant.epsilon([whole], 1e-5)


def test_parts_that_are_drawn_cost_what_fewer_votes_and_less_noise_cost():
    # The free speed-up of sampling teachers: a fiftieth of the votes, a fiftieth of sigma, the same epsilon.
    k, queries = 200, 1301
    size = math.sqrt(k)
    all_vote = Event("discrete-gaussian", 5000.0, 2 * size, size, Relation.ADD_REMOVE, times=queries, held=True)
    drawn = Event("discrete-gaussian", 100.0, 2 * size, size, Relation.ADD_REMOVE, rate=0.02, times=queries, held=True)
    assert accountant.epsilon([all_vote], 1e-5) == pytest.approx(0.7416, abs=1e-3)
    assert accountant.epsilon([drawn], 1e-5) == pytest.approx(0.7415, abs=2e-3)


def test_next_to_no_noise_is_no_privacy():
    votes = Event("discrete-gaussian", 0.01, 2.0, 1.0, Relation.ADD_REMOVE, times=5, shifts=((4, 2), (8, 1)))
    assert accountant.epsilon([votes], 1e-5) > 1e4
    drawn = Event("gaussian", 1e-4, 2.0, 1.0, Relation.REPLACE_ONE, rate=0.1, times=100)
    assert accountant.epsilon([drawn], 1e-5) > 1e4
