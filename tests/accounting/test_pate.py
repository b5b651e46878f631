"""PATE for labels and DataLens' votes: bounds that look at the data, and the one way to release such a bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import accountant, convergence, pate, pate_smooth
from sfumato.accounting import data_dependent as dd
from sfumato.accounting.budget import Relation
from sfumato.accounting.private_number import PrivateNumber

WHY = "a test on made-up votes"


def moved(counts, source, target):
    """One teacher changes its vote."""
    changed = list(counts)
    if changed[source] > 0:
        changed[source] -= 1
        changed[target] += 1
    return changed


def test_gnmax_is_a_gaussian_of_sensitivity_root_two():
    events = pate.gnmax_events(40.0, 100, discrete=False)
    assert accountant.profile(events).mu == pytest.approx(math.sqrt(200) / 40)
    assert accountant.renyi(events, 10.0) == pytest.approx(100 * 10 / 40**2)
    discrete = accountant.epsilon(pate.gnmax_events(40.0, 100), 1e-5)
    assert discrete == pytest.approx(accountant.epsilon(events, 1e-5), rel=2e-3)
    replaced = pate.gnmax_events(40.0, 100, Relation.REPLACE_ONE, discrete=False)
    assert accountant.epsilon(replaced, 1e-5) == accountant.epsilon(events, 1e-5)


def test_lnmax_is_a_laplace_of_sensitivity_two():
    assert accountant.epsilon(pate.lnmax_events(20.0, 1), 1e-12) == pytest.approx(0.1, abs=1e-3)


def test_every_query_of_confident_gnmax_pays_its_test():
    some = accountant.profile(pate.confident_events(100.0, 40.0, 50, 10, discrete=False)).mu
    assert some == pytest.approx(math.sqrt(50 / 100**2 + 10 * 2 / 40**2))
    none = pate.confident_events(100.0, 40.0, 50, 0, discrete=False)
    assert accountant.profile(none).mu == pytest.approx(math.sqrt(50) / 100)
    with pytest.raises(ValueError, match="answers"):
        pate.confident_events(100.0, 40.0, 5, 6)


@given(st.lists(st.integers(0, 250), min_size=2, max_size=6), st.floats(5, 60))
@settings(max_examples=60, deadline=None)
def test_the_failure_bound_holds(counts, sigma):
    noise = np.random.default_rng(0).normal(0, sigma, (4000, len(counts)))
    wrong = np.mean(np.argmax(np.array(counts) + noise, axis=1) != np.argmax(counts))
    assert wrong <= pate.gnmax_failure(counts, sigma) + 4 * math.sqrt(0.25 / 4000)


@given(st.floats(1.5, 40), st.floats(1e-12, 0.3), st.floats(1e-4, 0.05))
@settings(max_examples=200, deadline=None)
def test_a_likely_outcome_never_costs_more_than_the_plain_bound(order, q, slope):
    found = dd.gaussian_likely_outcome(order, q, slope)
    assert 0 <= found <= slope * order
    assert dd.gaussian_likely_outcome(order, q / 10, slope) <= found * (1 + 1e-9)


def test_a_likely_outcome_bounds_the_true_divergence():
    # Two classes: releasing the noisy plurality is a coin, whose divergences are known exactly.
    sigma, order = 10.0, 5.0
    for gap in (20, 40, 60, 80):
        for move in (-2, 2):
            here, there = (0.5 * math.erfc(g / (2 * sigma)) for g in (gap, gap + move))
            assert coin_divergence(here, there, order) <= dd.gaussian_likely_outcome(order, here, sigma**-2)


def coin_divergence(p, q, order):
    return math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)


def test_agreement_makes_queries_cheap_and_the_number_stays_private():
    sure, torn = [[250, 0, 0]] * 20, [[90, 85, 75]] * 20
    costs = [pate.gnmax_data_dependent(c, 20.0, 8.0) for c in (sure, torn)]
    assert all(isinstance(c, PrivateNumber) for c in costs)
    assert costs[0].reveal(WHY) < 1e-6 < costs[1].reveal(WHY) <= 20 * 8 / 400
    told = pate.confident_data_dependent(sure, [True] * 20, 200.0, 50.0, 20.0, 8.0).reveal(WHY)
    withheld = pate.confident_data_dependent(sure, [False] * 20, 200.0, 50.0, 20.0, 8.0).reveal(WHY)
    assert withheld <= told <= 20 * (8 / (2 * 50**2) + 8 / 400)
    laplace = pate.lnmax_data_dependent(sure, 20.0, 1e-5).reveal(WHY)
    assert laplace < pate.lnmax_data_dependent(torn, 20.0, 1e-5).reveal(WHY)


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=8),
    st.integers(0, 2),
    st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_smooth_sensitivity_bounds_every_neighbour_and_is_smooth(counts, source, target):
    sigma, order, beta = 6.0, 8.0, 0.05
    costs = pate_smooth._costs(sigma, order, 3)

    def total(c):
        return float(costs[pate_smooth._cells(c, sigma)].sum())

    neighbour = [moved(c, source, target) for c in counts]
    here, there = (pate_smooth.smooth_sensitivity(c, sigma, order, beta).reveal(WHY) for c in (counts, neighbour))
    assert abs(total(counts) - total(neighbour)) <= min(here, there) + 1e-12
    assert abs(math.log(here / there)) <= beta + 1e-9
    exact = pate.gnmax_data_dependent(counts, sigma, order).reveal(WHY)
    assert exact <= total(counts) + 1e-12


def test_the_sanitised_bound_is_one_and_says_what_it_cost():
    random = np.random.default_rng(1)
    votes = [[980 + int(random.integers(0, 10)), 4, 3, 2] for _ in range(400)]
    sigma, order = 40.0, 20.0
    cost = pate.gnmax_data_dependent(votes, sigma, order).reveal(WHY)
    missed = 0
    for _ in range(12):
        out = pate_smooth.sanitise(votes, sigma, order, 1e-5, tuple(random.standard_normal(2)))
        missed += out.divergence - order * out.cost_mu**2 / 2 < cost
    assert missed == 0
    plain = accountant.epsilon(pate.gnmax_events(sigma, 400, discrete=False), 1e-5)
    assert out.epsilon < plain / 2
    assert out.cost_mu == pytest.approx(math.hypot(0.2, 0.2)) and accountant.profile(out.events).mu == out.cost_mu
    assert "add 1e-06 to delta" in out.note


def test_the_sanitised_bound_is_never_above_the_public_one():
    votes = [[80, 85, 85]] * 10
    out = pate_smooth.sanitise(votes, 30.0, 20.0, 1e-5, (0.0, 4.0))
    assert out.divergence == pytest.approx(10 * 20 / 900 + 20 * out.cost_mu**2 / 2)
    with pytest.raises(ValueError, match="classes"):
        pate_smooth.sanitise([[1, 2], [1, 2, 3]], 30.0, 20.0, 1e-5, (0.0, 0.0))


# --- DataLens ---------------------------------------------------------------------------------------------------------


def test_outcome_probabilities_against_draws():
    threshold, sigma = 30.0, 20.0
    noise = np.random.default_rng(2).normal(0, sigma, 200_000)
    for vote in (-50.0, 0.0, 10.0, 45.0):
        drawn = vote + noise
        found = {1: np.mean(drawn >= threshold), -1: np.mean(drawn <= -threshold)}
        found[0] = 1 - found[1] - found[-1]
        for outcome, share in found.items():
            assert dd.threshold_outcome(vote, threshold, sigma, outcome) == pytest.approx(share, abs=5e-3)
    with pytest.raises(ValueError, match="-1, 0 or 1"):
        dd.threshold_outcome(0.0, threshold, sigma, 2)


def test_more_dimensions_make_the_likely_outcome_less_likely():
    def failure(d):
        return dd.topagg_failure([0.0] * d, [0] * d, 3000.0, 1000.0).reveal(WHY)

    assert failure(1) < failure(10) < failure(784) <= 1.0
    assert failure(784) > 0.85


def test_the_data_dependent_bound_of_topagg_helps_in_few_dimensions_only():
    one = dd.topagg_renyi([0.0], 1, 40.0, 400.0, 8.0)
    many = dd.topagg_renyi([200.0] * 200, 1, 40.0, 200.0, 8.0)
    assert isinstance(one, PrivateNumber)
    assert one.reveal(WHY) < 1e-3 * 2 * 8 / 40**2
    assert many.reveal(WHY) == pytest.approx(2 * 8 / 40**2)


LAND = convergence.Landscape(
    dimensions=784, gradient=1.0, smoothness=1.0, clip=1e-2, noise=1e-3, rate=0.01, steps=1000, gap=1.0
)


def test_the_convergence_bound_adds_its_terms():
    parts = min(0.5, 1e-2 * 584) + 1.0 * 0.01 * 1e-3 * 200 + 1 / 10 + 2 * 0.01 * 1e-4
    assert convergence.bound(200, 0.5, LAND) == pytest.approx(parts)
    assert convergence.left_scale(LAND) == pytest.approx(1e-2 / 786)
    with pytest.raises(ValueError, match="between 1 and 784"):
        convergence.bound(0, 0.5, LAND)


def test_more_noise_proposes_a_smaller_k():
    from dataclasses import replace

    proposed = [convergence.propose_k_weibull(replace(LAND, noise=a)) for a in (1e-4, 0.1, 10.0)]
    assert proposed[0] == 784 and proposed[0] > proposed[1] > proposed[2] >= 1
    assert convergence.noise_constant(2.0, 100) == pytest.approx(100.0)


def test_tau_of_weibull_gradients_falls_to_nothing():
    taus = [convergence.weibull_tau(k, 784, 1.0, 0.3) for k in range(785)]
    assert taus[0] == 1.0 and taus[-1] == pytest.approx(0.0, abs=1e-12)
    assert all(a >= b for a, b in zip(taus, taus[1:], strict=False))
    with pytest.raises(ValueError, match="rho_1"):
        convergence.weibull_tau(3, 10, 0.0, 0.3)
