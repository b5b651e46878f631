"""How a table looks."""

from __future__ import annotations

import json
from pathlib import Path

from sfumato.bench import find
from sfumato.bench.layout import laid_out, number, pivot
from sfumato.bench.results import Result, load, read
from sfumato.bench.view import described


def results(folder: Path) -> list[Result]:
    """One of the paper's settings and one of ours, as if nothing else had been measured."""
    number = {"mean": 0.1818, "std": 0.0778, "values": [0.1268, 0.2368]}
    rows = [
        {"recipe": f"datalens-{kind}-mnist-1", "data": "mnist", "epsilon": 1.0, "fixed": number, "settings": settings}
        for kind, settings in (("paper", {"precision": "bfloat16"}), ("ours", {"steps": 3}))
    ]
    (folder / "a.json").write_text(json.dumps({"machine": "a desk", "torch": "2", "results": rows}))
    return load(folder / "a.json")


def test_the_printed_value_stands_beside_ours_with_its_source(tmp_path):
    laid = laid_out(described(find("datalens-table-1"), results(tmp_path)))
    first = next(line for line in laid["lines"] if line[1] == "DataLens")
    ours = laid["lines"][laid["lines"].index(first) + 1]
    assert first[2] == "0.7123" and first[3] == "0.1818 ± 0.0778" and ours[:3] == ["", "", ""]
    notes = {n.split("  ")[0]: n for n in laid["notes"]}
    assert "datalens-paper-mnist-1, with precision=bfloat16, 2 seeds, yours" in notes[first[-1]]
    assert "datalens-ours-mnist-1, changed: steps=3" in notes[ours[-1]]
    assert any("best of 600" in n for n in laid["notes"]) and "Machine, unless said: a desk, torch 2." in laid["notes"]


def test_a_row_is_named_once_and_a_missing_cell_says_so():
    laid = laid_out(described(find("dpaf-table-10"), []))
    assert [line[0] for line in laid["lines"]].count("CelebA-Gender, 1") == 1
    assert {line[3] for line in laid["lines"]} == {"not run", "-"}


def test_a_page_has_the_paper_s_shape_and_marks_what_is_as_it_asks(tmp_path):
    columns, lines = pivot(described(find("datalens-table-1"), results(tmp_path)))
    row = next(line for line in lines if line[0] == "MNIST, 1")
    assert row[columns.index("DataLens")] == "0.7123; **0.1818**" and row[columns.index("DP-GAN")] == "0.4036"
    assert len(pivot(described(find("datalens-table-4"), []))[0]) == 5  # turned: sets are the columns


def test_our_numbers_are_in_the_unit_of_the_paper():
    laid = laid_out(described(find("datalens-table-8"), read()))
    line = next(line for line in laid["lines"] if line[1] == "GM-DP" and line[2].startswith("95.41"))
    assert line[2] == "95.41 ± 0.26" and 90 < float(line[3].split()[0]) < 100


def test_numbers_are_written_as_the_papers_do():
    assert number(298, None, 0) == "298" and number(0.5, 0.125, 2) == "0.50 ± 0.12" and number(None, None, 2) == "x"
