"""What was found, as a table by kind and as a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutant import KINDS

Row = dict[str, Any]
LEVELS = (0, 1, 2)
COLUMNS = ("planted", *(f"level {level}" for level in LEVELS), "caught", "missed", "other")


def count(rows: Sequence[Row]) -> dict[str, int]:
    """How many were planted, caught by each level first, missed, and neither because they do not run."""
    caught = [row for row in rows if row["verdict"] == "caught"]
    missed = sum(row["verdict"] == "missed" for row in rows)
    by_level = {f"level {level}": sum(row["level"] == level for row in caught) for level in LEVELS}
    other = len(rows) - len(caught) - missed
    return {"planted": len(rows), **by_level, "caught": len(caught), "missed": missed, "other": other}


def counted(rows: Sequence[Row]) -> dict[str, Any]:
    """By kind, and in all."""
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    return {"kinds": {kind: count(of) for kind, of in kinds.items() if of}, "total": count(rows)}


def lines(rows: Sequence[Row]) -> list[str]:
    """The table, what was not caught and why, and by what the others were."""
    found = counted(rows)
    said = ["", _line("kind", COLUMNS) + f"{'share':>8}"]
    for kind, of in (*found["kinds"].items(), ("total", found["total"])):
        said.append(_line(kind, of.values()) + f"{of['caught'] / max(1, of['planted']):>8.0%}")
    said += ["", *(f"{row['verdict']}: {_told(row)}" for row in rows if row["verdict"] != "caught")]
    said += ["", "caught by:"]
    for row in (r for r in rows if r["verdict"] == "caught"):
        levels = ", ".join(map(str, row["levels"]))
        said.append(f"  {row['id']:28} level {levels}: {', '.join(row['checks'])}")
    total = found["total"]
    said.append(f"{total['caught']} of {total['planted']} caught ({total['caught'] / max(1, total['planted']):.1%}).")
    return said


def _line(first: str, others: Any) -> str:
    return f"{first:12}" + "".join(f"{other:>9}" for other in others)


def _told(row: Row) -> str:
    reached = " (never reached)" if row["reached"] is False else ""
    return f"{row['id']} ({row['kind']}){reached}: {row['what']} {row['detail'][:160]}".rstrip()


def written(place: str, command: Sequence[str], found: dict[str, Any]) -> None:
    """All of it, with the command that found it."""
    Path(place).write_text(json.dumps({"command": " ".join(command), **found}, indent=1) + "\n")
