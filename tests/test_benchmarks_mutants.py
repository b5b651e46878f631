"""The planted bugs of `benchmarks.mutants` still fit the source; a few of them are looked at from end to end."""

from __future__ import annotations

import pytest

from benchmarks.mutants.__main__ import choose, look_at, main
from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import KINDS, PACKAGE, Case, Edit, Mutant, lines_of, planted
from benchmarks.mutants.shadow import Shadow


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.id)
def test_every_mutant_applies_once_and_compiles(mutant):
    assert mutant.problems() == []
    for edits in filter(None, (mutant.edits, mutant.twin)):
        for file, text in planted(edits).items():
            assert text != (PACKAGE / file).read_text()
            compile(text, file, "exec")


def test_there_are_enough_of_every_kind():
    assert len({m.id for m in MUTANTS}) == len(MUTANTS) >= 60
    assert {m.kind for m in MUTANTS} == set(KINDS)
    assert len({c.method for m in MUTANTS for c in m.cases} - {"", "classifier"}) == 20


def test_a_mutant_that_no_longer_applies_is_told():
    gone = Mutant(
        "gone",
        "noise",
        "Nothing.",
        (Case("dp-merf"),),
        (Edit("chance.py", "no such text", ""), Edit("no_such.py", "", "")),
    )
    assert gone.problems() == ["its text occurs 0 times in chance.py", "no_such.py is not there"]
    assert look_at(None, gone, 0)["verdict"] == "stale"


def test_new_lines_are_known_by_their_number():
    edit = Edit("chance.py", "UNIT = 2.0**-24\n", "UNIT = 2.0**-24\nMORE = 1\n")
    (number,) = lines_of((edit,))["chance.py"]
    assert planted((edit,))["chance.py"].splitlines()[number - 1] == "MORE = 1"


def test_the_list_is_shown(capsys):
    assert main(["--list", "--only", "noise-cut", "place"]) == 0
    out = capsys.readouterr().out
    assert "noise-cut" in out and "place-levels" in out and "0 of them no longer apply" in out


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match="no-such"):
        choose(["no-such"])


@pytest.fixture(scope="module")
def shadow():
    made = Shadow()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise-none-on-zero", "tangent-loudest", "part-balanced", "clip-median"])
def test_some_are_caught_and_their_twins_pass(shadow, name):
    (mutant,) = choose([name])
    row = look_at(shadow, mutant, 0)
    assert row["verdict"] == "caught" and row["level"] == 0 and row["reached"]
    found = shadow.audit(mutant.twin, mutant.cases[0], 0, range(2), 100)
    assert [r for report in found["reports"] for r in report["rows"] if r["verdict"] == "fail"] == []


@pytest.mark.slow
def test_an_auditor_that_crashes_has_caught_nothing(shadow):
    crash = Edit("audit/check.py", "    rows = [_within(plan, budget), _signature(method)]\n", "    raise OSError\n")
    broken = Mutant("crash", "noise", "The auditor itself ends.", (Case("dp-merf", {"features": 20}),), (crash,))
    assert look_at(shadow, broken, 0)["verdict"] == "error"
