"""`sfumato sweep` from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.test_cli import call, refused
from tests.made_up import arrays

TINY = "{features: 40, batch: 8, latent: 4, width: 8, steps: [2, 3]}"
PLAN = f"data: digits\nepsilon: 1\nseeds: 2\ncount: 100\ndevice: cpu\nmethods: {{dp-merf: {TINY}}}\n"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path / "plan.yaml"


def test_a_sweep_is_a_table_and_a_page(file, tmp_path):
    status, out, err = call("sweep", str(file), "--out", str(tmp_path / "out"), "--workers", "1")
    assert status == 0 and "4 runs: 4 done; 4 of them made now" in out and "steps" in out, err
    status, out, _ = call("sweep", str(file), "--out", str(tmp_path / "out"), "--json")
    found = json.loads(out)
    assert status == 0 and found["made"] == 0 and [row["seeds"] for row in found["rows"]] == [2, 2]
    status, out, _ = call("sweep", str(file), "--out", str(tmp_path / "out"), "--quiet")
    assert out.strip() == str(tmp_path / "out")


def test_bad_plans_and_options_get_a_sentence(file, tmp_path):
    out = ("--out", str(tmp_path / "out"))
    assert "cannot be read" in refused("sweep", str(tmp_path / "none.yaml"), *out)
    assert "--workers" in refused("sweep", str(file), *out, "--workers", "0")
    assert "--pool" in refused("sweep", str(file), *out, "--pool", "cloud")
    file.write_text(PLAN.replace("digits", "digitz"))
    assert "did you mean digits" in refused("sweep", str(file), *out)
    file.write_text(PLAN + "private: yes\n")
    assert "one selection" in refused("sweep", str(file), *out)


def test_private_data_need_the_word_and_are_released(file, tmp_path):
    images, labels = arrays(120)
    np.savez(tmp_path / "scans.npz", images=images, labels=labels)
    text = PLAN.replace("digits", str(tmp_path / "scans.npz")).replace("seeds: 2\ncount: 100", "seeds: 1\ncount: 6")
    file.write_text(text)
    assert "private: yes" in refused("sweep", str(file), "--out", str(tmp_path / "out"))
    file.write_text(text + "private: yes\nruns: 2\n")
    status, out, err = call("sweep", str(file), "--out", str(tmp_path / "out"), "--json")
    assert status == 0, err
    assert json.loads(out)["guarantee"]["epsilon"] == pytest.approx(1.0, rel=1e-3)
