"""Privacy loss distributions against the library's, and a wide discrete Gaussian against the continuous one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import accountant, pld
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.accounting.pld import ROUNDING, WIDE, smoothed

ADD = Relation.ADD_REMOVE


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


@given(st.floats(1e-4, 0.9), st.floats(0.3, 5.0))
@settings(max_examples=25, deadline=None)
def test_our_curves_are_the_library_s(rate, sigma):
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    for name, curve in [("ADD", pld.added), ("REMOVE", pld.removed), ("REPLACE", pld.replaced)]:
        theirs = GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=AdjacencyType[name])
        bounds = theirs.connect_dots_bounds()
        epsilon = np.linspace(0.0 if name == "REPLACE" else bounds.epsilon_lower, bounds.epsilon_upper, 60)
        assert curve(epsilon, sigma, rate) == pytest.approx(np.array(theirs.get_delta_for_epsilon(epsilon)), abs=2e-13)


@pytest.mark.parametrize("relation", list(Relation))
def test_our_distributions_are_the_library_s(relation):
    from dp_accounting.pld import privacy_loss_distribution as library

    ours = pld.gaussian_pld(0.8, 0.01, relation, 1e-3).self_compose(300)
    theirs = library.from_gaussian_mechanism(
        0.8, sampling_prob=0.01, value_discretization_interval=1e-3, neighboring_relation=pld.pair(relation)
    ).self_compose(300)
    for delta in (1e-3, 1e-5, 1e-8):
        assert ours.get_epsilon_for_delta(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), abs=1e-5)


@pytest.mark.parametrize("parts", [((1.0, 0.02),), ((0.5, 0.1), (1.0, 0.2)), ((0.3, 0.5), (1.0, 0.5))])
def test_our_mixtures_are_the_library_s(parts):
    from dp_accounting.pld import privacy_loss_distribution as library

    rest = 1 - sum(p for _, p in parts)
    shifts, chances = zip(*([(0.0, rest)] if rest else []), *parts, strict=True)
    theirs = library.from_mixture_gaussian_mechanism(1.5, shifts, chances, value_discretization_interval=1e-2)
    ours = pld.mixture_pld(1.5, parts, 1e-2)
    for delta in (1e-2, 1e-5):
        a, b = (p.self_compose(20).get_epsilon_for_delta(delta) for p in (ours, theirs))
        assert a == pytest.approx(b, abs=1e-7)


@pytest.mark.parametrize("relation", list(Relation))
def test_our_truncated_sampling_is_the_library_s(relation):
    from dp_accounting.pld import privacy_loss_distribution as library

    theirs = library.from_truncated_subsampled_gaussian_mechanism(
        10_000, 0.01, 100, 1.0, value_discretization_interval=1e-3, neighboring_relation=pld.pair(relation)
    )
    ours = pld.truncated_pld(1.0, 0.01, 100, 10_000, relation, 1e-3)
    a, b = (p.self_compose(50).get_epsilon_for_delta(1e-5) for p in (ours, theirs))
    assert a == pytest.approx(b, abs=1e-7)


def test_our_reading_of_a_distribution_is_the_library_s():
    found = accountant.profile([Event("gaussian", 0.9, 1.0, 1.0, ADD, 0.02, 300)])
    for delta in (0.3, 1e-2, 1e-5, 1e-9):
        assert found.epsilon(delta) == pytest.approx(max(0.0, found.pld.get_epsilon_for_delta(delta)), abs=1e-7)
    for epsilon in (0.0, 0.1, 1.00005, 5.0, 400.0):
        assert found.delta(epsilon) == pytest.approx(found.pld.get_delta_for_epsilon(epsilon), rel=1e-6, abs=1e-16)
    assert found.epsilon(1e-300) == math.inf


@pytest.mark.parametrize(("rate", "sigma", "times"), [(0.01, 0.8, 300), (0.3, 2.0, 7), (1e-4, 0.6, 10_000)])
def test_our_powers_are_the_library_s(rate, sigma, times):
    one = pld.gaussian_pld(sigma, rate, ADD, 1e-3)
    ours, theirs = pld.power(one, times), one.self_compose(times)
    for delta in (1e-2, 1e-5, 1e-7):
        assert ours.get_epsilon_for_delta(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), abs=1e-5)
