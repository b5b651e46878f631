"""`sfumato audit`: what it prints, and how it ends."""

from __future__ import annotations

import json

import pytest
import typer

from sfumato import api
from sfumato.audit.recording.subject import Finding
from sfumato.audit.report import Report
from sfumato.cli.audit import audit
from sfumato.cli.ending import ended
from tests.cli.test_cli import call

GOOD = {
    "id": "B01",
    "name": "halved",
    "expected": "caught",
    "verdict": "caught",
    "twin": "pass",
    "ok": True,
    "level": 0,
    "detail": "standard deviation 0.5",
}
ATTACK = {
    "attack": "GAN-Leaks",
    "internal": True,
    "note": "internal",
    "caveat": "split at random",
    "members": 50,
    "nonmembers": 50,
    "samples": 100,
    "claim": {"epsilon": 1.0, "delta": 1e-5, "mu": 0.27},
    "epsilon_lower": 0.2,
    "rows": [{"measure": "auc", "value": 0.9, "interval": [0.85, 0.95], "ceiling": 0.57, "decides": True, "ok": False}],
    "verdict": "fail",
}


@pytest.fixture
def run(monkeypatch):
    """The verb alone, on made-up answers of the parts behind it."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(audit)
    command = typer.main.get_command(app)
    rows = [GOOD]
    report = Report("dp-merf", (Finding("sensitivity", 0, True, "moved by 1"),))
    found = {"gallery": rows, "report": report, "attack": ATTACK}
    monkeypatch.setattr(api, "audit_gallery", lambda seed=0: found["gallery"], raising=False)
    asked = []

    def audit_method(method, **how):
        asked.append((method, how))
        return found["report"]

    monkeypatch.setattr(api, "audit_method", audit_method, raising=False)
    monkeypatch.setattr(api, "audit_release", lambda *a, **o: found["attack"], raising=False)

    def call(*argv, **given):
        found.update(given)
        return ended(lambda: command.main(list(argv), standalone_mode=False), as_json="--json" in argv)

    call.asked = asked
    return call


def test_the_gallery_is_a_list_of_rows(run, capsys):
    assert run("--gallery", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [GOOD]


def test_the_gallery_is_a_table_for_people(run, capsys):
    assert run("--gallery") == 0
    shown = capsys.readouterr().out
    assert "B01" in shown and "1 of 1 seeded faults caught" in shown


def test_a_gallery_that_is_wrong_is_printed_and_ends_with_four(run, capsys):
    assert run("--gallery", "--json", gallery=[GOOD | {"ok": False}]) == 4
    shown = capsys.readouterr()
    assert json.loads(shown.out)[0]["ok"] is False and "B01" in shown.err


def test_a_method_passes(run, capsys):
    assert run("--method", "dp-merf", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"


def test_a_method_that_fails_is_shown_and_ends_with_four(run, capsys):
    bad = Report("dp-merf", (Finding("sensitivity", 0, False, "moved by 2, declared 1"),))
    assert run("--method", "dp-merf", report=bad) == 4
    shown = capsys.readouterr()
    assert "moved by 2" in shown.out and "error: The audit of dp-merf failed: sensitivity" in shown.err


def test_what_was_audited_is_asked_for_and_told(run, capsys):
    argv = (
        "--relation",
        "replace-one",
        "--unit",
        "person",
        "--labels",
        "private:0.3",
        "--epsilon",
        "2",
        "--level",
        "1",
    )
    assert run("--method", "dp-merf", *argv, "--set", "features=40", "--json") == 0
    told = json.loads(capsys.readouterr().out)["audited"]
    (method, how), wanted = run.asked[-1], {"relation": "replace-one", "unit": "person", "labels": "private:0.3"}
    assert wanted.items() <= told.items() and told["settings"] == {"features": "40"} and told["device"] == "cpu"
    assert (how["budget"].relation, how["budget"].unit, how["spec"].unit) == ("replace-one", "person", "person")
    assert (how["budget"].epsilon, how["level"], how["device"]) == (2.0, 1, "cpu")
    assert method.labels.fraction == 0.3 and method.features == 40
    assert run("--method", "dp-merf", *argv) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "replace-one, per person, labels private:0.3, epsilon 2" in shown and "device cpu" in shown


def test_declared_weights_are_read_for_the_classes_that_are_made_up(run, tmp_path):
    (tmp_path / "w.json").write_text('{"0": 2, "1": 1, "2": 1}')
    assert run("--method", "dp-merf", "--labels", str(tmp_path / "w.json"), "--json") == 0
    assert run.asked[-1][0].labels.weights == (0.5, 0.25, 0.25)


def test_a_recipe_brings_its_settings_budget_and_data(run):
    assert run("--recipe", "datalens-code-fashion-mnist-1", "--json") == 0
    method, how = run.asked[-1]
    assert method.topk == 200 and how["budget"].epsilon == 1 and how["spec"].shape == (1, 28, 28)


def test_an_attack_says_that_it_reads_private_records(run, capsys, tmp_path):
    assert run(str(tmp_path), "--members", "digits", "--nonmembers", "digits") == 4
    shown = capsys.readouterr()
    assert "private records" in shown.err and "beyond" in shown.out and "internal" in shown.out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "Say what to audit"),
        (("--gallery", "--method", "dp-merf"), "one thing only"),
        (("release",), "--members"),
        (("--gallery", "--level", "1"), "--level does not go with --gallery"),
        (("release", "--members", "a", "--nonmembers", "b", "--set", "x=1"), "--set does not go with RELEASE"),
        (("--method", "dp-merf", "--level", "3"), "--level 0, 1 or 2"),
        (("--method", "dp-merf", "--picture", "x.png"), "--level 1"),
        (("--method", "nothing"), "nothing"),
        (("--gallery", "--device", "cpu"), "--device does not go with --gallery"),
        (("--method", "dp-merf", "--unit", "people"), "--unit as record or person"),
        (("--method", "dp-merf", "--relation", "near"), "--relation as"),
        (("--method", "dp-merf", "--labels", "odd"), "--labels as uniform"),
        (("--method", "dp-merf", "--recipe", "datalens-code-fashion-mnist-1"), "leave out --method or --recipe"),
    ],
)
def test_what_makes_no_sense_is_refused(run, capsys, argv, words):
    assert run(*argv) == 2
    assert words in capsys.readouterr().err


def test_a_picture_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(Report, "picture", lambda self: b"\x89PNG")
    assert run("--method", "dp-merf", "--level", "1", "--picture", str(tmp_path / "p.png")) == 0
    assert (tmp_path / "p.png").read_bytes() == b"\x89PNG"
    assert run("--method", "dp-merf", "--level", "1", "--picture", str(tmp_path / "no" / "p.png")) == 2


def test_the_verb_is_wired():
    from sfumato.cli import run as sfumato

    if not all(hasattr(api, name) for name in ("audit_gallery", "audit_method", "audit_release")):
        pytest.skip("the api does not carry audits yet")
    assert sfumato(["audit", "--method", "dp-merf", "--set", "features=40", "--json"]) == 0


def test_automatic_labels_are_those_of_private_data():
    status, out, _ = call("audit", "--method", "dp-merf", "--labels", "auto", "--set", "features=20", "--json")
    assert status == 0 and json.loads(out)["audited"]["labels"].startswith("private:")
