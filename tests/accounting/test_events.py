"""Each kind of event: what it costs, how it travels as JSON, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import accountant, conversions, pld
from sfumato.accounting.budget import Relation
from sfumato.accounting.calibrate import noise_within
from sfumato.accounting.events import Event, Selected, combined_multiplier, event_from_json

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def sampled(rate, multiplier, times, relation=ADD, **more):
    return Event("gaussian", multiplier, 1.0 if relation is ADD else 2.0, 1.0, relation, rate, times, **more)


EVENTS = [
    Event("gaussian", 2.0, 1.0, 1.0, ADD, times=3),
    sampled(0.01, 1.0, 50),
    sampled(0.01, 1.0, 50, cap=40, records=2000),
    Event("laplace", 4.0, 1.0, 1.0, ADD),
    Event("discrete-laplace", 4.0, 2.0, 1.0, ADD, times=3, shifts=((2, 1),)),
    Event("mixture", 2.0, 1.0, 1.0, ADD, mixture=((0.5, 0.1), (1.0, 0.2)), times=4),
    Event("discrete-gaussian", 9.0, math.sqrt(8), math.sqrt(2), ADD, shifts=((2, 2), (4, 1))),
]


@pytest.mark.parametrize("event", [*EVENTS, Selected((EVENTS[0],), 10, 1), Selected((EVENTS[1],), 5, math.inf)])
def test_events_travel_as_json_and_have_a_finite_cost(event):
    again = event_from_json(json.loads(json.dumps(event.to_json())))
    assert again == event
    assert 0 < accountant.epsilon([again], 1e-5) < 20
    mu, slack = accountant.dominating_gaussian([event], 1e-7)
    run = accountant.profile([event])
    for epsilon in np.linspace(0, 4, 23):
        bound = slack + (1 - slack) * accountant.ExactGaussian(mu).delta(float(epsilon))
        assert run.delta(float(epsilon)) <= bound + 1e-12


def test_a_laplace_release_is_purely_private():
    event = Event("laplace", 2.0, 1.0, 1.0, ADD)
    assert accountant.epsilon([event], 1e-12) == pytest.approx(0.5, abs=1e-6)
    assert accountant.profile([event]).delta(0.501) == pytest.approx(0.0, abs=1e-15)


def test_laplace_noise_over_two_coordinates_costs_no_more_than_over_one():
    one = accountant.profile([Event("laplace", 1.0, 2.0, 2.0, ADD)])
    two = accountant.profile([Event("laplace", 1.0, 1.0, 1.0, ADD, times=2)])
    for epsilon in np.linspace(0, 2, 41):
        assert two.delta(float(epsilon)) <= one.delta(float(epsilon)) + 1e-9


def test_many_laplace_releases_compose_better_than_their_sum():
    event = Event("laplace", 20.0, 1.0, 1.0, ADD, times=400)
    exact, renyi = (accountant.epsilon([event], 1e-5, b) for b in ("pld", "rdp_balle"))
    assert exact < renyi < 20.0


def test_whole_number_laplace_noise_is_randomised_response():
    """A step of one count has losses of +-1/t and no other: delta(epsilon) = p (1 - e^(epsilon - 1/t))."""
    scale = 5.0
    one = accountant.profile([Event("discrete-laplace", scale, 1.0, 1.0, ADD, shifts=((1, 1),))])
    two = accountant.profile([Event("discrete-laplace", scale, 2.0, 1.0, ADD, shifts=((2, 1),))])
    p = 1 / (1 + math.exp(-1 / scale))
    for epsilon in np.linspace(0, 0.4, 41):
        response = max(0.0, p * -math.expm1(epsilon - 1 / scale))
        pair = max(0.0, p**2 * -math.expm1(epsilon - 2 / scale), response**2)
        assert one.delta(float(epsilon)) == pytest.approx(response, abs=2e-5)
        assert two.delta(float(epsilon)) == pytest.approx(pair, abs=4e-5) and two.delta(float(epsilon)) >= pair - 1e-12
    assert accountant.epsilon([Event("discrete-laplace", scale, 2.0, 1.0, ADD, shifts=((2, 1),))], 1e-12) >= 0.4 - 1e-6


def test_a_continuous_laplace_loss_does_not_cover_whole_numbers():
    """The reason for an event of its own: at a middling epsilon the whole-number noise tells more."""
    whole = accountant.profile([Event("discrete-laplace", 2.0, 1.0, 1.0, ADD, shifts=((1, 1),))])
    smooth = accountant.profile([Event("laplace", 2.0, 1.0, 1.0, ADD)])
    assert whole.delta(0.0) > 1.05 * smooth.delta(0.0)


def test_many_whole_number_laplace_releases_compose():
    event = Event("discrete-laplace", 40.0, 2.0, 1.0, ADD, times=300, shifts=((2, 1),))
    exact, renyi = (accountant.epsilon([event], 1e-5, b) for b in ("pld", "rdp_balle"))
    assert exact < renyi < 15.0
    assert exact == pytest.approx(
        accountant.epsilon([Event("gaussian", 40.0, 2**0.5, 1.0, ADD, times=300)], 1e-5), rel=0.01
    )


def test_subsampling_laplace_noise_amplifies():
    plain = accountant.epsilon([Event("laplace", 1.0, 1.0, 1.0, ADD)], 1e-9)
    some = accountant.epsilon([Event("laplace", 1.0, 1.0, 1.0, ADD, 0.1)], 1e-9)
    assert some == pytest.approx(math.log1p(0.1 * math.expm1(plain)), abs=1e-3)


def test_a_cap_that_never_binds_costs_nothing_and_a_tight_one_costs_more():
    free = accountant.epsilon([sampled(0.01, 1.0, 200)], 1e-5)
    loose = accountant.epsilon([sampled(0.01, 1.0, 200, cap=400, records=10_000)], 1e-5)
    tight = accountant.epsilon([sampled(0.01, 1.0, 200, cap=100, records=10_000)], 1e-5)
    assert loose == pytest.approx(free, rel=1e-4)
    assert tight > 1.05 * free


def test_a_mixture_with_one_shift_is_a_subsampled_gaussian():
    mixture = Event("mixture", 1.5, 1.0, 1.0, ADD, mixture=((1.0, 0.02),), times=100)
    assert accountant.epsilon([mixture], 1e-5) == pytest.approx(
        accountant.epsilon([sampled(0.02, 1.5, 100)], 1e-5), rel=1e-3
    )


def test_flipping_k_votes_is_worse_than_moving_them():
    k, sigma = 20, 60.0
    both = Event("discrete-gaussian", sigma, 2 * math.sqrt(k), math.sqrt(k), ADD, times=30, shifts=((k, 2), (2 * k, 1)))
    flip = Event("discrete-gaussian", sigma, 2 * math.sqrt(k), math.sqrt(k), ADD, times=30, shift=(k, 2))
    move = Event("discrete-gaussian", sigma, math.sqrt(2 * k), math.sqrt(k), ADD, times=30, shift=(2 * k, 1))
    costs = [accountant.profile_by([e], "pld", 1e-4).epsilon(1e-5) for e in (both, flip, move)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-6) and costs[1] > 1.2 * costs[2]
    exact = accountant.ExactGaussian(2 * math.sqrt(30 * k) / sigma).epsilon(1e-5)
    assert costs[0] == pytest.approx(exact, rel=5e-3)


def test_where_no_pattern_is_always_the_worst_the_charge_covers_both():
    patterns = [pld._shifted(0.7, n, by, 1e-3) for n, by in ((1, 2), (4, 1))]
    knots = np.arange(0, 9, 0.05)
    curves = np.array([p.get_delta_for_epsilon(knots) for p in patterns])
    assert (curves[0] > curves[1] + 1e-9).any() and (curves[1] > curves[0] + 1e-9).any()
    hull = pld.worst(patterns, 1e-3).get_delta_for_epsilon(knots)
    assert np.all(hull >= curves.max(axis=0) - 1e-12)
    assert np.all(hull <= curves.max(axis=0) + 1e-3)


def test_queries_on_one_subsample_are_one_event():
    assert combined_multiplier([3.0]) == pytest.approx(3.0)
    assert combined_multiplier([2.0] * 4) == pytest.approx(1.0)
    assert combined_multiplier([1.0, 1e9]) == pytest.approx(1.0)
    one = accountant.epsilon([sampled(0.001, combined_multiplier([1.07] * 32), 10)], 1e-5)
    many = accountant.epsilon([sampled(0.001, 1.07, 320)], 1e-5)
    assert one > 20 * many


@pytest.mark.parametrize(
    "bad",
    [
        dict(mechanism="laplace", rate=0.5, relation=REPLACE),
        dict(mechanism="discrete-laplace", rate=0.5),
        dict(mechanism="gaussian", cap=3),
        dict(mechanism="gaussian", cap=3, records=10),
        dict(mechanism="mixture"),
        dict(mechanism="mixture", mixture=((2.0, 0.5),)),
        dict(mechanism="mixture", mixture=((1.0, 0.7), (0.5, 0.7))),
        dict(mechanism="mixture", mixture=((1.0, 0.5),), relation=REPLACE),
        dict(mechanism="gaussian", sigma=0.0),
        dict(mechanism="gaussian", rate=0.0),
    ],
)
def test_what_has_no_sound_pair_is_refused(bad):
    with pytest.raises(ValueError, match="Expected"):
        Event(**dict(sigma=1.0, sensitivity=1.0, bound=1.0, relation=ADD) | bad)


def test_accountants_that_do_not_apply_say_so():
    with pytest.raises(ValueError, match="plain Gaussians"):
        accountant.epsilon([sampled(0.01, 1.0, 5)], 1e-5, "exact")
    with pytest.raises(ValueError, match="Renyi formula"):
        accountant.epsilon([sampled(0.01, 1.0, 5, REPLACE)], 1e-5, "rdp_balle")
    with pytest.raises(ValueError, match="Renyi DP alone"):
        accountant.epsilon([Selected((EVENTS[0],), 10, 1)], 1e-5, "pld")
    with pytest.raises(ValueError, match="one of exact"):
        accountant.epsilon(EVENTS[:1], 1e-5, "magic")


@given(st.floats(0.6, 4), st.floats(1e-3, 0.2), st.integers(1, 400), st.floats(1e-8, 1e-3))
@settings(max_examples=8, deadline=None)
def test_epsilon_is_monotone(sigma, rate, times, delta):
    base = accountant.epsilon([sampled(rate, sigma, times)], delta)
    slack = 1 + 4e-3  # discretisation
    assert accountant.epsilon([sampled(rate, 1.2 * sigma, times)], delta) <= base * slack + 1e-6
    assert accountant.epsilon([sampled(min(1.0, 1.3 * rate), sigma, times)], delta) * slack + 1e-6 >= base
    assert accountant.epsilon([sampled(rate, sigma, 2 * times)], delta) * slack + 1e-6 >= base
    assert accountant.epsilon([sampled(rate, sigma, times)], delta * 2) <= base + 1e-12


def test_the_curve_falls_with_delta():
    pairs = accountant.curve([sampled(0.01, 1.0, 100)], [1e-3, 1e-5, 1e-7])
    assert [d for d, _ in pairs] == [1e-3, 1e-5, 1e-7]
    assert pairs[0][1] < pairs[1][1] < pairs[2][1]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("target", [0.3, 3.0])
def test_calibration_of_subsampled_plans_is_safe_and_tight(relation, target):
    def events_at(noise):
        return [sampled(0.02, noise, 300, relation), Event("gaussian", 8 * noise, 1.0, 1.0, relation)]

    noise = noise_within(events_at, target, 1e-5)
    assert accountant.epsilon(events_at(noise), 1e-5) <= target
    assert accountant.epsilon(events_at(noise * 0.999), 1e-5) > target


@pytest.mark.parametrize("relation", list(Relation))
def test_a_release_that_takes_nearly_all_leaves_the_rest_to_calibrate(relation):
    fixed = Event("gaussian", 3.9, 1.0, 1.0, relation)  # looser accounting would find it overspent by itself
    assert 0.9 < accountant.epsilon([fixed], 1e-5) < 1.0

    def events_at(noise):
        return [sampled(0.02, noise, 300, relation), fixed]

    noise = noise_within(events_at, 1.0, 1e-5)
    assert accountant.epsilon(events_at(noise), 1e-5) <= 1.0 < accountant.epsilon(events_at(noise * 0.99), 1e-5)
    with pytest.raises(ValueError, match="no noise below"):
        noise_within(events_at, 0.9, 1e-5)


@pytest.mark.parametrize("event", EVENTS)
def test_calibration_works_for_every_kind_of_event(event):
    from dataclasses import replace

    noise = noise_within(lambda x: [replace(event, sigma=event.sigma * x)], 1.0, 1e-6)
    assert 0.98 < accountant.epsilon([replace(event, sigma=event.sigma * noise)], 1e-6) <= 1.0


def test_groups():
    assert conversions.group(0.5, 1e-6, 1) == (0.5, 1e-6)
    epsilon, delta = conversions.group(0.5, 1e-6, 3)
    assert epsilon == 1.5 and delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.e))
    assert conversions.group(400.0, 1e-5, 3)[1] == 1.0
    assert conversions.group_mu(0.2, 4) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="at least 1"):
        conversions.group(1.0, 1e-5, 0)


@given(st.floats(0.05, 3.0), st.integers(2, 5), st.floats(0.1, 5))
@settings(max_examples=60, deadline=None)
def test_group_privacy_covers_the_gaussian_it_speaks_of(mu, size, epsilon):
    delta = accountant.ExactGaussian(mu).delta(epsilon)
    grown_epsilon, grown_delta = conversions.group(epsilon, delta, size)
    assert accountant.ExactGaussian(conversions.group_mu(mu, size)).delta(grown_epsilon) <= grown_delta + 1e-12
