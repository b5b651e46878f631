"""Other people's accountants, as witnesses only."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import accountant
from sfumato.accounting.budget import Relation
from sfumato.accounting.events import Event

ADD = Relation.ADD_REMOVE


def random_plans(count):
    random = np.random.default_rng(3)
    for i in range(count):
        plan = (10 ** random.uniform(-3.5, -1.3), random.uniform(0.7, 3.0), int(10 ** random.uniform(1.5, 3.5)))
        yield pytest.param(*plan, marks=[pytest.mark.slow] if i % 2 else [])


@pytest.mark.parametrize(("rate", "multiplier", "times"), list(random_plans(20)))
def test_loss_distributions_lie_inside_the_interval_of_prv_accountant(rate, multiplier, times):
    prv = pytest.importorskip("prv_accountant")
    mechanism = prv.PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=multiplier)
    witness = prv.PRVAccountant(prvs=mechanism, max_self_compositions=times, eps_error=0.05, delta_error=1e-9)
    low, estimate, high = witness.compute_epsilon(1e-5, [times])
    ours = accountant.epsilon([Event("gaussian", multiplier, 1.0, 1.0, ADD, rate, times)], 1e-5)
    assert low <= ours <= high
    assert ours == pytest.approx(estimate, abs=5e-3)


def test_prv_accountant_on_the_well_known_plan():
    prv = pytest.importorskip("prv_accountant")
    mechanism = prv.PoissonSubsampledGaussianMechanism(sampling_probability=256 / 60000, noise_multiplier=1.0)
    witness = prv.PRVAccountant(prvs=mechanism, max_self_compositions=14_040, eps_error=0.1, delta_error=1e-9)
    assert witness.compute_epsilon(1e-5, [14_040]) == pytest.approx((2.720, 2.820, 2.920), abs=1e-3)


@pytest.mark.parametrize(("rate", "multiplier", "times"), [(0.01, 1.0, 1000), (256 / 60000, 1.0, 14_040)])
def test_renyi_against_opacus(rate, multiplier, times):
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = [2.0, 4.0, 8.0, 16.0, 32.0, 1.5]
    theirs = rdp.compute_rdp(q=rate, noise_multiplier=multiplier, steps=times, orders=orders)
    event = [Event("gaussian", multiplier, 1.0, 1.0, ADD, rate, times)]
    ours = [accountant.renyi(event, o) for o in orders]
    assert ours[:-1] == pytest.approx(list(theirs)[:-1], rel=1e-9)
    assert theirs[-1] <= ours[-1] <= 1.05 * theirs[-1]  # at broken orders dp-accounting takes an upper bound


@given(st.floats(0.02, 4.0), st.floats(1e-7, 1e-3))
@settings(max_examples=12, deadline=None)
def test_exact_and_loss_distribution_agree_on_gaussian_ledgers(mu, delta):
    ledger = [
        Event("gaussian", 1 / mu, 0.6, 0.6, ADD),
        Event("gaussian", 2 / mu, 0.8, 0.8, ADD, times=4),
    ]
    exact, pld = (accountant.epsilon(ledger, delta, b) for b in ("exact", "pld"))
    assert exact == pytest.approx(pld, abs=1e-6)


def test_selection_against_the_library():
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    from sfumato.accounting.rdp import ORDERS
    from sfumato.accounting.selection import selected_renyi

    base = [o / 18 for o in ORDERS]
    for mean, shape in [(10, 1.0), (10, 0.0), (3.5, 0.5), (10, math.inf)]:
        theirs = RdpAccountant(list(ORDERS)).compose(RepeatAndSelectDpEvent(GaussianDpEvent(3.0), mean, shape))
        ours = selected_renyi(ORDERS, base, mean, shape)
        assert np.all(np.array(ours) <= theirs._rdp * (1 + 1e-6))  # they skip a monotone step for the Poisson law
        assert accountant.RenyiCurve(ORDERS, tuple(ours)).epsilon(1e-5) == pytest.approx(
            theirs.get_epsilon(1e-5), rel=1e-3
        )
