"""Faces as the papers use them, from a user's own copy: CelebA and FFHQ. They show people, so they are private."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from sfumato.data.folder import find_images
from sfumato.data.images import decode
from sfumato.data.metadata import find_metadata, match_rows, read_metadata
from sfumato.data.source import Item, Options, Source, code_labels, code_persons, listed, pick_split, show
from sfumato.errors import InputError

CELEBA_SPLITS = {"train": ("0", "1"), "test": ("2",)}  # training and validation together: 182,637 and 19,962 images
HAIR = {"Black_Hair": "black", "Blond_Hair": "blond", "Brown_Hair": "brown"}
IDENTITY = "identity"
FFHQ_SIZE = 128

Value = TypeVar("Value")
Attributes = dict[str, str]  # of one face: attribute to "1" or "-1"


def open_celeba_gender(path: Path, options: Options) -> Source:
    """CelebA, female and male."""
    return _celeba(path, options, lambda face: "male" if face["Male"] == "1" else "female", ["Male"])


def open_celeba_hair(path: Path, options: Options) -> Source:
    """CelebA, the faces with exactly one of black, blond and brown hair."""
    return _celeba(path, options, _hair, list(HAIR))


def open_ffhq_gender(path: Path, options: Options) -> Source:
    """FFHQ at 128 pixels, with a gender for each image in a metadata file; a tenth, chosen by name, is the test."""
    pick_split(options.split, ["train", "test"], show(path))
    metadata = find_metadata(_folder(path))
    if metadata is None:
        raise InputError(f"{show(path)} has no metadata file; add metadata.csv with file_name and gender.")
    files = find_images(path, path)
    metadata_rows = read_metadata(metadata, replace(options, label=options.label or "gender"))
    rows = match_rows(metadata_rows, files, metadata, "", ())
    chosen = [
        (name, row)
        for name, row in zip(files, rows, strict=True)
        if (keyed(name) % 10 == 0) == (options.split == "test")
    ]
    classes, numbers = code_labels([str(row.label) for _, row in chosen], sorted({str(row.label) for row in rows}))
    persons = code_persons([str(row.person) for _, row in chosen]) if options.person else None
    paths = [path / name for name, _ in chosen]
    return Source(str(path), classes, numbers, lambda: decoded(paths), persons, size=FFHQ_SIZE)


def keyed(name: str) -> int:
    """A number that depends on the name alone, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(name.encode(), key=b"sfumato", digest_size=8).digest())


def decoded(paths: Sequence[Path]) -> Iterator[Item]:
    """Image files, decoded one by one."""
    for path in paths:
        yield str(path), decode(path, str(path))


def _hair(face: Attributes) -> str | None:
    colours = [name for column, name in HAIR.items() if face[column] == "1"]
    return colours[0] if len(colours) == 1 else None


def _celeba(root: Path, options: Options, label: Callable[[Attributes], str | None], columns: list[str]) -> Source:
    pick_split(options.split, list(CELEBA_SPLITS), show(root))
    if options.label is not None:
        Options(label=options.label).refuse_columns("This set takes its own attribute and")
    if options.person not in (None, IDENTITY):
        raise InputError(f"CelebA says who is in an image in identity_CelebA.txt alone; write --person {IDENTITY}.")
    parts = _pairs(_find(root, "list_eval_partition.txt", "Eval"))
    faces = _attributes(_find(root, "list_attr_celeba.txt", "Anno"), columns)
    chosen = [
        (name, found)
        for name, part in parts.items()
        if part in CELEBA_SPLITS[options.split]
        and (found := label(_of(faces, name, "list_attr_celeba.txt"))) is not None
    ]
    classes, numbers = code_labels(
        [found for _, found in chosen], list(HAIR.values()) if len(columns) > 1 else ["female", "male"]
    )
    folder = _find(root, "img_align_celeba", "Img")
    persons = None
    if options.person:
        identity = _pairs(_find(root, "identity_CelebA.txt", "Anno"))
        persons = code_persons([_of(identity, name, "identity_CelebA.txt") for name, _ in chosen])
    paths = [folder / name for name, _ in chosen]
    return Source(str(root), classes, numbers, lambda: decoded(paths), persons)


def _find(root: Path, name: str, place: str) -> Path:
    """A file or folder of the set, at the top or where the official archive has it."""
    for path in (_folder(root) / name, root / place / name):
        if path.exists():
            return path
    raise InputError(f"{show(root)} has no {name}; put the aligned CelebA images and its lists there.")


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"{show(path)} is not a folder; give the folder that holds the set.")
    return path


def _lines(path: Path) -> list[list[str]]:
    try:
        return [cells for line in path.read_text("utf-8").splitlines() if (cells := line.split())]
    except UnicodeDecodeError as error:
        raise InputError(f"{show(path)} is not text; replace it by a good copy.") from error


def _pairs(path: Path) -> dict[str, str]:
    """Image and value, one pair a line."""
    pairs: dict[str, str] = {}
    for number, cells in enumerate(_lines(path), start=1):
        if len(cells) != 2 or cells[0] in pairs:
            raise InputError(f"{show(path)}, entry {number}, is not one image and its value; replace the file.")
        pairs[_plain(cells[0], path)] = cells[1]
    return pairs


def _attributes(path: Path, columns: list[str]) -> dict[str, Attributes]:
    """The wanted attributes of every face. The first line counts the faces, the second names the attributes."""
    lines = _lines(path)
    names = lines[1] if len(lines) > 1 else []
    for column in columns:
        if column not in names:
            raise InputError(f"{show(path)} has no attribute {column} ({listed(names)}); replace it by a good copy.")
    at = [names.index(column) + 1 for column in columns]
    faces: dict[str, Attributes] = {}
    for number, cells in enumerate(lines[2:], start=3):
        if len(cells) != len(names) + 1 or cells[0] in faces or any(cells[place] not in ("1", "-1") for place in at):
            raise InputError(
                f"{show(path)}, entry {number}, is not one image and its attributes; replace it by a good copy."
            )
        faces[_plain(cells[0], path)] = {column: cells[place] for column, place in zip(columns, at, strict=True)}
    return faces


def _plain(name: str, path: Path) -> str:
    if "/" in name or name in (".", ".."):
        raise InputError(f"{show(path)} names {show(name)}, which leaves the folder; replace it by a good copy.")
    return name


def _of(table: dict[str, Value], name: str, file: str) -> Value:
    if name not in table:
        raise InputError(f"{file} has no row for {show(name)}; replace it by a good copy.")
    return table[name]
