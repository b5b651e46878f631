"""`sfumato train-classifier`, from private images to a folder that may be published."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato.api import carry_out_training, verify
from sfumato.classify import TrainedClassifier
from sfumato.errors import Interrupted
from sfumato.flow.request import Request
from sfumato.run.progress import Silent
from tests.cli.test_cli import call, refused
from tests.made_up import arrays

TINY = ("--network", "linear", "--set", "steps=2", "--set", "batch=50", "--device", "cpu")


@pytest.fixture
def npz(tmp_path):
    images, labels = arrays()
    np.savez(tmp_path / "set.npz", images=images, labels=labels)
    return tmp_path / "set.npz"


def test_a_public_set_is_tested(tmp_path):
    out = tmp_path / "out"
    argv = ("train-classifier", "digits", "--epsilon", "3", *TINY, "--public-test", "digits", "--out", out, "--json")
    assert "choose with --public-test-split" in refused(*argv[:-1])
    status, said, err = call(*argv, "--public-test-split", "train")
    assert status == 0, err
    found = json.loads(said)
    assert 0 <= found["accuracy"] <= 1 and found["guarantee"]["epsilon"] <= 3
    assert found["settings"]["network"] == "linear" and found["classifier"] == str(out)
    assert call("verify", out)[0] == 0
    command = json.loads((out / "privacy.json").read_text())["reproducibility"]["command"]
    assert command.startswith("sfumato train-classifier digits --epsilon 3") and "--set network=linear" in command


def test_private_data_have_no_accuracy_unless_the_test_images_are_public(npz, tmp_path):
    argv = ("train-classifier", npz, "--epsilon", "3", *TINY)
    said = refused(*argv, "--public-test", npz, "--public-test-split", "train", "--out", tmp_path / "a")
    assert "would leak" in said and not (tmp_path / "a").exists()
    status, text, err = call(*argv, "--out", tmp_path / "b")
    assert status == 0 and "accuracy" not in text and "guarantee" in text, err
    declared = ("--public-test", npz, "--provenance", "drawn by a machine", "--ledger", tmp_path / "other.sqlite")
    status, text, err = call(*argv, *declared, "--out", tmp_path / "c", "--public-test-split", "train")
    assert status == 0 and "of the public test images" in text, err


@pytest.mark.parametrize(
    "argv, words",
    [
        ((), "DATA is missing"),
        (("digits",), "--epsilon E is missing"),
        (("digits", "--epsilon", "1", "--set", "k=2"), "Expected k from"),
        (("digits", "--epsilon", "1", "--set", "luck=2"), "found 'luck'"),
        (("digits", "--epsilon", "1", "--network", "cnn", "--set", "network=linear"), "given twice"),
        (("digits", "--epsilon", "1", "--network", "cnn"), "at least 14x14"),
        (("digits", "--epsilon", "1", "--provenance", "x"), "goes with test images"),
        (("digits", "--epsilon", "1", "--signer", "x"), "needs a key"),
        (("digits", "--recipe", "topagg-x"), "no recipe of a classifier"),
        (("digits", "--epsilon", "1", "--microbatch", "0"), "Expected --microbatch from 1"),
        (("digits", "--resume", "x"), "leave out DATA"),
        (("--resume", "x"), "no run 'x'"),
        (("digits", "--epsilon", "1", "--public-test", "fashion-mnist"), "Expected test images of 1x8x8"),
        (("digits", "--epsilon", "1", "--by", "luck"), "Expected --by as dpsgd or pate"),
        (("digits", "--epsilon", "1", "--public", "digits", "--provenance", "x"), "for --by pate"),
        (("digits", "--epsilon", "1", "--by", "pate", "--public", "digits"), "go together"),
        (("digits", "--by", "pate", "--recipe", "scattering-fashion-mnist-1"), "for --by dpsgd"),
        (("digits", "--epsilon", "1", "--by", "pate", "--set", "clip=1"), "found 'clip'"),
        (
            ("digits", "--epsilon", "1", "--by", "pate", "--public", "fashion-mnist", "--provenance", "x"),
            "public images of 1x8x8",
        ),
    ],
)
def test_it_refuses(argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused("train-classifier", *argv)
    assert not list(tmp_path.iterdir())


SETTINGS = ("network=linear", "teacher=linear", "teachers=5", "queries=30", "updates=2", "student_steps=3")
PATE = ("--by", "pate", "--device", "cpu", *(word for text in SETTINGS for word in ("--set", text)))


@pytest.mark.parametrize("aggregation", ["gnmax", "lnmax"])
def test_noisy_votes_teach_a_student(npz, tmp_path, aggregation):
    out = tmp_path / "out"
    shown = ("--public", npz, "--provenance", "drawn by a machine", "--set", f"aggregation={aggregation}")
    status, said, err = call("train-classifier", npz, "--epsilon", "3", *PATE, *shown, "--out", out, "--json")
    assert status == 0, err
    found = json.loads(said)
    assert found["crossings"][0]["name"] == "votes" and found["guarantee"]["epsilon"] <= 3
    assert call("verify", out)[0] == 0
    stated = json.loads((out / "privacy.json").read_text())
    command = stated["reproducibility"]["command"]
    assert "--by pate" in command and "--public set.npz" in command and stated["reproducibility"]["method"] == "pate"
    assert any(line.endswith("may show in the classifier.") for line in stated["plain_words"]["sentences"])


def test_without_public_images_some_are_made_up(npz, tmp_path):
    status, said, err = call("train-classifier", npz, "--epsilon", "3", *PATE, "--out", tmp_path / "out")
    assert status == 0 and "votes 30 times" in said, err
    assert "dead leaves" in (tmp_path / "out" / "PRIVACY.md").read_text() and call("verify", tmp_path / "out")[0] == 0


def test_a_command_that_forgets_the_public_images_is_refused(npz, tmp_path):
    shown = ("--public", npz, "--provenance", "drawn by a machine")
    assert call("train-classifier", npz, "--epsilon", "3", *PATE, *shown, "--out", tmp_path / "out")[0] == 0
    made = TrainedClassifier.load(tmp_path / "out")
    line = made.statement["reproducibility"]["command"]
    for number, wrong in enumerate((line.replace("--public set.npz ", ""), line.replace("--by pate ", ""))):
        folder = made.save(tmp_path / str(number), command=wrong)
        assert [name for name, ok, _ in verify(folder).rows if not ok] == ["command"]


def test_a_recipe_has_settings_and_a_budget(npz, tmp_path):
    argv = ("train-classifier", npz, "--recipe", "scattering-fashion-mnist-1", "--set", "steps=1", "--json")
    status, said, err = call(*argv, "--out", tmp_path / "out")
    assert status == 0, err
    assert json.loads(said)["guarantee"]["epsilon"] <= 1 and json.loads(said)["settings"]["network"] == "scattering"


def test_a_recipe_of_topagg_runs(tmp_path):
    argv = ("train-classifier", "digits", "--recipe", "topagg-mnist-norm-0.7-0.3", "--json", "--microbatch", "16")
    small = ("--set", "network=linear", "--set", "steps=2", "--set", "batch=50")
    status, said, err = call(*argv, *small, "--out", tmp_path / "out")
    assert status == 0, err
    found = json.loads(said)
    assert found["settings"]["k"] == 0.7 and found["settings"]["clip"] == 10.0 and found["guarantee"]["epsilon"] <= 0.3


def test_the_statement_speaks_of_a_classifier(npz, tmp_path):
    assert call("train-classifier", npz, "--epsilon", "1", *TINY, "--out", tmp_path / "out")[0] == 0
    stated = json.loads((tmp_path / "out" / "privacy.json").read_text())
    assert any(line.endswith("may show in the classifier.") for line in stated["plain_words"]["sentences"])
    assert stated["reproducibility"]["noise_seeds"].endswith("a second run gives another classifier.")
    assert "synthetic images" not in json.dumps(stated) and call("verify", tmp_path / "out")[0] == 0


def test_a_stopped_run_resumes(npz, tmp_path):
    class Stop(Silent):
        def advance(self, done, note=""):
            if note and done == 1:
                raise KeyboardInterrupt

    settings = {"network": "linear", "steps": "3", "batch": "50"}
    request = Request(
        data=str(npz), method="classifier", epsilon=1.0, settings=settings, out=str(tmp_path / "out"), device="cpu"
    )
    with pytest.raises(Interrupted, match="resume=") as stopped:
        carry_out_training(request, None, Stop())
    name = str(stopped.value).split("resume=")[1].strip("`")
    status, said, err = call("train-classifier", "--resume", name, "--json")
    assert status == 0, err
    assert json.loads(said)["classifier"] == str(tmp_path / "out") and call("verify", tmp_path / "out")[0] == 0
    assert "no run" in refused("train-classifier", "--resume", name)
