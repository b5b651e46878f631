"""CIFAR-10: the binary version (a folder of .bin files, or its .tar.gz), or an .npz."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from sfumato.data.npz import open_npz
from sfumato.data.source import Item, Options, Source, pick_split, show
from sfumato.errors import InputError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
INSIDE = "cifar-10-batches-bin"
ARCHIVE = "cifar-10-binary.tar.gz"
ROW = 1 + 3 * 32 * 32  # a label, then the red, green and blue plane

Batches = Callable[[], Iterator[tuple[str, bytes]]]


def open_cifar(path: Path, options: Options) -> Source:
    """CIFAR-10 as a source."""
    if path.suffix == ".npz" and path.is_file():
        return open_npz(path, options, CLASSES)
    options.refuse_columns(show(path))
    pick_split(options.split, list(FILES), show(path))
    batches = _batches(path, FILES[options.split])
    labels = np.concatenate([_rows(name, data)[:, 0] for name, data in batches()])
    if len(labels) and labels.max() >= len(CLASSES):
        raise InputError(f"{show(path)} has the unknown label {labels.max()}; replace it by a good copy.")
    return Source(str(path), CLASSES, labels.astype(np.int64), lambda: _images(batches))


def _batches(path: Path, names: tuple[str, ...]) -> Batches:
    """The files of a split with their content, one at a time (30 MB each)."""
    if path.is_dir() and (path / ARCHIVE).is_file():
        path = path / ARCHIVE
    if path.is_dir():
        folder = path / INSIDE if (path / INSIDE).is_dir() else path
        return lambda: ((f"{folder / name}", _whole(folder / name)) for name in names)
    if path.name.endswith((".tar.gz", ".tgz", ".tar")):
        return lambda: _unpacked(path, names)
    raise InputError(
        f"{show(path)} is not CIFAR-10; give the folder of the binary version ({FILES['train'][0]}, ...), "
        f"its {ARCHIVE}, or an .npz."
    )


def _whole(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"There is no file {show(path)}; give the folder of the binary version of CIFAR-10.")
    return path.read_bytes()


def _unpacked(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Files out of the archive, read in its own order; nothing is written to disk."""
    seen = set()
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if name in names and member.isfile():
                    seen.add(name)
                    yield f"{path}, {name}", _content(archive.extractfile(member))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{show(path)} cannot be unpacked ({show(error)}); replace it by a good copy.") from error
    if seen != set(names):
        raise InputError(f"{show(path)} does not hold {sorted(set(names) - seen)[0]}; replace it by a good copy.")


def _content(file: IO[bytes] | None) -> bytes:
    assert file is not None  # only regular files are asked for
    with file:
        return file.read()


def _rows(where: str, data: bytes) -> np.ndarray:
    if len(data) % ROW or not data:
        raise InputError(f"{show(where)} is not made of rows of {ROW} bytes; replace it by a good copy.")
    return np.frombuffer(data, np.uint8).reshape(-1, ROW)


def _images(batches: Batches) -> Iterator[Item]:
    for where, data in batches():
        planes = _rows(where, data)[:, 1:].reshape(-1, 3, 32, 32)
        for row, image in enumerate(planes):
            yield f"{where}, image {row}", np.ascontiguousarray(image.transpose(1, 2, 0))
