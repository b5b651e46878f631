"""Where an evaluation is written: beside the release, never within it, for its owner's eyes."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import InputError
from sfumato.evaluate.results import Report

FILE = "evaluation.json"


def check_place(release: str | Path, out: str | Path | None, ending: str = "evaluation") -> Path:
    """The folder to write, which is never the release or within it."""
    inside = Path(release).resolve()
    place = Path(out).absolute() if out is not None else inside.with_name(f"{inside.name}-{ending}")
    if inside == place.resolve() or inside in place.resolve().parents:
        raise InputError(f"{place} is within the release, which may be published; choose another --out.")
    if place.exists() and not place.is_dir():
        raise InputError(f"{place} is in the way: it is not a folder; choose another --out.")
    above = next(parent for parent in (place, *place.parents) if parent.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{above} cannot be written to; choose another --out.")
    return place


def write(report: Report, place: Path) -> Path:
    """evaluation.json in its folder; a private one can be read by its owner alone."""
    try:
        place.mkdir(mode=0o700 if report.touches_private else 0o777, parents=True, exist_ok=True)
        new = place / f".{FILE}.new"
        mode = 0o600 if report.touches_private else 0o666
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(report.text())
        os.replace(new, place / FILE)
    except OSError as error:
        raise InputError(f"{place} cannot be written ({error.strerror}); choose another --out.") from error
    return place / FILE
