"""A zip file from a stranger: looked at before a byte of it is unpacked."""

from __future__ import annotations

import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from starlette.exceptions import HTTPException

MOST_FILES = 200_000
MOST_BYTES = 2 * 2**30
MOST_RATIO = 200  # of a file's bytes to those that are packed; images and JSON of a release stay far below
SMALL = 2**16  # bytes up to which the ratio says nothing
PIECE = 2**20


@contextmanager
def unpacked(file: IO[bytes], beneath: Path) -> Iterator[Path]:
    """The release in a zip file, in a private folder that is gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="upload-", dir=beneath))
    try:
        try:
            with zipfile.ZipFile(file) as packed:
                members = check(packed)
                _unpack(packed, members, place)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, EOFError):
            raise HTTPException(400, "This is no zip file that can be unpacked; make it again.") from None
        yield _release_in(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def check(packed: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The files in it; refused as a whole where one would be written elsewhere, is a link, or swells."""
    members = [one for one in packed.infolist() if not one.is_dir()]
    if len(members) > MOST_FILES or sum(one.file_size for one in members) > MOST_BYTES:
        raise HTTPException(413, "This zip file would unpack to more than the studio takes.")
    for one in members:
        path = PurePosixPath(one.filename)
        strange = "\\" in one.filename or "\0" in one.filename or len(one.filename) > 1000
        if path.is_absolute() or ".." in path.parts or strange:
            raise HTTPException(400, "This zip file names a place outside itself; do not trust it.")
        if stat.S_ISLNK(one.external_attr >> 16):
            raise HTTPException(400, "This zip file holds a link; do not trust it.")
        if one.file_size > SMALL and one.file_size > MOST_RATIO * max(1, one.compress_size):
            raise HTTPException(413, "This zip file would unpack to far more than it is; do not trust it.")
    return members


def _unpack(packed: zipfile.ZipFile, members: list[zipfile.ZipInfo], place: Path) -> None:
    """Every file, counted while it is written: what a header says of its size is not believed."""
    left = MOST_BYTES
    for one in members:
        target = place / one.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with packed.open(one) as source, target.open("xb") as sink:
            while piece := source.read(PIECE):
                left -= len(piece)
                if left < 0:
                    raise HTTPException(413, "This zip file would unpack to more than the studio takes.")
                sink.write(piece)


def _release_in(place: Path) -> Path:
    """The folder itself, or the one folder in it."""
    entries = list(place.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else place
