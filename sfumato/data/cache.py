"""Where files are kept: decoded private pixels, and downloads of public sets."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import InputError


def cache_folder() -> Path:
    """SFUMATO_CACHE, or sfumato/ in the user's cache folder (XDG_CACHE_HOME, ~/.cache)."""
    if own := os.environ.get("SFUMATO_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfumato"


def private_folder() -> Path:
    """The folder of decoded pixels, closed to everyone but its owner."""
    folder = cache_folder() / "private"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)  # mkdir obeys the umask, and the folder may be older than this rule
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"Cannot make the private folder {folder} ({reason}); set SFUMATO_CACHE to one.") from error
    return folder


def download_folder(name: str) -> Path:
    """The folder in which a downloaded public set is kept between runs."""
    return cache_folder() / "downloads" / name
