"""Licence, title and contact: in the card, under the seal, and never in the way of a check."""

from __future__ import annotations

import json

import pytest
import yaml

from sfumato import DPMERF, Budget, InputError, Release, api, synthesize
from sfumato.release.publication import problems, publication

SAID = {"license": "CC-BY-4.0", "title": "Chest films | made up", "contact": "data <office> at a hospital"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("made") / "release"
    synthesize(DPMERF(features=10, steps=1), "digits", Budget(2.0), count=6, out=place, **SAID)
    return place


def test_the_card_says_what_the_publisher_says(folder):
    card = (folder / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert front["license"] == "cc-by-4.0" and front["pretty_name"] == SAID["title"]
    assert "# Chest films \\| made up" in card and "No licence is chosen" not in card
    assert "Whom to ask: data &lt;office&gt; at a hospital" in card
    assert yaml.safe_load((folder / "deployment.yaml").read_text())["deployment"]["basic"]["name"] == SAID["title"]


def test_the_report_says_it_too_and_asks_for_no_other_licence(folder):
    page = (folder / "report.html").read_text()
    assert "Chest films | made up</h1>" in page and "data &lt;office&gt; at a hospital" in page
    assert "cc-by-4.0" in page and "Choose a licence" not in page


def test_it_verifies_and_no_word_of_it_can_change(folder, tmp_path):
    assert api.verify(folder).ok
    statement = json.loads((folder / "privacy.json").read_text())
    assert statement["publication"] == {**SAID, "license": "cc-by-4.0"}
    again = Release.load(folder)
    again.save(tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text() == (folder / "README.md").read_text()
    assert api.verify(tmp_path / "again").ok


def test_without_a_word_nothing_is_said(tmp_path):
    synthesize(DPMERF(features=10, steps=1), "digits", Budget(2.0), count=6, out=tmp_path / "release")
    assert "publication" not in json.loads((tmp_path / "release" / "privacy.json").read_text())
    assert "No licence is chosen" in (tmp_path / "release" / "README.md").read_text()


@pytest.mark.parametrize(
    "wrong", [("no licence", None, None), ("", None, None), (None, "two\nlines", None), (None, None, "x" * 201)]
)
def test_what_is_not_a_line_is_refused(wrong):
    with pytest.raises(InputError, match="Expected --"):
        publication(*wrong)


@pytest.mark.parametrize("stated", [{}, None, {"license": "CC"}, {"title": 3}, {"title": "a", "extra": "b"}, ["a"]])
def test_a_stated_publication_is_as_it_is_written(stated):
    assert problems(stated) != []


@pytest.mark.filterwarnings("ignore")  # of a library of that library
@pytest.mark.parametrize("format", ["png", "parquet"])
def test_the_hub_s_library_loads_a_release_by_its_card(format, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    place = tmp_path / "release"
    release = synthesize(DPMERF(features=10, steps=1), "digits", Budget(2.0), count=12, out=place, format=format)
    loaded = datasets.load_dataset(str(place), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(loaded) == 12 and set(loaded.column_names) >= {"image", "label"}
    names = loaded.features["label"].names
    assert sorted(names[label] for label in loaded["label"]) == sorted(map(str, release.images.labels.tolist()))
