"""`sfumato federate` from a terminal: a trial of all sites, and one sentence for what is missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato.cli import run
from tests.federation.houses import RECORDS, split

PLAN = """
data: {name: scans, shape: [1, 8, 8], classes: ["0", "1", "2"]}
sites: {north: {records: 40}, south: {records: 17}, isle: {records: 3}}
method: dp-merf
settings: {features: 20, steps: 2, batch: 4, width: 8}
labels: uniform
epsilon: 5
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A plan file, and the records of each site."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "data").mkdir()
    for name, (images, labels) in split().items():
        np.savez(tmp_path / "data" / f"{name}.npz", images=images, labels=labels)
    return tmp_path


def call(capsys, *words):
    status = run(["federate", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_trial_of_all_sites_writes_a_release_that_verifies(house, capsys):
    status, out, err = call(capsys, "simulate", "plan.yaml", "--data", "data", "--count", "6", "--json")
    assert status == 0, err
    assert json.loads(out)["guarantee"]["epsilon"] <= 5
    statement = json.loads((house / "release" / "privacy.json").read_text())
    assert statement["guarantee"]["model"].startswith("federated: 3 sites hold their own records and add shares")
    assert statement["guarantee"]["federated"]["sites"] == list(RECORDS)
    assert "every site keeps an account of its own" in statement["other_releases"]["summary"]
    assert "shares of 3 sites" in statement["randomness"]["source"]
    assert run(["verify", "release"]) == 0
    assert not list(house.glob(".*.federation"))


def test_the_plan_is_shown_before_anything_is_spent(house, capsys):
    status, out, _ = call(capsys, "plan", "plan.yaml")
    assert status == 0 and "isle" in out and "in shares of 1/3" in out
    shown = json.loads(call(capsys, "plan", "plan.yaml", "--json")[1])
    assert shown["shares"] == 3 and len(shown["agreement"]) == 64


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lead", "plan.yaml"), "Expected a role, found 'lead'"),
        (("plann", "plan.yaml"), "did you mean plan?"),
        (("plan", "other.yaml"), "other.yaml cannot be read"),
        (("simulate", "plan.yaml"), "Expected --data DATA with `federate simulate`"),
        (("simulate", "plan.yaml", "--data", "."), "has no data of the site north"),
        (("simulate", "plan.yaml", "--data", "data", "--timeout", "0"), "Expected --timeout above 0"),
        (("site", "plan.yaml", "--data", "data"), "Expected --name NAME with `federate site`"),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_spent(house, capsys, words, says):
    status, _, err = call(capsys, *words)
    assert status == 2 and says in " ".join(err.split())
