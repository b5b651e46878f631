"""Files of public sets from their usual address, checked before they are used."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sfumato.data.cache import download_folder
from sfumato.errors import InputError

PATIENCE = 30  # seconds without a byte


@dataclass(frozen=True)
class Address:
    """Where the files of a set are, and the sha256 of each."""

    base: str  # ends with a slash
    files: Mapping[str, str]


def fetch(name: str, address: Address) -> Path:
    """The folder that holds the files of a set, downloaded where they are missing or damaged."""
    folder = download_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    for file, sha256 in address.files.items():
        if not ((folder / file).is_file() and _sha256(folder / file) == sha256):
            _download(name, address.base + file, folder / file, sha256)
    return folder


def _download(name: str, url: str, target: Path, sha256: str) -> None:
    """One file, under its name only when it is complete and right."""
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            _copy(name, url, out)
        if (found := _sha256(Path(part))) != sha256:
            raise InputError(
                f"{url} has the sha256 {found[:16]}… and not {sha256[:16]}…, so it was thrown away; "
                f"try again, or give a copy of your own as {name}:PATH."
            )
        os.replace(part, target)
    finally:
        Path(part).unlink(missing_ok=True)


def _copy(name: str, url: str, out: IO[bytes]) -> None:
    import http.client
    import shutil

    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            shutil.copyfileobj(answer, out)
    except (OSError, http.client.HTTPException) as error:
        raise InputError(
            f"Cannot download {url} ({error}); "
            f"fetch the set on a machine with internet and give its path as {name}:PATH."
        ) from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
