"""Arrays in an .npz file, read from the archive piece by piece, so that the file may be larger than memory.

Three layouts: `images` and `labels`; the same with the split in front (`train_images`, as MedMNIST has it); and
image files packed end to end (`train_bytes`, `train_offsets`). `NAME_names` (or `class_names`) names the classes.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from sfumato.data.arrays import as_images, check_floats, check_pixels, check_text, read_labels, read_persons
from sfumato.data.images import decode
from sfumato.data.source import Item, Options, Source, listed, pick_split, show
from sfumato.errors import InputError

AT_ONCE = 1 << 20  # bytes of pixels read together


def open_npz(path: Path, options: Options, names: tuple[str, ...] | None = None) -> Source:
    """An .npz file as a source; `names` are the classes where the file does not name them."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        keys = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
        prefix = _prefix(keys, options.split, path)
        packed = f"{prefix}bytes" in keys
        count = _packed_count(archive, prefix, path) if packed else _plain_count(archive, f"{prefix}images", path)
        classes, labels = _labels(archive, keys, prefix, options.label, count, path, names)
        persons = None
        if options.person is not None:
            key = _key(keys, prefix, options.person, "person", path)
            persons = read_persons(_array(archive, key, path), count, _at(path, key))
    images = (lambda: _packed(path, prefix)) if packed else (lambda: _plain(path, f"{prefix}images"))
    columns = tuple(sorted(key.removeprefix(prefix) for key in keys if key.startswith(prefix)))
    return Source(str(path), classes, labels, images, persons, columns=columns)


def _prefix(keys: set[str], split: str, path: Path) -> str:
    """What stands in front of the keys of the split: nothing, or "train_"."""
    if "images" in keys:
        pick_split(split, ["train"], show(path))
        return ""
    endings = ("_images", "_bytes")
    splits = sorted({key.removesuffix(end) for key in keys for end in endings if key.endswith(end) and key != end})
    if not splits:
        raise InputError(f"{show(path)} has the arrays {listed(sorted(keys))}; it needs `images` and `labels`.")
    pick_split(split, splits, show(path))
    return f"{split}_"


def _labels(
    archive: zipfile.ZipFile,
    keys: set[str],
    prefix: str,
    label: str | None,
    count: int,
    path: Path,
    names: tuple[str, ...] | None,
) -> tuple[tuple[str, ...], np.ndarray]:
    if label is None and f"{prefix}labels" not in keys:
        return ("image",), np.zeros(count, np.int64)
    key = _key(keys, prefix, label or "labels", "label", path)
    for named in (f"{label}_names", *(() if label else ("class_names",))):
        if named in keys:
            names = _class_names(_array(archive, named, path), _at(path, named))
    return read_labels(_array(archive, key, path), count, _at(path, key), names)


def _class_names(values: np.ndarray, where: str) -> tuple[str, ...]:
    if values.ndim != 1 or values.dtype.kind != "U" or not values.size:
        raise InputError(f"{where} is not a list of names; give the class names as an array of text.")
    names = tuple(check_text(str(value).strip(), where, "class name") for value in values)
    if "" in names or len(set(names)) < len(names):
        raise InputError(f"{where} has an empty name or one name twice; give every class its own name.")
    return names


def _key(keys: set[str], prefix: str, wanted: str, option: str, path: Path) -> str:
    if f"{prefix}{wanted}" not in keys:
        raise InputError(
            f"{show(path)} has no array {show(prefix + wanted)} to use as {option}; "
            f"it has {listed(sorted(keys))}: choose with --{option}."
        )
    return f"{prefix}{wanted}"


def _plain_count(archive: zipfile.ZipFile, key: str, path: Path) -> int:
    """The number of images, from the header, after all checks that the header allows."""
    with _member(archive, key, path) as (file, shape, dtype, _):
        check_pixels(shape, dtype, _at(path, key))
        if dtype.kind == "f":
            check_floats(_blocks(file, shape, dtype), _at(path, key))
    return shape[0]


def _plain(path: Path, key: str) -> Iterator[Item]:
    with _readable(path), zipfile.ZipFile(path) as archive, _member(archive, key, path) as (file, shape, dtype, _):
        where = _at(path, key)
        row = 0
        for block in _blocks(file, shape, dtype):
            for image in as_images(block):
                yield f"{where}, image {row}", np.ascontiguousarray(image)
                row += 1


def _blocks(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype) -> Iterator[np.ndarray]:
    size = math.prod(shape[1:]) * dtype.itemsize
    step = max(1, AT_ONCE // size)
    for at in range(0, shape[0], step):
        some = min(step, shape[0] - at)
        yield np.frombuffer(_read(file, some * size), dtype).reshape(some, *shape[1:])


def _packed_count(archive: zipfile.ZipFile, prefix: str, path: Path) -> int:
    return len(_offsets(archive, prefix, path)) - 1


def _offsets(archive: zipfile.ZipFile, prefix: str, path: Path) -> np.ndarray:
    key = f"{prefix}offsets"
    offsets = _array(archive, key, path)
    with _member(archive, f"{prefix}bytes", path) as (_, shape, dtype, _):
        fine = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) > 1 and len(shape) == 1
        if not (
            fine
            and dtype == np.uint8
            and offsets[0] == 0
            and offsets[-1] == shape[0]
            and (offsets[1:] > offsets[:-1]).all()
        ):
            raise InputError(f"{_at(path, key)} does not cut {prefix}bytes into images; make both arrays again.")
    return offsets.astype(np.int64)


def _packed(path: Path, prefix: str) -> Iterator[Item]:
    with _readable(path), zipfile.ZipFile(path) as archive:
        sizes = np.diff(_offsets(archive, prefix, path)).tolist()
        with _member(archive, f"{prefix}bytes", path) as (file, *_):
            array = _at(path, f"{prefix}bytes")
            for row, size in enumerate(sizes):
                where = f"{array}, image {row}"
                yield where, decode(_read(file, size), where)


def _array(archive: zipfile.ZipFile, key: str, path: Path) -> np.ndarray:
    """A small array, whole."""
    with _member(archive, key, path) as (file, shape, dtype, fortran):
        values = np.frombuffer(_read(file, math.prod(shape) * dtype.itemsize), dtype)
        return values.reshape(shape, order="F" if fortran else "C")


@contextmanager
def _member(
    archive: zipfile.ZipFile, key: str, path: Path
) -> Iterator[tuple[IO[bytes], tuple[int, ...], np.dtype, bool]]:
    """An array of the archive: the file behind its header, its shape, type and order."""
    with archive.open(f"{key}.npy") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise InputError(f"{_at(path, key)} holds Python objects, which are not read; give numbers or text.")
        if fortran and len(shape) > 2:
            raise InputError(f"{_at(path, key)} is stored column by column; save numpy.ascontiguousarray of it.")
        if min(shape, default=1) < 0 or archive.getinfo(f"{key}.npy").file_size != file.tell() + (
            math.prod(shape) * dtype.itemsize
        ):
            raise InputError(f"{_at(path, key)} is not as long as its header says; write the file again.")
        yield file, shape, dtype, fortran


def _read(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise EOFError("the array ends too early")
    return data


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """One sentence for whatever zipfile, zlib and numpy raise on a damaged file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{show(path)} cannot be read as an .npz file ({show(error)[:120]}); "
            "write it again with numpy.savez, without Python objects."
        ) from error


def _at(path: Path, key: str) -> str:
    return f"{show(path)}, array {show(key)}"
