from __future__ import annotations

import json
import math

import pytest

from sfumato.errors import InputError
from sfumato.privacy.noise import Noise
from sfumato.release.files.gate import POINTS
from sfumato.release.statement.statement import TITLES, configuration_hash, public_plan, to_markdown
from sfumato.release.statement.wording import advantage
from tests.release.files.test_fakes import fake_plan, fake_statement


def test_all_twelve_points_in_their_order() -> None:
    statement = fake_statement()
    assert tuple(statement)[1:] == POINTS == tuple(TITLES)
    assert all(statement[point]["summary"].strip() for point in POINTS)
    json.dumps(statement, allow_nan=False)


def test_guarantee() -> None:
    point = fake_statement()["guarantee"]
    assert (point["epsilon"], point["delta"], point["mu"], point["unit"]) == (1.0, 1e-5, 0.26805, "record")
    assert point["relation_in_words"] == "add-remove with a public count (zero-out)"
    assert [at["delta"] for at in point["at_deltas"]] == [1e-5, 5.55e-6, 1e-6]
    assert point["at_deltas"][0]["epsilon"] == 1.0 and 1.14 < point["at_deltas"][2]["epsilon"] < 1.15
    assert "central" in point["model"] and "global" in point["sensitivity"] and "60,000" in point["size"]


def test_other_deltas_come_from_the_curve_where_mu_does_not_exist() -> None:
    plan = fake_plan(guarantee={"mu": None, "accountant": "PLD"})
    found = {at["delta"]: at["epsilon"] for at in fake_statement(plan)["guarantee"]["at_deltas"]}
    # 5.55e-6 is not on the curve; the next smaller delta bounds it from above.
    assert found == {1e-5: 1.0, 5.55e-6: 1.1437, 1e-6: 1.1437}


def test_a_private_count_is_never_called_the_count() -> None:
    plan = fake_plan(data={"count_public": False, "records": 5000})
    text = to_markdown(fake_statement(plan))
    assert "declared size 5,000 records" in text and "count is public" not in text and "zero-out" not in text
    assert "add-remove with a private count" in text


@pytest.mark.parametrize(("epsilon", "mu", "percent"), [(1.0, 0.26805, "55 %"), (10.0, 2.00045, "84 %")])
def test_plain_words_of_a_gaussian(epsilon: float, mu: float, percent: str) -> None:
    point = fake_statement(fake_plan(guarantee={"epsilon": epsilon, "mu": mu}))["plain_words"]
    assert f"at most about {percent} of the time" in point["summary"]
    assert point["attacker_success"] == pytest.approx(0.5 + point["attacker_advantage"] / 2, abs=2e-4)


def test_plain_words_without_mu_use_the_bound() -> None:
    guarantee = {"epsilon": 1.0, "delta": 1e-5}
    assert advantage(guarantee) == pytest.approx((math.e - 1 + 2e-5) / (math.e + 1))
    assert advantage(guarantee, [[0.1, 0.0]]) == pytest.approx(0.1)
    assert advantage({"epsilon": 5000.0, "delta": 1e-5}) == 1.0
    point = fake_statement(fake_plan(guarantee={"mu": None, "epsilon": 9.0}))["plain_words"]
    assert "bound" in point["basis"]


def test_plain_words_of_an_attacker_who_is_nearly_certain() -> None:
    said = fake_statement(fake_plan(guarantee={"epsilon": 40.0, "mu": 6.0}))["plain_words"]["summary"]
    assert "more than 99 % of the time" in said and "at most" not in said


def test_plain_words_name_the_unit_and_the_relation() -> None:
    person = fake_plan(data={"unit": "person"}, guarantee={"unit": "person"})
    assert "whether one given person was used" in fake_statement(person)["plain_words"]["summary"]
    replace = fake_plan(guarantee={"relation": "replace-one"})
    assert "which of two candidates" in fake_statement(replace)["plain_words"]["summary"]


def test_points_that_do_not_apply_say_so() -> None:
    statement = fake_statement(fake_plan(data={"public": True}), account=None)
    for point in ("other_releases", "audit"):
        assert statement[point]["summary"].startswith("Does not apply: ")
    assert statement["declared_public"]["public_data"].startswith("Does not apply: ")
    plan = fake_plan()
    plan["deviations"], plan["second_opinion"], plan["paper"], plan["crossings"] = [], None, None, []
    bare = fake_statement(plan)
    assert bare["deviations"]["summary"].startswith("Does not apply")
    assert bare["accountant"]["second_opinion"].startswith("Does not apply")
    assert bare["accountant"]["paper"].startswith("Does not apply")
    assert bare["mechanisms"]["summary"].startswith("Does not apply")
    assert "Does not apply" in to_markdown(bare)


def test_events_tell_noise_and_bound() -> None:
    event = fake_statement()["mechanisms"]["events"][0]
    assert (event["sigma"], event["sensitivity"], event["sampling"], event["times"]) == (
        3.7306,
        1.0,
        "no subsampling",
        1,
    )
    assert "projected" in event["bound_enforced"]


def test_the_paper_figure_never_goes_without_its_warning() -> None:
    statement = fake_statement()
    assert statement["accountant"]["paper"]["note"].startswith("paper accounting, not a guarantee of this software: ")
    assert "paper accounting, not a guarantee of this software" in to_markdown(statement)


def test_other_runs_tell_listed_keys_alone() -> None:
    point = fake_statement()["other_releases"]
    assert point["runs"] == [{"run": "r1", "method": "dp-merf", "epsilon": 0.5, "delta": 1e-5}]
    assert "epsilon = 1.12" in point["summary"]


def test_no_other_run_means_none_in_this_ledger_since_its_date() -> None:
    account = {"runs": [], "epsilon_total": 1.0, "delta": 1e-5, "made": "2026-03-01"}
    said = fake_statement(account=account)["other_releases"]["summary"]
    assert said.startswith("No other run under the name of these data is recorded in this ledger, made on 2026-03-01; ")
    assert "whose date is not known" in fake_statement(account=account | {"made": None})["other_releases"]["summary"]


def test_data_without_a_name_have_no_other_runs_to_tell_of() -> None:
    point = fake_statement(account={"named": False})["other_releases"]
    assert point["summary"].startswith("Does not apply: these data came without a name") and point["runs"] == []


def test_configuration_hash() -> None:
    plan = public_plan(fake_plan())
    moved = public_plan(fake_plan(data={"name": "/elsewhere/of/ben/chest-scans"}))
    moved["settings"] = plan["settings"]
    assert configuration_hash(plan) == configuration_hash(moved)
    assert len(configuration_hash(plan)) == 64
    assert configuration_hash(plan) != configuration_hash(public_plan(fake_plan(settings={"features": 1001})))
    assert configuration_hash(plan) != configuration_hash(public_plan(fake_plan(guarantee={"epsilon": 2.0})))
    assert fake_statement()["reproducibility"]["configuration_hash"] == configuration_hash(plan)


def test_tuning_has_three_outcomes() -> None:
    assert fake_statement(tuning="Not charged: one run")["tuning"]["summary"] == "Not charged: one run"
    with pytest.raises(ValueError, match="Expected tuning to start with"):
        fake_statement(tuning="we tried a few")


@pytest.mark.parametrize("provenance", ["", "  ", None])
def test_public_data_need_provenance(provenance: str | None) -> None:
    with pytest.raises(InputError, match="provenance"):
        fake_statement(public_data={"name": "digits", "provenance": provenance})


def test_public_data_are_recorded_without_their_path() -> None:
    public = {"name": "/home/ann/public/faces", "provenance": "drawn by a program", "folder": "/home/ann"}
    recorded = fake_statement(public_data=public)["declared_public"]["public_data"]
    assert recorded == {"name": "faces", "provenance": "drawn by a program"}


def test_markdown_shows_every_point_and_escapes() -> None:
    text = to_markdown(fake_statement(fake_plan(data={"classes": ["a|b", "<script>", "[x](y)", "new\nline"]})))
    for number, title in enumerate(TITLES.values(), 1):
        assert f"## {number}. {title}\n" in text
    assert r"a\|b, &lt;script&gt;, \[x\](y), new line" in text


def test_an_audit_is_passed_on() -> None:
    statement = fake_statement(audit={"epsilon_lower": 0.4, "confidence": 0.999})
    assert statement["audit"]["epsilon_lower"] == 0.4 and "epsilon_lower: 0.4" in to_markdown(statement)


ON_CUDA = {"source": Noise(fast=True).source, "sampler": "x"}
ON_CPU = {"source": Noise().source, "sampler": "x"}


@pytest.mark.parametrize(
    ("device", "noise", "words"),
    [
        ("cpu", ON_CPU, "Audited on the device of the run."),
        ("cuda", ON_CUDA, "Audited on the device of the run."),
        ("cpu", ON_CUDA, "Audited on the CPU; the run was made on CUDA, whose path was not audited."),
        ("cuda", ON_CPU, "Audited on CUDA; the run was made on the CPU, whose path was not audited."),
    ],
)
def test_it_says_whether_the_path_of_the_run_was_audited(device, noise, words) -> None:
    statement = fake_statement(audit={"levels": [0], "verdict": "pass", "audited_on": device}, noise=noise)
    assert statement["audit"]["summary"].startswith(words) and statement["audit"]["audited_on"] == device
