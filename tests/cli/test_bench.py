"""`sfumato bench`."""

from __future__ import annotations

import json

import pytest

from sfumato.bench import ENTRIES
from tests.cli.test_cli import call, refused


def said(*argv: str) -> str:
    status, out, err = call(*argv)
    assert status == 0, err
    return out


def test_the_list_tells_paper_state_and_last_run():
    entries = json.loads(said("bench", "--json"))
    assert [e["id"] for e in entries] == list(ENTRIES)
    one = entries[0]
    assert one["paper"].startswith("DataLens") and one["last"] and one["cells"] == 55
    text = said("bench")
    assert "datalens-table-1" in text and "CelebA-Hair is not here" in text and "survey-figure-1" in text


def test_a_table_shows_printed_values_beside_ours():
    text = said("bench", "datalens-table-1")
    assert "0.7123" in text and "datalens-paper-mnist-1" in text and "best of 8" in text
    value = json.loads(said("bench", "datalens-table-5", "--json", "--only", "fashion", "--only", "fetchsgd"))
    (cell,) = value["cells"]
    assert (
        cell["printed"] == 0.6387 and cell["results"][0]["machine"] and cell["sources"][0] == "datalens-table5-sketch"
    )


def test_the_taxonomy_is_listed():
    rows = json.loads(said("bench", "survey-table-1", "--json"))["rows"]
    assert {"approach", "state", "here"} <= set(rows[0])
    assert "DP-LDM" in said("bench", "survey-table-1")


def test_results_of_the_user_are_shown_as_theirs(tmp_path):
    number = {"mean": 0.99, "std": None, "values": [0.99]}
    row = {"recipe": "datalens-code-mnist-1", "data": "mnist", "epsilon": 1.0, "fixed": number}
    (tmp_path / "mine.json").write_text(json.dumps({"machine": "my desk", "results": [row]}))
    text = said("bench", "datalens-table-5", "--results", str(tmp_path))
    assert "0.9900" in text and "my desk, yours" in " ".join(text.split())


def test_a_tiny_run_is_made_once_and_shown(tmp_path, monkeypatch):
    runs = []
    monkeypatch.setattr("sfumato.bench.compressions.measure", lambda *a: runs.append(a) or {"all": 0.5})
    words = ("bench", "datalens-table-6", "--run", "--again", "--only", "celeba-hair", "--device", "cpu")
    for _ in range(2):
        value = json.loads(said(*words, "--results", str(tmp_path), "--json"))
    assert len(runs) == 6 and all(c["results"][0]["own"] for c in value["cells"])
    assert [p.name for p in tmp_path.iterdir()] == ["datalens-table-6.json"]


def test_a_figure_is_drawn(tmp_path):
    said("bench", "survey-figure-1", "--out", str(tmp_path / "new" / "a.svg"))
    assert "dp-merf" in (tmp_path / "new" / "a.svg").read_text()
    assert "--out FILE.svg" in said("bench", "datalens-figure-2").replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench", "datalens-table-99"), "There is no table or figure"),
        (("bench", "--run"), "Expected the name of a table"),
        (("bench", "datalens-table-1", "--data", "nowhere"), "Expected --data NAME:PATH"),
        (("bench", "datalens-table-1", "--run", "--data", "celeba-hair:/x"), "--provenance TEXT"),
        (("bench", "datalens-table-1", "--run", "--seeds", "0"), "--seeds"),
        (("bench", "datalens-table-1", "--count", "0"), "Expected --count from 1"),
        (("bench", "datalens-figure-2", "--out", "a.gif"), "FILE.svg or FILE.png"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words, says):
    assert says in refused(*words)


def test_a_broken_file_of_results_is_said_in_one_sentence(tmp_path):
    (tmp_path / "mine.json").write_text("not json")
    assert "mine.json is no file of results" in refused("bench", "--results", str(tmp_path))
