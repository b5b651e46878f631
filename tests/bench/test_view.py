"""A table as plain values: states, reasons and commands."""

from __future__ import annotations

import json

import pytest

from sfumato.bench import ENTRIES, find
from sfumato.bench.results import read
from sfumato.bench.run import Asked
from sfumato.bench.table import Figure, Table
from sfumato.bench.view import STATES, described, overviews, shown
from sfumato.errors import InputError

RESULTS = read()


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if isinstance(e, Table)])
def test_every_cell_is_measured_or_says_what_it_wants(name):
    table = described(find(name), RESULTS)
    assert table["cells"] and json.dumps(table, allow_nan=True)
    for cell in table["cells"]:
        assert cell["state"] in STATES
        assert cell["state"] != "cannot" or cell["why"]
        assert bool(cell["results"]) == (cell["state"] in ("measured", "near"))


def test_the_list_has_every_table_and_figure_once():
    entries = overviews()
    assert [e["id"] for e in entries] == list(ENTRIES)
    assert {f"datalens-table-{n}" for n in range(1, 13)} | {f"dpaf-table-{n}" for n in range(1, 18)} <= set(ENTRIES)
    assert {"datalens-figure-2", "datalens-figure-3", "datalens-figure-4", "survey-table-1"} <= set(ENTRIES)
    for entry in (e for e in entries if "cells" in e):
        assert sum(entry[state] for state in STATES) == entry["cells"]


def test_a_set_that_is_not_here_names_the_command_that_runs_it():
    cells = described(find("dpaf-table-2"), RESULTS)["cells"]
    hair = next(c for c in cells if c["data"] == "celeba-hair")
    assert (
        hair["state"] == "cannot"
        and "sfumato bench dpaf-table-2 --run --data celeba-hair:PATH --provenance TEXT" in hair["why"]
    )
    given = described(find("dpaf-table-2"), RESULTS, {"celeba-hair": "celeba-hair:/x"})["cells"]
    assert next(c for c in given if c["data"] == "celeba-hair")["state"] == "open"


def test_the_table_of_settings_is_what_the_recipes_have():
    cells = described(find("datalens-table-11"), RESULTS)["cells"]
    assert all(c["results"][0]["values"]["setting"]["mean"] == c["printed"] for c in cells)


def test_diagrams_lead_to_pages_that_exist_in_the_repository():
    from pathlib import Path

    root = Path(__file__).parents[2]
    for entry in ENTRIES.values():
        if isinstance(entry, Figure) and entry.instead:
            assert (root / entry.instead).exists(), entry.instead


def test_what_cannot_be_drawn_is_refused(tmp_path):
    for name, says in (
        ("dpaf-table-2", "is a table"),
        ("dpaf-figure-1", "diagram"),
        ("datalens-figure-4", "add --run"),
    ):
        with pytest.raises(InputError, match=says):
            shown(name, Asked(tmp_path), tmp_path / "a.svg")
    with pytest.raises(InputError, match="did you mean"):
        find("datalens-tabel-1")
