"""What leaves about other runs on the same data: nothing that a single record decides."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sfumato import DPMERF, Budget, OverBudget, Relation, load, synthesize
from sfumato.api import budget_of, verify
from sfumato.errors import SfumatoError
from sfumato.ledger.store import Ledger
from tests.made_up import arrays

TINY = {"features": 40, "steps": 4, "batch": 4, "latent": 4, "width": 8}
TEXTS = (".json", ".md", ".html", ".jsonld", ".yaml", ".txt", ".csv", ".cff")


def texts(folder: Path) -> dict[str, str]:
    """Every document of a release, without what comes of noise: identities, hashes and pictures."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in TEXTS):
        text = re.sub(r"data:[a-z/+-]+;base64,[A-Za-z0-9+/=]+", "PICTURE", path.read_text())
        found[str(path.relative_to(folder))] = re.sub(r"\b[0-9a-f]{16,64}\b", "HASH", text)
    return found


def files(root: Path, shared: bool) -> tuple[Path, Path]:
    """Two sets, of which the second has one record of the first, or another one in its place."""
    first, labels = arrays(60)
    second, _ = arrays(60, seed=1)
    if shared:
        second[0] = first[0]
    for name, images in (("first", first), ("second", second)):
        np.savez(root / f"{name}.npz", images=images, labels=labels)
    return root / "first.npz", root / "second.npz"


def shown_of(data) -> list[dict[str, object]]:
    """What the custodian sees: every account of the data."""
    shown = budget_of(data)
    return [shown, *shown["others"]]


def refused(*arguments, **options) -> str:
    with pytest.raises(SfumatoError) as caught:
        synthesize(*arguments, count=3, **options)
    return f"{type(caught.value).__name__} {caught.value.exit_code}: {caught.value}"


def told(root: Path, shared: bool, totals: bool) -> dict[str, object]:
    """All that an analyst gets to see who works with the second set, after a run on the first."""
    first, second = files(root, shared)
    ledger = root / f"ledger-{shared}.sqlite"
    if totals:
        budget_of(second, total=Budget(3.0), ledger=ledger)
    budget_of(first, total=Budget(6.0), ledger=ledger)
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3, ledger=ledger)
    seen: dict[str, object] = {}
    for number, epsilon in enumerate((1.0, 0.5) if totals else (1.0,)):
        out = root / f"{shared}-{number}" / "release"
        synthesize(DPMERF(**TINY), second, Budget(epsilon), count=3, ledger=ledger, out=out)
        assert verify(out).ok
        seen[f"release {number}"] = texts(out)
    seen["refusal"] = refused(DPMERF(**TINY), second, Budget(2.9), ledger=ledger)
    seen["relation"] = refused(DPMERF(**TINY), second, Budget(9.0, relation=Relation.REPLACE_ONE), ledger=ledger)
    return seen


@pytest.mark.parametrize("totals", [True, False])
def test_documents_and_refusals_are_the_same_with_a_shared_record_and_without(tmp_path, totals):
    one, other = told(tmp_path, True, totals), told(tmp_path, False, totals)
    assert len(one["release 0"]) > 3  # type: ignore[arg-type]
    assert one == other
    assert "second.npz" in str(one["refusal"]) and "first.npz" not in str(one)


def test_the_statement_counts_the_runs_of_its_own_name_alone(tmp_path):
    first, second = files(tmp_path, shared=True)
    budget_of(second, total=Budget(3.0))
    budget_of(first, total=Budget(6.0))
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3)
    alone = synthesize(DPMERF(**TINY), second, Budget(1.0), count=3).statement["other_releases"]
    assert alone["runs"] == [] and alone["epsilon_total"] == pytest.approx(1, rel=1e-6)
    made = Ledger(None).made
    words = "No other run under the name of these data is recorded in this ledger, "
    assert alone["summary"].startswith(f"{words}made on {made}; ") and alone["made"] == made
    second_run = synthesize(DPMERF(**TINY), second, Budget(1.0), count=3).statement["other_releases"]
    assert len(second_run["runs"]) == 1 and second_run["epsilon_total"] == pytest.approx(1.466, abs=2e-3)
    assert second_run["summary"].startswith("1 other run under the name of these data is recorded")
    # The custodian sees all of them.
    assert sorted(len(one["history"]) for one in shown_of(second)) == [3, 3]


def test_another_account_without_room_refuses_in_one_sentence_that_names_nothing(tmp_path):
    first, second = files(tmp_path, shared=True)
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3)  # uses the first one's account up
    said = refused(DPMERF(**TINY), second, Budget(0.7))
    assert said.startswith("OverBudget 3: ") and "`sfumato budget DATA`" in said
    assert "first" not in said and not re.search(r"epsilon|delta|\d", said.removeprefix("OverBudget 3: "))
    assert [len(one["history"]) for one in shown_of(second)] == [1]  # nothing was spent or opened


def test_an_account_of_another_unit_refuses_in_the_same_sentence(tmp_path):
    first, second = files(tmp_path, shared=True)
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3)
    full = refused(DPMERF(**TINY), second, Budget(0.7))
    images, labels = arrays(60)
    people = load((images, labels, np.arange(60)))
    other = tmp_path / "other.sqlite"
    synthesize(DPMERF(**TINY), people, Budget(1.0, unit="person"), count=3, ledger=other)
    assert refused(DPMERF(**TINY), second, Budget(0.7), ledger=other) == full


def test_data_without_a_name_are_told_nothing_about(tmp_path):
    """Arrays go by their content, so that even an account of the same name would tell of one record."""
    images, labels = arrays(60)
    budget_of((images, labels), total=Budget(3.0))
    synthesize(DPMERF(**TINY), (images, labels), Budget(1.0), count=3)
    seen = [
        synthesize(DPMERF(**TINY), (images[:n], labels[:n]), Budget(0.5), count=3, out=tmp_path / f"{n}")
        for n in (60, 59)
    ]
    points = [release.statement["other_releases"] for release in seen]
    assert points[0] == points[1] and points[0]["runs"] == [] and "epsilon_total" not in points[0]
    assert verify(tmp_path / "59").ok
    said = [refused(DPMERF(**TINY), (images[:n], labels[:n]), Budget(2.9)) for n in (60, 59)]
    assert said[0] == said[1] and "arrays" not in said[0] and not re.search(r"epsilon \d", said[0])


def test_a_name_shared_by_other_data_is_said_of_all(tmp_path):
    """The advice to rename did depend on whether a record of the earlier data is still there."""
    images, labels = arrays(60)
    said = []
    for kept in (1, 0):
        ledger = tmp_path / f"ledger-{kept}"
        np.savez(tmp_path / "scans.npz", images=images, labels=labels)
        synthesize(DPMERF(**TINY), tmp_path / "scans.npz", Budget(1.0), count=3, ledger=ledger)
        later, _ = arrays(60, seed=1)
        later[:kept] = images[:kept]
        np.savez(tmp_path / "scans.npz", images=later, labels=labels)
        said.append(refused(DPMERF(**TINY), tmp_path / "scans.npz", Budget(1.0), ledger=ledger))
    assert said[0] == said[1] and "rename" in said[0]


def test_the_custodian_is_shown_the_accounts_met_through_records(tmp_path):
    first, second = files(tmp_path, shared=True)
    budget_of(first, total=Budget(6.0))
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3)
    synthesize(DPMERF(**TINY), second, Budget(1.0), count=3)
    assert {one["account"] for one in shown_of(second)} == {str(first), str(second)}


def test_over_budget_is_raised_before_the_ledger_changes(tmp_path):
    first, second = files(tmp_path, shared=True)
    ledger = tmp_path / "l"
    synthesize(DPMERF(**TINY), first, Budget(1.0), count=3, ledger=ledger)
    before = ledger.read_bytes()
    with pytest.raises(OverBudget):
        synthesize(DPMERF(**TINY), second, Budget(0.5), count=3, ledger=ledger)
    assert ledger.read_bytes() == before
