"""What may lie in a release folder without being part of the release: a licence, and what version control and hubs add.

Nothing vouches for it and nothing reads it. `sfumato verify` says which there is; anything else that is not on the
list of a release is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

LICENCES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "COPYING")
FILES = (*LICENCES, ".gitattributes", ".gitignore")
FOLDERS = (".git", ".huggingface", ".cache")


def is_outside(folder: Path, name: str) -> bool:
    """Whether something at the top of a release folder is outside of what was sealed. A link never is."""
    path = folder / name
    if path.is_symlink():
        return False
    return (name in FILES and path.is_file()) or (name in FOLDERS and path.is_dir())


def outside(folder: str | Path) -> list[str]:
    """What there is of it, in order."""
    folder = Path(folder)
    return sorted(name for name in os.listdir(folder) if is_outside(folder, name)) if folder.is_dir() else []


def walk(folder: str | Path) -> Iterator[Path]:
    """Every file and folder beneath a release folder that is not outside the seal."""
    top = Path(folder)
    for where, folders, files in os.walk(top):
        if Path(where) == top:
            folders[:] = [name for name in folders if not is_outside(top, name)]
            files = [name for name in files if not is_outside(top, name)]
        yield from (Path(where) / name for name in sorted(folders + files))
