"""hashes.json: the SHA-256 and size of every file of a release, in one fixed form whose own hash stands for all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.release.files.outside import walk

HASHES = "hashes.json"
SIGNATURE = "signature.json"
HASHES_FORMAT = "sfumato-hashes/1"


def canonical(value: dict[str, Any]) -> bytes:
    """The one way in which a value is written: sorted keys, no spaces, ASCII, a newline at the end.

    >>> canonical({"b": 1, "a": "é"})
    b'{"a":"\\\\u00e9","b":1}\\n'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode() + b"\n"


def read_canonical(name: str, data: bytes, keys: set[str]) -> dict[str, Any]:
    """The value of a file that must have exactly these keys and be in its fixed form, so that no byte is free."""
    try:
        value = json.loads(data)
        fixed = isinstance(value, dict) and canonical(value) == data
    except (ValueError, RecursionError):
        fixed = False
    if not fixed or set(value) != keys:
        raise InputError(f"{name} is not in its fixed form; fetch the release again.")
    return dict(value)


def plain_files(folder: Path) -> list[str]:
    """The names of all plain files beneath a folder, links and what is outside the seal left out, in order."""
    paths = (path for path in walk(folder) if path.is_file() and not path.is_symlink())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def listing(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Hash and size of every file but the list itself and the signature over it."""
    folder = Path(folder)
    return {name: _entry(folder / name) for name in plain_files(folder) if name not in (HASHES, SIGNATURE)}


def _entry(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": file.tell()}


def make_hashes(folder: str | Path, signed_by: str | None = None) -> bytes:
    """hashes.json of a folder; `signed_by` is the public key, so that a signature cannot be taken off unseen."""
    return canonical({"format": HASHES_FORMAT, "files": listing(folder), "signed_by": signed_by})


def read_hashes(data: bytes) -> dict[str, Any]:
    """The contents of hashes.json, refused where a byte of it is not as `make_hashes` writes it."""
    value = read_canonical(HASHES, data, {"format", "files", "signed_by"})
    signed = value["signed_by"]
    if value["format"] != HASHES_FORMAT or not isinstance(value["files"], dict) or not isinstance(signed, str | None):
        raise InputError(f"{HASHES} is not of format {HASHES_FORMAT}; use the version of sfumato that wrote it.")
    return value


def root_hash(data: bytes) -> str:
    """The hash that stands for the whole release: of the bytes of hashes.json."""
    return hashlib.sha256(data).hexdigest()


def differences(folder: str | Path, stated: dict[str, Any]) -> list[str]:
    """Where a folder is not what its hashes say, one sentence for each file."""
    present = listing(folder)
    missing = [f"{name} is missing." for name in stated if name not in present]
    foreign = [f"{name} is not in {HASHES}." for name in present if name not in stated]
    changed = [f"{name} was changed." for name in present if name in stated and present[name] != stated[name]]
    return sorted(missing + foreign + changed)
