"""Folders that may be read, and no way out of them: neither by `..`, nor by an absolute path, nor by a link."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from starlette.exceptions import HTTPException

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
FILES = (".npz", ".parquet")
MOST = 500  # entries of a folder that are listed
NOWHERE = "There is no such place under the allowed folders."


def inside(root: Path, name: str) -> Path:
    """A path under `root`, followed to its end; what leads out of it is as good as absent."""
    try:
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise HTTPException(404, NOWHERE) from None
    if not path.is_relative_to(root.resolve()):
        raise HTTPException(404, NOWHERE)
    return path


def plain_name(name: str) -> str:
    """A name for one new folder or file: no separators, no dot in front."""
    if not NAME.fullmatch(name):
        raise HTTPException(400, "Expected a name of letters, digits, dots, dashes and underscores.")
    return name


class Roots:
    """Data under the allowed folders; a place has a random name, so that no path stands in an address."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self.roots = roots
        self._names: dict[Path, str] = {}
        self._paths: dict[str, Path] = {}

    def name(self, path: Path) -> str:
        """The random name of a place."""
        if path not in self._names:
            self._names[path] = secrets.token_urlsafe(12)
            self._paths[self._names[path]] = path
        return self._names[path]

    def path(self, name: str) -> Path:
        """The place of a random name, if it still lies where it may."""
        path = self._paths.get(name)
        if path is None:
            raise HTTPException(404, NOWHERE)
        return self.allowed(path)

    def allowed(self, path: Path) -> Path:
        """A path with all links followed, if it is under one of the roots and there."""
        try:
            true = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise HTTPException(404, NOWHERE) from None
        if not any(true.is_relative_to(root) for root in self.roots):
            raise HTTPException(404, NOWHERE)
        return true

    def typed(self, text: str) -> Path:
        """A path as it was typed: absolute, or from the first root that has it."""
        found = Path(text).expanduser()
        if found.is_absolute() or not self.roots:
            return self.allowed(found)
        there = [root / found for root in self.roots if (root / found).exists()]
        return self.allowed(there[0] if there else self.roots[0] / found)

    def within(self, path: Path) -> Iterator[tuple[str, str, bool]]:
        """(random name, name, whether it is a folder) of what data may lie in; images and the hidden are left out."""
        try:
            entries = sorted(path.iterdir(), key=lambda entry: entry.name.lower())
        except OSError:
            return
        shown = [entry for entry in entries if not entry.name.startswith(".")]
        fitting = [entry for entry in shown if entry.is_dir() or entry.suffix.lower() in FILES]
        for entry in fitting[:MOST]:
            if any(entry.resolve().is_relative_to(root) for root in self.roots):
                yield self.name(entry), entry.name, entry.is_dir()
