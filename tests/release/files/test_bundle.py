from __future__ import annotations

import json
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.release import Release, check, ensure_free
from sfumato.release.files.gate import POINTS
from tests.release.files.test_fakes import CLASSES, SECRET_PATH, fake_images, fake_release, load_fake_generator

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def fake_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("sfumato.networks")
    module.load_generator = load_fake_generator
    monkeypatch.setitem(sys.modules, "sfumato.networks", module)


@pytest.mark.parametrize("format", ["png", "parquet"])
def test_round_trip(tmp_path: Path, format: str) -> None:
    release = fake_release()
    folder = release.save(tmp_path / "out" / "release", format)
    back = Release.load(folder)
    assert np.array_equal(back.images.pixels, release.images.pixels)
    assert back.images.labels.tolist() == release.images.labels.tolist()
    assert back.images.classes == CLASSES == back.classes
    assert back.statement["guarantee"] == release.statement["guarantee"]
    assert np.array_equal(back.generator.weight, release.generator.weight)
    assert back.measurement["embedding"].why == "post-processing of crossing embedding"
    assert np.array_equal(back.measurement["embedding"].value, release.measurement["embedding"].value)
    assert np.array_equal(back.sample(5, seed=3).pixels, release.sample(5, seed=3).pixels)


def test_layout_is_the_listed_one(tmp_path: Path) -> None:
    fake_release().save(tmp_path / "release")
    names = {path.relative_to(tmp_path / "release").as_posix() for path in (tmp_path / "release").rglob("*.*")}
    assert {name for name in names if not name.startswith("images/")} == {
        "generator/config.json",
        "generator/model.safetensors",
        "measurement.safetensors",
        "privacy.json",
        "PRIVACY.md",
        "README.md",
        "report.html",
        "deployment.yaml",
        "hashes.json",
    }
    assert check(tmp_path / "release") == []
    assert json.loads((tmp_path / "release" / "privacy.json").read_text()).keys() == {"format", "measurement", *POINTS}


def test_a_loaded_release_can_be_saved_again(tmp_path: Path) -> None:
    fake_release().save(tmp_path / "one")
    Release.load(tmp_path / "one").save(tmp_path / "two", "parquet")
    assert np.array_equal(Release.load(tmp_path / "two").images.pixels, fake_images().pixels)


def test_without_a_measurement(tmp_path: Path) -> None:
    release = fake_release()
    Release(release.generator, release.images, release.statement).save(tmp_path / "release")
    assert not (tmp_path / "release" / "measurement.safetensors").exists()
    assert Release.load(tmp_path / "release").measurement is None


def test_loads_in_a_fresh_process(tmp_path: Path) -> None:
    release = fake_release()
    release.save(tmp_path / "release")
    script = (
        "import sys, types; sys.path.insert(0, sys.argv[2])\n"
        "from tests.release.files.test_fakes import load_fake_generator\n"
        "fake = types.ModuleType('sfumato.networks'); fake.load_generator = load_fake_generator\n"
        "sys.modules['sfumato.networks'] = fake\n"
        "from sfumato.release import Release\n"
        "r = Release.load(sys.argv[1]); print(int(r.sample(4, labels='ill', seed=9).pixels.sum()), len(r.images))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "release"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    expected = int(release.sample(4, labels=[0] * 4, seed=9).pixels.sum())
    assert done.stdout.split() == [str(expected), "12"], done.stderr


@pytest.mark.parametrize("format", ["png", "parquet"])
def test_no_local_path_leaves(tmp_path: Path, format: str) -> None:
    command = f"sfumato synthesize {SECRET_PATH} --out {tmp_path}/release"
    folder = fake_release().save(tmp_path / "release", format, command=command)
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert b"very-private" not in data and str(tmp_path).encode() not in data, path
    assert "chest-scans" in (folder / "PRIVACY.md").read_text()


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="not empty; choose another `out`"):
        fake_release().save(tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        ensure_free(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    fake_release().save(ensure_free(tmp_path / "release"))
    assert (tmp_path / "release" / "report.html").is_file()


def test_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise RuntimeError("halfway")

    monkeypatch.setattr("sfumato.release.documents.report.make_report", fail)
    with pytest.raises(RuntimeError, match="halfway"):
        fake_release().save(tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfumato.release.documents.report.make_report", full)
    with pytest.raises(InputError, match="No space left"):
        fake_release().save(tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


def test_unknown_format_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found format=jpg"):
        fake_release().save(tmp_path / "release", "jpg")
    assert list(tmp_path.iterdir()) == []


def test_labels_by_name_and_number() -> None:
    release = fake_release()
    assert release.sample(2, labels="..").labels.tolist() == [2, 2]
    assert release.sample(2, labels="1").labels.tolist() == [1, 1]
    assert release.sample(2, labels=[0, "ill"]).labels.tolist() == [0, 0]


@pytest.mark.parametrize("labels", ["well", 3, -1, [0, 7], [0]])
def test_wrong_labels(labels: object) -> None:
    with pytest.raises(InputError, match="label"):
        fake_release().sample(2, labels=labels)


def test_a_count_below_one() -> None:
    with pytest.raises(InputError, match="at least 1"):
        fake_release().sample(0)


def _spoil(path: Path, data: bytes | None) -> None:
    path.unlink()
    if data is not None:
        path.write_bytes(data)


@pytest.mark.parametrize("data", [None, b"", b"garbage", b"[]", b"{}"])
@pytest.mark.parametrize(
    "name", ["privacy.json", "generator/config.json", "generator/model.safetensors", "measurement.safetensors"]
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, data: bytes | None) -> None:
    folder = fake_release().save(tmp_path / "release")
    _spoil(folder / name, data)
    with pytest.raises(InputError, match=Path(name).name.replace(".", r"\.")):
        Release.load(folder)


def test_a_foreign_generator_is_one_sentence(tmp_path: Path) -> None:
    folder = fake_release().save(tmp_path / "release")
    config = {"format": "sfumato-generator/1", "generator": {"kind": "other"}}
    _spoil(folder / "generator" / "config.json", json.dumps(config).encode())
    with pytest.raises(InputError, match="found kind=other"):
        Release.load(folder)


def test_what_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        Release.load(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"privacy\.json is missing"):
        Release.load(tmp_path)
