"""`sfumato tune` from the command line."""

from __future__ import annotations

import json

import pytest

from sfumato import cli
from tests.made_up import arrays

TINY = ["--grid", "features=40", "--grid", "batch=4", "--grid", "width=8", "--grid", "steps=2,3"]


def run(capsys, *argv):
    status = cli.run(["tune", "dp-merf", "--epsilon", "2", *map(str, argv)])
    return status, capsys.readouterr()


def test_made_up_images_are_ranked_for_free(capsys):
    status, said = run(capsys, *TINY, "--records", 100, "--shape", "1x8x8", "--classes", 3, "--json")
    rows = json.loads(said.out)
    assert status == 0 and len(rows) == 2 and rows[0]["score"] >= rows[1]["score"]


def test_a_named_public_set_is_free_and_shown_as_a_table(capsys):
    status, said = run(capsys, *TINY, "--data", "digits")
    assert status == 0 and "score" in said.out and "steps" in said.out


def test_private_data_need_the_word(capsys, tmp_path):
    import numpy as np

    images, labels = arrays(120)
    np.savez(tmp_path / "scans.npz", images=images, labels=labels)
    status, said = run(capsys, *TINY, "--data", tmp_path / "scans.npz")
    assert status == 2 and "--private" in said.err
    status, said = run(
        capsys,
        *TINY,
        "--data",
        tmp_path / "scans.npz",
        "--private",
        "--runs",
        2,
        "--count",
        6,
        "--out",
        tmp_path / "release",
        "--json",
    )
    assert status == 0 and json.loads(said.out)["guarantee"]["epsilon"] == pytest.approx(2.0, rel=1e-3)
    status, said = run(capsys, *TINY, "--data", tmp_path / "scans.npz", "--private", "--out", tmp_path / "again")
    assert status == 3


@pytest.mark.parametrize("bad", [["--law", "poisson"], ["--runs", "0"], ["--grid", "steps"], []])
def test_bad_flags_get_a_sentence(capsys, bad):
    status, said = run(capsys, *bad)
    assert status == 2 and said.err.startswith("error: ")
