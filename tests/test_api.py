"""The whole flow from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sfumato
from sfumato import DPMEPF, DPMERF, Budget, InputError, OverBudget, PrivateEvolution, Release, Run, load, synthesize
from sfumato.api import budget_of, refit, sample
from sfumato.data.labels import LabelPrior
from sfumato.data.public import PublicImages
from sfumato.errors import Interrupted
from sfumato.run.progress import Recorder
from sfumato.types import Images
from tests.made_up import arrays

TINY = {"features": 40, "steps": 4, "batch": 4, "latent": 4, "width": 8}
SHARED = Path(sfumato.__file__).parents[2] / "shared" / "data"


def test_a_release_reads_back_in_a_new_process(tmp_path):
    synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=9, out=tmp_path / "release")
    place = str(tmp_path / "release")
    line = f"from sfumato import Release; print(Release.load({place!r}).sample(4, seed=2).pixels.sum())"
    out = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
    assert int(out) == Release.load(tmp_path / "release").sample(4, seed=2).pixels.sum()


def test_a_refit_costs_nothing_and_differs(tmp_path):
    first = synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=9, out=tmp_path / "one")
    before = budget_of(arrays())["spent"]
    again = refit(tmp_path / "one", tmp_path / "two", count=9, settings={"steps": "6"})
    assert budget_of(arrays())["spent"] == before
    assert again.statement["guarantee"] == first.statement["guarantee"]
    assert again.statement["reproducibility"]["configuration"]["settings"]["steps"] == 6
    assert torch.equal(again.measurement["embedding"].value, first.measurement["embedding"].value)
    assert not np.array_equal(again.images.pixels, first.images.pixels)
    with pytest.raises(InputError, match="features"):
        refit(tmp_path / "one", tmp_path / "three", settings={"features": "80"})


def test_a_sample_is_an_image_folder(tmp_path):
    synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=9, out=tmp_path / "release")
    sample(tmp_path / "release", 5, tmp_path / "more", label="1")
    with load(tmp_path / "more") as box:
        assert box.spec.classes == ("1",) and box.spec.records == 5


def test_a_second_run_is_refused_before_anything_is_read(monkeypatch):
    from sfumato.data.private import Records

    synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=3)
    read = Records.read  # of the made-up records of a rehearsal, which are fewer
    monkeypatch.setattr(
        Records, "read", lambda self, rows: pytest.fail("read") if len(self) == 60 else read(self, rows)
    )
    with pytest.raises(OverBudget, match="no room"):
        synthesize(DPMERF(**TINY), arrays(), Budget(0.5), count=3)
    assert os.listdir(os.environ["SFUMATO_RUNS"]) == []


def test_runs_compose_under_a_total_by_their_events():
    budget_of(arrays(), total=Budget(3.0))
    for epsilon in (1.0, 1.0, 1.0):
        synthesize(DPMERF(**TINY), arrays(), Budget(epsilon), count=3)
    spent = budget_of(arrays())["spent"]
    assert 1.7 < spent < 2.0  # three times epsilon 1, composed as Gaussians; their sum would be 3


def test_a_private_histogram_sets_the_label_shares():
    images, _ = arrays(n=4708)
    labels = (np.arange(4708) >= 1214).astype(int)  # the class sizes of PneumoniaMNIST
    method = DPMERF(**TINY, labels=LabelPrior("private", fraction=0.3))
    release = synthesize(method, (images, labels), Budget(2.0), count=1000)
    shares = np.bincount(release.images.labels) / 1000
    assert shares == pytest.approx([1214 / 4708, 3494 / 4708], abs=0.02)
    assert [e["name"] for e in release.statement["mechanisms"]["events"]] == ["embedding", "labels"]


@pytest.mark.skipif(not (SHARED / "pneumoniamnist_28.npz").exists(), reason="needs PneumoniaMNIST beside the checkout")
def test_pneumonia_is_imbalanced_and_comes_out_so():
    method = DPMERF(**TINY, labels=LabelPrior("private", fraction=0.1))
    release = synthesize(method, f"pneumonia-mnist:{SHARED / 'pneumoniamnist_28.npz'}", Budget(1.0), count=1000)
    assert np.bincount(release.images.labels)[1] / 1000 == pytest.approx(0.742, abs=0.03)


def test_a_person_is_the_unit_when_named():
    images, labels = arrays()
    data = load((images, labels, np.arange(60) // 4))
    from sfumato import Unit

    assert data.spec.unit is Unit.PERSON
    release = synthesize(DPMERF(**TINY), data, Budget(2.0, unit=Unit.PERSON), count=3)
    assert release.statement["guarantee"]["unit"] == "person"


def test_a_private_count_never_appears(tmp_path):
    data = load(arrays(n=61), private_count=True, records=1000)
    shown = Recorder()
    synthesize(DPMERF(**TINY), data, Budget(2.0), Run(progress=shown), count=3, out=tmp_path / "release")
    text = (tmp_path / "release" / "privacy.json").read_text()
    assert json.loads(text)["guarantee"]["size"].count("1,000") == 1
    assert " 61" not in text and not any("61" in str(line) for line in shown.lines)


def test_public_data_are_named_in_the_statement():
    public = PublicImages(Images(np.zeros((4, 1, 8, 8), np.uint8), np.zeros(4, int)), "made up for a test")
    release = synthesize(PrivateEvolution(each=2, rounds=1), arrays(), Budget(2.0), count=3, public=public)
    assert "made up for a test" in json.dumps(release.statement["declared_public"])
    with pytest.raises(InputError, match="dp-merf looks at no public images"):
        synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=3, public=public)


def test_a_public_network_is_named_in_the_statement():
    said = DPMEPF(network="efficientnet").public_used(None)
    assert said["name"] == "efficientnet" and "declared public" in said["provenance"]
    assert DPMEPF(network="random").public_used(None) is None


class Stop(Recorder):
    """Presses Ctrl-C after two steps."""

    def advance(self, done, note=""):
        if note.startswith("epsilon") and done == 2:
            os.kill(os.getpid(), 2)


def test_a_run_stopped_from_python_is_resumed_from_python():
    with pytest.raises(Interrupted, match="resume=") as stopped:
        synthesize(DPMERF(**TINY), arrays(), Budget(2.0), Run(progress=Stop()), count=3)
    run = str(stopped.value).split("resume=")[1]
    with pytest.raises(InputError, match="plan changed"):
        synthesize(DPMERF(**TINY), arrays(), Budget(1.0), count=3, resume=run)
    release = synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=3, resume=run)
    assert len(release.images) == 3 and len(budget_of(arrays())["history"]) == 1


def test_an_occupied_place_is_refused_before_the_budget(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="choose another `out`"):
        synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=3, out=tmp_path)
    assert budget_of(arrays())["history"] == []


def test_nothing_private_is_left_behind(tmp_path):
    synthesize(DPMERF(**TINY), arrays(), Budget(2.0), count=3, out=tmp_path / "release").images  # noqa: B018
    assert os.listdir(os.environ["SFUMATO_RUNS"]) == []
    cache = Path(os.environ["SFUMATO_CACHE"])
    assert not [p for p in cache.rglob("*") if p.is_file()] if cache.exists() else True
