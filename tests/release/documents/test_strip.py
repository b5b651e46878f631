"""Previews in a release: hashed, checked, kept when saved again, and left out by a refit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sfumato import DPMERF, Budget, api
from sfumato.data.images import png
from sfumato.release import Release, check
from sfumato.release.files.gate import json_text
from sfumato.run.preview import Preview, Snapshots
from sfumato.run.progress import Silent
from tests.release.files.test_verify import _reseal, refused


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of a method that takes previews on its way."""
    learn = DPMERF.learn

    def watched(self: DPMERF, barrier: Any, run: Any, public: Any = None) -> Any:
        net = learn(self, barrier, run, public)
        preview = Preview(run, net, barrier.spec, times=3)
        for step in range(5):
            preview.snapshot(step, 5, net)
        return net

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DPMERF, "learn", watched)
        patch.setenv("SFUMATO_RUNS", str(tmp_path_factory.mktemp("runs")))
        return api.synthesize(DPMERF(features=10, steps=1), "digits", Budget(epsilon=2), count=6)


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    return release.save(tmp_path / "release")


def test_it_is_listed_hashed_and_accepted(release: Release, folder: Path) -> None:
    assert release.snapshots is not None and release.snapshots.steps == (1, 3, 5)
    assert release.snapshots.epsilons[-1] == pytest.approx(2.0)
    assert check(folder) == [] and refused(folder) == {}
    assert {"strip.png", "strip.json"} <= set(json.loads((folder / "hashes.json").read_text())["files"])
    assert "Step 3 of 5" in (folder / "report.html").read_text()


def test_it_comes_back_and_is_kept(release: Release, folder: Path, tmp_path: Path) -> None:
    back = Release.load(folder)
    assert back.snapshots is not None and release.snapshots is not None
    assert np.array_equal(back.snapshots.pixels, release.snapshots.pixels)
    assert refused(back.save(tmp_path / "again", "parquet")) == {}
    assert (tmp_path / "again" / "strip.png").read_bytes() == (folder / "strip.png").read_bytes()


def test_a_refit_has_none(folder: Path, tmp_path: Path) -> None:
    assert api.refit(folder, tmp_path / "refit", count=6).snapshots is None
    assert refused(tmp_path / "refit") == {} and not (tmp_path / "refit" / "strip.png").exists()


@pytest.mark.parametrize("names", [("strip.png",), ("strip.json",), ("strip.png", "strip.json")])
def test_it_cannot_be_taken_out(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (folder / name).unlink()
    assert "hashes" in refused(folder)
    _reseal(folder)
    assert "documents" in refused(folder)


def test_another_picture_is_refused_although_its_hash_fits(release: Release, folder: Path) -> None:
    (folder / "strip.png").write_bytes(png(release.snapshots.picture() // 2))
    _reseal(folder)
    assert set(refused(folder)) == {"documents"}


@pytest.mark.parametrize("text", [lambda facts: json.dumps(facts), lambda facts: json_text(facts) + "\n"])
def test_facts_in_another_form_are_refused(release: Release, folder: Path, text: Any) -> None:
    (folder / "strip.json").write_text(text(release.snapshots.facts()))
    _reseal(folder)
    assert "form in which it was written" in refused(folder)["images"]


def spoilt(release: Release, **changes: Any) -> Release:
    """The release as a forger would save it, with all documents and hashes made to fit."""
    snapshots: Snapshots = replace(release.snapshots, **changes)
    return Release(release.generator, release.images, release.statement, release.measurement, snapshots)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilons": (0.1, 0.2, 9.0)}, "stated"),
        ({"steps": (3, 1, 5)}, "order"),
        ({"pixels": np.zeros((3, 3, 16, 80), np.uint8)}, "shape"),
        ({"pixels": np.zeros((3, 1, 15, 80), np.uint8)}, "shape"),
    ],
)
def test_what_cannot_be_is_refused(release: Release, tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    assert says in refused(spoilt(release, **changes).save(tmp_path / "release"))["images"]


def test_no_words_can_be_added(release: Release, tmp_path: Path) -> None:
    class Chatty(Snapshots):
        def facts(self) -> dict[str, Any]:
            return super().facts() | {"note": "hello"}

    taken = release.snapshots
    chatty = Chatty(taken.pixels, taken.steps, taken.epsilons, taken.total)
    with pytest.raises(ValueError, match="export gate refused strip.json"):
        Release(release.generator, release.images, release.statement, None, chatty).save(tmp_path / "release")


def test_a_run_shows_previews_after_its_checkpoints(tmp_path: Path) -> None:
    from sfumato import Run
    from sfumato.privacy.odometer import Odometer
    from sfumato.run import checkpoint
    from tests.made_up import plan
    from tests.run.test_preview import SPEC, generator

    counted: list[bool] = []

    class Told(Silent):
        def picture(self, path: Path) -> None:
            done = checkpoint.load(tmp_path / "checkpoint.safetensors")["step"]["done"]
            counted.append(done >= preview.steps[-1])

    run = Run(device="cpu", folder=tmp_path, odometer=Odometer(plan()), progress=Told(), every=0.0)
    preview, net = Preview(run, generator(), SPEC, times=3), generator()
    for step in run.steps(5, preview=preview):
        preview.snapshot(step, 5, net)
    assert preview.steps == [1, 3, 5] and counted and all(counted)
    with Image.open(tmp_path / "preview.png") as image:
        assert np.array_equal(np.asarray(image), preview.grids[-1][0])
