"""Independent routes to one number, and the numbers of the privacy reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sfumato.accounting import accountant, claims, gaussian
from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.calibrate import least_noise
from sfumato.accounting.events import Event

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def plain(sigma, sensitivity=1.0, times=1, relation=ADD):
    return Event("gaussian", sigma, sensitivity, sensitivity, relation, times=times)


def sampled(rate, multiplier, times, relation=ADD):
    factor = 1.0 if relation is ADD else 2.0
    return Event("gaussian", multiplier, factor, 1.0, relation, rate, times)


@pytest.mark.parametrize(("epsilon", "mu"), [(1, 0.26805), (10, 2.00045)])
def test_mu_available_at_delta_1e5(epsilon, mu):
    assert gaussian.mu_of(epsilon, 1e-5) == pytest.approx(mu, abs=5e-6)


@pytest.mark.parametrize(
    ("k", "sigma", "epsilon", "queries"),
    [(200, 5000, 1, 2245), (200, 5000, 10, 125_055), (350, 900, 10, 2315), (700, 9000, 1, 2078), (500, 700, 10, 980)],
)
def test_queries_allowed_by_the_exact_formula(k, sigma, epsilon, queries):
    per_query = 2 * math.sqrt(k) / sigma
    assert math.floor((gaussian.mu_of(epsilon, 1e-5) / per_query) ** 2) == queries


@pytest.mark.parametrize(
    ("rate", "multiplier", "times", "mironov", "balle", "pld", "replace"),
    [(256 / 60000, 1.0, 14_040, 3.54, 3.08, 2.82, 4.84), (64 / 182637, 0.6, 20_000, 2.93, 2.33, 1.26, 1.37)],
)
def test_subsampled_gaussians(rate, multiplier, times, mironov, balle, pld, replace):
    event = sampled(rate, multiplier, times)
    assert accountant.profile([event]).epsilon(1e-5) == pytest.approx(pld, abs=0.006)
    assert accountant.profile([sampled(rate, multiplier, times, REPLACE)]).epsilon(1e-5) == pytest.approx(
        replace, abs=0.006
    )
    assert accountant.epsilon_by_renyi([event], 1e-5) == pytest.approx(balle, abs=0.006)
    assert accountant.epsilon_by_renyi([event], 1e-5, "mironov") == pytest.approx(mironov, abs=0.006)


def test_a_replaced_record_costs_twice_mu_and_not_twice_epsilon():
    assert gaussian.epsilon_of(1e-5, 2 * gaussian.mu_of(1, 1e-5)) == pytest.approx(2.155, abs=1e-3)
    assert gaussian.epsilon_of(1e-5, 2 * gaussian.mu_of(10, 1e-5)) == pytest.approx(24.39, abs=1e-2)


@pytest.mark.parametrize("mu", [0.05, 0.268, 1.0, 3.0])
def test_exact_formula_against_the_trade_off_of_two_normals(mu):
    # The optimal test between N(0,1) and N(mu,1) thresholds at t: delta = max over t of power - e^eps * size.
    thresholds = np.linspace(-12, 12, 400_001)
    for epsilon in (0.1, 1.0, 3.0):
        best = np.max(norm.sf(thresholds - mu) - math.exp(epsilon) * norm.sf(thresholds))
        assert gaussian.delta_of(epsilon, mu) == pytest.approx(max(best, 0.0), abs=1e-9)


def test_exact_and_loss_distribution_agree_on_a_gaussian():
    exact = accountant.profile([plain(3.0, times=4)]).epsilon(1e-5)
    pld = accountant.epsilon([plain(3.0, times=4)], 1e-5, "pld")
    assert exact == pytest.approx(pld, abs=1e-6)


@pytest.mark.parametrize(("sigma", "pld"), [(50, 1.55588), (10, 9.99745)])
def test_discrete_gaussian_is_charged_by_its_own_distribution(sigma, pld):
    event = Event("discrete-gaussian", sigma, 2.0, 1.0, ADD, times=100, shift=(1, 2))
    assert accountant.profile([event]).epsilon(1e-5) == pytest.approx(pld, abs=2e-3)


def test_a_mixed_ledger_costs_more_than_its_parts_and_less_than_their_sum():
    parts = [plain(4.0), Event("discrete-gaussian", 12.0, 1.0, 1.0, ADD)]
    total = accountant.profile(parts).epsilon(1e-5)
    alone = [accountant.profile([p]).epsilon(1e-5) for p in parts]
    assert max(alone) < total < sum(alone)


@pytest.mark.parametrize(
    "events", [[sampled(0.01, 1.0, 500)], [plain(4.0), Event("discrete-gaussian", 6.0, 1.0, 1.0, ADD)]]
)
def test_the_dominating_gaussian_dominates_everywhere(events):
    mu, slack = accountant.dominating_gaussian(events, 1e-7)
    run = accountant.profile(events)
    for epsilon in np.linspace(0, 6, 173):
        assert run.delta(epsilon) <= slack + (1 - slack) * gaussian.delta_of(epsilon, mu) + 1e-15


def test_the_dominating_gaussian_of_gaussians_is_exact():
    assert accountant.dominating_gaussian([plain(2.0), plain(2.0)], 1e-7) == (math.sqrt(0.5), 0.0)


@given(st.floats(0.2, 20), st.floats(1e-9, 1e-3))
@settings(max_examples=60, deadline=None)
def test_calibration_meets_the_target_and_is_tight(epsilon, delta):
    sigma = least_noise(lambda s: accountant.profile([plain(s)]).epsilon(delta), epsilon)
    assert accountant.profile([plain(sigma)]).epsilon(delta) <= epsilon
    assert accountant.profile([plain(sigma * (1 - 1e-6))]).epsilon(delta) > epsilon


@given(st.floats(0.3, 30), st.floats(1.01, 3))
@settings(max_examples=60, deadline=None)
def test_more_noise_means_less_epsilon(sigma, factor):
    assert accountant.profile([plain(sigma * factor)]).epsilon(1e-5) < accountant.profile([plain(sigma)]).epsilon(1e-5)


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 50.0, 500.0])
def test_extreme_budgets_are_calibrated_too(epsilon):
    sigma = least_noise(lambda s: accountant.profile([plain(s)]).epsilon(1e-5), epsilon)
    assert accountant.profile([plain(sigma)]).epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_events_of_two_relations_are_not_mixed():
    with pytest.raises(ValueError, match="one relation"):
        accountant.profile([plain(1.0), plain(1.0, relation=REPLACE)])


def test_the_paper_formula_of_mean_embeddings_is_labelled_and_loose():
    claimed = claims.mean_embedding(3.73, 1e-5, records=60_000)
    assert claimed["note"].startswith(claims.LABEL)
    assert claimed["epsilon"] > gaussian.epsilon_of(1e-5, 2 / 3.73)


@pytest.mark.parametrize("bad", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": 1, "delta": 1.0}])
def test_a_budget_must_make_sense(bad):
    with pytest.raises(ValueError, match="Expected"):
        Budget(**bad)
