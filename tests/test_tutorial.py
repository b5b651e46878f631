"""The story of docs/tutorial.md: every command of it, in order, on a folder like the one that it describes."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks import hospital
from sfumato import Release
from sfumato.release.files.verify import verify
from tests.cli.test_cli import call

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
IMAGES = 800
# What the story leaves to the software, at a size for a test.
SETTINGS = "--set adapt=no --set labeller_steps=30 --set features=400 --set steps=20 --set width=8 --set sample=1"
SMALL = {"synthesize": SETTINGS, "plan": SETTINGS}


def commands() -> list[list[str]]:
    lines = [line.strip() for line in PAGE.read_text().splitlines() if line.startswith("    sfumato ")]
    return [shlex.split(line)[1:] for line in lines]


def lungs(ill: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Two dark lungs in a bright chest; the ill ones have clouds in them."""
    rows, columns = np.mgrid[:28, :28]
    chest = np.full((len(ill), 28, 28), 170.0)
    for centre in (9, 19):
        lung = ((rows - 14) / 9) ** 2 + ((columns - centre) / 3.5) ** 2 < 1
        chest[:, lung] -= np.where(ill, 40, 110)[:, None]
    return np.clip(chest + random.normal(0, 20, chest.shape), 0, 255).astype(np.uint8)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for split, count in (("train", IMAGES), ("test", 200)):
        ill = random.random(count) < 0.74
        hospital.write(lungs(ill, random), ill.astype(int), tmp_path / "xrays" / split, random)
    return tmp_path


@pytest.mark.approved
def test_the_story_of_the_hospital(home):
    said = {}
    for words in commands():
        status, out, err = call(*words, *shlex.split(SMALL.get(words[0], "")))
        assert status == 0, (words, err)
        said[" ".join(words[:2])] = " ".join(out.split())
        if words == ["plan", "xrays", "--epsilon", "10"]:
            assert "serious: The column patient" in said["plan xrays"]
    assert "each person" in said["plan xrays"] and "serious" not in said["plan xrays"]
    assert "epsilon 12" in said["budget xrays"] and "by 1 run" in said["budget xrays"]
    release = Release.load("release")
    assert len(release.images) == 4000 and release.statement["guarantee"]["unit"] == "person"
    assert verify("release").signed_by and release.statement["publication"]["license"] == "cc-by-4.0"
    share = (release.images.labels == release.classes.index("pneumonia")).mean()
    assert 0.6 < share < 0.85  # measured, with noise; equal shares would be 0.5
    evaluation = json.loads(Path("release-evaluation/evaluation.json").read_text())
    baseline = evaluation["sections"]["headline"]["baseline"]
    assert baseline["class"] == "pneumonia" and baseline["accuracy"] == pytest.approx(0.74, abs=0.09)
    # A run this small may learn little, and its noise is new each time: the verdict has to be right, not good.
    margin = evaluation["sections"]["headline"]["margin"]
    better = "Better" if margin["low"] > 0 else "Worse" if margin["high"] < 0 else "Not shown to be better"
    assert f"verdict {better} than always answering 'pneumonia'" in said["evaluate release"]
    with zipfile.ZipFile("release.zip") as sent:
        assert any(name.endswith("privacy.json") for name in sent.namelist())
        assert not any("metadata.csv" in name and "xrays" in name for name in sent.namelist())


@pytest.mark.approved
def test_the_story_without_the_patients_is_refused(home):
    line = ("synthesize", "xrays", "--epsilon", "10", "--out", "release", *shlex.split(SMALL["synthesize"]))
    status, _, err = call(*line)
    assert status == 2 and "--person patient" in err and not Path("release").exists()
