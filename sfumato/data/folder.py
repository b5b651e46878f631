"""A folder of images by the imagefolder rules: class folders, or a metadata file; splits as sub-folders.

Labels: the column of the metadata file, or else the folder that an image lies in, or else a single class.
Hidden files and files that are not images are left alone; a file that looks like an image of a kind that is
not read is refused, since leaving it out silently would change the set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.data.dicom import DICOM, PATIENT, decode_dicom, is_dicom, patient_of
from sfumato.data.images import decode
from sfumato.data.metadata import METADATA, Row, find_metadata, match_rows, read_metadata
from sfumato.data.source import Item, Options, Source, code_labels, code_persons, pick_split, show
from sfumato.errors import InputError

READ = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
)
OTHER = frozenset(
    (
        ".avif",
        ".heic",
        ".heif",
        ".jp2",
        ".j2k",
        ".jxl",
        ".svg",
        ".psd",
        ".eps",
        ".ico",
        ".tga",
        ".dng",
        ".cr2",
        ".nef",
        ".nii",
        ".exr",
    )
)
SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}


@dataclass(frozen=True)
class Layout:
    """Where the wanted images are: all below `base`, named from there; `splits` are the folders beside it."""

    root: Path
    base: Path
    splits: tuple[Path, ...]


def open_folder(root: Path, options: Options) -> Source:
    """A folder of images as a source."""
    layout = _layout(root, options.split)
    files = find_images(layout.base, root)
    rows = _rows(layout, files, options)
    if not files:
        raise InputError(f"{show(layout.base)} has no images; put PNG, JPEG, GIF, BMP, WebP, TIFF or PNM files there.")
    labels, known = _labels(layout, files, rows, options)
    classes, numbers = code_labels(labels, known)
    persons = code_persons([str(row.person) for row in rows]) if options.person and rows else None
    if options.person == PATIENT and not rows:
        persons = code_persons([patient_of(layout.base / name) for name in files])
    dicom = Path(files[0]).suffix.lower() not in READ
    columns = tuple({name for row in rows for name in row.columns}) if rows else (PATIENT,) * dicom
    return Source(str(root), classes, numbers, lambda: _images(layout.base, files), persons, columns=columns)


def find_images(base: Path, root: Path) -> list[str]:
    """Names of the images below `base`, sorted; everything that might hide or smuggle an image is refused."""
    names: list[str] = []
    waiting = [base]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith((".", "__")):
                    continue
                _check_name(entry)
                if entry.is_dir():
                    _check_folder(entry)
                    waiting.append(Path(entry.path))
                elif _is_image(entry, base, root):
                    names.append(Path(entry.path).relative_to(base).as_posix())
    return sorted(names)


def _check_name(entry: os.DirEntry[str]) -> None:
    try:
        entry.name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"The name {show(entry.path)} is not UTF-8; rename it.") from error


def _check_folder(entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        raise InputError(f"{show(entry.path)} is a link to a folder; put the folder itself there.")


def _is_image(entry: os.DirEntry[str], base: Path, root: Path) -> bool:
    """Whether a file is an image to read."""
    kind = os.path.splitext(entry.name)[1].lower()
    if kind in OTHER:
        raise InputError(f"{show(entry.path)} is an image of a kind that is not read; save it as PNG.")
    if entry.name in METADATA and Path(entry.path).parent != base:
        raise InputError(f"{show(entry.path)} lies too deep; keep one metadata file, in {show(base)}.")
    if kind not in READ and not is_dicom(entry):
        return False
    if not entry.is_file():
        raise InputError(f"{show(entry.path)} is not a regular file; replace it by an image or take it out.")
    if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
        raise InputError(f"{show(entry.path)} is a link that leaves {show(root)}; put a copy of the image there.")
    return True


def _layout(root: Path, split: str) -> Layout:
    """Find the split folders, if there are any."""
    splits = _split_folders(root)
    if not splits:
        pick_split(split, ["train"], show(root))
        return Layout(root, root, ())
    names = {SPLITS[folder.name]: folder for folder in splits}
    if len(names) < len(splits):
        raise InputError(f"{show(root)} has one split under two names; keep one of them.")
    wanted = SPLITS.get(split, split)
    pick_split(wanted, list(names), show(root))
    return Layout(root, names[wanted], splits)


def _split_folders(root: Path) -> tuple[Path, ...]:
    """Folders named like splits. Images beside them would be lost or mixed in, so they are refused."""
    with os.scandir(root) as entries:
        seen = [entry for entry in entries if not entry.name.startswith((".", "__"))]
    splits = tuple(sorted(Path(entry.path) for entry in seen if entry.name in SPLITS and entry.is_dir()))
    beside = [entry for entry in seen if entry.name not in SPLITS and _holds_images(entry)] if splits else []
    if beside and find_metadata(root):
        return ()  # the metadata file says what is what
    if beside:
        raise InputError(
            f"{show(root)} has the split folder {splits[0].name} and images beside it "
            f"({show(beside[0].name)}); move them, rename the folder, or add a metadata file."
        )
    for folder in splits:
        if folder.is_symlink():
            raise InputError(f"{show(folder)} is a link to a folder; put the folder itself there.")
    return splits


def _holds_images(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is an image, or a folder with one at any depth."""
    names = (name for _, _, files in os.walk(entry.path) for name in files) if entry.is_dir() else (entry.name,)
    return any(os.path.splitext(name)[1].lower() in READ | OTHER | DICOM for name in names)


def _rows(layout: Layout, files: list[str], options: Options) -> list[Row]:
    """The metadata rows of the files, in their order; none where there is no metadata file."""
    own = find_metadata(layout.base)
    shared = find_metadata(layout.root) if layout.splits else None
    if own and shared:
        raise InputError(f"{show(own)} and {show(shared)} both describe the same images; keep one of them.")
    if path := own or shared:
        above = "" if own else f"{layout.base.name}/"
        others = tuple(f"{folder.name}/" for folder in layout.splits if folder != layout.base) if shared else ()
        return match_rows(read_metadata(path, options), files, path, above, others)
    if options.label or options.person and not _tells_patients(options, layout.base, files):
        options.refuse_columns(f"{show(layout.base)} has no metadata file (metadata.csv, .jsonl or .parquet), so it")
    return []


def _tells_patients(options: Options, base: Path, files: list[str]) -> bool:
    """Whether the files themselves say who is shown: DICOM files do."""
    return options.person == PATIENT and all(decode_of(base / name) is decode_dicom for name in files)


def decode_of(path: Path) -> Callable[[Path, str], np.ndarray]:
    """What reads a file: by its ending; DICOM files may have none."""
    return decode if path.suffix.lower() in READ else decode_dicom


def _labels(layout: Layout, files: list[str], rows: list[Row], options: Options) -> tuple[list[str], set[str]]:
    """A label a file, and the classes that are known from other splits."""
    if rows and rows[0].label is not None:
        return [str(row.label) for row in rows], set()
    depths = {name.count("/") for name in files}
    if len(depths) > 1:
        shallow = min(files, key=_depth)
        deep = max(files, key=_depth)
        raise InputError(
            f"In {show(layout.base)}, {show(shallow)} and {show(deep)} lie at different depths; "
            "put every image into the folder of its class, or all into one folder."
        )
    if depths == {0}:
        return ["image"] * len(files), set()
    known = {
        entry.name
        for split in layout.splits
        for entry in os.scandir(split)
        if depths == {1} and entry.is_dir() and not entry.name.startswith((".", "__"))
    }
    for name in known:
        _refuse_unprintable(name, layout.base)
    return [_refuse_unprintable(name.split("/")[-2], layout.base) for name in files], known


def _refuse_unprintable(name: str, base: Path) -> str:
    if not name.isprintable() or not name.strip():
        raise InputError(f"In {show(base)}, the class folder {show(name)!r} has no printable name; rename it.")
    return name


def _depth(name: str) -> int:
    return name.count("/")


def _images(base: Path, files: list[str]) -> Iterator[Item]:
    for name in files:
        path = base / name
        yield str(path), decode_of(path)(path, str(path))
