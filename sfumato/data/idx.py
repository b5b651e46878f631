"""MNIST's idx files, gzipped or not: train-* for training, t10k-* for the test."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import numpy as np

from sfumato.data.source import Item, Options, Source, code_labels, pick_split, show
from sfumato.errors import InputError

PREFIX = {"train": "train", "test": "t10k"}
IMAGES = "images-idx3-ubyte"
LABELS = "labels-idx1-ubyte"
BinaryFile = BufferedReader | gzip.GzipFile
AT_ONCE = 1 << 20  # bytes of pixels read together


def is_idx_folder(folder: Path) -> bool:
    """Whether a folder holds idx files under their usual names."""
    return any(_find(folder, split, IMAGES) or _find(folder, split, LABELS) for split in PREFIX)


def open_idx(folder: Path, options: Options, classes: tuple[str, ...] | None = None) -> Source:
    """A folder of idx files as a source; `classes` gives names to the numbers 0, 1, ..."""
    options.refuse_columns(show(folder))
    pick_split(options.split, [split for split in PREFIX if _find(folder, split, IMAGES)], show(folder))
    pixels, labels = (_find(folder, options.split, kind) for kind in (IMAGES, LABELS))
    assert pixels is not None  # the split is there
    if labels is None:
        raise InputError(f"{show(folder)} has {pixels.name} but no {PREFIX[options.split]}-{LABELS}; add the file.")
    names, numbers = _labels(labels, classes)
    return Source(str(folder), names, numbers, lambda: _images(pixels, labels, len(numbers)))


def _find(folder: Path, split: str, kind: str) -> Path | None:
    """The file of a split, under the spellings in use (train-images-idx3-ubyte, train-images.idx3-ubyte, .gz)."""
    for name in (f"{PREFIX[split]}-{kind}", f"{PREFIX[split]}-{kind.replace('-', '.', 1)}"):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _labels(path: Path, classes: tuple[str, ...] | None) -> tuple[tuple[str, ...], np.ndarray]:
    with _opened(path, 1) as ((count,), file):
        values = np.frombuffer(_read(file, count, path), np.uint8)
        _check_end(file, path)
    if classes is None:
        return code_labels([str(value) for value in values])
    if len(values) and values.max() >= len(classes):
        row = int(np.argmax(values >= len(classes)))
        raise InputError(
            f"{show(path)} has the unknown label {values[row]} in row {row}; "
            f"labels go from 0 to {len(classes) - 1}: check that this is the right file."
        )
    return classes, values.astype(np.int64)


def _images(path: Path, labels: Path, count: int) -> Iterator[Item]:
    with _opened(path, 3) as ((found, height, width), file):
        if found != count:
            raise InputError(
                f"{show(path)} has {found} images but {show(labels)} has {count} labels; take both from the same set."
            )
        if height * width == 0:
            raise InputError(f"{show(path)} has images without pixels; replace the file by a good copy.")
        step = max(1, AT_ONCE // (height * width))
        for at in range(0, count, step):
            some = min(step, count - at)
            block = np.frombuffer(_read(file, some * height * width, path), np.uint8).reshape(some, height, width)
            for row, image in enumerate(block, start=at):
                yield f"{path}, image {row}", image
        _check_end(file, path)


@contextmanager
def _opened(path: Path, axes: int) -> Iterator[tuple[tuple[int, ...], BinaryFile]]:
    """The sizes in the header, and the file behind it."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        magic, *sizes = struct.unpack(f">{axes + 1}I", _read(file, 4 * (axes + 1), path))
        if magic != 0x0800 + axes:
            raise InputError(
                f"{show(path)} does not start like an idx file of bytes with {axes} axes "
                f"(magic number {magic:#010x}); replace it by a good copy."
            )
        yield tuple(sizes), file


def _read(file: BinaryFile, count: int, path: Path) -> bytes:
    """Exactly `count` bytes. Read in pieces, so that a false header cannot ask for memory that the file cannot fill."""
    parts = []
    missing = count
    try:
        while missing and (part := file.read(min(missing, AT_ONCE))):
            parts.append(part)
            missing -= len(part)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{show(path)} cannot be unpacked ({show(error)}); replace it by a good copy.") from error
    if missing:
        raise InputError(f"{show(path)} ends {missing} bytes too early; replace it by a complete copy.")
    return b"".join(parts)


def _check_end(file: BinaryFile, path: Path) -> None:
    try:
        rest = file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{show(path)} cannot be unpacked ({show(error)}); replace it by a good copy.") from error
    if rest:
        raise InputError(f"{show(path)} is longer than its header says; replace it by a good copy.")
