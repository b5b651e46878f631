"""How a table looks."""

from __future__ import annotations

from sfumato.bench import find
from sfumato.bench.layout import laid_out, number
from sfumato.bench.results import read
from sfumato.bench.view import described


def test_the_printed_value_stands_beside_ours_with_its_source():
    laid = laid_out(described(find("datalens-table-1"), read()))
    lines = [line for line in laid["lines"] if line[1] == "DataLens"]
    first = lines[0]
    assert first[2] == "0.7123" and first[3] == "0.1818 ± 0.0778"
    note = next(n for n in laid["notes"] if n.startswith(f"{first[-1]}  "))
    assert "datalens-paper-mnist-1" in note and "precision=bfloat16" in note and "2 seeds" in note
    assert any("best of 600" in n for n in laid["notes"])
    assert any(n.startswith("Machine, unless said: NVIDIA H200") for n in laid["notes"])


def test_a_row_is_named_once_and_a_missing_cell_says_so():
    laid = laid_out(described(find("dpaf-table-10"), read()))
    assert [line[0] for line in laid["lines"]].count("CelebA-Gender, 1") == 1
    assert {line[3] for line in laid["lines"]} == {"not run", "-"}


def test_our_numbers_are_in_the_unit_of_the_paper():
    laid = laid_out(described(find("datalens-table-8"), read()))
    line = next(line for line in laid["lines"] if line[1] == "GM-DP" and line[2].startswith("95.41"))
    assert line[2] == "95.41 ± 0.26" and 90 < float(line[3].split()[0]) < 100


def test_numbers_are_written_as_the_papers_do():
    assert number(298, None, 0) == "298" and number(0.5, 0.125, 2) == "0.50 ± 0.12" and number(None, None, 2) == "x"
