"""What is shown before a run, and who may say yes to it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from sfumato import Budget, InputError, api
from sfumato.data import load
from sfumato.errors import OverBudget
from sfumato.flow.approval import Approval
from sfumato.flow.flow import carry_out
from sfumato.flow.make import labels_for, make_plan
from sfumato.flow.proposal import Proposal, cautions, hopeless, noise_to_signal, propose
from sfumato.flow.synthesize import Synthesis
from sfumato.ledger.store import default_path
from sfumato.methods.embedding.dp_merf import DPMERF
from sfumato.types import DataSpec

TINY = DPMERF(features=20, steps=2, batch=4, latent=4, width=8)


@pytest.fixture
def scans(tmp_path):
    """120 images of 60 persons in two classes, of which one is rare."""
    random = np.random.default_rng(0)
    path = tmp_path / "scans.npz"
    np.savez(
        path,
        images=random.integers(0, 256, (120, 8, 8), dtype=np.uint8),
        labels=np.array(["ill"] * 7 + ["well"] * 113),
        patient_id=np.arange(120) // 2,
    )
    return path


def proposed(path, budget=None, method=TINY, **options) -> Proposal:
    with load(str(path), **options) as box:
        plan = make_plan(method, box.spec, budget or Budget(epsilon=5))
        return propose(plan, box, None, made="images", useless=hopeless(plan))


def told(proposal: Proposal) -> str:
    return json.dumps(proposal.to_json())


def test_a_proposal_says_what_it_costs_and_where_and_makes_no_ledger(scans):
    rows = dict(proposed(scans).rows())
    assert str(default_path()) in rows["ledger"] and "new" in rows["ledger"]
    assert "which this run opens" in rows["cost"] and "epsilon 5" in rows["cost"]
    assert "ill, well" in rows["made public"] and "8x8" in rows["made public"] and "grey" in rows["made public"]
    assert "150 times" not in rows["guarantee"] and "148.4" not in rows["guarantee"]
    assert "149 times" in rows["guarantee"]  # e to the fifth, rounded up
    assert not default_path().exists()


def test_what_remains_is_that_of_the_account_before_and_after(scans):
    api.budget_of(str(scans), total=Budget(epsilon=9))
    before = default_path().read_bytes()
    account = proposed(scans).account
    assert default_path().read_bytes() == before
    assert account["remaining"] == pytest.approx(9) and account["cost"] == pytest.approx(5, rel=1e-6)
    api.synthesize(TINY, str(scans), Budget(epsilon=5), count=4, force=True)
    assert api.budget_of(str(scans))["remaining"] == pytest.approx(account["afterwards"], rel=1e-9)
    api.budget_of(str(scans), total=Budget(epsilon=20))
    assert "1 run so far" in dict(proposed(scans).rows())["cost"]


def test_accounts_that_share_records_are_not_spoken_of(scans, tmp_path):
    copy = tmp_path / "copy.npz"
    copy.write_bytes(scans.read_bytes())
    api.budget_of(str(scans), total=Budget(epsilon=9))
    api.synthesize(TINY, str(scans), Budget(epsilon=2), count=4, force=True)
    told = proposed(copy, Budget(epsilon=2)).account
    assert told["opened"] and told["account"] == str(copy) and told["remaining"] == 2.0 and told["runs"] == 0


def test_a_run_without_room_is_refused_before_it_is_audited(scans, monkeypatch):
    api.budget_of(str(scans), total=Budget(epsilon=1))
    monkeypatch.setattr("sfumato.flow.flow._audited", lambda task, device: pytest.fail("audited"))
    with pytest.raises(OverBudget, match="remains"):
        api.synthesize(TINY, str(scans), Budget(epsilon=5), force=True)


def test_nothing_that_is_shown_depends_on_pixels_labels_or_persons(tmp_path):
    said = []
    for seed, ill in ((0, 7), (1, 60)):
        path = tmp_path / str(seed) / "scans.npz"
        path.parent.mkdir()
        images = np.random.default_rng(seed).integers(0, 256, (120, 8, 8), dtype=np.uint8)
        labels = np.array(["ill"] * ill + ["well"] * (120 - ill))
        np.savez(path, images=images, labels=labels, patient=np.arange(120) // (seed + 1))
        said.append(told(proposed(path)).replace(str(path.parent), ""))
    assert said[0] == said[1]


def test_a_column_of_persons_that_is_not_used_is_pointed_out(scans):
    serious = proposed(scans).serious
    assert len(serious) == 1 and "--person patient_id" in serious[0]
    assert not proposed(scans, person="patient_id").serious


def test_equal_shares_are_a_choice_that_is_told(scans):
    assert any("equally often" in c.text for c in proposed(scans).cautions)
    measured = DPMERF(features=20, steps=2, batch=4, latent=4, width=8, labels="private:0.1")
    told = proposed(scans, method=measured)
    assert not any("equally often" in c.text for c in told.cautions)
    assert "for 10.0% of the budget" in dict(told.rows())["labels"]


def test_an_epsilon_that_holds_nobody_back_is_serious(scans):
    with load(str(scans), person="patient_id") as box:
        plan = make_plan(TINY, box.spec, Budget(epsilon=30))
        assert any("hardly holds" in c.text and c.serious for c in cautions(plan))


def test_hopeless_is_what_noise_drowns():
    def plan(records, epsilon, side=28):
        spec = DataSpec("scans", records, (1, side, side), ("a", "b", "c"))
        return make_plan(DPMERF(), spec, Budget(epsilon=epsilon))

    assert "60 records in 3 classes" in hopeless(plan(60, 100))
    assert "times the signal" in hopeless(plan(150, 1))
    assert hopeless(plan(5000, 1)) is None
    assert noise_to_signal(plan(5000, 1)) == pytest.approx(noise_to_signal(plan(10_000, 1)) * 2)
    assert noise_to_signal(plan(5000, 1, side=56)) == pytest.approx(noise_to_signal(plan(5000, 1)) * 2)


@pytest.mark.approved
@pytest.mark.parametrize(
    ("approval", "problem"),
    [
        (Approval(), "Too few data.*--force"),
        (Approval(yes=True), "Too few data.*--force"),
        (Approval(force=True), "patient_id.*--yes"),
        (Approval(force=True, ask=lambda proposal: False), "Not confirmed"),
        (Approval(yes=True, force=True), None),
        (Approval(force=True, ask=lambda proposal: True), None),
    ],
)
def test_who_may_say_yes(scans, tmp_path, approval, problem):
    with load(str(scans)) as box:
        task = Synthesis(TINY, make_plan(TINY, box.spec, Budget(epsilon=0.1)), count=4, out=tmp_path / "release")
        if problem is None:
            carry_out(task, box, api_run(), approval=approval)
            assert (tmp_path / "release" / "report.html").exists()
            return
        with pytest.raises(InputError, match=problem):
            carry_out(task, box, api_run(), approval=approval)
    assert not default_path().exists() and not (tmp_path / "release").exists()
    assert not os.path.exists(os.environ["SFUMATO_RUNS"]) or not os.listdir(os.environ["SFUMATO_RUNS"])


def api_run():
    from sfumato.run.run import Run

    return Run(device="cpu")


@pytest.mark.approved
def test_what_is_confirmed_has_a_time_and_a_run_that_is_resumed_is_not_asked_again(scans):
    asked = []

    def ask(proposal):
        asked.append(proposal)
        return True

    with load(str(scans)) as box:
        task = Synthesis(TINY, make_plan(TINY, box.spec, Budget(epsilon=5)), count=4)
        carry_out(task, box, api_run(), approval=Approval(force=True, ask=ask))
    assert len(asked) == 1 and asked[0].expected.seconds > 0 and "time" in dict(asked[0].rows())


def test_automatic_labels_are_measured_where_data_are_private():
    private = DataSpec("scans", 5000, (1, 28, 28), ("ill", "well"))
    public = DataSpec("mnist", 5000, (1, 28, 28), ("ill", "well"), public=True)
    assert labels_for("auto", private, Budget(epsilon=1)) == "private:0.01"
    assert labels_for("auto", DataSpec("scans", 2000, (1, 28, 28), ("a", "b")), Budget(epsilon=1)) == "private:0.035"
    assert labels_for("auto", DataSpec("scans", 100, (1, 28, 28), ("a", "b")), Budget(epsilon=1)) == "private:0.1"
    assert labels_for("auto", public, Budget(epsilon=1)) == "uniform"
    assert labels_for("auto", DataSpec("scans", 100, (1, 28, 28), ("a",)), Budget(epsilon=1)) == "uniform"
    assert labels_for("uniform", private, Budget(epsilon=1)) == "uniform"
