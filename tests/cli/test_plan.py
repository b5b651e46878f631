"""`sfumato plan`."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_cli import DESCRIBED, PLAN, call, refused


def planned(*argv: object) -> dict:
    status, out, err = call(*PLAN, *argv, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_plan_needs_no_files():
    found = planned()
    assert found["guarantee"]["epsilon"] == pytest.approx(1) and found["guarantee"]["relation"] == "add-remove"
    (crossing,) = found["crossings"]
    assert crossing["sigma"] == pytest.approx(3.7306, abs=1e-3) and crossing["multiplier"] == pytest.approx(
        3.7306, abs=1e-3
    )
    assert {"name", "mechanism", "sigma", "sensitivity", "multiplier", "sampling", "times"} <= set(crossing)
    assert "not a guarantee" in found["paper"]["note"]


def test_plan_reads_like_a_page():
    status, out, err = call(*PLAN)
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    for words in (
        "epsilon 1 at delta 1e-05",
        "add-remove",
        "exact Gaussian",
        "second opinion",
        "not a guarantee",
        "embedding",
    ):
        assert words in out


def test_plan_follows_its_flags():
    twice = planned("--relation", "replace-one")
    assert twice["crossings"][0]["sensitivity"] == pytest.approx(2 * planned()["crossings"][0]["sensitivity"])
    found = planned("--unit", "person", "--private-count", "--set", "features=50", "--delta", "1e-6")
    assert found["data"]["unit"] == "person" and not found["data"]["count_public"]
    assert found["settings"]["features"] == 50 and found["guarantee"]["delta"] == 1e-6
    assert [c["name"] for c in planned("--labels", "private:0.2")["crossings"]] != ["embedding"]


def test_plan_of_a_named_set():
    status, out, _ = call("plan", "--method", "dp-merf", "--epsilon", "1", "digits", "--json")
    found = json.loads(out)["data"]
    assert status == 0 and found["records"] == 1797 and found["public"] and found["shape"] == [1, 8, 8]


def test_plan_warns():
    status, out, _ = call(
        "plan",
        "--method",
        "dp-merf",
        "--epsilon",
        "1",
        "--records",
        "50",
        "--shape",
        "1x8x8",
        "--classes",
        "3",
        "--delta",
        "0.1",
    )
    assert status == 0 and "warning: Too few data" in out and "warning: delta=0.1 is above" in out


BASE = ("plan", "--method", "dp-merf", "--epsilon", "1")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (BASE, "give DATA, or --records N"),
        ((*BASE, "--records", "10"), "needs all of"),
        ((*BASE, "digits", "--shape", "1x8x8"), "not both"),
        ((*BASE, "digits", "--records", "10"), "--private-count"),
        ((*BASE, "digits", "--unit", "person"), "--person COLUMN"),
        ((*BASE, "/no/such/folder"), "/no/such/folder"),
        ((*PLAN, "--size", "28"), "goes with DATA"),
        ((*PLAN, "--unit", "planet"), "--unit as record or person"),
        ((*PLAN, "--relation", "swap"), "--relation as add-remove or replace-one"),
        ((*PLAN, "--set", "features"), "FIELD=VALUE"),
        ((*PLAN, "--set", "features=4", "--set", "features=6"), "twice"),
        ((*PLAN, "--set", "feature=4"), "found 'feature'"),
        ((*PLAN, "--set", "features=many"), "found 'many'"),
        ((*PLAN, "--labels", "private:2"), "FRACTION"),
        ((*PLAN, "--private-count", "--relation", "replace-one"), "--private-count"),
        ((*BASE, "--records", "0", "--shape", "1x8x8", "--classes", "2"), "--records from 1"),
        ((*BASE, "--records", "9", "--shape", "1x8", "--classes", "2"), "1xHxW"),
        ((*BASE, "--records", "9", "--shape", "1x8x99999", "--classes", "2"), "at most 4096"),
        ((*BASE, "--records", "9", "--shape", "round", "--classes", "2"), "--shape"),
        ((*BASE, "--records", "9", "--shape", "1x8x8", "--classes", "1000000000"), "--classes from 1"),
        (("plan", "--method", "nope", "--epsilon", "1", *DESCRIBED), "dp-merf"),
        (("plan", "--method", "dp-merf", "--epsilon", "0", *DESCRIBED), "--epsilon"),
        (("plan", "--method", "dp-merf", "--epsilon", "nan", *DESCRIBED), "--epsilon"),
        ((*PLAN, "--delta", "1"), "--delta"),
    ],
)
def test_plan_refuses(argv, words):
    assert words in refused(*argv)


def test_plan_explains_itself():
    status, out, err = call(*PLAN, "--explain")
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    for words in ("Crossing 'embedding'", "Together", "What is free", "The paper's claim", "Deviation: "):
        assert words in out
    found = planned("--explain")["explanation"]
    assert [section["title"] for section in found][1:] == ["Together", "What is free", "The paper's claim"]
    assert "explanation" not in planned()


def test_datalens_explains_its_theorems():
    status, out, _ = call("plan", "--recipe", "datalens-paper-mnist-1", "--explain", "--json")
    titles = {part["title"].split(":")[0]: part for part in json.loads(out)["explanation"]}
    assert status == 0 and {"Theorem 4", "Theorem 5", "Theorem 6", "Sign-SGD as a special case"} <= set(titles)
    assert {"f", "formula", "+1", "0", "-1", "sum"} == set(titles["Theorem 5"]["table"][0])
