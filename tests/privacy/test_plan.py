"""Plans: made from the public spec, within the budget, refused in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import DPMERF, Budget, DataSpec, InputError, OverBudget, Relation, Unit
from sfumato.accounting import accountant
from sfumato.api import make_budget, make_method, make_plan
from sfumato.data.labels import LabelPrior
from sfumato.privacy.banded import Banded
from sfumato.privacy.bounds import Bound
from sfumato.privacy.mechanisms import BandedGaussian
from sfumato.privacy.odometer import Odometer
from sfumato.privacy.plan import Crossing
from sfumato.privacy.samplers import CyclicPoisson, FullBatch, Poisson

SPEC = DataSpec("scans", 60_000, (1, 28, 28), tuple("0123456789"))


@given(st.floats(0.1, 12), st.sampled_from(list(Relation)), st.sampled_from([None, None, None, 0.1, 0.5]))
@settings(max_examples=12, deadline=None)
def test_a_plan_keeps_its_budget_and_wastes_none_of_it(epsilon, relation, fraction):
    labels = LabelPrior("uniform") if fraction is None else LabelPrior("private", fraction=fraction)
    plan = DPMERF(labels=labels).plan(SPEC, Budget(epsilon, relation=relation))
    assert 0.999 * epsilon <= plan.epsilon() <= epsilon


def test_replace_one_needs_twice_the_noise():
    add, replace = (DPMERF().plan(SPEC, Budget(1.0, relation=r)).to_json()["crossings"][0] for r in Relation)
    assert add["sensitivity"] == pytest.approx(1.0, rel=1e-5)
    assert replace["sensitivity"] == pytest.approx(2.0, rel=1e-5)
    assert replace["sigma"] == pytest.approx(2 * add["sigma"], rel=1e-6)
    assert add["multiplier"] == pytest.approx(add["sigma"] / add["sensitivity"])


def test_a_histogram_moves_by_root_two_when_a_record_is_replaced():
    plan = DPMERF(labels=LabelPrior("private", fraction=0.1)).plan(SPEC, Budget(1.0, relation=Relation.REPLACE_ONE))
    row = plan.to_json()["crossings"][1]
    assert (row["name"], row["mechanism"]) == ("labels", "discrete-gaussian")
    assert row["sensitivity"] == pytest.approx(2**0.5)


def test_plan_json_has_its_documented_keys_and_survives_a_round_trip():
    plan = DPMERF().plan(SPEC, Budget(1.0)).to_json()
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    assert set(plan["guarantee"]) >= {"epsilon", "delta", "relation", "unit", "accountant"}
    assert set(plan["crossings"][0]) >= {"name", "mechanism", "sigma", "sensitivity", "multiplier", "sampling", "times"}
    assert plan["guarantee"]["epsilon"] == pytest.approx(1.0, abs=1e-6)
    assert plan["crossings"][0]["sigma"] == pytest.approx(3.7306, abs=1e-3)
    assert "not a guarantee" in plan["paper"]["note"]


def test_too_few_data_and_a_large_delta_are_warned_about():
    warnings = " ".join(DPMERF().plan(DataSpec("few", 50, (1, 28, 28), ("a", "b")), Budget(0.1, 0.1)).warnings)
    assert "Too few data" in warnings and "above 1/50" in warnings
    assert DPMERF().plan(SPEC, Budget(1.0)).warnings == ()


def test_a_ledger_refuses_one_use_too_many():
    odometer = Odometer(DPMERF().plan(SPEC, Budget(1.0)))
    assert odometer.epsilon() == 0 and not odometer.complete
    odometer.charge("embedding")
    assert odometer.epsilon() == pytest.approx(1.0, abs=1e-6) and odometer.complete
    with pytest.raises(OverBudget):
        odometer.charge("embedding")
    with pytest.raises(OverBudget):
        odometer.load_state_dict({"used": {"something": 1}, "answers": []})


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dp-murf", {}, "dp-merf"),
        ("dp-merf", {"feature": "10"}, "features"),
        ("dp-merf", {"features": "ten"}, "int"),
        ("dp-merf", {"features": "7"}, "multiple of 2"),
        ("dp-merf", {"bandwidth": "nan"}, "bandwidth"),
    ],
)
def test_bad_methods_and_settings_get_one_sentence(name, settings, words):
    with pytest.raises(InputError, match=words):
        make_method(name, settings)


def test_bad_budgets_get_one_sentence():
    for bad, words in (
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "unit": "x"}, "unit"),
    ):
        with pytest.raises(InputError, match=words):
            make_budget(**bad)
    with pytest.raises(InputError, match="relation"):
        make_budget(1, relation="swap")


def test_units_must_agree_and_a_private_count_excludes_replace_one():
    with pytest.raises(InputError, match="--person"):
        make_plan(DPMERF(), SPEC, Budget(1.0, unit=Unit.PERSON))
    hidden = DataSpec("scans", 1000, (1, 8, 8), ("a",), count_public=False)
    with pytest.raises(InputError, match="private-count"):
        make_plan(DPMERF(), hidden, Budget(1.0, relation=Relation.REPLACE_ONE))


def turns():
    return Crossing(Bound(1.0), BandedGaussian(2.0, Banded(4, 0.5)), CyclicPoisson(0.5, 4), times=10)


def test_correlated_noise_is_charged_once_a_cycle_with_the_norm_of_a_column():
    event = turns().event(Relation.ADD_REMOVE)
    norm = (1 + 0.5**2 + 0.375**2 + 0.3125**2) ** 0.5
    assert (event.rate, event.times, event.sigma) == (0.5, 3, 2.0)
    assert event.sensitivity == pytest.approx(norm, rel=1e-2) and event.sensitivity > norm
    assert turns().event(Relation.REPLACE_ONE).sensitivity == pytest.approx(2 * event.sensitivity)
    once = turns().event(Relation.ADD_REMOVE, 1)
    assert (once.times, once.sensitivity) == (1, pytest.approx(event.sensitivity / norm))
    assert turns().event(Relation.ADD_REMOVE, 0).times == 0
    assert turns().to_json(Relation.ADD_REMOVE)["times"] == 3


def test_a_unit_known_by_content_changes_its_class_when_it_is_replaced():
    alone = turns().event(Relation.REPLACE_ONE, planned=Relation.REPLACE_ONE)
    moved = turns().event(Relation.REPLACE_ONE, planned=Relation.ADD_REMOVE)
    assert moved.times == 2 * alone.times and moved.sigma == pytest.approx(alone.sigma / 2**0.5)
    costs = [accountant.epsilon([event], 1e-5) for event in (alone, moved)]
    assert costs[0] < costs[1]


def test_fewer_classes_than_bands_are_refused():
    for sampler in (CyclicPoisson(0.5, 3), Poisson(0.5), FullBatch()):
        with pytest.raises(ValueError, match="at least as many as bands=4"):
            replace(turns(), sampler=sampler)
    with pytest.raises(ValueError, match="Expected sums of bounded terms"):
        replace(turns(), held=True)
