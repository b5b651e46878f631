"""The config of a run: written beside a release, read by --config, and no way round a check."""

from __future__ import annotations

import json

import pytest

from sfumato.errors import InputError
from sfumato.flow.config import check_config_place, config_place, read, write
from tests.cli.test_cli import call, refused

KNOWN = {"data", "method", "epsilon", "delta", "grey", "private_count", "set", "out", "seed", "labels"}
TINY = ("--method", "dp-merf", "--set", "features=20", "--set", "steps=2", "--count", "12")


def test_what_is_written_is_read_back(tmp_path):
    said = {"data": "a: b # c", "epsilon": 1e-3, "delta": 1e-5, "grey": True, "seed": 0, "set": {"steps": "3"}}
    place = write("synthesize", tmp_path / "release", {**said, "labels": None, "private_count": False})
    assert place == tmp_path / "release-run.yaml" == config_place(tmp_path / "release")
    found = read(place, KNOWN)
    assert found.pop("set") == ["steps=3"] and found.pop("grey") is True
    assert found.pop("data") == "a: b # c"
    assert {name: float(text) for name, text in found.items()} == {"epsilon": 1e-3, "delta": 1e-5, "seed": 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilom: 1", "did you mean epsilon?"),
        ("zzz: 1", "which is no option"),
        ("resume: x", "which is no option"),
        ("", "holds no options"),
        ("- a\n- b", "holds no options"),
        ("epsilon: [1, 2]", "more than one value"),
        ("set: 3", "write `field: value`"),
        ("set: {steps: [1]}", "more than one value"),
        ("epsilon: 'open", "is not YAML"),
        ("!!python/object/apply:os.system [true]", "is not YAML"),
    ],
)
def test_a_wrong_config_is_one_sentence(text, words, tmp_path):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(InputError, match="The config") as error:
        read(tmp_path / "run.yaml", KNOWN)
    assert words in str(error.value)


def test_words_may_have_dashes_and_numbers_any_spelling(tmp_path):
    (tmp_path / "run.yaml").write_text("private-count: yes\ndelta: 1e-6\nepsilon: 1\nlabels:\n")
    assert read(tmp_path / "run.yaml", KNOWN) == {"private_count": True, "delta": "1e-6", "epsilon": "1"}


def test_a_file_of_another_kind_is_not_written_over(tmp_path):
    (tmp_path / "release-run.yaml").write_text("mine: true\n")
    with pytest.raises(InputError, match="is in the way"):
        check_config_place(tmp_path / "release")
    write("synthesize", tmp_path / "other", {"data": "digits"})
    check_config_place(tmp_path / "other")


def test_a_run_is_repeated_from_what_it_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("synthesize", "digits", "--epsilon", "3", *TINY, "--seed", "4", "--out", "one", "--json")[0] == 0
    status, out, err = call("synthesize", "--config", "one-run.yaml", "--out", "two", "--json")
    assert status == 0, err
    first, second = (json.loads((tmp_path / name / "privacy.json").read_text()) for name in ("one", "two"))
    assert first["reproducibility"]["command"] == second["reproducibility"]["command"]
    assert first["guarantee"] == second["guarantee"] and len(json.loads(out)["crossings"]) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "one-run.yaml", "two", "two-run.yaml"]
    assert not list((tmp_path / "one").glob("*run*"))  # its paths are no business of a reader


def test_what_is_typed_wins_over_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text("data: digits\nmethod: dp-merf\nepsilon: 3\nset: {features: 20, steps: 2}\n")
    line = ("synthesize", "--config", "run.yaml", "--epsilon", "2", "--count", "9", "--json")
    status, out, err = call(*line)
    assert status == 0, err
    assert json.loads(out)["guarantee"]["epsilon"] == pytest.approx(2, rel=1e-3) and json.loads(out)["images"] == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data: digits\nmethod: dp-merf\nepsilon: 5000\n", "epsilon from 0.001 to 1000"),
        ("data: digits\nmethod: dp-merf\nepsilon: much\n", "--epsilon"),
        ("data: digits\nmethod: dp-merf\nepsilon: 1\ndelta: 2\n", "--delta"),
        ("data: digits\nmethod: dp-merf\n", "--epsilon E is missing"),
        ("data: /no/such\nmethod: dp-merf\nepsilon: 1\n", "/no/such"),
    ],
)
def test_a_config_is_checked_as_options_are(text, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(text)
    assert words in refused("synthesize", "--config", "run.yaml")


def test_a_config_goes_with_no_resume(tmp_path):
    (tmp_path / "run.yaml").write_text("data: digits\n")
    assert "beside --resume" in refused("synthesize", "--config", tmp_path / "run.yaml", "--resume", "x")
    assert "cannot be read" in refused("synthesize", "--config", tmp_path / "none.yaml")


def test_a_classifier_is_repeated_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = ("--network", "linear", "--set", "steps=2", "--set", "batch=20")
    status, _, err = call("train-classifier", "digits", "--epsilon", "3", *tiny, "--out", "one", "--json")
    assert status == 0, err
    status, _, err = call("train-classifier", "--config", "one-run.yaml", "--out", "two", "--json")
    assert status == 0, err
    first, second = (json.loads((tmp_path / name / "privacy.json").read_text()) for name in ("one", "two"))
    assert first["reproducibility"]["command"] == second["reproducibility"]["command"]
