"""Private files that a crash leaves whole: as they were, or as they became."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Write a private file durably: to a neighbour, to the disk, then over the old name."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def locked(path: Path) -> bool:
    """Whether a living process holds the lock of a file or a folder; one that is not there is held by nobody."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
