"""What was measured of a method, read from the results that ship."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato.bench.measured import measured
from sfumato.bench.results import SHIPPED, load
from sfumato.methods import names


def rows(folder: Path, *some: dict) -> list:
    path = folder / "some.json"
    base = {"method": "dp-merf", "data": "mnist", "epsilon": 1.0}
    path.write_text(json.dumps({"machine": "here", "command": "made so", "results": [base | row for row in some]}))
    return load(path)


def number(*values: float) -> dict:
    return {"mean": sum(values) / len(values), "std": 0.1 if len(values) > 1 else None, "values": list(values)}


@pytest.mark.parametrize("name", names())
def test_every_method_has_results_that_ship(name):
    lines = measured(name)
    assert lines and all(0 < line["accuracy"] < 1 and line["seeds"] >= 1 and line["command"] for line in lines)
    assert len({(x["data"], x["epsilon"], x["network"], x["recipe"]) for x in lines}) == len(lines)


def test_a_line_tells_what_the_file_says(tmp_path):
    took = {"mean": 12.5, "std": None, "values": [12.5]}
    told = {"fixed": number(0.5, 0.7), "synthesis_s": took, "network": "wrn", "settings": {"steps": 3}}
    (line,) = measured("dp-merf", rows(tmp_path, told))
    assert (line["accuracy"], line["spread"], line["seeds"], line["network"]) == (0.6, 0.1, 2, "wrn")
    assert (line["seconds"], line["machine"], line["settings"]) == (12.5, "here", {"steps": "3"})
    assert measured("pearl", rows(tmp_path, told)) == []


def test_without_a_time_nothing_is_said_of_it(tmp_path):
    (line,) = measured("dp-merf", rows(tmp_path, {"fixed": number(0.5)}))
    assert line["seconds"] is None and line["network"] == "cnn"


def test_most_seeds_then_fewest_changes_and_not_the_best_accuracy(tmp_path):
    once, changed = {"fixed": number(0.9)}, {"fixed": number(0.8, 0.8), "settings": {"steps": 3}}
    plain = {"fixed": number(0.4, 0.6)}
    assert [line["accuracy"] for line in measured("dp-merf", rows(tmp_path, once, changed, plain))] == [0.5]
    assert [line["accuracy"] for line in measured("dp-merf", rows(tmp_path, plain, changed, once))] == [0.5]


def test_a_recipe_s_result_is_of_its_method_and_has_its_own_line(tmp_path):
    code = {"fixed": number(0.5), "recipe": "dp-merf-code-mnist-1", "method": ""}
    lines = measured("dp-merf", rows(tmp_path, code, {"fixed": number(0.6)}))
    assert [line["recipe"] for line in lines] == ["", "dp-merf-code-mnist-1"]
    assert {line["recipe"] for line in measured("kernel-votes")} >= {"datalens-ours-mnist-1"}


@pytest.mark.parametrize(
    "row",
    [
        {"as_printed": True},
        {"epsilon": None},
        {"settings": {"gone": "1"}},
        {"recipe": "of-another-version"},
    ],
)
def test_what_is_not_private_or_of_an_earlier_version_is_left_out(row, tmp_path):
    assert measured("dp-merf", rows(tmp_path, {"fixed": number(0.5)} | row)) == []


def test_rows_of_the_house_are_judged_by_test_images():
    for path in SHIPPED.glob("house-*.json"):
        assert all(
            row["held"] == 0 and row["league"] == "resembling" for row in json.loads(path.read_text())["results"]
        )
