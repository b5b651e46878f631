"""The planted bugs of `benchmarks.mutants` still fit the source; a few of them are looked at from end to end."""

from __future__ import annotations

import json

import pytest

from benchmarks.mutants.__main__ import choose, look_at, main
from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import KINDS, PACKAGE, Case, Edit, Mutant, lines_of, planted
from benchmarks.mutants.shadow import Several, Shadow
from benchmarks.mutants.table import counted, lines, written
from sfumato.methods.registry import names


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
    assert {c.method for m in MUTANTS for c in m.cases} - {"", "classifier"} == set(names())


def test_a_mutant_that_no_longer_applies_is_told():
    gone = Mutant(
        "gone",
        "noise",
        "Nothing.",
        (Case("dp-merf"),),
        (Edit("record_rng.py", "no such text", ""), Edit("no_such.py", "", "")),
    )
    assert gone.problems() == ["its text occurs 0 times in record_rng.py", "no_such.py is not there"]
    assert look_at(None, gone, 0)["verdict"] == "stale"


def test_new_lines_are_known_by_their_number():
    edit = Edit("record_rng.py", "UNIT = 2.0**-24\n", "UNIT = 2.0**-24\nMORE = 1\n")
    (number,) = lines_of((edit,))["record_rng.py"]
    assert planted((edit,))["record_rng.py"].splitlines()[number - 1] == "MORE = 1"


def test_the_list_is_shown(capsys):
    assert main(["--list", "--only", "noise-cut", "place"]) == 0
    out = capsys.readouterr().out
    assert "noise-cut" in out and "place-levels" in out and "0 of them no longer apply" in out


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match="no-such"):
        choose(["no-such"])


class Said:
    """In place of an audit: these rows fail, by level."""

    def __init__(self, *rows):
        self._rows = [{"check": "learns", "level": level, "verdict": "fail", "detail": said} for level, said in rows]

    def audit(self, edits, case, level, seeds, limit):
        rows = [row for row in self._rows if row["level"] <= level]
        return {"reports": [{"seed": 0, "rows": rows, "note": ""}], "reached": True, "seconds": 1.0}


def planted_in(kind):
    return Mutant(
        "some", kind, "Something.", (Case("dp-merf"),), (Edit("record_rng.py", "UNIT = 2.0**-24", "UNIT = 1"),)
    )


@pytest.mark.parametrize("error", ["AttributeError", "TypeError", "FrozenInstanceError"])
def test_a_facade_that_refuses_has_caught_and_another_mutant_that_does_not_run_is_broken(error):
    said = Said((0, f"learning ended with {error}: no such thing"))
    assert look_at(said, planted_in("facade"), 0)["verdict"] == "caught"
    assert look_at(said, planted_in("noise"), 0)["verdict"] == "broken"


def test_a_facade_mutant_with_a_name_that_nobody_knows_is_broken():
    assert look_at(Said((0, "learning ended with NameError: x")), planted_in("facade"), 0)["verdict"] == "broken"


def test_a_real_finding_counts_beside_a_slip():
    row = look_at(Said((0, "ended with TypeError: x"), (0, "moved by 2")), planted_in("noise"), 0)
    assert (row["verdict"], row["detail"]) == ("caught", "moved by 2")


def test_levels_are_counted_apart_by_the_lowest_that_sees(tmp_path):
    asked = [Said((0, "a"), (1, "b")), Said((1, "a"), (2, "b")), Said((2, "a")), Said()]
    rows = [look_at(said, planted_in("noise" if i < 3 else "flow"), 2) for i, said in enumerate(asked)]
    assert [row["level"] for row in rows] == [0, 1, 2, None]
    assert [row["levels"] for row in rows] == [[0], [1, 2], [2], []]
    found = counted(rows)
    assert found["kinds"]["flow"]["missed"] == 1 and "place" not in found["kinds"]
    total = {"planted": 4, "level 0": 1, "level 1": 1, "level 2": 1, "caught": 3, "missed": 1, "other": 0}
    assert found["total"] == total
    assert lines(rows)[-1] == "3 of 4 caught (75.0%)."
    written(tmp_path / "found.json", ["python", "-m", "benchmarks.mutants"], {**found, "mutants": rows})
    again = json.loads((tmp_path / "found.json").read_text())
    assert again["command"] == "python -m benchmarks.mutants" and again["mutants"] == rows


def test_several_answer_in_the_order_of_the_questions(monkeypatch, capsys):
    class Quiet:
        def close(self):
            """Nothing to end."""

    monkeypatch.setattr("benchmarks.mutants.shadow.Shadow", Quiet)
    with Several(3) as shadows:
        rows = shadows.map([lambda shadow, i=i: {"id": i} for i in range(20)], lambda row: f"asked {row['id']}")
    assert [row["id"] for row in rows] == list(range(20))
    assert len(capsys.readouterr().err.splitlines()) == 20


def test_no_jobs_are_refused():
    with pytest.raises(SystemExit, match="--jobs"):
        main(["--jobs", "0"])


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
    crash = Edit("audit/check_method.py", "    device = pick_device(device)\n", "    raise OSError\n")
    broken = Mutant("crash", "noise", "The auditor itself ends.", (Case("dp-merf", {"features": 20}),), (crash,))
    assert look_at(shadow, broken, 0)["verdict"] == "error"
