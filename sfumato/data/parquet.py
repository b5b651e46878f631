"""Parquet files: a column `image` (bytes, or a struct with bytes and path), `label`, and where asked for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.data.images import decode
from sfumato.data.metadata import METADATA, cell_text, need_column
from sfumato.data.source import Item, Options, Source, code_labels, code_persons, listed, pick_split, show
from sfumato.errors import InputError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SPLITS = ("train", "test", "validation")
IMAGE = "image"
ROWS = 64  # images read together
BUFFER = 1 << 20  # bytes of a column that are read ahead


def parquet_files(folder: Path) -> list[Path]:
    """The parquet files of a folder and of its folder `data`, a metadata file aside."""
    paths = [path for place in (folder, folder / "data") if place.is_dir() for path in place.iterdir()]
    return sorted(
        path
        for path in paths
        if path.suffix == ".parquet" and path.name not in METADATA and not path.name.startswith(".")
    )


def open_parquet(path: Path, options: Options) -> Source:
    """A parquet file, or a folder of them, as a source."""
    files = _of_split(path, options.split)
    labels: list[str] = []
    persons: list[str] = []
    known: set[str] = set()
    columns: set[str] = set()
    for file in files:
        with _table(file) as table:
            columns.update(table.schema_arrow.names)
            need_column(table.schema_arrow.names, IMAGE, IMAGE, show(file))
            column = _label_column(table, options.label, file)
            names = _class_names(table, column)
            known.update(names)
            labels += _texts(table, file, column, "label", names) if column else ["image"] * table.metadata.num_rows
            persons += _texts(table, file, options.person, "person", ()) if options.person else []
    classes, numbers = code_labels(labels, sorted(known))
    return Source(
        str(path),
        classes or ("image",),
        numbers,
        lambda: _images(files),
        code_persons(persons) if options.person else None,
        columns=tuple(sorted(columns)),
    )


def _of_split(path: Path, split: str) -> list[Path]:
    """The files of a split. `train-00000-of-00002.parquet` says its split; files that say none are all "train"."""
    if not path.is_dir():
        pick_split(split, ["train"], show(path))
        return [path]
    files = parquet_files(path)
    named = {file: next((name for name in SPLITS if file.name.startswith(name)), None) for file in files}
    if set(named.values()) == {None}:
        pick_split(split, ["train"], show(path))
        return files
    if None in named.values():
        odd = next(file for file, name in named.items() if name is None)
        raise InputError(
            f"{show(odd)} does not say its split, as other files beside it do; rename it to "
            "train-... or test-..., or move it away."
        )
    pick_split(split, sorted({str(name) for name in named.values()}), show(path))
    return [file for file, name in named.items() if name == split]


def _label_column(table: pq.ParquetFile, wanted: str | None, file: Path) -> str | None:
    columns = table.schema_arrow.names
    if len(set(columns)) < len(columns):
        raise InputError(f"{show(file)} has a column twice ({listed(columns)}); keep one of each name.")
    if wanted is not None:
        need_column(columns, wanted, "label", show(file))
    return wanted or ("label" if "label" in columns else None)


def _class_names(table: pq.ParquetFile, column: str | None) -> tuple[str, ...]:
    """Names for numbered classes, where the writer kept them in the schema (as the datasets library does)."""
    try:
        features = json.loads((table.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        names = features[column]["names"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    fine = isinstance(names, list) and all(isinstance(name, str) and name.isprintable() and name for name in names)
    return tuple(names) if fine and len(set(names)) == len(names) else ()


def _texts(table: pq.ParquetFile, file: Path, column: str, what: str, names: tuple[str, ...]) -> list[str]:
    """A column as text; numbers become the names of their classes."""
    need_column(table.schema_arrow.names, column, what, show(file))
    texts: list[str] = []
    for batch in table.iter_batches(columns=[column]):
        for value in batch.column(0).to_pylist():
            texts.append(_text(value, f"{show(file)}, row {len(texts)},", column, what, names))
    return texts


def _text(value: object, where: str, column: str, what: str, names: tuple[str, ...]) -> str:
    text = cell_text(value, where, column, what)
    if not names or isinstance(value, str):
        return text
    if not 0 <= int(text) < len(names):
        raise InputError(
            f"{where} has the unknown label {text}; labels go from 0 to {len(names) - 1} ({listed(names)})."
        )
    return names[int(text)]


def _images(files: list[Path]) -> Iterator[Item]:
    for file in files:
        with _table(file) as table:
            row = 0
            for batch in table.iter_batches(batch_size=ROWS, columns=[IMAGE]):
                for value in batch.column(0).to_pylist():
                    where = f"{file}, row {row}"
                    yield where, decode(_content(value, where), where)
                    row += 1


def _content(value: Any, where: str) -> bytes:
    """The bytes of an image file."""
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes) or not data:
        raise InputError(
            f"{show(where)} has no image bytes in the column {IMAGE}; store the content of the image file "
            "there (bytes, or a struct with bytes and path)."
        )
    return data


@contextmanager
def _table(file: Path) -> Iterator[pq.ParquetFile]:
    """An open parquet file; whatever is wrong with it is said in one sentence."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Read as a stream: a writer may have put all of a file into one row group.
        with pq.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False) as table:
            yield table
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        raise InputError(f"{show(file)} cannot be read as parquet ({show(error)[:120]}); write it again.") from error
