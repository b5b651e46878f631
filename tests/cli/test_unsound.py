"""`sfumato synthesize --unsound`: DPAF as printed, on public images alone, and never a release."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from sfumato.methods.gan.dpaf.printed import NOISELESS, STAMP
from sfumato.release.files import gate
from sfumato.release.files.reading import MARK
from tests.cli.test_cli import call

SMALL = [
    "--set",
    "epochs=0.4",
    "--set",
    "width=2",
    "--set",
    "critic_width=2",
    "--set",
    "features=4",
    "--set",
    "mu=2",
    "--set",
    "hidden=4",
    "--set",
    "latent=4",
    "--set",
    "batch=16",
    "--count",
    "12",
    "--epsilon",
    "9",
]
METHOD = ["--method", "dpaf", "--unsound"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("unsound") / "printed"
    status, out, err = call("synthesize", "digits", *METHOD, *SMALL, "--out", str(place), "--json")
    assert status == 0, err
    assert json.loads(out)["stamp"] == STAMP
    return place


@pytest.fixture
def mine(tmp_path):
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "mine.npz", images=random.integers(0, 256, (80, 8, 8), dtype=np.uint8), labels=np.arange(80) % 2
    )
    return str(tmp_path / "mine.npz")


def refused(*words):
    status, out, err = call(*words)
    lines = [line for line in err.splitlines() if line.startswith("error:")]
    assert status == 2 and not out and len(lines) == 1, (out, err)
    return lines[0]


def test_everything_in_the_folder_bears_the_stamp(folder):
    facts = json.loads((folder / MARK).read_text())
    assert sorted(p.name for p in folder.iterdir()) == [MARK, "not-private.npz"]
    assert facts["stamp"] == STAMP and "unsound" in facts["claim"]["note"]
    assert facts["asked"]["epsilon"] == 9 and 0 < facts["claim"]["epsilon"] <= 9
    with np.load(folder / "not-private.npz") as images:
        assert images["images"].shape == (12, 1, 8, 8) and str(images["stamp"]) == STAMP


def test_a_person_reads_it_too(tmp_path):
    status, out, _ = call(
        "synthesize", "digits", *METHOD, *SMALL, "--set", "split=33%,34%,33%", "--out", str(tmp_path / "a")
    )
    assert status == 0 and STAMP in out and "does not hold" in out


def test_ingredients_are_left_out_here_alone_and_the_stamp_says_so(tmp_path):
    place, without = tmp_path / "a", ["--set", "without=noise,clipping"]
    status, out, err = call("synthesize", "digits", *METHOD, *SMALL, *without, "--out", str(place))
    assert status == 0 and NOISELESS in out and "noise,clipping" in out, err
    facts = json.loads((place / MARK).read_text())
    assert facts["stamp"] == NOISELESS and facts["claim"] is None and facts["asked"] is None
    assert "cannot become one" in refused("verify", str(place))
    said = refused("synthesize", "digits", "--method", "dpaf", *SMALL, *without, "--out", str(tmp_path / "b"))
    assert "without" in said and not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    "line",
    [
        "verify {0}",
        "evaluate {0} --data digits",
        "evaluate {0} --data digits --publish-accuracy 1",
        "sample {0} --out {0}/more",
        "refit {0} --out {0}/more",
        "compare {0} {1}",
        "audit {0} --members digits --nonmembers digits",
    ],
)
def test_no_verb_takes_it_for_a_release(folder, tmp_path, line):
    shutil.copytree(folder, tmp_path / "copy")
    said = refused(*line.format(folder, tmp_path / "copy").split())
    assert STAMP in said and "cannot become one" in said


def test_a_statement_put_beside_it_changes_nothing(folder, tmp_path):
    status, _, err = call(
        "synthesize",
        "digits",
        "--method",
        "dp-merf",
        "--epsilon",
        "5",
        "--set",
        "features=20",
        "--set",
        "steps=2",
        "--count",
        "12",
        "--out",
        str(tmp_path / "release"),
    )
    assert status == 0, err
    assert call("verify", str(tmp_path / "release"))[0] == 0
    for path in folder.iterdir():
        shutil.copy(path, tmp_path / "release" / path.name)
    assert STAMP in refused("verify", str(tmp_path / "release"))
    (tmp_path / "release" / MARK).unlink()  # the images alone do not pass either
    assert call("verify", str(tmp_path / "release"))[0] == 4
    assert gate.check(folder)


@pytest.mark.parametrize(
    "option",
    [
        "--sign key",
        "--ledger l.sqlite",
        "--public digits",
        "--relation replace-one",
        "--labels private:0.1",
        "--private-count",
        "--format parquet",
    ],
)
def test_what_belongs_to_releases_is_refused(tmp_path, option):
    said = refused("synthesize", "digits", *METHOD, *SMALL, *option.split(), "--out", str(tmp_path / "a"))
    assert "makes no release" in said and option.split()[0] in said and not (tmp_path / "a").exists()


def test_a_set_that_nobody_declares_public_is_refused(mine, tmp_path):
    words = ["synthesize", mine, *METHOD, *SMALL, "--out", str(tmp_path / "a")]
    assert "declared public" in refused(*words) and not (tmp_path / "a").exists()
    status, _, err = call(*words, "--provenance", "made up for a test")
    assert status == 0, err
    assert json.loads((tmp_path / "a" / MARK).read_text())["data"]["provenance"] == "made up for a test"


@pytest.mark.parametrize(
    ("words", "about"), [(["--method", "dp-merf"], "dpaf"), (["--method", "dpaf", "--set", "split=x,0.2"], "conv1")]
)
def test_what_is_not_the_printed_procedure_is_refused(words, about, tmp_path):
    said = refused("synthesize", "digits", *words, "--unsound", "--epsilon", "1", "--out", str(tmp_path / "a"))
    assert about in said


def test_it_is_not_resumed(tmp_path):
    assert "--unsound" in refused("synthesize", "--resume", "abc", "--unsound")
