"""All mutants, read from the texts in `planted/`.

    @@ mutant ID
    kind: one of `mutant.KINDS`
    what: one sentence of what it breaks, and how badly
    audit: METHOD setting=value ...            once or more; see `mutant.Case` for what else may be said, "-" is none
    @@ old FILE                                a place of the package, as it is ...
    @@ new                                     ... and as it becomes; once or more
    @@ twin FILE                               a harmless change, likewise, if there is one
    @@ new

Lines before the first mutant of a file are a comment, and so are empty ones at the end of a block.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutant import Case, Edit, Mutant

FOLDER = Path(__file__).resolve().parent / "planted"
MARK = "@@ "
OWN = {field.name for field in fields(Case)} - {"method", "settings"}


def read(text: str) -> list[Mutant]:
    """The mutants of one text."""
    blocks = ("\n" + text).split("\n" + MARK)[1:]
    found: list[Mutant] = []
    starts = [i for i, block in enumerate(blocks) if block.startswith("mutant ")]
    for first, last in zip(starts, [*starts[1:], len(blocks)], strict=True):
        found.append(_mutant(blocks[first], blocks[first + 1 : last]))
    return found


def _mutant(head: str, blocks: list[str]) -> Mutant:
    title, *lines = head.rstrip("\n").split("\n")
    said = [line.split(": ", 1) for line in lines]
    one = {key: value for key, value in said if key != "audit"}
    if set(one) != {"kind", "what"}:
        raise ValueError(f"Expected kind, what and audit of {title}, found {sorted(one)}.")
    edits = _edits(blocks)
    return Mutant(
        title.removeprefix("mutant "),
        one["kind"],
        one["what"],
        tuple(_case(value) for key, value in said if key == "audit"),
        tuple(edit for word, edit in edits if word == "old"),
        tuple(edit for word, edit in edits if word == "twin"),
    )


def _edits(blocks: list[str]) -> list[tuple[str, Edit]]:
    found = []
    for before, after in zip(blocks[::2], blocks[1::2], strict=True):
        (head, _, old), (mark, _, new) = before.partition("\n"), after.partition("\n")
        word, file = head.split(" ")
        if word not in ("old", "twin") or mark != "new":
            raise ValueError(f"Expected a block of old or twin and then one of new, found {head!r} and {mark!r}.")
        found.append((word, Edit(file, old.rstrip("\n"), new.rstrip("\n"))))
    return found


def _case(text: str) -> Case:
    method, *words = text.split(" ")
    given = {key: _value(value) for key, value in (word.split("=", 1) for word in words)}
    own: dict[str, Any] = {key: value for key, value in given.items() if key in OWN}
    if "shape" in own:
        own["shape"] = tuple(int(side) for side in own["shape"].split("x"))
    settings = {key: value for key, value in given.items() if key not in OWN}
    return Case(method if method != "-" else "", settings, **own)


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


MUTANTS = tuple(mutant for path in sorted(FOLDER.glob("*.txt")) for mutant in read(path.read_text()))
