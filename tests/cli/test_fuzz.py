"""Whatever is typed, no traceback reaches a user, and an exit status says what happened."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.test_cli import call

FINE = {
    "--epsilon": ["1", "0.5", "10"],
    "--delta": ["1e-5", "1e-9", "0.01"],
    "--records": ["60000", "10", "1"],
    "--shape": ["1x28x28", "3x32x32", "1x1x1", "3X8X8"],
    "--classes": ["10", "1", "3"],
    "--relation": ["add-remove", "replace-one"],
    "--unit": ["record", "person"],
    "--set": ["features=50", "steps=1", "bandwidth=1e-3", "width=8", "learning_rate=1e9"],
    "--labels": ["uniform"],
}
ODD = {
    "--epsilon": ["0", "-1", "nan", "inf", "1e-300", "1e308", "1e-3", "1e3", "one", ""],
    "--delta": ["0", "1", "nan", "-0.1", "1e-320", "1e-15", "0.999", "2"],
    "--records": ["0", "-5", "1" * 30, "1e3", "ten"],
    "--shape": [
        "28x28",
        "2x8x8",
        "1x0x8",
        "axbxc",
        "1x-8x-8",
        "",
        "x",
        "1x8x8x8",
        "1x99999999999999999999x1",
        "1x٣x3",
        "1x²x3",
        "1x1x" + "9" * 5000,
        "1x1.5x2",
    ],
    "--classes": ["0", "-1", "1" * 12, "many"],
    "--relation": ["swap", "", "ADD-REMOVE"],
    "--unit": ["planet", "Person"],
    "--set": [
        "features",
        "=",
        "features=",
        "features=3",
        "a=b",
        "features=1e3",
        "learning_rate=nan",
        "learning_rate=inf",
        "steps=" + "9" * 5000,
        "features=50",
        "labels=x",
        "epsilon=3",
        "__class__=x",
        "bandwidth=-inf",
    ],
    "--labels": ["private:", "private:0", "private:nan", "nowhere.csv", "", "\0", "private:0.0000001"],
    "--data": ["/no/such", "digits:x", "", "mnist:", "fashion-mnistt", "\0", "\udcff"],
    "--size": ["0", "-1", "28", "99999999"],
    "--person": ["who", ""],
    "--method": ["nope", "", "\udcff", "dp-merf"],
    "--nope": ["1"],
}


# No path can come of it: a fuzz test has no business in the folders of the machine.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/.~"), max_size=6)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@st.composite
def plans(draw: st.DrawFn) -> list[str]:
    """A `plan` that is sound but for a few odd parts."""
    chosen = {
        flag: draw(st.sampled_from(values)) for flag, values in FINE.items() if flag in NEEDED or draw(st.booleans())
    }
    for flag in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=2)):
        chosen[flag] = draw(st.sampled_from(ODD[flag]) | TEXT)
    argv = [part for flag, value in chosen.items() for part in (flag, value)]
    dropped = draw(st.integers(0, 3 * len(argv)))
    method = [] if "--method" in chosen else ["--method", "dp-merf"]
    extra = draw(st.lists(st.sampled_from(["--json", "--private-count", "--grey", "--"]), max_size=2))
    return ["plan", *method, *argv[:dropped], *argv[dropped + 1 :], *extra]


NEEDED = ("--epsilon", "--records", "--shape", "--classes")
WORDS = st.sampled_from(
    [
        "methods",
        "sample",
        "refit",
        "budget",
        "--json",
        "--out",
        "/no/such",
        "--count",
        "-1",
        "5",
        "--label",
        "3",
        "--seed",
        "x",
        "--total",
        "nan",
        "1e999",
        "--",
        "-h",
        "--version",
        "",
        "--ledger",
        "/dev/null",
    ]
)


def check(argv: list[str]) -> None:
    status, out, err = call(*argv)
    assert status in (0, 2, 3), (argv, err)
    assert "Traceback" not in out + err
    assert status == 0 or err.startswith("error: ") or not argv
    if "--json" in argv and out and not {"-h", "--help", "--version"} & set(argv):
        json.loads(out)


FUZZ = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@settings(max_examples=200, **FUZZ)
@given(plans())
def test_plan_never_breaks(argv):
    check(argv)


@settings(max_examples=100, **FUZZ)
@given(st.lists(WORDS | TEXT, max_size=7), st.sampled_from(["sample", "refit", "budget", "methods"]))
def test_other_verbs_never_break(words, verb):
    check([verb, *words])


@pytest.mark.slow
@settings(max_examples=1000, **FUZZ)
@given(plans())
def test_plan_never_breaks_in_a_thousand_cases(argv):
    check(argv)


@pytest.mark.slow
@settings(max_examples=1000, **FUZZ)
@given(st.lists(WORDS | TEXT, max_size=7), st.sampled_from(["sample", "refit", "budget", "methods"]))
def test_other_verbs_never_break_in_a_thousand_cases(words, verb):
    check([verb, *words])
