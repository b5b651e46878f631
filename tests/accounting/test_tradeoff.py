"""Error rates with confidence, and what they say of a claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from sfumato.accounting import accountant, gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event
from sfumato.accounting.tradeoff import (
    Curve,
    Errors,
    count,
    curve_of,
    gaussian_curve,
    held_out,
    rate_at_least,
    rate_at_most,
    roc,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (3, 50), (49, 50), (500, 1000)])
def test_clopper_pearson_has_the_exact_tail(hits, trials):
    high, low = rate_at_most(hits, trials, 0.01), rate_at_least(hits, trials, 0.01)
    assert binom.cdf(hits, trials, high) == pytest.approx(0.01, rel=1e-6)
    assert hits == 0 or binom.sf(hits - 1, trials, low) == pytest.approx(0.01, rel=1e-6)


def test_all_and_none():
    assert rate_at_most(7, 7, 0.05) == 1.0 and rate_at_least(0, 7, 0.05) == 0.0


def expected(mu, n, alpha):
    """Errors at the best threshold when counts are as expected."""
    wrong = round(n * ndtr(-mu / 2))
    return Errors(wrong, n, wrong, n, alpha)


@pytest.mark.parametrize(
    ("n", "known"), [(1000, (0.38, 1.31, 3.21, 6.98, 8.84)), (10_000, (0.80, 1.78, 3.75, 7.68, 9.64))]
)
def test_reachable_epsilon_is_as_tabled(n, known):
    for epsilon, low in zip((1, 2, 4, 8, 10), known, strict=True):
        found = expected(gaussian.mu_of(epsilon, 1e-5), n, 0.05).epsilon(1e-5)
        assert found == pytest.approx(low, abs=0.06)


@pytest.mark.parametrize(("ratio", "draws"), [(1.05, 31_349), (1.1, 7616), (2.0, 109)])
def test_draws_needed_to_refute_are_as_tabled(ratio, draws):
    claim = gaussian_curve(1.0)
    assert claim.refuted_by(expected(ratio, int(draws * 1.3), 1e-3))
    assert not claim.refuted_by(expected(ratio, int(draws * 0.6), 1e-3))


def test_without_assumptions_the_bound_is_weaker_and_mirrored():
    errors = Errors(10, 10_000, 5000, 10_000, 0.05)
    assert 0 < errors.epsilon_free(1e-5) < errors.epsilon(1e-5)
    mirrored = Errors(5000, 10_000, 10, 10_000, 0.05)
    assert mirrored.epsilon_free(1e-5) == pytest.approx(errors.epsilon_free(1e-5))
    assert Errors(50, 100, 50, 100, 0.05).epsilon_free(1e-5) == 0.0


def test_a_curve_from_a_profile_is_the_gaussian_one():
    epsilons = np.linspace(0, 12, 2000)
    general = Curve(epsilons, np.array([gaussian.delta_of(e, 1.3) for e in epsilons]))
    for fpr in (1e-3, 0.05, 0.3, 0.8):
        assert general.fnr(fpr) == pytest.approx(gaussian_curve(1.3).fnr(fpr), abs=2e-4)


def test_subsampling_is_compared_with_its_own_curve():
    event = Event("gaussian", 1.0, 1.0, 1.0, Relation.ADD_REMOVE, rate=0.1, times=10)
    curve, plain = curve_of(accountant.profile([event])), gaussian_curve(10**0.5)
    assert curve.mu is None
    assert all(plain.fnr(a) < curve.fnr(a) < 1 - a for a in (0.01, 0.1, 0.4))


def test_a_threshold_is_chosen_on_one_half_and_judged_on_the_other():
    random = np.random.default_rng(0)
    without, with_ = random.normal(size=4000), random.normal(size=4000) + 2
    errors = held_out(without, with_, gaussian_curve(1.0), 1e-3)
    assert errors.negatives == errors.positives == 2000
    assert 1.5 < errors.mu < 2.0 and gaussian_curve(1.0).refuted_by(errors)
    assert not gaussian_curve(2.0).refuted_by(errors)
    assert count(without, with_, 1.0, 1e-3).false_positives == int((without > 1).sum())


def test_points_of_the_picture_run_from_corner_to_corner():
    points = roc(np.arange(10.0), np.arange(10.0) + 5)
    assert points[0][0] > 0.8 and points[-1] == (0.0, 1.0)
