"""`sfumato synthesize`, `refit`, `sample` and `budget`, from a folder of images to a published one and back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from sfumato import Release
from sfumato.cli import app
from sfumato.flow.request import Request, _run
from tests.cli.test_cli import call, refused, shell

TINY = ("--method", "dp-merf", "--set", "features=50", "--set", "steps=3", "--count", "20")


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    """500 PNGs of mixed sizes in three class folders."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for number in range(500):
        place = folder / ("cat", "[red]dog", "fox")[number % 3]
        place.mkdir(exist_ok=True)
        height, width = rng.integers(20, 41, 2)
        Image.fromarray(rng.integers(0, 256, (height, width), np.uint8)).save(place / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def release(images, tmp_path_factory) -> Path:
    """A release of the images, made as a person would."""
    home = tmp_path_factory.mktemp("places")
    out = home / "release"
    places = {f"SFUMATO_{name}": str(home / name) for name in ("LEDGER", "RUNS", "CACHE")}
    done = shell("synthesize", images, "--size", "28", "--epsilon", "5", *TINY, "--out", out, **places)
    assert done.returncode == 0, done.stderr
    assert str(out / "report.html") in done.stdout and "(5, 1e-5)-differential privacy" in done.stdout
    assert "declared public: [red]dog, cat, fox" in done.stdout and "images     20" in done.stdout
    assert "warning" not in done.stdout and "training" in done.stderr
    return out


def test_a_microbatch_reaches_the_run():
    asked = Request(data="digits", method="dp-merf", epsilon=1.0, microbatch=7)
    assert _run(asked, None).microbatch == 7


def test_the_request_and_the_flags_have_the_same_defaults():
    flags = {p.name: p.default for p in typer.main.get_command(app).commands["synthesize"].params}
    for field in fields(Request):
        if field.name in flags and field.name not in ("data", "method", "epsilon"):
            assert flags[field.name] == field.default, field.name
    assert {field.name for field in fields(Request)} - set(flags) == {"settings"}


def test_a_folder_goes_round(release, tmp_path):
    status, out, _ = call("sample", release, "--count", "7", "--label", "cat", "--out", tmp_path / "more", "--json")
    found = json.loads(out)
    assert (
        status == 0
        and found["images"] == 7
        and found["shape"] == [1, 28, 28]
        and found["classes"] == ["[red]dog", "cat", "fox"]
    )
    assert len(list((tmp_path / "more" / "images" / "cat").glob("*.png"))) == 7
    assert Release.load(release).images.pixels.shape == (20, 1, 28, 28)


def test_sample_for_people_and_as_parquet(release, tmp_path):
    status, out, _ = call("sample", release, "--count", "3", "--format", "parquet", "--out", tmp_path / "more")
    assert status == 0 and "3 of 1x28x28" in out and (tmp_path / "more" / "data.parquet").is_file()


def test_refit(release, tmp_path):
    argv = ("refit", release, "--out", tmp_path / "again", "--count", "4", "--seed", "9")
    status, out, _ = call(*argv, "--set", "steps=2", "--json")
    found = json.loads(out)
    assert status == 0 and found["images"] == 4 and found["guarantee"]["epsilon"] == pytest.approx(5, rel=1e-3)
    assert Path(found["report"]).is_file()
    assert "features" in refused("refit", release, "--out", tmp_path / "third", "--set", "features=2")


def test_a_refit_has_as_many_images_as_its_release(release, tmp_path):
    argv = ("refit", release, "--out", tmp_path / "again", "--json")
    assert json.loads(call(*argv)[1])["images"] == len(Release.load(release).images)


def test_a_set_that_is_repeated_says_so(tmp_path):
    argv = (
        "synthesize",
        "digits",
        "--method",
        "private-evolution",
        "--epsilon",
        "5",
        "--count",
        "60",
        "--device",
        "cpu",
    )
    small = ("--set", "each=2", "--set", "rounds=1", "--out", tmp_path / "set")
    status, said, err = call(*argv, *small)
    assert status == 0, err
    said = " ".join(said.split())
    assert "60 files of 20 distinct images" in said and "a larger --count repeats them" in said


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--label", "cow"), "Unknown label 'cow'"),
        (("--count", "0"), "--count from 1"),
        (("--format", "gif"), "png"),
        (("--seed", "-1"), "--seed from 0"),
        (("--seed", "9" * 30), "--seed from 0"),
    ],
)
def test_sample_refuses(release, tmp_path, argv, words):
    assert words in refused("sample", release, "--out", tmp_path / "more", *argv)


def test_sample_refuses_folders(release, tmp_path):
    assert "not a folder" in refused("sample", tmp_path / "none", "--out", tmp_path / "more")
    assert "not empty" in refused("sample", release, "--out", release)
    assert "privacy.json" in refused("refit", tmp_path, "--out", tmp_path / "more")


def test_synthesize_a_named_set_as_json(tmp_path):
    status, out, err = call("synthesize", "digits", "--epsilon", "1", *TINY, "--out", tmp_path / "release", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "") and found["images"] == 20 and found["release"] == str(tmp_path / "release")
    assert found["guarantee"]["epsilon"] == pytest.approx(1) and found["crossings"][0]["name"] == "embedding"
    assert isinstance(found["warnings"], list) and Path(found["report"]).is_file()


BASE = ("synthesize", "digits", "--epsilon", "1", *TINY)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("synthesize", "--method", "dp-merf", "--epsilon", "1"), "DATA is missing"),
        (("synthesize", "digits"), "--epsilon E is missing"),
        (("synthesize", "digits", "--method", "dp-merf"), "--epsilon E is missing"),
        ((*BASE, "--unit", "person"), "--person COLUMN"),
        ((*BASE, "--public", "digits"), "--provenance"),
        ((*BASE, "--format", "gif"), "png"),
        ((*BASE, "--device", "abacus"), "--device"),
        ((*BASE, "--microbatch", "0"), "Expected --microbatch from 1"),
        ((*BASE, "--records", "5"), "--private-count"),
        ((*BASE, "--labels", "nowhere.csv"), "--labels"),
        ((*BASE, "--seed", "9" * 30), "--seed from 0"),
        (("synthesize", "/no/such", "--epsilon", "1", *TINY), "/no/such"),
        (("synthesize", "digits", "--resume", "x"), "leave out DATA"),
        (("synthesize", "--resume", "x", "--count", "5"), "leave out --count"),
        (("synthesize", "--resume", "x"), "no run 'x'"),
    ],
)
def test_synthesize_refuses(argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(*argv)
    assert not list(tmp_path.iterdir())


def test_without_a_method_the_house_s_own_is_taken_and_what_was_fitted_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--set", "features=40", "--set", "steps=2", "--set", "labeller_steps=3", "--count", "20")
    assert call("synthesize", "digits", "--epsilon", "2", *small, "--out", "one")[0] == 0
    told = Release.load("one").statement["reproducibility"]
    assert (
        told["method"] == "sfumato" and "--set adapt=False" in told["command"] and "labeller_steps=3" in told["command"]
    )
    assert call("synthesize", "--config", "one-run.yaml", "--out", "two", "--ledger", "other.db")[0] == 0
    again = Release.load("two").statement
    assert again["reproducibility"]["command"] == told["command"]
    assert again["declared_public"]["settings"] == Release.load("one").statement["declared_public"]["settings"]


def test_mixed_sizes_need_a_size(images, tmp_path):
    assert "--size" in refused("synthesize", images, "--epsilon", "1", *TINY, "--out", tmp_path / "release")


def test_the_second_run_is_refused_and_the_budget_tells(images, tmp_path):
    argv = ("synthesize", images, "--size", "28", "--epsilon", "1", *TINY, "--out")
    assert call(*argv, tmp_path / "one", "--json")[0] == 0
    status, out, err = call(*argv, tmp_path / "two", "--json")
    assert status == 3 and json.loads(out)["exit"] == 3 and "is spent" in err
    assert not (tmp_path / "two").exists()

    status, out, _ = call("budget", images, "--size", "28", "--json")
    found = json.loads(out)
    assert (
        status == 0
        and found["spent"] == pytest.approx(1, rel=1e-4)
        and [r["status"] for r in found["history"]] == ["committed"]
    )
    status, out, _ = call("budget", images, "--size", "28", "--total", "3")
    assert status == 0 and "epsilon 3 at delta 1e-05, add-remove, per record" in out
    assert "spent" in out and "epsilon 1 by 1 run" in out and found["history"][0]["run"] in out
    assert call(*argv, tmp_path / "two", "--json")[0] == 0


def test_the_budget_shows_the_custodian_where_else_the_records_are(images, tmp_path):
    argv = ("--size", "28", "--epsilon", "1", *TINY, "--json", "--out")
    assert call("budget", images, "--size", "28", "--total", "3")[0] == 0
    copy = shutil.copytree(images, tmp_path / "copy")
    assert call("synthesize", copy, *argv, tmp_path / "one")[0] == 0
    out = " ".join(call("budget", copy, "--size", "28")[1].split())
    assert "These records or persons are also in the account" in out
    assert "with a total of epsilon 3 at delta 1e-05, add-remove, per record, of which epsilon 2" in out


def test_budget_before_any_run(images, tmp_path):
    status, out, _ = call("budget", images, "--size", "28", "--ledger", tmp_path / "ledger")
    assert status == 0 and "not set" in out and "nothing" in out


def test_budget_of_a_public_set():
    status, out, _ = call("budget", "digits")
    assert status == 0 and "This set is public" in out
    assert json.loads(call("budget", "digits", "--json")[1])["throw_away"] is True


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--delta", "1e-6"), "give --total"),
        (("--total", "-1"), "--total above 0"),
        (("--unit", "person"), "--person"),
        (("--total", "1", "--relation", "swap"), "--relation as"),
        (("--split", "nope"), "split"),
    ],
)
def test_budget_refuses(argv, words):
    assert words in refused("budget", "digits", *argv)


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path):
    command = [
        sys.executable,
        "-m",
        "sfumato",
        "synthesize",
        "digits",
        "--method",
        "dp-merf",
        "--epsilon",
        "1",
        "--set",
        "features=50",
        "--set",
        "batch=2",
        "--set",
        "steps=400",
        "--count",
        "20",
        "--out",
        "release",
    ]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    with process:
        for line in process.stderr:
            if line.startswith("training"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.wait(60) == 130
    name = re.search(r"--resume (\w+)", rest).group(1)
    assert "Traceback" not in rest and not (tmp_path / "release").exists()
    status, out, err = call("synthesize", "--resume", name, "--json")
    assert status == 0, err
    assert json.loads(out)["release"] == str(tmp_path / "release") and (tmp_path / "release" / "report.html").is_file()
    assert "no run" in refused("synthesize", "--resume", name)
