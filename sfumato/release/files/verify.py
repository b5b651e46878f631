"""Checking a release without the data: every byte accounted for, every number derived again, every word regenerated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import InputError
from sfumato.release.files import checks
from sfumato.release.files.command import FindClass, find_method
from sfumato.release.files.hashes import HASHES, root_hash
from sfumato.release.files.outside import outside
from sfumato.release.files.reading import refuse_marked, release_folder

OUTSIDE = "outside"


@dataclass(frozen=True)
class Verdict:
    """What was checked, and whether all of it is well."""

    rows: tuple[tuple[str, bool, str], ...]
    root: str | None = None  # the hash that stands for the whole release
    signed_by: str | None = None  # the public key of a valid signature

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(ok for _, ok, _ in self.rows)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        rows = [
            {"check": check, "ok": ok, "state": self.state(check, ok), "detail": detail}
            for check, ok, detail in self.rows
        ]
        return {"ok": self.ok, "root": self.root, "signed_by": self.signed_by, "checks": rows}

    def state(self, check: str, ok: bool) -> str:
        """A check in a word: what is not signed, or not sealed, is neither well nor refused."""
        if not ok:
            return "REFUSED"
        if check == "signature" and self.signed_by is None:
            return "not signed"
        return "not sealed" if check == OUTSIDE else "ok"


@dataclass(frozen=True)
class ReleaseKind:
    """What may be released: how its folder is told from others, its own checks, the classes that make it."""

    holds: Callable[[Path], bool]
    checks: Mapping[str, Callable[[checks.Folder], str]]
    find: FindClass


IMAGES = ReleaseKind(
    holds=lambda folder: True,
    checks={
        "contents": checks.contents,
        "documents": checks.documents,
        "generator": checks.generator,
        "images": checks.pictures,
    },
    find=find_method,
)


def verify(folder: str | Path, *, public_key: str | Path | None = None, kinds: tuple[ReleaseKind, ...] = ()) -> Verdict:
    """Check a release folder; `public_key`, in hex or as a PEM file, asks for a signature by that key.

    A folder that is of none of the `kinds` must be a release of images.
    A verdict that is not ok says in its rows what was found. An error is raised only where there is nothing to check.
    """
    refuse_marked(release_folder(folder))
    wanted = None
    if public_key is not None:
        from sfumato.release.files.sign import read_public_key

        wanted = read_public_key(public_key)
    kind = next((kind for kind in kinds if kind.holds(Path(folder))), IMAGES)
    release = checks.Folder(Path(folder), kind.find)
    signed = list[str]()
    todo: dict[str, Callable[[checks.Folder], str]] = {
        "contents": kind.checks["contents"],
        "hashes": checks.hashes,
        "signature": lambda release: checks.signature(release, wanted, signed),
        "guarantee": checks.guarantee,
        "statement": checks.words,
        "command": checks.command,
        **kind.checks,
    }
    if odd := checks.not_plain(release.folder):
        # A link or a pipe could lead the reader anywhere, or hold it for ever: nothing is opened.
        return Verdict(tuple((name, False, f"{odd} is not a plain file; nothing was read.") for name in todo))
    rows = tuple(_row(name, check, release) for name, check in todo.items())
    if beside := outside(release.folder):
        words = f"{', '.join(beside)} outside the seal: nothing vouches for it, and nothing in it was read."
        rows = (*rows, (OUTSIDE, True, words))
    return Verdict(rows, _root(release), signed[0] if signed else None)


def _row(name: str, check: Callable[[checks.Folder], str], release: checks.Folder) -> tuple[str, bool, str]:
    """One check: it returns what is well, or raises an InputError that says what is not."""
    try:
        return name, True, check(release)
    except InputError as error:
        return name, False, str(error)
    except Exception as error:
        # What a stranger wrote may break any step; whatever cannot be checked is refused.
        return name, False, f"It cannot be checked ({type(error).__name__}: {error})."


def _root(release: checks.Folder) -> str | None:
    try:
        return root_hash(release.data(HASHES))
    except InputError:
        return None
