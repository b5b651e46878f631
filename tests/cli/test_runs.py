"""`sfumato runs`: listed, resumed and discarded, with what each costs; --quiet and --verbose."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import Interrupted
from sfumato.flow import request
from sfumato.flow.request import Request
from tests.cli.test_cli import call, refused
from tests.test_api import Stop

SETTINGS = {"features": "40", "steps": "4", "batch": "4", "latent": "4", "width": "8"}


@pytest.fixture
def scans(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (60, 8, 8), np.uint8)
    np.savez(tmp_path / "scans.npz", images=pixels, labels=np.arange(60) % 2)
    return tmp_path / "scans.npz"


@pytest.fixture
def stopped(scans, tmp_path) -> str:
    """A run of the command line that was stopped after its crossing."""
    out = str(tmp_path / "release")
    asked = Request(data=str(scans), method="dp-merf", epsilon=2.0, settings=SETTINGS, count=5, out=out)
    with pytest.raises(Interrupted) as stop:
        request.carry_out(asked, Stop())
    return str(stop.value).split("--resume ")[1]


def test_without_runs_there_is_none():
    assert call("runs") == (0, "There is no unfinished run.\n", "")
    assert json.loads(call("runs", "--json")[1]) == []


def test_a_stopped_run_is_listed_with_its_cost(stopped, scans):
    status, out, _ = call("runs")
    assert status == 0 and stopped in out and "epsilon 2 at delta 1e-05, charged" in out
    (one,) = json.loads(call("runs", "--json")[1])
    assert one["data"] == str(scans) and one["state"] == "begun"
    assert json.loads(call("runs", stopped[:6], "--json")[1])["run"] == stopped


def test_a_run_is_resumed_by_the_beginning_of_its_name(stopped, tmp_path):
    status, out, err = call("runs", stopped[:8], "--resume", "--quiet")
    assert (status, out) == (0, f"{tmp_path / 'release'}\n"), err
    assert call("runs")[1] == "There is no unfinished run.\n" and (tmp_path / "release-run.yaml").is_file()


def test_a_run_that_has_spent_is_discarded_with_a_word_only(stopped, scans):
    books = Path(os.environ["SFUMATO_LEDGER"]).read_bytes()
    assert "stays charged (epsilon 2" in refused("runs", stopped, "--discard")
    assert Path(os.environ["SFUMATO_LEDGER"]).read_bytes() == books
    status, out, _ = call("runs", stopped, "--discard", "--yes")
    assert status == 0 and "Discarded" in out and "epsilon 2" in out
    assert json.loads(call("budget", scans, "--json")[1])["spent"] == pytest.approx(2.0, rel=1e-4)
    assert "no unfinished run" in refused("runs", stopped, "--discard", "--yes")


def test_a_run_is_resumed_with_the_ledger_where_it_lies_now(stopped, tmp_path, monkeypatch):
    """The message names --ledger, and --ledger is taken beside --resume."""
    os.rename(os.environ["SFUMATO_LEDGER"], tmp_path / "moved.sqlite")
    status, _, err = call("synthesize", "--resume", stopped)
    assert status == 3 and f"--resume {stopped} --ledger FILE" in err
    assert "There is no ledger" in refused("synthesize", "--resume", stopped, "--ledger", tmp_path / "none")
    status, _, err = call("synthesize", "--resume", stopped, "--ledger", tmp_path / "moved.sqlite", "--json")
    assert status == 0, err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("runs", "nope"), "no unfinished run 'nope'"),
        (("runs", "--resume"), "Say which run"),
        (("runs", "--discard", "--yes"), "Say which run"),
        (("runs", "x", "--resume", "--discard"), "not both"),
        (("runs", "-q", "-v"), "leave out --quiet or --verbose"),
        (("synthesize", "digits", "-q", "-v"), "leave out --quiet or --verbose"),
    ],
)
def test_what_makes_no_sense_is_refused(argv, words):
    assert words in refused(*argv)


def test_quiet_prints_the_path_alone_and_verbose_every_crossing(scans, tmp_path):
    tiny = ("--method", "dp-merf", *(word for pair in SETTINGS.items() for word in ("--set", "=".join(pair))))
    line = ("synthesize", scans, "--epsilon", "1", *tiny, "--count", "5", "--out")
    assert call("budget", scans, "--total", "5")[0] == 0
    status, out, err = call(*line, tmp_path / "a", "--quiet")
    assert (status, out) == (0, f"{tmp_path / 'a'}\n")
    assert all(each.startswith("warning: ") for each in err.splitlines())
    status, out, err = call(*line, tmp_path / "b", "--verbose")
    assert status == 0 and "Crossings" in out and "features=40" in out and " s  training ..." in err
