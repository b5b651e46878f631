"""Features of a set of images, kept by content hash so that the same images are not described twice.

What is computed from private images is private: the files lie in the private cache folder (SFUMATO_CACHE, mode 0700),
never in a release, and nothing is kept unless the caller asks (`cache=True`; public sets need not hesitate).
`clear()` deletes them all.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sfumato.data.cache import private_folder
from sfumato.evaluate.features import Space

FORMAT = "1"  # of the files; changes when preprocessing does


def folder() -> Path:
    """Where features are kept; closed to everyone but its owner."""
    place = private_folder() / "features"
    place.mkdir(mode=0o700, exist_ok=True)
    place.chmod(0o700)
    return place


def key(images: np.ndarray, space: Space) -> str:
    """SHA-256 of the pixels, their shape, the space and its version."""
    digest = hashlib.sha256(f"{FORMAT}|{space.name}|{space.version}|{images.dtype}|{images.shape}|".encode())
    for start in range(0, len(images), 4096):  # images may be a memory map
        digest.update(np.ascontiguousarray(images[start : start + 4096]).tobytes())
    return digest.hexdigest()


def features(
    images: np.ndarray, space: Space, *, cache: bool = False, advance: Callable[[int], None] | None = None
) -> np.ndarray:
    """`space(images)`, from the cache or, with `cache`, into it."""
    if not cache:
        return space(images, advance)
    path = folder() / f"{key(images, space)}.npy"
    if (kept := _read(path, (len(images), space.dim))) is not None:
        return kept
    rows = space(images, advance)
    _write(path, rows)
    return rows


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # absent or damaged: it is made again
    return rows if rows.shape == shape and rows.dtype == np.float32 else None


def _write(path: Path, rows: np.ndarray) -> None:
    # Whole or not at all: another process may be reading the same name. mkstemp opens for the owner alone.
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, rows, allow_pickle=False)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def clear() -> int:
    """Delete every kept file; returns how many there were."""
    files = [f for f in folder().iterdir() if f.suffix in (".npy", ".part")]
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)
