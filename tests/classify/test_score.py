"""A classifier on real test images: the honest headline, where it is written, and what is refused."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

from sfumato import Budget
from sfumato.api import evaluate, train_classifier
from sfumato.classify import Classifier
from sfumato.classify.score import score
from sfumato.errors import InputError
from sfumato.evaluate.real import counts_path
from sfumato.evaluate.stacked import Schedule
from tests.evaluate.test_report import VOID  # noqa: F401  (adds what drawings use)
from tests.release.documents.test_report import Page

SHORT = {"cnn": Schedule(steps=20, batch=32, rate=3e-3)}


def stripes(n, seed):
    """Three of four images are bright: a classifier that never looks is right about 75 % of them."""
    random = np.random.default_rng(seed)
    labels = (np.arange(n) % 4 > 0).astype(int)
    pixels = random.integers(0, 100, (n, 8, 8), dtype=np.uint8) + (100 * labels[:, None, None]).astype(np.uint8)
    return pixels, labels


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    home = tmp_path_factory.mktemp("made")
    (x, y), (u, v) = stripes(400, 0), stripes(120, 1)
    np.savez(home / "set.npz", train_images=x, train_labels=y, test_images=u, test_labels=v)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_RUNS", str(home / "runs"))
        patch.setenv("SFUMATO_CACHE", str(home / "cache"))
        train_classifier(
            Classifier(network="linear", steps=30, batch=200, clip=1.0, learning_rate=1.0),
            str(home / "set.npz"),
            Budget(epsilon=50),
            out=home / "classifier",
            ledger=home / "ledger",
        )
    return home / "classifier", str(home / "set.npz")


def test_it_is_held_against_the_commonest_class_and_a_cnn_without_privacy(places, tmp_path):
    made = score(*places, seeds=2, device="cpu", schedules=SHORT, out=tmp_path / "out")
    found = made.to_json()["sections"]["headline"]
    assert found["baseline"] == {"class": "1", "accuracy": 0.75, "guessing": 0.5}
    assert found["accuracy"]["mean"] > 0.9 and found["margin"]["low"] > 0 and found["verdict"].startswith("Better than")
    assert found["auroc"]["mean"] > 0.9 and set(found["recall"]) == {"0", "1"} and found["real"] > 0.9
    assert made.touches_private and made.accesses == 1


def test_the_page_is_internal_and_self_contained(places, tmp_path):
    score(*places, seeds=1, device="cpu", schedules=SHORT, out=tmp_path / "out", effort="quick", command="sfumato x")
    path = tmp_path / "out" / "report.html"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    page = Page(path.read_text())
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "img"}
    for words in ("Internal", "always answering", "balanced accuracy", "Recall of each class", "without privacy"):
        assert words in page.text, words
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["sections"]["release"]["kind"] == "classifier"


def test_evaluate_knows_a_classifier_by_its_folder(places, tmp_path):
    made = evaluate(*places, seeds=1, device="cpu", schedules=SHORT, out=tmp_path / "out", effort="quick")
    assert "released" in made.sections["utility"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"attacks": ["logan"]}, "`attacks`"),
        ({"features": ["pixels"]}, "`features`"),
        ({"metrics": ["fidelity"]}, "`metrics`"),
        ({"reference": True}, "`reference`"),
        ({"protocol": "paper"}, "`protocol`"),
        ({"seeds": 0}, "seeds"),
    ],
)
def test_what_needs_images_is_refused_before_anything_is_read(places, given, word):
    with pytest.raises(InputError, match=word):
        evaluate(*places, device="cpu", **given)
    assert not counts_path().exists()


def test_nothing_is_written_inside_the_classifiers_folder(places):
    with pytest.raises(InputError, match="within the release"):
        score(*places, out=places[0] / "inside")
