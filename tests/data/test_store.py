"""The store of decoded pixels: what is written comes back, little stays resident, nothing stays behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import store as module
from sfumato.data.cache import cache_folder, private_folder
from sfumato.data.store import Pixels, Writer
from sfumato.errors import InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stored(images: np.ndarray) -> Pixels:
    writer = Writer()
    for image in images:
        writer.append(image)
    return writer.finish()


def some_images(count: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        slice(None),
        slice(3, 7),
        slice(-2, None),
        slice(5, 2),
        slice(0, 20, 3),
        slice(None, None, -1),
        np.array([4, 1, 1, 19]),
        np.array([], int),
        np.arange(20) % 2 == 0,
        np.array([7], np.int32),
    ],
)
def test_rows_come_back_as_numpy_would_give_them(rows, small, monkeypatch):
    monkeypatch.setattr(module, "RESIDENT", 1 << 20 if small else 64)
    monkeypatch.setattr(module, "SCATTERED", 3)
    images = some_images(20, (3, 5, 4))
    pixels = stored(images)
    assert np.array_equal(pixels.read(rows), images[rows])


def test_a_read_is_a_copy_that_may_be_changed():
    images = some_images(4, (1, 3, 3))
    pixels = stored(images)
    pixels.read(slice(None))[:] = 0
    pixels.read(np.array([1]))[:] = 0
    assert np.array_equal(pixels.read(slice(None)), images)


@pytest.mark.parametrize("rows", [np.array([20]), np.array([-1]), np.array([0, 99])])
def test_rows_outside_the_set_raise(rows):
    with pytest.raises(IndexError):
        stored(some_images(20, (1, 2, 2))).read(rows)


def test_a_grey_store_widens_when_a_colour_image_comes(monkeypatch):
    monkeypatch.setattr(module, "RESIDENT", 100)
    grey, colour = some_images(9, (1, 4, 4)), some_images(3, (3, 4, 4), seed=1)
    writer = Writer()
    for image in (*grey, *colour, *grey):
        writer.append(image)
    pixels = writer.finish()
    wide = np.repeat(grey, 3, axis=1)
    assert pixels.shape == (3, 4, 4)
    assert np.array_equal(pixels.read(slice(None)), np.concatenate([wide, colour, wide]))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_reading_keeps_little_resident():
    image = np.zeros((3, 64, 64), np.uint8)
    writer = Writer()
    for row in range(10_000):  # 123 MB
        image[:] = row % 251
        writer.append(image)
    pixels = writer.finish()
    rng = np.random.default_rng(0)
    before, most = resident(), 0
    for at in range(0, 10_000, 250):
        assert pixels.read(slice(at, at + 250))[7, 0, 0, 0] == (at + 7) % 251
        most = max(most, resident())
        picked = np.sort(rng.choice(10_000, 250, replace=False))
        assert np.array_equal(pixels.read(picked)[:, 0, 0, 0], picked % 251)
        most = max(most, resident())
    assert most - before < 30 << 20


def test_the_private_folder_is_closed_to_others_and_shows_no_file(cache):
    cache.mkdir()
    (cache / "private").mkdir(mode=0o755)
    pixels = stored(some_images(3, (1, 2, 2)))
    assert stat.S_IMODE(private_folder().stat().st_mode) == 0o700
    assert list(private_folder().iterdir()) == []
    pixels.close()
    assert list(private_folder().iterdir()) == []


def test_a_killed_process_leaves_nothing_behind(cache):
    program = (
        "import numpy as np, sys, time; from sfumato.data.store import Writer; w = Writer();"
        "[w.append(np.ones((1, 64, 64), np.uint8)) for _ in range(1000)]; p = w.finish();"
        "print(p.read(slice(0, 1)).sum(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "4096"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("SFUMATO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "sfumato"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "sfumato"


def test_a_cache_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InputError, match=r"private folder .*set SFUMATO_CACHE"):
        Writer()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_a_full_disk_is_named():
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(InputError, match="SFUMATO_CACHE to a folder"):
        module._write(full, np.zeros(10, np.uint8))
