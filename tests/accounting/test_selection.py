"""The law of the number of runs, what selection costs, filters, and numbers that may not leave."""

from __future__ import annotations

import copy
import json
import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import accountant, gaussian
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event, Selected
from sfumato.accounting.filters import Exhausted, GaussianFilter, RenyiFilter
from sfumato.accounting.private_number import PrivateNumber
from sfumato.accounting.selection import Runs, compose_all

ADD = Relation.ADD_REMOVE


def plain(mu, times=1):
    return Event("gaussian", 1 / mu, 1.0, 1.0, ADD, times=times)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [(1, "geometric"), (0, "logarithmic"), (0.5, "truncated negative binomial"), (math.inf, "poisson")],
)
@pytest.mark.parametrize("mean", [1.0, 3.0, 10.0])
def test_the_law_sums_to_one_and_has_its_mean(shape, kind, mean):
    runs = Runs(mean, shape)
    chances = [runs.pmf(k) for k in range(3000)]
    assert runs.kind == kind
    assert math.fsum(chances) == pytest.approx(1.0, abs=1e-9)
    assert math.fsum(k * p for k, p in enumerate(chances)) == pytest.approx(mean, rel=1e-8)
    assert (runs.pmf(0) > 0) == math.isinf(shape)


def test_a_law_must_make_sense():
    for mean, shape in [(0.5, 1), (math.inf, 1), (3, -1)]:
        with pytest.raises(ValueError, match="Expected"):
            Runs(mean, shape)


@given(st.floats(0.05, 2.0), st.floats(2, 50), st.sampled_from([0.0, 0.5, 1.0, math.inf]))
@settings(max_examples=30, deadline=None)
def test_selection_costs_more_than_one_run(mu, mean, shape):
    one = accountant.epsilon([plain(mu)], 1e-6, "rdp_balle")
    assert accountant.epsilon([Selected((plain(mu),), mean, shape)], 1e-6) > one


def test_selection_beats_composition_from_a_few_runs_on():
    run = (plain(0.27),)
    for mean in (10, 50, 200):
        together = accountant.epsilon(compose_all(run, mean), 1e-5)
        assert accountant.epsilon([Selected(run, mean, 1)], 1e-5) < together


def test_selection_composes_with_what_else_was_released():
    selected, other = Selected((plain(0.3),), 10, 1), plain(0.5)
    both = accountant.epsilon([selected, other], 1e-5)
    assert max(accountant.epsilon([e], 1e-5) for e in (selected, other)) < both
    assert both < accountant.epsilon([selected], 5e-6) + accountant.epsilon([other], 5e-6, "rdp_balle")


def test_selection_of_subsampled_runs():
    run = (Event("gaussian", 1.5, 1.0, 1.0, ADD, 0.01, 1000),)
    assert accountant.epsilon(run, 1e-5) < accountant.epsilon([Selected(run, 10, 0)], 1e-5) < 6
    replaced = Event("gaussian", 1.5, 2.0, 1.0, Relation.REPLACE_ONE, 0.01, 1000)
    with pytest.raises(ValueError, match="Renyi formula"):
        accountant.profile([Selected((replaced,), 10, 0)])


def test_a_selection_must_make_sense():
    for events, mean in [((), 10), ((plain(1.0),), 0.5)]:
        with pytest.raises(ValueError, match="Expected"):
            Selected(events, mean, 1)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60), st.floats(0.3, 2.0))
@settings(max_examples=80, deadline=None)
def test_a_gaussian_filter_never_lets_through_more_than_its_budget(asked, mu):
    guard, passed = GaussianFilter(mu), []
    for one in asked:
        if guard.admits(plain(one)):
            guard.charge(plain(one))
            passed.append(plain(one))
        else:
            with pytest.raises(Exhausted):
                guard.charge(plain(one))
    assert guard.spent <= mu
    if passed:
        assert accountant.profile(passed).mu <= mu
        assert accountant.epsilon(passed, 1e-5) <= gaussian.epsilon_of(1e-5, mu)


def test_a_gaussian_filter_lets_through_what_fits():
    guard = GaussianFilter.within(1.0, 1e-5)
    each = gaussian.mu_of(1.0, 1e-5) / 2 * (1 - 1e-9)
    for _ in range(4):
        guard.charge(plain(each))
    assert not guard.admits(plain(each / 100))


def test_a_gaussian_filter_takes_other_events_with_a_share_of_slack():
    event = Event("gaussian", 1.0, 1.0, 1.0, ADD, 0.01, 200)
    with pytest.raises(ValueError, match="slack_each"):
        GaussianFilter(1.0).admits(event)
    guard = GaussianFilter(5.0, slack=2.5e-8, slack_each=1e-8)
    guard.charge(event)
    guard.charge(event)
    assert not guard.admits(event) and guard.admits(plain(0.1))


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_a_renyi_filter_never_lets_through_more_than_its_budget(asked):
    guard, passed = RenyiFilter.within(3.0, 1e-5, order=8.0), []
    for one in asked:
        if guard.admits(plain(one)):
            guard.charge(plain(one))
            passed.append(plain(one))
    assert guard.spent <= guard.budget
    if passed:
        assert accountant.epsilon(passed, 1e-5) <= 3.0


def test_a_renyi_filter_needs_an_order_with_room_and_a_formula():
    with pytest.raises(ValueError, match="leaves room"):
        RenyiFilter.within(0.1, 1e-5, order=2.0)
    with pytest.raises(ValueError, match="Renyi formula"):
        RenyiFilter(8.0, 1.0).admits(Event("gaussian", 1.0, 2.0, 1.0, Relation.REPLACE_ONE, 0.1))


def test_a_private_number_shows_itself_to_no_one():
    secret = PrivateNumber(0.123456, "a diagnostic")
    assert "0.12" not in repr(secret) + str(secret) + str([secret])
    for use in (
        float,
        int,
        bool,
        json.dumps,
        pickle.dumps,
        copy.deepcopy,
        math.exp,
        hash,
        sorted,
        lambda s: f"{s:.3f}",
    ):
        with pytest.raises((TypeError, ValueError)):
            use([secret, secret]) if use is sorted else use(secret)
    for compare in (lambda s: s < 1, lambda s: s == 0.123456, lambda s: s <= 1):
        with pytest.raises(TypeError):
            compare(secret)
    with pytest.raises(ValueError, match="reason"):
        secret.reveal(" ")
    assert secret.reveal("this test") == 0.123456
    assert not hasattr(secret, "__dict__")
