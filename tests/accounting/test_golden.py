"""Every number of the privacy reference, recomputed: accountants, conversions, selection, papers and their repairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.accounting import accountant, claims, conversions, gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.calibrate import noise_within
from sfumato.accounting.claims.gs_wgan_draws import gs_wgan_unamplified_mu
from sfumato.accounting.data_dependent import printed_outcome, threshold_outcome
from sfumato.accounting.events import Event, Selected
from sfumato.accounting.selection import compose_all
from sfumato.accounting.shuffle import shuffled_at_least

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DELTA = 1e-5


def plain(sigma, sensitivity=1.0, times=1, relation=ADD):
    return Event("gaussian", sigma, sensitivity, sensitivity, relation, times=times)


def sampled(rate, multiplier, times, relation=ADD):
    return Event("gaussian", multiplier, 1.0 if relation is ADD else 2.0, 1.0, relation, rate, times)


# --- relations ------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "growth"), [(1, 3.7), (10, 22_027)])
def test_delta_of_a_replaced_record_grows(epsilon, growth):
    twice, delta = conversions.replace_one(epsilon, DELTA)
    assert twice == 2 * epsilon and delta / DELTA == pytest.approx(growth, rel=0.01)


@pytest.mark.parametrize(("epsilon", "replaced"), [(1, 2.155), (10, 24.39)])
def test_mu_doubles_for_a_replaced_record(epsilon, replaced):
    assert conversions.gaussian_group_epsilon(epsilon, DELTA, 2) == pytest.approx(replaced, rel=3e-4)


def test_a_record_in_two_teachers():
    # Claimed by the paper's conversion at epsilon 1 and 10; mu doubles.
    for epsilon, exact in [(1, 1.59), (10, 20.6)]:
        root = math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))
        assert gaussian.epsilon_of(DELTA, 2 * math.sqrt(2) * root) == pytest.approx(exact, rel=3e-3)
    root = math.sqrt(math.log(1 / DELTA) + 1) - math.sqrt(math.log(1 / DELTA))
    assert claims.mironov(2 * math.sqrt(2) * root, DELTA) == pytest.approx(2.04, abs=5e-3)


# --- Gaussians ------------------------------------------------------------


def test_mu_available_by_three_conversions():
    for epsilon, by_mironov, by_balle, exact in [(1, 0.20406, 0.24721, 0.26805), (10, 1.76088, 1.88822, 2.00045)]:
        assert gaussian.mu_of(epsilon, DELTA) == pytest.approx(exact, abs=6e-6)
        assert claims.mironov(by_mironov, DELTA) == pytest.approx(epsilon, rel=5e-5)
        assert accountant.epsilon([plain(1 / by_balle)], DELTA, "rdp_balle") == pytest.approx(epsilon, rel=5e-4)
        assert accountant.epsilon([plain(1 / by_mironov)], DELTA, "rdp_mironov") == pytest.approx(epsilon, rel=5e-4)


@pytest.mark.parametrize(
    ("k", "sigma", "epsilon", "by_paper", "by_balle", "exact", "at_paper"),
    [
        (200, 5000, 1, 1301, 1909, 2245, 0.742),
        (200, 5000, 10, 96_897, 111_418, 125_055, 8.555),
        (350, 900, 10, 1793, 2062, 2315, 8.552),
        (700, 9000, 1, 1204, 1767, 2078, 0.741),
        (500, 700, 10, 759, 873, 980, 8.551),
        (700, 700, 10, 542, 623, 700, 8.549),
    ],
)
def test_datalens_queries(k, sigma, epsilon, by_paper, by_balle, exact, at_paper):
    each = 2 * math.sqrt(k) / sigma
    assert claims.datalens_queries(k, sigma, epsilon) == by_paper
    assert math.floor((gaussian.mu_of(epsilon, DELTA) / each) ** 2) == exact
    assert gaussian.epsilon_of(DELTA, each * math.sqrt(by_paper)) == pytest.approx(at_paper, abs=6e-4)
    assert claims.datalens(k, sigma, DELTA, queries=by_paper)["epsilon"] <= epsilon
    assert claims.datalens(k, sigma, DELTA, queries=by_paper + 1)["epsilon"] > epsilon
    event = plain(sigma, 2 * math.sqrt(k), by_balle)
    assert accountant.epsilon([event], DELTA, "rdp_balle") == pytest.approx(epsilon, rel=1e-3)


def test_one_datalens_query():
    event = [plain(5000, 2 * math.sqrt(200))]
    assert accountant.epsilon(event, DELTA) == pytest.approx(0.01438, abs=5e-6)
    assert accountant.epsilon(event, DELTA, "rdp_balle") == pytest.approx(0.01645, abs=6e-5)
    assert claims.datalens(200, 5000, DELTA)["epsilon"] == pytest.approx(0.02716, abs=5e-6)


def test_what_exact_accounting_saves():
    for epsilon, saved, gained in [(1, 0.239, 1.726), (10, 0.120, 1.291)]:
        root = math.sqrt(2) * (math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA)))
        exact = gaussian.mu_of(epsilon, DELTA)
        assert 1 - root / exact == pytest.approx(saved, abs=6e-4)
        assert (exact / root) ** 2 == pytest.approx(gained, abs=1.5e-3)
    assert pytest.approx(3806, abs=1) == 5000 * 0.20406 / 0.26805


@pytest.mark.parametrize(("sigma", "buckets", "continuous"), [(50, 1.55588, 1.55498), (10, 9.99745, 9.99726)])
def test_discrete_gaussian(sigma, buckets, continuous):
    from dp_accounting.pld import privacy_loss_distribution as pld

    # Rounding every loss up gives the larger number; connecting the dots shows that it was the rounding's.
    rounded = pld.from_discrete_gaussian_mechanism(sigma, 2).self_compose(100).get_epsilon_for_delta(DELTA)
    assert rounded == pytest.approx(buckets, abs=6e-6)
    event = Event("discrete-gaussian", sigma, 2.0, 2.0, ADD, times=100, shift=(1, 2))
    assert accountant.epsilon([event], DELTA) == pytest.approx(continuous, abs=5e-5)
    assert accountant.epsilon([plain(sigma, 2.0, 100)], DELTA) == pytest.approx(continuous, abs=6e-6)


def test_noising_both_counts_costs_twice_for_nothing():
    assert gaussian.epsilon_of(DELTA, claims.pate_gan_sound_mu(1000, 40)) == pytest.approx(3.34, abs=6e-3)
    assert gaussian.epsilon_of(DELTA, math.sqrt(2) * claims.pate_gan_sound_mu(1000, 40)) == pytest.approx(
        4.98, abs=6e-3
    )


# --- subsampling ------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "multiplier", "times", "mironov", "balle", "pld", "replace"),
    [
        (256 / 60000, 1.0, 14_040, 3.54, 3.08, 2.82, 4.84),
        (1024 / 60000, 1.5, 5_900, 5.31, 4.73, 4.36, 8.59),
        (4096 / 60000, 2.0, 1_500, 7.95, 7.22, 6.67, 14.1),
        (64 / 182637, 0.6, 20_000, 2.93, 2.33, 1.26, 1.37),
    ],
)
def test_subsampled_gaussians(rate, multiplier, times, mironov, balle, pld, replace):
    event = [sampled(rate, multiplier, times)]
    assert accountant.epsilon(event, DELTA) == pytest.approx(pld, abs=6e-3)
    assert accountant.epsilon(event, DELTA, "rdp_balle") == pytest.approx(balle, abs=6e-3)
    assert accountant.epsilon(event, DELTA, "rdp_mironov") == pytest.approx(mironov, abs=6e-3)
    replaced = accountant.epsilon([sampled(rate, multiplier, times, REPLACE)], DELTA)
    assert replaced == pytest.approx(replace, abs=0.011 if replace > 10 else 6e-3)


def test_halving_the_multiplier_is_neither_right_nor_useful():
    assert accountant.epsilon([sampled(256 / 60000, 0.5, 14_040)], DELTA) == pytest.approx(21.1, abs=0.1)


def test_one_event_two_meanings_in_the_library():
    from dp_accounting import NeighboringRelation
    from dp_accounting.dp_event import GaussianDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event = SelfComposedDpEvent(GaussianDpEvent(2.0), 100)
    doubled = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-2).compose(event).get_epsilon(DELTA)
    same = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE).compose(event).get_epsilon(DELTA)
    assert doubled == pytest.approx(91.8, abs=0.1) and same == pytest.approx(35.1, abs=0.1)
    # Ours: the absolute sensitivity says which is meant, in every accountant.
    for factor, epsilon in [(1.0, 33.9), (2.0, 91.8)]:
        ours = plain(2.0, factor, 100, REPLACE)
        exact, pld = (accountant.epsilon([ours], DELTA, b) for b in ("exact", "pld"))
        assert exact == pytest.approx(pld, abs=1e-5)
        assert exact == pytest.approx(epsilon, rel=0.03)


def test_teachers_may_be_sampled_at_no_cost():
    k, queries = 200, 1301
    everyone = accountant.epsilon([plain(5000, 2 * math.sqrt(k), queries, REPLACE)], DELTA)
    some = Event("gaussian", 100, 2 * math.sqrt(k), math.sqrt(k), REPLACE, 0.02, queries)
    assert everyone == pytest.approx(0.7416, abs=2e-4)
    assert accountant.epsilon([some], DELTA) == pytest.approx(0.7415, abs=1e-3)


@pytest.mark.parametrize(
    ("sigma", "batches", "shuffled", "poisson", "unamplified"),
    [
        (0.5, 1000, 9.997, 3.24, 9.997),
        (0.5, 10_000, 9.99, 1.18, 9.997),
        (0.8, 1000, 5.24, 0.304, 5.68),
        (0.8, 10_000, 3.84, 0.0622, 5.68),  # 0.102 by a coarser grid of losses
        (1.0, 1000, 2.88, 0.149, 4.38),  # 0.155 by a coarser grid of losses
    ],
)
def test_shuffling_is_not_poisson(sigma, batches, shuffled, poisson, unamplified):
    assert shuffled_at_least(sigma, batches, DELTA) == pytest.approx(shuffled, abs=6e-3)
    assert accountant.epsilon([sampled(1 / batches, sigma, batches)], DELTA) == pytest.approx(poisson, rel=0.02)
    assert gaussian.epsilon_of(DELTA, 1 / sigma) == pytest.approx(unamplified, abs=6e-3)


def test_sound_dpaf_on_celeba():
    rate, every = 64 / 182_637, 8

    def events_at(steps):
        return lambda nu: [sampled(rate, nu, steps), sampled(every * rate, nu, steps // every)]

    assert noise_within(events_at(2853), 1.0, DELTA) == pytest.approx(0.733, abs=2e-3)
    assert noise_within(events_at(2853), 10.0, DELTA) == pytest.approx(0.390, abs=2e-3)


# --- selection ------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "mean", "together", "geometric", "logarithmic", "poisson"),
    [
        (1, 10, 3.62, 2.31, 1.92, 2.53),
        (1, 100, 14.43, 2.91, None, 9.13),
        (10, 10, 46.2, 16.3, 15.1, 20.3),
        (10, 100, 284.5, 20.7, None, 98.1),
    ],
)
def test_tuning_costs(base, mean, together, geometric, logarithmic, poisson):
    run = (plain(1 / gaussian.mu_of(base, DELTA)),)
    assert accountant.epsilon(compose_all(run, mean), DELTA) == pytest.approx(together, rel=2e-3)
    for shape, expected in [(1, geometric), (0, logarithmic), (math.inf, poisson)]:
        if expected is not None:
            assert accountant.epsilon([Selected(run, mean, shape)], DELTA) == pytest.approx(expected, rel=3e-3)


# --- papers ------------------------------------------------------------


def test_gs_wgan_as_claimed_and_as_it_is():
    run = dict(critics=1000, sigma=1.07, images=32, iterations=20_000)
    claimed = claims.gs_wgan(**run)
    assert claimed["epsilon"] == pytest.approx(9.99, abs=5e-3)
    assert claimed["note"].startswith(claims.LABEL) and "unsound" in claimed["note"]
    assert claims.gs_wgan_sound(**run) == pytest.approx(329, abs=1.5)
    assert claims.gs_wgan_sound(**run, conservative=True) == pytest.approx(347, abs=1.5)
    assert claims.gs_wgan_sound(**run | {"iterations": 10}) == pytest.approx(23, abs=0.5)
    assert claims.gs_wgan_fix_a(**run) == pytest.approx(7.56, abs=5e-3)
    assert gs_wgan_unamplified_mu(1.07, 32, 20_000) == pytest.approx(747, abs=1)


def test_gs_wgan_with_one_critic_an_iteration_needs_more_noise():
    assert claims.gs_wgan_fix_b(1000, 32, 20_000, 10.0) == pytest.approx(2.56, abs=6e-3)
    assert claims.gs_wgan_fix_b(1000, 32, 20_000, 10.0, conservative=True) == pytest.approx(2.63, abs=6e-3)


def test_dpaf_conv1_counted_honestly():
    rate, steps = 64 / 182_637, 2853
    assert noise_within(lambda nu: [sampled(rate, nu, steps)], 0.1, DELTA) == pytest.approx(0.898, abs=0.02)
    assert 2 * 64 * math.sqrt(steps) / 0.898 == pytest.approx(7616, rel=1e-3)
    assert 2 * math.sqrt(steps) / 0.898 == pytest.approx(119, abs=0.5)
    assert gaussian.epsilon_of(DELTA, 7616) == pytest.approx(2.9e7, rel=0.01)


def test_fetchsgd_top_k_before_noise():
    change = 4000 / 2 * math.sqrt(2 * 200)
    assert change == pytest.approx(40_010, rel=3e-4)
    assert change / (2 * math.sqrt(200)) == pytest.approx(1414, abs=1)
    assert gaussian.epsilon_of(DELTA, change / 5000) == pytest.approx(65.3, abs=0.1)


def test_theorem_five_as_printed_is_no_distribution():
    threshold, sigma = 0.7 * 4000, 5000
    sums = [sum(printed_outcome(f, threshold, sigma, o) for o in (-1, 0, 1)) for f in (0, 3500)]
    assert sums == pytest.approx([1.42, 0.89], abs=6e-3)
    assert printed_outcome(3500, threshold, sigma, 0) == pytest.approx(-0.11, abs=6e-3)
    for f in (0, 3500, -9000):
        assert sum(threshold_outcome(f, threshold, sigma, o) for o in (-1, 0, 1)) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("d", "k", "w", "spectral"), [(784, 1000, 9.22, 4.47), (784, 200, 8.05, 2.23)])
def test_projected_records(d, k, w, spectral):
    assert claims.swd_bound(k, d, DELTA) == pytest.approx(w, abs=5e-3)
    columns = np.random.default_rng(0).standard_normal((d, k))
    columns /= np.linalg.norm(columns, axis=0)
    assert claims.projection_sensitivity(columns, 1.0) ** 2 == pytest.approx(spectral, abs=0.12)


def test_projected_records_in_colour():
    assert claims.swd_bound(1000, 3072, DELTA) == pytest.approx(8.07, abs=5e-3)


@pytest.mark.parametrize(
    "found",
    [
        claims.datalens(200, 5000, DELTA),
        claims.dpaf([(100, 0.01, 1.0), (10, 0.08, 1.0), (100, 0.01, 2.0)]),
        claims.g_pate(10, 400.0, 100.0, 50),
        claims.pate_gan([(90, 10)] * 5, 0.05),
        claims.gnmax(1000, 100.0, DELTA),
        claims.lnmax(1000, 100.0, DELTA),
        claims.dp_swd(10.0, 200, 784),
        claims.mean_embedding(3.73, DELTA, records=60_000),
        claims.mean_embedding_add_remove(3.73, DELTA, records=60_000),
        claims.survey_replace_one(1.0, DELTA),
    ],
)
def test_every_paper_formula_is_labelled(found):
    assert found["note"].startswith("paper accounting, not a guarantee of this software: ")
    assert len(found["note"]) > len(claims.LABEL) + 40


def test_forward_noise_that_would_protect_is_above_what_a_sampler_knows():
    """dp-promise: one copy of each record, then a hundred, at epsilon 10; a sampler begins at 80."""
    assert claims.forward_noise(784, 10.0, 1e-5) == pytest.approx(28 / 2.0004456, rel=1e-6)
    assert claims.forward_noise(3072, 1.0, 1e-5) == pytest.approx(206.77, rel=1e-4)
    assert claims.forward_noise(3072, 10.0, 1e-5, copies=100) == pytest.approx(277.07, rel=1e-4)
    assert claims.forward_noise(784, 10.0, 1e-5, replaced=True) == 2 * claims.forward_noise(784, 10.0, 1e-5)
