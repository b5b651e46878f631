"""`load`: find out what a source is, and read it into a box."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from sfumato.data.fill import Progress, box, fill
from sfumato.data.images import check_size
from sfumato.data.named import NAMES, check_path, is_named, open_named
from sfumato.data.private import PrivateImages
from sfumato.data.source import Options, Source, show
from sfumato.errors import InputError, did_you_mean, pythonic
from sfumato.types import Images


@pythonic
def load(
    source: object,
    *,
    size: int | None = None,
    grey: bool = False,
    split: str = "train",
    label: str | None = None,
    person: str | None = None,
    private_count: bool = False,
    records: int | None = None,
    progress: Progress | None = None,
) -> PrivateImages:
    """Read a private image set into a box.

    Args:
        source: a folder of images (class folders, or a metadata file), an .npz or .parquet file, a folder of parquet
            or MNIST idx files, a folder of DICOM files, a named set ("fashion-mnist", "cifar10:PATH"), arrays:
            (images, labels), with (images, labels, person), an `Images`, a map-style torch data set of such pairs
            or triples, or a Hugging Face dataset.
        size: crops the middle square of every image and resizes it to this many pixels.
        grey: makes colour images grey. Otherwise a set is grey if all its images are, and colour if any is.
        split: the part to read; a source without splits is all "train".
        label: the column that holds the class.
        person: the column that says who is in the image ("PatientID" of DICOM files); makes a person the unit of
            privacy, which every budget then follows.
        private_count: keeps the number of records private; `records` then declares a public size.
        records: that declared size.
        progress: called as progress(done, total, what), with counts only; total is 0 where it is not public.

    >>> with load("digits") as box:
    ...     box.spec.shape
    (1, 8, 8)
    """
    check_size(size)
    declared = _declared(private_count, records)
    options = _options(split, label, person)
    try:
        opened = find_source(source, options)
        inside = fill(opened, size=size, grey=bool(grey), declared=declared, progress=progress)
    except OSError as error:
        reason = show(error.strerror or error)
        raise InputError(f"Cannot read {_name(source)} ({reason}); check the path and its permissions.") from error
    return box(opened, inside, declared)


def find_source(source: object, options: Options) -> Source:
    """What a source is, by its type, name and content."""
    if isinstance(source, (str, os.PathLike)):
        text = os.fspath(source)
        if not isinstance(text, str) or not text or "\0" in text:
            raise InputError(f"Expected data as a path or the name of a set, found {_name(text)!r}.")
        return _from_text(text, options)
    if isinstance(source, Images):
        from sfumato.data.arrays import open_images

        return open_images(source, options)
    if isinstance(source, (tuple, list)):
        from sfumato.data.arrays import open_arrays

        return open_arrays(tuple(source), options)
    return _from_object(source, options)


def _from_object(source: object, options: Options) -> Source:
    """Data sets of other libraries, known by how they behave: none of them is imported for it."""
    from sfumato.data.dataset import is_dataset, open_dataset
    from sfumato.data.hub import is_hub, open_hub

    if is_hub(source):
        return open_hub(source, options)
    if is_dataset(source):
        return open_dataset(source, options)
    raise InputError(
        "Expected data as a path, the name of a set, a pair (images, labels) or a data set with a length, "
        f"found {type(source).__name__}."
    )


def must_exist(source: object) -> None:
    """Refuse a path that leads nowhere; asked before anything is imported that a slip of the finger would wait for."""
    if isinstance(source, str) and source and "\0" not in source:
        check_path(source) if is_named(source) else _existing(source)


def _from_text(text: str, options: Options) -> Source:
    if is_named(text):
        return open_named(text, options)
    path = _existing(text)
    return _from_folder(path, options) if path.is_dir() else _from_file(path, options)


def _existing(text: str) -> Path:
    try:
        path = Path(text).expanduser().resolve()
        str(path).encode()  # the name goes into public files, which are UTF-8
        there = path.exists()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Expected data as a path in UTF-8 or the name of a set, found {show(text)}.") from error
    if not there:
        otherwise = f"check the path, or name a set: {', '.join(NAMES)}."
        hint = did_you_mean(text.partition(":")[0], NAMES, otherwise=otherwise)
        raise InputError(f"There is no file or folder {show(path)}; {hint}")
    return path


def _from_folder(path: Path, options: Options) -> Source:
    from sfumato.data.folder import open_folder
    from sfumato.data.idx import is_idx_folder, open_idx
    from sfumato.data.parquet import open_parquet, parquet_files

    if is_idx_folder(path):
        return open_idx(path, options)
    if parquet_files(path):
        return open_parquet(path, options)
    return open_folder(path, options)


def _from_file(path: Path, options: Options) -> Source:
    kind = path.suffix.lower()
    if not path.is_file() or kind not in (".npz", ".parquet"):
        raise InputError(
            f"{show(path)} is not data that can be read; give a folder of images, an .npz or a .parquet file."
        )
    if kind == ".npz":
        from sfumato.data.npz import open_npz

        return open_npz(path, options)
    from sfumato.data.parquet import open_parquet

    return open_parquet(path, options)


def _options(split: object, label: object, person: object) -> Options:
    if split is None:
        raise InputError(f"Expected split as a name, found split={split!r}.")
    return Options(_named("split", split) or "", _named("label", label), _named("person", person))


def _named(option: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise InputError(f"Expected {option} as a name, found {option}={value!r}.")


def _declared(private_count: bool, records: int | None) -> int | None:
    """The size that stands in for a private count, or None where the count is public."""
    if not private_count:
        if records is not None:
            raise InputError(
                "Expected records only together with a private count; add --private-count, "
                "or leave --records out to use the number found in the data."
            )
        return None
    if isinstance(records, bool) or not isinstance(records, (int, np.integer)) or records < 1:
        raise InputError(
            f"A private count needs a declared public size: give --records as a whole number "
            f"of at least 1, found records={records!r}."
        )
    return int(records)


def _name(source: object) -> str:
    return show(source) if isinstance(source, (str, bytes, os.PathLike)) else type(source).__name__
