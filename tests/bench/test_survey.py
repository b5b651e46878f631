"""The survey's taxonomy beside the registry."""

from __future__ import annotations

from collections import Counter

from sfumato.bench import survey
from sfumato.methods.registry import find, names


def test_every_approach_of_the_table_is_named_with_its_state():
    rows = survey.rows()
    assert len(rows) == 35
    counts = Counter(row["state"] for row in rows)
    assert set(counts) == {"runs", "recipe", "half", "missing", "refused"}
    assert counts["refused"] == 2 and counts["runs"] >= 18
    assert all(row["here"] and not row["here"].startswith("none") for row in rows)


def test_methods_sit_where_the_survey_puts_them():
    for *_, ours in survey.printed():
        if ours in names():
            printed = next(row[1] for row in survey.printed() if row[-1] == ours)
            assert find(ours).site.name == printed, ours


def test_printed_rows():
    by_name = {row[0]: row for row in survey.printed()}
    assert by_name["DP-SWD (Rakotomamonjy and Ralaivola 2021)"][2:6] == (
        "replace-one",
        "smooth",
        "distribution matching",
        "Gaussian",
    )
    assert by_name["DataLens (Wang et al. 2021)"][2:6] == ("both", "global/local", "GAN", "PATE")
    assert by_name["DP-LFlow (Jiang and Sun 2023)"][1:5] == ("B4", "add-remove", "global", "flow")


def test_a_method_that_is_not_here_is_missing():
    assert survey.state("no-such-method") == ("missing", "no method no-such-method here")
