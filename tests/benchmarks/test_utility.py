"""What the grids of `benchmarks.utility` and `benchmarks.dpaf` ask for, and what they write."""

from __future__ import annotations

import argparse
import json
import sys

import pytest

from benchmarks import dpaf, utility
from sfumato.bench.results import load

NUMBER = {"fixed": 0.5, "paper": 0.6, "synthesis_s": 1.0, "classifier_s": 1.0}


def asked(*words: str) -> argparse.Namespace:
    ask = utility.options()
    ask.add_argument("--method", default="dp-merf")
    ask.add_argument("--recipe", nargs="*", default=[])
    ask.add_argument("--part")
    ask.add_argument("--only", nargs="*", default=[])
    return ask.parse_args(words)


def test_a_recipe_keeps_its_budget_and_published_value_unless_another_is_given():
    words = ("--recipe", "dpaf-tableXI-trans-d", "--data", "fairface:/x", "--public", "cifar10:/y")
    (own,) = utility.trials(asked(*words))
    assert own.budget.epsilon == 1.0 and own.called["published"] == 0.819 and own.public == "cifar10:/y"
    (other,) = utility.trials(asked(*words, "--epsilon", "10", "--set", "mu=4"))
    assert other.budget.epsilon == 10.0 and other.settings == {"mu": "4"} and other.method.settings()["mu"] == 4


def test_a_row_is_read_back_into_its_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "--data", "mnist:/secret/place"])
    given = asked("--recipe", "datalens-code-mnist-1", "--data", "mnist:/secret/place", "--set", "topk=100")
    (trial,) = utility.trials(given)
    out = tmp_path / "a.json"
    utility.write(str(out), "benchmarks.utility", {"topk": "100"}, [trial.row([NUMBER, NUMBER])])
    (result,) = load(out)
    assert (result.recipe, result.data, result.epsilon) == ("datalens-code-mnist-1", "mnist", 1.0)
    assert result.settings == {"topk": "100"} and result.seeds() == 2 and result.date
    assert "secret" not in out.read_text()
    row = json.loads(out.read_text())["results"][0]
    assert {"data", "recipe", "published", "epsilon", "delta", "fixed", "paper", "synthesis_s", "classifier_s"} <= set(
        row
    )


@pytest.mark.parametrize(("part", "rows"), [("main", 16), ("ablations", 10), ("large", 1)])
def test_the_parts_of_dpaf_are_made_of_recipes(part, rows):
    found = list(dpaf.trials(asked("--part", part, "--data", "fairface:/x", "--count", "28000")))
    assert len(found) == rows and len({json.dumps(t.called) + str(t.budget.epsilon) for t in found}) == rows
    assert all(t.size == (128 if part == "large" else None) and t.settings["count"] == "28000" for t in found)
    assert [t.called["row"] for t in dpaf.trials(asked("--part", "main", "--only", "pearl"))] == ["pearl", "pearl"]
