"""The file that all agree to: the same plan everywhere, and one sentence for what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.accounting.gaussian import epsilon_of
from sfumato.errors import InputError
from sfumato.federation.agreement import read
from tests.federation.houses import RECORDS, agreement

GOOD = """
data: {name: scans, shape: [1, 8, 8], classes: [a, b, c]}
sites:
  north: {records: 40}
  south: {records: 17}
  isle: {records: 3}
method: kernel-votes
settings: {teachers: 10, steps: 3}
labels: uniform
epsilon: 1
delta: 1e-6
dropouts: 1
"""


def told(tmp_path, old="", new=""):
    path = tmp_path / "plan.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new) if old else GOOD + new)
    return read(path)


def test_a_file_is_read_into_a_plan_with_noise_in_shares(tmp_path):
    found = told(tmp_path)
    assert found.records == RECORDS and found.spec.records == 60 and found.delta == 1e-6
    assert (found.least, found.shares, found.made.teachers) == (2, 2, 10)
    assert found.plan.epsilon() == pytest.approx(1.0, rel=1e-3)
    assert found.plan.facts["federated"]["log10_of_shares"] < -50
    assert replace(found, trust="trusted").plan.facts["federated"]["log10_of_shares"] is None


def test_two_agreements_differ_by_any_fact(tmp_path):
    one = told(tmp_path)
    assert told(tmp_path).digest == one.digest
    others = ({"dropouts": 0}, {"trust": "trusted"}, {"colluders": 1}, {"teachers": {**RECORDS}}, {"delta": 1e-5})
    for changes in others:
        assert replace(one, **changes).digest != one.digest


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("method: kernel-votes", "method: kernel-vote", "did you mean kernel-votes"),
        ("method: kernel-votes\n", "", "has no 'method'; add"),
        ("epsilon: 1", "epsilon: much", "has epsilon: 'much'; write a number"),
        ("epsilon: 1", "epsilon: -1", "epsilon"),
        ("dropouts: 1", "dropout: 1", "did you mean dropouts"),
        ("dropouts: 1", "dropouts: 3", "Expected an honest site that answers"),
        ("dropouts: 1", "dropouts: 1\ncolluders: 2", "Expected an honest site that answers"),
        ("dropouts: 1", "trust: nobody", "Expected trust as curious or trusted"),
        ("dropouts: 1", "persons_at_most: 4", "from 1 to 3, the number of sites"),
        ("{records: 3}", "{records: few}", "records of isle: 'few'; write a whole number from 1"),
        ("{records: 3}", "3", "site isle: 3; write lines"),
        ("{records: 3}", "{records: 3, teachers: 1}", "for all or for none"),
        ("  south: {records: 17}\n  isle: {records: 3}\n", "", "at least 2 sites with trust: curious"),
        ("shape: [1, 8, 8]", "shape: 8", "has shape: 8; write"),
        ("shape: [1, 8, 8]", "shape: [2, 8, 8]", "cannot be kept"),
        ("classes: [a, b, c]", "classes: 3", "has classes: 3; write a list of names"),
        ("classes: [a, b, c]", "classes: [a], unit: house", "record or person"),
        ("classes: [a, b, c]", "classes: [a], count_public: 3", "yes or no"),
        ("settings: {teachers: 10, steps: 3}", "settings: 3", "has settings: 3; write"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_sentence(tmp_path, old, new, says):
    with pytest.raises(InputError, match=says):
        _ = told(tmp_path, old, new).plan


def test_noise_that_cannot_come_in_shares_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match="crossing 'labels' of kernel-votes cannot be federated: a share .* trusted"):
        _ = replace(told(tmp_path), labels="private:0.5", epsilon=10.0).plan


def test_a_method_that_asks_for_no_sum_is_refused():
    with pytest.raises(InputError, match="dp-sinkhorn cannot be federated: it is one value of a whole sample"):
        _ = agreement("dp-sinkhorn").plan


def test_noise_that_goes_on_from_earlier_noise_is_refused():
    with pytest.raises(InputError, match="dpdm cannot be federated: its noise goes on .* take bands=1"):
        _ = agreement("dpdm", settings={"steps": 4, "batch": 2, "bands": 2, "embedding_share": 0}).plan


def test_teachers_follow_the_records_and_every_site_has_one():
    assert agreement().parts(10) == {"north": 6, "south": 3, "isle": 1}
    assert agreement().parts(3) == dict.fromkeys(RECORDS, 1)
    assert agreement(teachers={"north": 1, "south": 2, "isle": 3}).parts(6) == {"north": 1, "south": 2, "isle": 3}
    with pytest.raises(InputError, match="at least 3 teachers"):
        agreement().parts(2)
    with pytest.raises(InputError, match="60 teachers"):
        agreement(teachers=RECORDS).parts(6)


@pytest.mark.parametrize("k", [2, 3])
def test_a_person_at_several_sites_has_the_stated_guarantee(k):
    """Of a Gaussian, k records move the sum k times as far; the group's guarantee must be within what was asked."""
    agreed = agreement(persons_at_most=k)
    assert epsilon_of(agreed.delta, k * agreed.plan.guarantee()["mu"]) <= agreed.epsilon
    assert f"a person at up to {k} sites has epsilon 5" in agreed.plan.warnings[-1]
