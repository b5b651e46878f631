from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.accounting.budget import Budget, Relation, Unit
from sfumato.accounting.gaussian import delta_of, epsilon_of, mu_of
from sfumato.errors import InputError, OverBudget
from sfumato.ledger.store import Cost, Ledger, Reservation

DELTA = 1e-5


def digests(*numbers: int) -> np.ndarray:
    made = np.zeros((len(numbers), 32), np.uint8)
    made[:, :8] = np.array(numbers, ">u8").view(np.uint8).reshape(-1, 8)
    return made


def gaussian(mu: float) -> Callable[[Relation], Cost]:
    def cost(relation: Relation) -> Cost:
        own = mu if relation is Relation.ADD_REMOVE else 2 * mu
        return Cost(own, 0.0, lambda delta: epsilon_of(delta, own))

    return cost


def worth(epsilon: float) -> Callable[[Relation], Cost]:
    return gaussian(mu_of(epsilon, DELTA))


def only_add_remove(mu: float) -> Callable[[Relation], Cost]:
    def cost(relation: Relation) -> Cost:
        if relation is not Relation.ADD_REMOVE:
            raise ValueError("Expected relation=add-remove.")
        return gaussian(mu)(relation)

    return cost


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def reserve(ledger: Ledger, cost: Callable[[Relation], Cost], **changes: Any) -> Reservation:
    usual: dict[str, Any] = dict(
        name="scans", digests=digests(1, 2, 3), budget=Budget(1.0), plan_json="{}", method="dp-merf"
    )
    return ledger.reserve(cost=cost, **{**usual, **changes})


def test_a_first_run_exactly_at_its_budget_is_admitted_and_sets_the_total(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    shown = ledger.show("scans")
    assert shown["total"] == {"epsilon": 1.0, "delta": DELTA, "relation": "add-remove", "unit": "record"}
    assert shown["spent"] == pytest.approx(1.0, rel=1e-9)
    assert shown["remaining"] == 0
    assert [(one["source"], one["epsilon"]) for one in shown["totals"]] == [("first run", 1.0)]
    with pytest.raises(OverBudget):
        reserve(ledger, gaussian(1e-6))


def test_a_first_run_above_its_own_budget_is_refused_and_leaves_no_trace(ledger: Ledger) -> None:
    with pytest.raises(OverBudget, match="total of epsilon 1 at delta 1e-05"):
        reserve(ledger, worth(1.001))
    assert ledger.show("scans", digests(1, 2, 3))["total"] is None
    reserve(ledger, worth(5.0), budget=Budget(5.0))


def test_overspending_is_refused_with_the_numbers(ledger: Ledger) -> None:
    ledger.set_total("scans", digests(1), Budget(2.0))
    reserve(ledger, worth(1.0))
    left = ledger.show("scans")["remaining"]
    with pytest.raises(OverBudget) as caught:
        reserve(ledger, worth(1.8))
    said = str(caught.value)
    assert "total of epsilon 2 at delta 1e-05 (add-remove, per record)" in said
    assert "of which 1" in said and "asks for epsilon 1.8" in said
    assert f"at most epsilon {math.floor(left * 1000) / 1000:g}" in said
    assert caught.value.exit_code == 3
    assert len(ledger.show("scans")["history"]) == 1


def test_what_is_said_to_remain_can_be_taken_and_no_more(ledger: Ledger) -> None:
    ledger.set_total("scans", None, Budget(3.0))
    for epsilon in (0.5, 1.0, 0.7):
        reserve(ledger, worth(epsilon))
    left = ledger.show("scans")["remaining"]
    with pytest.raises(OverBudget):
        reserve(ledger, worth(left * 1.0001))
    reserve(ledger, worth(left))
    shown = ledger.show("scans")
    assert shown["remaining"] < 1e-3 and shown["spent"] <= 3.0


def test_runs_compose_by_squares_of_mu_and_not_by_adding_epsilons(ledger: Ledger) -> None:
    ledger.set_total("scans", None, Budget(4.0))
    for _ in range(4):
        reserve(ledger, gaussian(0.2))
    shown = ledger.show("scans")
    assert shown["mu"] == pytest.approx(0.4)
    assert shown["spent"] == pytest.approx(epsilon_of(DELTA, 0.4))
    assert shown["spent"] < 0.7 * 4 * epsilon_of(DELTA, 0.2)


def test_slack_is_summed_and_limited_to_its_share_of_delta(ledger: Ledger) -> None:
    def slack(amount: float) -> Callable[[Relation], Cost]:
        return lambda relation: Cost(0.1, amount, lambda delta: epsilon_of(delta - amount, 0.1))

    ledger.set_total("scans", None, Budget(4.0))
    reserve(ledger, slack(0.06 * DELTA))
    with pytest.raises(OverBudget, match="slack may not pass 1e-06"):
        reserve(ledger, slack(0.05 * DELTA))
    reserve(ledger, slack(0.03 * DELTA))
    shown = ledger.show("scans")
    assert shown["slack"] == pytest.approx(0.09 * DELTA)
    assert shown["spent"] == pytest.approx(epsilon_of(0.91 * DELTA, math.hypot(0.1, 0.1)))


def test_a_first_run_beyond_the_filter_leaves_nothing_for_later_ones(ledger: Ledger) -> None:
    reserve(ledger, lambda relation: Cost(0.5, 0.5 * DELTA, lambda delta: 0.9))
    shown = ledger.show("scans")
    assert (shown["spent"], shown["remaining"]) == (0.9, 0.0)
    with pytest.raises(OverBudget):
        reserve(ledger, gaussian(0.0))


def test_a_set_with_one_image_changed_is_charged_to_the_same_account(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    with pytest.raises(OverBudget, match="shares records or persons"):
        reserve(ledger, worth(0.5), name="scans-v2", digests=digests(1, 2, 99))


def test_a_renamed_folder_is_charged_to_the_same_account(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    with pytest.raises(OverBudget, match="shares records or persons"):
        reserve(ledger, worth(0.5), name="elsewhere")
    assert ledger.show("elsewhere", digests(3))["account"] == "scans"
    assert ledger.show("elsewhere")["total"] is None


def test_new_records_join_the_account(ledger: Ledger) -> None:
    ledger.set_total("scans", digests(1), Budget(4.0))
    reserve(ledger, worth(1.0), name="more", digests=digests(1, 50))
    reserve(ledger, worth(1.0), name="other", digests=digests(50, 60))
    assert len(ledger.show("x", digests(60))["history"]) == 2


def test_equal_names_share_an_account_and_the_refusal_says_what_to_do(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    with pytest.raises(OverBudget, match="rename them"):
        reserve(ledger, worth(0.5), digests=digests(7, 8))


def test_an_overlap_with_two_accounts_charges_both_and_needs_room_in_both(ledger: Ledger) -> None:
    ledger.set_total("a", digests(1), Budget(4.0))
    ledger.set_total("b", digests(2), Budget(2.0))
    both = dict(name="union", digests=digests(1, 2))
    reserve(ledger, worth(1.0), **both)
    assert [len(ledger.show(name)["history"]) for name in "ab"] == [1, 1]
    with pytest.raises(OverBudget, match="shares records or persons"):
        reserve(ledger, worth(1.9), **both | {"name": "again"}, budget=Budget(1.9))
    assert [len(ledger.show(name)["history"]) for name in "ab"] == [1, 1]
    shown = ledger.show("x", digests(1, 2))
    assert shown["account"] == "b" and [other["account"] for other in shown["others"]] == ["a"]


def test_a_renamed_folder_with_room_goes_on_and_binds_nobody_by_its_first_budget(ledger: Ledger) -> None:
    ledger.set_total("scans", digests(1, 2), Budget(4.0))
    reserve(ledger, worth(1.0), name="copy", digests=digests(1, 2))
    with pytest.raises(OverBudget, match="'copy' has a total of epsilon 1 "):  # as for a name that shares nothing
        reserve(ledger, worth(1.0), name="copy", digests=digests(1, 2))
    reserve(ledger, worth(1.0), digests=digests(1, 2))
    reserve(ledger, worth(1.0), name="third", digests=digests(2, 3))
    assert len(ledger.show("scans")["history"]) == 3
    ledger.set_total("copy", digests(1, 2), Budget(4.0))
    reserve(ledger, worth(1.0), name="copy", digests=digests(1, 2))
    left = ledger.show("scans")["remaining"]
    with pytest.raises(OverBudget, match="shares records or persons"):
        reserve(ledger, worth(1.02 * left), name="copy", digests=digests(1, 2))
    reserve(ledger, worth(left), name="copy", digests=digests(1, 2))


def test_a_total_through_records_binds_and_is_not_told(ledger: Ledger) -> None:
    ledger.set_total("a", digests(1), Budget(4.0))
    ledger.set_total("b", digests(1, 2), Budget(2.0))
    assert ledger.show("a")["total"]["epsilon"] == 2
    with pytest.raises(OverBudget) as caught:
        reserve(ledger, worth(3.0), name="a", digests=digests(1))
    assert "2" not in str(caught.value)
    with pytest.raises(OverBudget, match="'a' has a total of epsilon 4 "):
        reserve(ledger, worth(5.0), name="a", digests=digests(1))


def test_what_is_told_hangs_on_the_name_alone(ledger: Ledger) -> None:
    assert ledger.told("a") == {"runs": [], "epsilon_total": 0.0, "delta": None, "made": ledger.made}
    for name in "ab":
        ledger.set_total(name, None, Budget(4.0))
    for name, numbers in (("a", (1, 2)), ("b", (2, 3)), ("b", (3,)), ("c", (1,))):
        reserve(ledger, worth(1.0), name=name, digests=digests(*numbers))
    assert [len(ledger.show(name)["history"]) for name in "abc"] == [4, 2, 1]
    told = [ledger.told(name) for name in "abc"]
    assert [len(one["runs"]) for one in told] == [1, 2, 1]
    assert [one["epsilon_total"] for one in told] == pytest.approx([1, 1.466, 1], abs=2e-3)


def test_a_change_of_total_names_no_other_account(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0), name="mine", digests=digests(1))
    reserve(ledger, only_add_remove(0.1), name="theirs", digests=digests(2))
    for total in (Budget(5.0, unit=Unit.PERSON), Budget(5.0, relation=Relation.REPLACE_ONE)):
        with pytest.raises(InputError, match="cannot be counted under this total") as caught:
            ledger.set_total("new", digests(2), total)
        assert "theirs" not in str(caught.value)
    with pytest.raises(InputError, match="'mine' has runs per record"):
        ledger.set_total("mine", digests(1, 2), Budget(5.0, unit=Unit.PERSON))


def test_separate_data_have_separate_budgets(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    reserve(ledger, worth(1.0), name="others", digests=digests(4, 5))
    assert len(ledger.show("others")["history"]) == 1


def test_a_checkpoint_is_resumed_once(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    ledger.resume(first.run, first.token, "second")
    assert not ledger.holds(first.run, first.token) and ledger.holds(first.run, "second")
    for again in ("second", "third"):
        with pytest.raises(OverBudget, match="already resumed elsewhere"):
            ledger.resume(first.run, first.token, again)
    ledger.resume(first.run, "second", "third")
    assert ledger.holds(first.run, "third")
    assert ledger.show("scans")["spent"] == pytest.approx(1.0)


def test_a_new_token_must_be_new(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    for stale in ("", first.token):
        with pytest.raises(ValueError, match="new_token"):
            ledger.resume(first.run, first.token, stale)


def test_commit_can_be_repeated_refuses_a_stale_token_and_closes_the_run(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    ledger.resume(first.run, first.token, "second")
    with pytest.raises(OverBudget, match="resumed elsewhere"):
        ledger.commit(first.run, first.token)
    assert ledger.show("scans")["history"][0]["status"] == "reserved"
    ledger.commit(first.run, "second")
    ledger.commit(first.run, "second")
    assert ledger.show("scans")["history"][0]["status"] == "committed"
    with pytest.raises(OverBudget, match="is finished"):
        ledger.resume(first.run, "second", "third")
    with pytest.raises(OverBudget, match="not in this privacy ledger"):
        ledger.commit("nothing", "second")


def test_another_unit_is_refused(ledger: Ledger) -> None:
    reserve(ledger, worth(0.5), budget=Budget(2.0))
    person = Budget(2.0, unit=Unit.PERSON)
    with pytest.raises(InputError, match="kept per record and this run is planned per person; plan it with --unit re"):
        reserve(ledger, worth(0.5), budget=person)
    with pytest.raises(InputError, match="has runs per record and the new total is per person"):
        ledger.set_total("scans", None, person)
    ledger.set_total("new", None, Budget(1.0))
    ledger.set_total("new", None, person)
    assert ledger.show("new")["total"]["unit"] == "person"


def test_the_account_s_relation_sets_the_price(ledger: Ledger) -> None:
    ledger.set_total("scans", None, Budget(3.0, relation=Relation.REPLACE_ONE))
    with pytest.raises(OverBudget):
        reserve(ledger, worth(1.6), budget=Budget(1.6))
    reserve(ledger, worth(1.0))
    assert ledger.show("scans")["spent"] == pytest.approx(2.155, abs=1e-3)
    with pytest.raises(InputError, match="kept under replace-one, which this run does not serve"):
        reserve(ledger, only_add_remove(0.1))


def test_the_relation_may_change_where_the_runs_cost_is_known(ledger: Ledger) -> None:
    reserve(ledger, gaussian(0.2))
    ledger.set_total("scans", None, Budget(5.0, relation=Relation.REPLACE_ONE))
    shown = ledger.show("scans")
    assert shown["mu"] == pytest.approx(0.4) and shown["spent"] == pytest.approx(epsilon_of(DELTA, 0.4))
    assert [one["source"] for one in shown["totals"]] == ["first run", "custodian"]
    reserve(ledger, only_add_remove(0.1), name="b", digests=digests(9))
    with pytest.raises(InputError, match="under replace-one is not known"):
        ledger.set_total("b", None, Budget(5.0, relation=Relation.REPLACE_ONE))


def test_a_total_may_be_raised_and_lowered(ledger: Ledger) -> None:
    reserve(ledger, worth(1.0))
    ledger.set_total("scans", digests(1), Budget(3.0))
    assert ledger.show("scans")["remaining"] > 2
    ledger.set_total("other name", digests(1), Budget(0.5))
    shown = ledger.show("scans")
    assert shown["remaining"] == 0 and shown["spent"] == pytest.approx(1.0)
    assert [one["epsilon"] for one in shown["totals"]] == [1.0, 3.0, 0.5]


def test_another_delta_is_priced_at_the_account_s(ledger: Ledger) -> None:
    ledger.set_total("scans", None, Budget(2.0, delta=1e-7))
    reserve(ledger, worth(1.0))
    expected = epsilon_of(1e-7, mu_of(1.0, DELTA))
    assert ledger.show("scans")["spent"] == pytest.approx(expected)
    ledger.set_total("scans", None, Budget(2.0, delta=1e-4))
    assert ledger.show("scans")["spent"] < 1.0 < expected


def test_a_delta_below_the_runs_slack_has_no_bound(ledger: Ledger) -> None:
    reserve(ledger, lambda relation: Cost(0.1, 1e-7, lambda delta: 0.5))
    ledger.set_total("scans", None, Budget(9.0, delta=1e-8))
    shown = ledger.show("scans")
    assert shown["spent"] is None and shown["remaining"] == 0
    with pytest.raises(OverBudget, match="more than can be stated"):
        reserve(ledger, gaussian(0.01))


@pytest.mark.parametrize("mu, slack", [(math.nan, 0.0), (math.inf, 0.0), (-1.0, 0.0), (1.0, math.nan), (1.0, 1.0)])
def test_a_cost_is_a_pair_of_sane_numbers(mu: float, slack: float) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Cost(mu, slack, lambda delta: 1.0)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -1.0])
def test_a_cost_that_is_no_number_is_never_admitted(ledger: Ledger, epsilon: float) -> None:
    with pytest.raises(OverBudget):
        reserve(ledger, lambda relation: Cost(0.1, 0.0, lambda delta: epsilon))


def test_show_is_json_without_key_token_or_fingerprint(ledger: Ledger, tmp_path: Path) -> None:
    made = reserve(ledger, worth(1.0), digests=digests(1, 1, 2))
    shown = ledger.show("scans", digests(1))
    text = json.dumps(shown, allow_nan=False)
    reader = sqlite3.connect(tmp_path / "ledger.sqlite")
    (key,) = reader.execute("SELECT key FROM secret").fetchone()
    prints = [one for (one,) in reader.execute("SELECT print FROM fingerprints")]
    reader.close()
    assert len(key) == 32 and len(prints) == 2 and all(len(one) == 16 for one in prints)
    assert made.run in text
    assert not any(secret in text for secret in (key.hex(), repr(key), made.token, *(one.hex() for one in prints)))
    assert set(shown["history"][0]) == {"run", "time", "method", "epsilon", "delta", "relation", "status"}


def test_nothing_is_known_of_a_new_set(ledger: Ledger) -> None:
    shown = ledger.show("fresh", digests(1))
    assert shown["total"] is None and shown["spent"] == 0 and shown["history"] == []


@pytest.mark.parametrize("name", ["", "  ", "bad\udcff"])
def test_a_name_must_be_writable(ledger: Ledger, name: str) -> None:
    with pytest.raises(InputError, match="cannot name an account"):
        reserve(ledger, worth(1.0), name=name)


def test_digests_of_another_shape_are_refused_and_nothing_is_spent(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="n x 32"):
        reserve(ledger, worth(1.0), digests=np.zeros((3, 16), np.uint8))
    assert ledger.show("scans")["total"] is None


def test_a_mixture_s_guarantee_covers_the_slack() -> None:
    # The filter's claim in numbers: reveal everything with the summed slack, else one Gaussian of the composed mu.
    total = Budget(2.0)
    slack, mu = 0.1 * total.delta, mu_of(total.epsilon, 0.9 * total.delta)
    assert slack + (1 - slack) * delta_of(total.epsilon, mu) <= total.delta


def test_what_nothing_crossed_is_given_back_and_counts_no_more(ledger: Ledger) -> None:
    ledger.set_total("scans", digests(1, 2, 3), Budget(1.0))
    first = reserve(ledger, worth(1.0))
    with pytest.raises(OverBudget):
        reserve(ledger, worth(1.0))
    assert ledger.unbegun() == [first.run]
    assert not ledger.give_back(first.run, "another token") and ledger.give_back(first.run, first.token)
    shown = ledger.show("scans")
    assert shown["spent"] == 0 and shown["remaining"] == pytest.approx(1.0) and ledger.unbegun() == []
    assert [run["status"] for run in shown["history"]] == ["returned"]
    reserve(ledger, worth(1.0))  # the whole of it is there again, as if for the first time
    assert [run["status"] for run in ledger.show("scans")["history"]] == ["returned", "reserved"]


def test_a_run_whose_reservation_was_given_back_reads_nothing(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    ledger.give_back(first.run, first.token)
    assert not ledger.holds(first.run, first.token)
    for attempt in (ledger.begin, ledger.commit, lambda *given: ledger.resume(*given, "fresh")):
        with pytest.raises(OverBudget, match="was given back, since nothing had crossed"):
            attempt(first.run, first.token)
    assert not ledger.give_back(first.run, first.token)


def test_a_run_that_began_stays_spent(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    with pytest.raises(OverBudget, match="resumed elsewhere"):
        ledger.begin(first.run, "another token")
    ledger.begin(first.run, first.token)
    ledger.begin(first.run, first.token)
    assert not ledger.give_back(first.run, first.token) and ledger.unbegun() == []
    ledger.resume(first.run, first.token, "second")
    ledger.begin(first.run, "second")
    assert ledger.show("scans")["history"][0]["status"] == "begun"
    assert ledger.show("scans")["spent"] == pytest.approx(1.0)
    ledger.commit(first.run, "second")
    with pytest.raises(OverBudget, match="is finished"):
        ledger.begin(first.run, "second")


def test_where_all_was_given_back_the_next_run_is_the_first(ledger: Ledger) -> None:
    first = reserve(ledger, worth(1.0))
    ledger.give_back(first.run, first.token)
    person = Budget(3.0, unit=Unit.PERSON)
    reserve(ledger, worth(3.0), budget=person)
    shown = ledger.show("scans")
    assert (shown["total"]["epsilon"], shown["total"]["unit"]) == (3.0, "person")
    with pytest.raises(OverBudget):
        reserve(ledger, worth(4.0), budget=replace(person, epsilon=4.0))


def test_a_custodian_s_total_outlives_what_was_given_back(ledger: Ledger) -> None:
    ledger.set_total("scans", None, Budget(1.0))
    first = reserve(ledger, worth(1.0))
    ledger.give_back(first.run, first.token)
    with pytest.raises(OverBudget):
        reserve(ledger, worth(3.0), budget=Budget(3.0))
