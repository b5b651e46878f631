"""The metadata file of an image folder: file_name, a label and, where asked for, a person for each image."""

from __future__ import annotations

import csv
import json
import math
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sfumato.data.arrays import check_text
from sfumato.data.source import Options, listed, show
from sfumato.errors import InputError

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE = "file_name"


@dataclass(frozen=True)
class Row:
    """One line: where it stands, the image it names, and what it says about it."""

    where: str
    file: str
    label: str | None
    person: str | None
    columns: tuple[str, ...] = ()  # that the line has


def find_metadata(folder: Path) -> Path | None:
    """The metadata file of a folder."""
    files = [folder / name for name in METADATA if (folder / name).exists()]
    if len(files) > 1:
        raise InputError(f"{show(folder)} has both {files[0].name} and {files[1].name}; keep one of them.")
    if files and not files[0].is_file():
        raise InputError(f"{show(files[0])} is not a regular file; replace it by the metadata or rename it.")
    return files[0] if files else None


def read_metadata(path: Path, options: Options) -> list[Row]:
    """All rows, each checked by itself."""
    read = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}[path.suffix]
    rows = []
    columns: tuple[str, ...] = ()
    for where, cells in read(path):
        columns = columns if columns == tuple(cells) else tuple(cells)  # one object for all rows
        label = _label_column(cells, options.label, where)
        rows.append(
            Row(
                where,
                _file(cells, where),
                None if label is None else cell_text(cells[label], where, label, "label"),
                None if options.person is None else _person(cells, options.person, where),
                columns,
            )
        )
    if len({row.label is None for row in rows}) > 1:
        row = next(row for row in rows if row.label is None)
        raise InputError(f"{row.where} has no label, as other rows have; fill it in or take the row out.")
    return rows


def match_rows(rows: list[Row], files: list[str], path: Path, above: str, others: tuple[str, ...]) -> list[Row]:
    """A row a file, in the order of the files. Rows of other splits are passed over."""
    by_file: dict[str, Row] = {}
    for row in rows:
        if others and row.file.startswith(others):
            continue
        if row.file in by_file:
            raise InputError(
                f"{row.where} names {show(row.file)} again, after {by_file[row.file].where}; keep one row an image."
            )
        by_file[row.file] = row
    present = {f"{above}{name}" for name in files}
    for file, row in by_file.items():
        if file not in present:
            raise InputError(
                f"{row.where} names {show(file)}, but there is no such image beside the metadata; "
                "add the image or take the row out."
            )
    for name in files:
        if f"{above}{name}" not in by_file:
            raise InputError(f"{show(above + name)} has no row in {show(path)}; add a row or take the image out.")
    return [by_file[f"{above}{name}"] for name in files]


def cell_text(value: object, where: str, column: str, what: str) -> str:
    """A label or a person as text: words, whole numbers, or yes and no."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # tables with gaps turn whole numbers into fractions
    if isinstance(value, float) and not math.isnan(value) or not isinstance(value, (str, int, float, type(None))):
        raise InputError(
            f"{where} has {show(repr(value))[:60]} as {show(column)}; give the {what} as a word or a whole number."
        )
    text = "" if value is None or isinstance(value, float) else str(value).strip()
    if not text:
        raise InputError(f"{where} has no {what} in the column {show(column)}; fill it in or take the row out.")
    return check_text(text, where, what)


def need_column(columns: list[str], wanted: str, option: str, where: str) -> None:
    """Refuse a column that is not there, with those that are."""
    if wanted not in columns:
        raise InputError(
            f"{where} has no column {show(wanted)} to use as {option}; it has {listed(columns)}: "
            f"choose with --{option}."
        )


def _label_column(cells: Mapping[str, object], wanted: str | None, where: str) -> str | None:
    if wanted is not None:
        need_column(list(cells), wanted, "label", where)
    return wanted or ("label" if "label" in cells else None)


def _person(cells: Mapping[str, object], column: str, where: str) -> str:
    need_column(list(cells), column, "person", where)
    return cell_text(cells[column], where, column, "person")


def _file(cells: Mapping[str, object], where: str) -> str:
    """The path of the image as the folder has it; it may not point out of the folder."""
    name = cells.get(FILE)
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(f"{where} names no file; give the path of the image in the column {FILE}.")
    path = posixpath.normpath(name)
    if path.startswith("/") or path.split("/")[0] == "..":
        raise InputError(f"{where} names {show(name)}, which leaves the folder; move the image into the folder.")
    return path


def _csv(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            columns = _columns([cell.strip() for cell in next(reader, [])], path)
            for cells in reader:
                where = f"{show(path)}, line {reader.line_num},"
                if not cells:
                    continue
                if len(cells) != len(columns):
                    raise InputError(f"{where} has {len(cells)} fields instead of {len(columns)}; correct the line.")
                yield where, dict(zip(columns, cells, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _jsonl(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                where = f"{show(path)}, line {number},"
                if not line.strip():
                    continue
                cells = json.loads(line)
                if not isinstance(cells, dict):
                    raise InputError(f"{where} is not a JSON object; write one object an image.")
                _columns(list(cells), path)
                yield where, cells
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise _unreadable(path, error) from error


def _parquet(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path)
        _columns(table.schema_arrow.names, path)
        number = 0
        for batch in table.iter_batches():
            for cells in batch.to_pylist():
                yield f"{show(path)}, row {number},", cells
                number += 1
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise _unreadable(path, error) from error


def _columns(columns: list[str], path: Path) -> list[str]:
    if FILE not in columns:
        raise InputError(
            f"{show(path)} has no column {FILE}; it has {listed(columns)}: name the column of image paths {FILE}."
        )
    if len(set(columns)) < len(columns):
        raise InputError(f"{show(path)} has a column twice; keep one of each name.")
    return columns


def _unreadable(path: Path, error: Exception) -> InputError:
    remedy = "write it again" if path.suffix == ".parquet" else "correct it and save it as UTF-8 text"
    return InputError(f"{show(path)} cannot be read as {path.suffix[1:]} ({show(error)[:120]}); {remedy}.")
