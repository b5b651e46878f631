"""The folder of a classifier: charged, whole, verified, and read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sfumato import Budget, InputError, OverBudget, Run
from sfumato.api import budget_of, verify
from sfumato.classify import Classifier, TrainedClassifier
from sfumato.data.public import PublicImages
from sfumato.errors import Interrupted
from sfumato.flow.train_classifier import accuracy, train_classifier
from sfumato.run.progress import Silent
from sfumato.types import Images
from tests.made_up import arrays, box

TINY = Classifier(network="linear", steps=3, batch=60)
COMMAND = "sfumato train-classifier /a/b --epsilon 3 --set network=linear --set steps=3 --set batch=60"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.sqlite"))
        patch.setenv("SFUMATO_RUNS", str(folder / "runs"))
        run = Run(device="cpu")
        made = train_classifier(TINY, box(), Budget(3.0), run, out=folder / "out", command=COMMAND)
    return made, folder / "out"


def test_the_folder_is_whole_and_verified(made):
    trained, folder = made
    assert sorted(p.name for p in folder.iterdir()) == [
        "PRIVACY.md",
        "README.md",
        "config.json",
        "hashes.json",
        "model.safetensors",
        "privacy.json",
    ]
    verdict = verify(folder)
    assert verdict.ok, verdict.rows
    statement = json.loads((folder / "privacy.json").read_text())
    assert statement["coverage"]["released"] == ["the weights of the classifier"]
    assert statement["guarantee"]["epsilon"] <= 3.0 and statement["reproducibility"]["command"] == COMMAND.replace(
        "/a/", ""
    )
    assert statement["audit"]["verdict"] == "pass"


def test_a_command_per_person_or_of_another_network_is_refused(made, tmp_path):
    for number, (old, new) in enumerate([(" --epsilon", " --person who --epsilon"), ("=linear", "=cnn")]):
        folder = made[0].save(tmp_path / str(number), command=COMMAND.replace(old, new))
        assert [name for name, ok, _ in verify(folder).rows if not ok] == ["command"]


def test_it_is_read_back_to_the_bit(made):
    trained, folder = made
    again, pixels = TrainedClassifier.load(folder), arrays()[0][:, None]
    assert again.digest() == trained.digest() and again.classes == trained.classes
    assert np.array_equal(again.predict(pixels), trained.predict(pixels))
    assert again.predict(pixels[:0]).shape == (0,)
    with pytest.raises(InputError, match="Expected uint8 images of 1x8x8"):
        again.predict(np.zeros((2, 1, 9, 9), np.uint8))


@pytest.mark.parametrize("change", ["weights", "config", "foreign", "readme", "gone"])
def test_a_changed_folder_is_found_out(made, tmp_path, change):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in made[1].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if change == "foreign":
        (folder / "real.png").write_bytes(b"an image")
    elif change == "gone":
        (folder / "config.json").unlink()
    else:
        path = folder / {"weights": "model.safetensors", "config": "config.json", "readme": "README.md"}[change]
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert not verify(folder).ok


def test_a_config_of_another_shape_is_refused(made, tmp_path):
    for path in made[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["classifier"]["shape"] = [1, 9, 9]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="does not fit"):
        TrainedClassifier.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="not of format"):
        TrainedClassifier.load(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="not the folder of a classifier"):
        TrainedClassifier.load(tmp_path)


def test_the_ledger_is_charged_before_and_refuses_too_much(tmp_path):
    data = box()
    train_classifier(TINY, data, Budget(1.0), Run(device="cpu"))
    assert budget_of(box())["spent"] == pytest.approx(1.0, abs=1e-3)
    budget_of(box(), total=Budget(1.2))
    with pytest.raises(OverBudget):
        train_classifier(TINY, data, Budget(1.0), Run(device="cpu"))
    with pytest.raises(InputError, match="not empty"):
        (tmp_path / "there").write_text("")
        train_classifier(TINY, data, Budget(0.1), out=tmp_path)


def test_a_stopped_run_is_resumed_and_paid_once(tmp_path):
    class Stop(Silent):
        def advance(self, done, note=""):
            if done == 2 and note:
                raise KeyboardInterrupt

    data = box()
    with pytest.raises(Interrupted, match="go on with resume=") as stopped:
        train_classifier(TINY, data, Budget(1.0), Run(device="cpu", every=0.0, progress=Stop()), out=tmp_path / "out")
    name = str(stopped.value).rpartition("=")[2]
    train_classifier(TINY, data, Budget(1.0), Run(device="cpu"), out=tmp_path / "out", resume=name)
    assert verify(tmp_path / "out").ok and budget_of(box())["spent"] == pytest.approx(1.0, abs=1e-3)


def test_accuracy_goes_by_the_names_of_classes(made):
    trained, pixels = made[0], arrays()[0][:, None]
    names = [trained.classes[i] for i in trained.predict(pixels)]
    turned = tuple(reversed(trained.classes))
    labels = np.array([turned.index(name) for name in names])
    labels[0] = (labels[0] + 1) % 3
    assert accuracy(trained, PublicImages(Images(pixels, labels, turned), "made up")) == pytest.approx(59 / 60)
    strange = PublicImages(Images(pixels, np.zeros(60, np.int64), ("unheard of",)), "made up")
    assert accuracy(trained, strange) == 0.0
