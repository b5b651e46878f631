"""DataLens taken apart: rows are found by the names that result files have."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.datalens_parts import ROWS, chosen

HELD = Path(__file__).parents[2] / "benchmarks" / "results" / "datalens-mended-held-h200.json"


def test_the_commands_of_the_held_out_rows_ask_for_those_rows():
    for part in json.loads(HELD.read_text())["parts"]:
        asked = part["command"].split("--only ")[1].split(" --")[0].split()
        assert list(chosen(asked, [])) == [row["row"] for row in part["results"]]
        assert {row["judge"] for row in part["results"]} == {"held out"}


def test_a_variant_of_the_mended_recipe_differs_in_what_its_name_says():
    both = ROWS["mended, smooth generator, five updates"].items() - ROWS["mended"].items()
    assert dict(both) == {"generator": "conv", "width": 32, "updates": 5}
