"""Named sets, from the package, from a path, and from their address."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import load, named
from sfumato.data.cache import download_folder
from sfumato.data.cifar import CLASSES
from sfumato.data.download import Address
from sfumato.data.private import records
from tests.made_up import expects

RNG = np.random.default_rng(4)


def mnist_files(folder: Path) -> dict[str, str]:
    """Three tiny digits in MNIST's files; returns their sha256."""
    folder.mkdir(exist_ok=True)
    found = {}
    for split in ("train", "t10k"):
        for kind, head, body in (
            ("images-idx3", b"\0\0\x08\x03\0\0\0\3\0\0\0\2\0\0\0\2", bytes(range(12))),
            ("labels-idx1", b"\0\0\x08\x01\0\0\0\3", b"\7\0\7"),
        ):
            data = gzip.compress(head + body)
            name = f"{split}-{kind}-ubyte.gz"
            (folder / name).write_bytes(data)
            found[name] = hashlib.sha256(data).hexdigest()
    return found


def test_an_installed_package_downloads_fashion_mnist(tmp_path, monkeypatch):
    inside = named.EMBEDDED
    files = {name: hashlib.sha256((inside / name).read_bytes()).hexdigest() for name in named.FASHION_MNIST.files}
    here = Address(f"{named.EMBEDDED.as_uri()}/", files)  # in the place of a server
    away = replace(named.SETS["fashion-mnist"], address=here, path=tmp_path / "not installed")
    monkeypatch.setitem(named.SETS, "fashion-mnist", away)
    assert load("fashion-mnist", split="test").spec.records == 10_000
    assert (download_folder("fashion-mnist") / "t10k-images-idx3-ubyte.gz").is_file()
    assert len(set(named.FASHION_MNIST.files.values())) == 4 and not set(files) - set(named.MNIST.files)


def test_fashion_mnist_is_inside_a_clone():
    box = load("fashion-mnist")
    assert box.spec.records == 60_000 and box.spec.shape == (1, 28, 28) and box.spec.public
    assert box.spec.name == "fashion-mnist" and box.spec.classes[0] == "t-shirt" and box.spec.classes[9] == "ankle-boot"
    inside = records(box)
    assert np.bincount(inside.labels).tolist() == [6000] * 10
    assert inside.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert round(float(inside.read(slice(0, 10_000)).mean())) == 73
    box.close()
    assert load("fashion-mnist", split="test").spec.records == 10_000
    expects("fashion-mnist", "has no split val; it has train, test", split="val")
    assert "MIT" in (named.EMBEDDED / "LICENSE").read_text("utf-8")


def test_digits():
    box = load("digits")
    pixels = records(box).read(slice(None))
    assert pixels.shape == (1797, 1, 8, 8) and pixels.min() == 0 and pixels.max() == 255
    assert box.spec.classes == tuple("0123456789") and box.spec.public
    expects("digits:somewhere", "digits takes no path")
    expects("digits", "has no split test; it has train", split="test")
    expects("digits", "digits has no column x to use as label", label="x")


def test_mnist_from_a_path(tmp_path):
    mnist_files(tmp_path / "m")
    box = load(f"mnist:{tmp_path / 'm'}")
    assert box.spec.name == "mnist" and box.spec.public and box.spec.classes == tuple("0123456789")
    assert records(box).labels.tolist() == [7, 0, 7]
    assert load(f"fashion-mnist:{tmp_path / 'm'}").spec.classes == named.FASHION
    expects("mnist:", "Expected a path behind mnist:")
    expects(f"mnist:{tmp_path / 'n'}", r"no file or folder .*/n; check the path behind mnist:")
    (tmp_path / "file").write_text("")
    expects(f"mnist:{tmp_path / 'file'}", "no folder .*/file; give the folder that holds the set")


def test_unknown_labels_of_a_named_set(tmp_path):
    mnist_files(tmp_path / "m")
    path = tmp_path / "m" / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\3\7\x0c\7"))
    expects(f"mnist:{tmp_path / 'm'}", r"train-labels-idx1-ubyte.gz has the unknown label 12 in row 1")


def test_download(tmp_path, monkeypatch):
    files = mnist_files(tmp_path / "server")
    address = Address((tmp_path / "server").as_uri() + "/", files)
    monkeypatch.setitem(named.SETS, "mnist", replace(named.SETS["mnist"], address=address))
    assert load("mnist").spec.records == 3
    kept = download_folder("mnist")
    assert sorted(path.name for path in kept.iterdir()) == sorted(files)
    (kept / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")  # fetched anew
    assert load("mnist").spec.records == 3
    for path in (tmp_path / "server").iterdir():
        path.unlink()
    assert load("mnist", split="test").spec.records == 3  # no network is needed any more


def test_a_download_with_a_wrong_checksum_is_thrown_away(tmp_path, monkeypatch):
    files = mnist_files(tmp_path / "server")
    address = Address((tmp_path / "server").as_uri() + "/", dict.fromkeys(files, "0" * 64))
    monkeypatch.setitem(named.SETS, "mnist", replace(named.SETS["mnist"], address=address))
    expects("mnist", r"train-images-idx3-ubyte.gz has the sha256 .* thrown away; try again, or give .* as mnist:PATH")
    assert list(download_folder("mnist").iterdir()) == []


@pytest.mark.parametrize("base", ["file:///nowhere/", "http://127.0.0.1:9/"])
def test_without_network_the_remedy_is_named(monkeypatch, base):
    address = Address(base, {"a.gz": "0" * 64})
    monkeypatch.setitem(named.SETS, "mnist", replace(named.SETS["mnist"], address=address))
    expects("mnist", r"Cannot download .*a.gz .*fetch the set on a machine with internet and give .* mnist:PATH")
    assert list(download_folder("mnist").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["fairface", "pneumonia-mnist", "tinyimagenet", "celeba-gender", "celeba-hair", "ffhq-gender", "places365-3"],
)
def test_sets_without_an_address_ask_for_a_path(name):
    expects(name, f"The set {name} is read from a copy of your own; give its path as {name}:PATH")


def cifar_rows(count: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    labels = (np.arange(count) % 10).astype(np.uint8)
    images = RNG.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    return np.hstack([labels[:, None], images.reshape(count, -1)]).tobytes(), labels, images


def test_cifar10_in_its_binary_version(tmp_path):
    batches = [cifar_rows(2) for _ in range(6)]
    folder = tmp_path / "c" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{at}.bin" for at in range(1, 6)), "test_batch.bin"]
    for name, (data, _, _) in zip(names, batches, strict=True):
        (folder / name).write_bytes(data)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(folder, "cifar-10-batches-bin")
    images = np.concatenate([images for _, _, images in batches[:5]])
    for source in (folder, folder.parent, archive):
        box = load(f"cifar10:{source}")
        assert box.spec.classes == CLASSES and box.spec.records == 10 and box.spec.public
        assert np.array_equal(records(box).read(slice(None)), images)
        assert records(box).labels.tolist() == [0, 1] * 5
        assert load(f"cifar10:{source}", split="test").spec.records == 2
    (folder / "data_batch_2.bin").write_bytes(b"short")
    expects(f"cifar10:{folder}", r"data_batch_2.bin is not made of rows of 3073 bytes; replace it")
    (folder / "data_batch_2.bin").write_bytes(b"\xff" * 3073)
    expects(f"cifar10:{folder}", r"unknown label 255")
    (folder / "data_batch_2.bin").unlink()
    expects(f"cifar10:{folder}", r"no file .*data_batch_2.bin; give the folder of the binary version")
    archive.write_bytes(archive.read_bytes()[:500])
    expects(f"cifar10:{archive}", r"cifar-10-binary.tar.gz cannot be unpacked")
    with tarfile.open(archive, "w:gz") as out:
        out.addfile(tarfile.TarInfo("empty"), io.BytesIO())
    expects(f"cifar10:{archive}", r"cifar-10-binary.tar.gz does not hold data_batch_1.bin")
    (tmp_path / "data.pkl").write_bytes(b"")
    expects(f"cifar10:{tmp_path / 'data.pkl'}", r"data.pkl is not CIFAR-10; give the folder of the binary version")


def test_sets_in_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    images = RNG.integers(0, 256, (4, 8, 8), dtype=np.uint8)
    np.savez(path, train_images=images, train_labels=np.array([[0], [1], [1], [1]]))
    assert load(f"pneumonia-mnist:{path}").spec.classes == ("normal", "pneumonia")
    assert load(f"cifar10:{path}").spec.classes == CLASSES
    np.savez(
        path,
        train_images=images,
        train_gender=[0, 1, 1, 1],
        train_age=[0, 2, 0, 1],
        gender_names=["Female", "Male"],
        age_names=["0-2", "3-9", "10-19"],
    )
    assert load(f"fairface:{path}").spec.classes == ("Female", "Male")
    assert load(f"fairface:{path}", label="age").spec.classes == ("0-2", "3-9", "10-19")
    assert load(f"fairface:{path}").spec.public
    expects(f"fairface:{path}", "has no array train_race to use as label", label="race")
    expects(f"tinyimagenet:{tmp_path}", "is not an .npz file; give the path of one")
