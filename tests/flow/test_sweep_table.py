"""The table of a sweep: mean and spread over seeds, and a page that says what failed."""

from __future__ import annotations

import csv
import json

import pytest

from sfumato.flow.sweep_table import results, write_results


def run(seed, accuracy=None, epsilon=1.0, **more):
    asked = {"data": "digits", "method": "dp-merf", "settings": {"steps": "2"}, "epsilon": epsilon, "seed": seed}
    asked |= {"delta": 1e-5, "classifier": "linear", "judge": "held-out"}
    found = {"state": "done", "accuracy": accuracy, "seconds": 1.5} if accuracy is not None else {}
    return {"id": f"{epsilon}-{seed}", "asked": asked, "tries": 1} | found | more


RUNS = [
    run(0, 0.5),
    run(1, 0.7),
    run(0, 0.9, epsilon=10.0),
    run(1, epsilon=10.0, state="failed", why="killed <b>"),
    run(0, epsilon=0.1, state="refused", why="too little"),
]


def test_rows_have_mean_and_spread_over_seeds_best_first():
    found = results(RUNS)
    assert [row["epsilon"] for row in found["rows"]] == [10.0, 1.0, 0.1]
    spread = found["rows"][1]["accuracy"]
    assert spread["mean"] == pytest.approx(0.6) and spread["std"] == pytest.approx(0.1414, rel=1e-3)
    assert found["rows"][0]["accuracy"]["std"] is None and found["rows"][0]["seeds"] == 2
    assert found["rows"][2]["accuracy"] is None and found["rows"][2]["why"] == "too little"
    assert found["states"] == {"done": 3, "failed": 1, "refused": 1}


def test_table_and_page_are_written(tmp_path):
    write_results(tmp_path, results(RUNS))
    with open(tmp_path / "results.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 and rows[1]["accuracy"] == "0.7" and rows[0]["settings"] == "steps=2"
    assert rows[3]["state"] == "failed" and rows[3]["accuracy"] == ""
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 3
    page = (tmp_path / "comparison.html").read_text()
    assert "held out of the training set" in page and "<svg" in page and "60.0" in page
    assert "killed &lt;b&gt;" in page and "1 of 2" in page


def test_accuracies_of_different_sets_are_not_drawn_together(tmp_path):
    other = run(0, 0.4)
    other["asked"] = other["asked"] | {"data": "mnist"}
    write_results(tmp_path, results([*RUNS, other]))
    assert "<svg" not in (tmp_path / "comparison.html").read_text()
