from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting.budget import Budget, Relation
from sfumato.accounting.gaussian import delta_of, epsilon_of, mu_of
from sfumato.errors import OverBudget
from sfumato.ledger.filter import Past, admits, composed, limits, remaining, spent
from sfumato.ledger.store import Cost, Ledger

totals = st.builds(Budget, epsilon=st.floats(0.01, 30), delta=st.floats(1e-12, 0.01))
# Costs as shares of the total, so that sequences end on either side of it.
asks = st.lists(st.tuples(st.floats(0, 1.2), st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.2])), max_size=8)


def dominated(mu: float, slack: float) -> Cost:
    return Cost(mu, slack, lambda delta: epsilon_of(delta - slack, mu) if delta > slack else math.inf)


@settings(max_examples=150, deadline=None)
@given(total=totals, asked=asks)
def test_no_sequence_of_runs_makes_the_composed_epsilon_exceed_the_total(
    total: Budget, asked: list[tuple[float, float]]
) -> None:
    full, admitted, digests = mu_of(total.epsilon, total.delta), [], np.ones((2, 32), np.uint8)
    with Ledger(None) as ledger:
        ledger.set_total("set", digests, total)
        for share, slack_share in asked:
            cost = dominated(share * full, slack_share * total.delta)
            try:
                ledger.reserve(
                    name="set",
                    digests=digests,
                    budget=total,
                    cost=lambda relation, own=cost: own,
                    plan_json="{}",
                    method="m",
                )
                admitted.append(cost)
            except OverBudget:
                pass
            shown = ledger.show("set")
            assert shown["spent"] <= total.epsilon * (1 + 1e-9)
            mu, slack = math.hypot(*(c.mu for c in admitted)), math.fsum(c.slack for c in admitted)
            assert (shown["mu"], shown["slack"]) == pytest.approx((mu, slack))
            # Checked from the definition, not through the inverse that the ledger uses.
            assert slack + (1 - slack) * delta_of(total.epsilon, mu) <= total.delta * (1 + 1e-6)


@settings(max_examples=100, deadline=None)
@given(total=totals, shares=st.lists(st.floats(0.01, 0.5), min_size=1, max_size=5))
def test_the_remaining_epsilon_is_admissible(total: Budget, shares: list[float]) -> None:
    full = mu_of(total.epsilon, total.delta)
    past = [Past(share * full, 0.0, epsilon_of(total.delta, share * full)) for share in shares]
    left = remaining(total, past)
    assert 0 <= left <= total.epsilon
    if left > 1e-9:
        assert admits(total, past, Past(mu_of(left, total.delta), 0.0, left))
        assert not admits(total, past, Past(mu_of(left * 1.001 + 1e-6, total.delta), 0.0, left))


def test_thresholds_come_from_the_total_alone() -> None:
    total = Budget(1.0)
    limit = limits(total)
    assert limit.slack == pytest.approx(1e-6)
    assert limit.mu == pytest.approx(mu_of(1.0, 0.9e-5), rel=1e-9) and limit.mu < mu_of(1.0, 0.9e-5)
    past = [Past(0.0, 0.0, 0.0)]
    assert admits(total, past, Past(limit.mu, limit.slack))
    assert not admits(total, past, Past(limit.mu * 1.0001, 0.0))
    assert not admits(total, past, Past(0.0, limit.slack * 1.0001))


def test_a_run_not_served_under_the_relation_blocks() -> None:
    total, past = Budget(1.0, relation=Relation.REPLACE_ONE), [Past(math.inf, math.inf)]
    assert spent(total, past) == math.inf and remaining(total, past) == 0
    assert not admits(total, past, Past(0.0, 0.0, 0.0))


@pytest.mark.parametrize("odd", [Past(math.nan, 0.0), Past(0.0, math.nan), Past(0.1, 0.0, math.nan), Past(0.1, 0.0)])
def test_nan_and_unknown_are_refused(odd: Past) -> None:
    if odd.epsilon is not None or odd == Past(0.1, 0.0):
        assert not admits(Budget(1.0), [], odd)
    else:
        assert not admits(Budget(1.0), [Past(0.0, 0.0, 0.0)], odd)


def test_composition_is_by_squares() -> None:
    assert composed([Past(3.0, 0.25), Past(4.0, 0.5)]) == (5.0, 0.75)
    assert composed([]) == (0.0, 0.0) and spent(Budget(1.0), []) == 0.0
