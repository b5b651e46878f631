"""The screen before a run: shown, answered, and left out where nobody is there."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_cli import call

SMALL = ("--set", "features=20", "--set", "steps=2", "--set", "batch=4", "--set", "latent=4", "--set", "width=8")


@pytest.fixture
def scans(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "scans.npz"
    pixels = random.integers(0, 256, (120, 8, 8), dtype=np.uint8)
    np.savez(path, images=pixels, labels=np.array(["ill", "well"] * 60), subject=np.arange(120) // 2)
    return path


@pytest.fixture
def answer(monkeypatch):
    """Somebody at a terminal, who types this."""

    def typed(words: str) -> None:
        monkeypatch.setattr("sfumato.cli.confirm.attended", lambda: True)
        monkeypatch.setattr("sys.stdin", io.StringIO(words))

    return typed


def asked(scans: Path, *more: object) -> tuple[int, str, str]:
    line = ("synthesize", scans, "--method", "dp-merf", "--epsilon", "5", *SMALL, "--count", "4")
    return call(*line, "--out", scans.parent / "release", *more)


def unframed(text: str) -> str:
    """What a screen says, on one line and without its frame."""
    return " ".join(text.replace("│", " ").split())


def spent() -> bool:
    return Path(os.environ["SFUMATO_LEDGER"]).exists()


@pytest.mark.approved
@pytest.mark.parametrize("words", ["no\n", "\n", "", "yesterday\n"])
def test_without_a_yes_nothing_is_spent(scans, answer, words):
    answer(words)
    status, _, err = asked(scans)
    assert status == 2 and "Not confirmed; nothing was spent." in err and not spent()
    assert not (scans.parent / "release").exists() and not list(Path(os.environ["SFUMATO_RUNS"]).glob("*"))


@pytest.mark.approved
def test_a_yes_runs_what_was_shown(scans, answer):
    answer("yes\n")
    status, out, err = asked(scans)
    assert status == 0 and spent() and "release" in out
    for words in ("Before anything is spent", "ill, well", "4 synthetic images", "new: it will be made", "seconds"):
        assert words in unframed(err), words
    assert "serious: The column subject" in unframed(err)


@pytest.mark.approved
def test_without_a_terminal_only_what_is_serious_stops_a_run(scans):
    status, _, err = asked(scans)
    assert status == 2 and "--person subject" in err and "--yes" in err and not spent()
    assert asked(scans, "--person", "subject")[0] == 2  # 60 persons are too few
    assert asked(scans, "--yes")[0] == 0 and spent()


@pytest.mark.approved
def test_the_hopeless_needs_force_even_with_a_yes(scans):
    status, _, err = asked(scans, "--person", "subject", "--yes")
    assert status == 2 and "60 persons" in err and "--force" in err and not spent()
    assert asked(scans, "--person", "subject", "--yes", "--force")[0] == 0


@pytest.mark.approved
def test_a_public_set_costs_nothing_and_is_not_asked_about(answer, tmp_path):
    answer("no\n")
    line = ("synthesize", "digits", "--method", "dp-merf", "--epsilon", "5", *SMALL, "--count", "4")
    assert call(*line, "--out", tmp_path / "release")[0] == 0 and not spent()


@pytest.mark.approved
def test_every_verb_that_spends_asks(scans, answer, tmp_path):
    answer("no\n")
    line = ("train-classifier", scans, "--person", "subject", "--force", "--epsilon", "5", "--network", "linear")
    status, _, err = call(*line, "--set", "steps=2", "--out", tmp_path / "classifier")
    assert status == 2 and "Not confirmed" in err and "weights of a classifier" in unframed(err)
    answer("no\n")
    tune = ("tune", "dp-merf", "--private", "--data", scans, "--epsilon", "5", "--grid", "steps=2,3", "--force")
    status, _, err = call(*tune, "--out", tmp_path / "best")
    assert status == 2 and "Not confirmed" in err and "best of about 10 runs" in unframed(err)
    assert not spent()


def test_a_plan_of_data_shows_the_same(scans):
    line = ("plan", scans, "--method", "dp-merf", "--epsilon", "5", *SMALL)
    status, out, err = call(*line)
    told = unframed(out)
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    assert "What would be done, nothing is spent" in told and "serious: The column subject" in told
    found = json.loads(call(*line, "--json")[1])["proposal"]
    assert found["seconds"] > 0 and found["account"]["new"] and any(w["serious"] for w in found["warnings"])
    assert not spent()
