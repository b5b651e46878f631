"""A table as plain values: each cell with what is printed, what was measured, and what would make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.bench import ENTRIES, PAPERS, Entry, find
from sfumato.bench.results import Match, Result, matched, read
from sfumato.bench.sources import here
from sfumato.bench.table import ELSEWHERE, PROTOCOLS, STAND_INS, TITLES, Cell, Figure, Listing, Table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.bench.run import Asked

# measured: the paper's settings on its set. near: other settings, ours, or a set that stands in. open: can be run.
STATES = ("measured", "near", "open", "cannot")
Value = dict[str, Any]


def overviews(folder: Path | None = None) -> list[Value]:
    """A line for each table and figure."""
    results = read(folder)
    return [overview(entry, results) for entry in ENTRIES.values()]


def shown(name: str, asked: Asked, out: Path | None = None) -> Value:
    """A table, a list, or a figure, which is drawn where `out` is given: all of it, and how it looks."""
    from sfumato.bench.layout import laid_out

    entry = find(name)
    results = read(asked.folder)
    if isinstance(entry, Figure):
        return overview(entry, results) | _figure(entry, results, asked, out)
    if out is not None:
        raise InputError(f"{name} is a table; --out draws figures.")
    if isinstance(entry, Listing):
        rows = entry.make()
        lines = [[", ".join(row[f] for f in fields) for fields in entry.columns.values()] for row in rows]
        about = {
            "columns": list(entry.columns),
            "lines": lines,
            "whole": ["state", "recipe"],
            "notes": list(entry.notes),
        }
        return overview(entry, results) | {"rows": rows} | about
    table = described(entry, results, asked.given)
    table["cells"] = [c for c, cell in zip(table["cells"], entry.cells, strict=True) if cell.asked(list(asked.only))]
    return table | laid_out(table)


def _figure(entry: Figure, results: Sequence[Result], asked: Asked, out: Path | None) -> Value:
    if out is None:
        where = entry.instead and f"See {entry.instead}."
        words = " --run" * entry.runs + f" --out FILE{entry.suffix}"
        return {"instead": where or f"Draw it with `sfumato bench {entry.id}{words}`."}
    if not entry.drawing:
        raise InputError(f"{entry.id} is a diagram without numbers, which is not drawn here; see {entry.instead}.")
    if entry.runs and not asked.run:
        raise InputError(f"{entry.id} shows images of releases, which are made first: add --run.")
    from sfumato.bench.draw import draw

    draw(entry, results, asked, out)
    return {"out": str(out)}


def overview(entry: Entry, results: Sequence[Result]) -> Value:
    """A line of the list: how many cells of each state, why the rest cannot be had, and when it was last run."""
    start = {"id": entry.id, "paper": PAPERS[entry.id.split("-")[0]], "shows": entry.shows}
    if isinstance(entry, Figure):
        state = "drawn" if entry.drawing else "diagram"
        return start | {"state": state, "instead": entry.instead}
    if isinstance(entry, Listing):
        return start | {"state": "computed"}
    cells = described(entry, results)["cells"]
    counts = Counter(cell["state"] for cell in cells)
    dates = [r["date"] for cell in cells for r in cell["results"] if r["date"]]
    why = Counter(cell["why"] for cell in cells if cell["state"] == "cannot")
    return start | {
        "cells": len(cells),
        **{state: counts[state] for state in STATES},
        "why": [{"cells": n, "reason": reason} for reason, n in why.most_common()],
        "last": max(dates, default=None),
    }


def described(table: Table, results: Sequence[Result], given: Mapping[str, str] | None = None) -> Value:
    """Everything about a table; `given` are the paths of sets by name."""
    cells = table.cells
    return {
        "id": table.id,
        "paper": PAPERS[table.id.split("-")[0]],
        "shows": table.shows,
        "protocol": table.protocol,
        "heads": list(table.heads),
        "digits": table.digits,
        "scale": table.scale,
        "protocols": protocols(cells),
        "cells": [cell_of(table, cell, matched(cell, results, cells), given or {}) for cell in cells],
        "about": list(table.notes),
    }


def protocols(cells: Iterable[Cell]) -> dict[str, str]:
    """The columns of our numbers: every protocol of what the cells measure."""
    return {name: head for cell in cells for name, head in PROTOCOLS[cell.metric].items()}


def cell_of(table: Table, cell: Cell, matches: Sequence[Match], given: Mapping[str, str]) -> Value:
    """One cell."""
    state, why = state_of(table, cell, matches, given)
    values = {} if cell.value is None else {"setting": {"mean": cell.value, "std": None, "values": [cell.value]}}
    own = [{"name": "computed", "values": values, "date": "", "exact": True}] if values else []
    return {
        "row": cell.row,
        "column": cell.column,
        "data": cell.data,
        "epsilon": cell.epsilon,
        "metric": cell.metric,
        "printed": cell.printed,
        "spread": cell.spread,
        "state": state,
        "why": why,
        "sources": [s.name for s in cell.sources],
        "results": [result_of(match) for match in matches] + own,
    }


def result_of(match: Match) -> Value:
    """What was measured, with all that tells it apart from what the cell asks for."""
    result = match.result
    return {
        "name": match.source.name,
        "values": result.values,
        "refused": result.refused,
        "exact": match.exact,
        "ours": match.source.ours,
        "stand_in": match.stand_in,
        "settings": dict(match.source.settings),
        "changes": match.changes,
        "seeds": result.seeds(),
        "machine": result.machine,
        "torch": result.torch,
        "date": result.date,
        "own": result.own,
        "command": result.command,
    }


def state_of(table: Table, cell: Cell, matches: Sequence[Match], given: Mapping[str, str]) -> tuple[str, str]:
    """Which of STATES a cell is in, and why it cannot be had or what it still wants."""
    if cell.value is not None or any(m.exact and m.result.values for m in matches):
        return "measured", ""
    if any(m.result.values for m in matches):
        return "near", ""
    if matches:
        return "cannot", matches[0].result.refused
    return _unmeasured(table, cell, given)


def _unmeasured(table: Table, cell: Cell, given: Mapping[str, str]) -> tuple[str, str]:
    if cell.why:
        return "cannot", cell.why
    ready = [s for s in cell.sources if not s.recipe or here(s.recipe) or s.recipe.startswith("table10-")]
    if not ready:
        return "cannot", f"no recipe {cell.sources[0].recipe} here"
    if cell.data in ELSEWHERE and cell.data not in given:
        stand_in = STAND_INS.get(cell.data, ("", None))[0]
        command = f"sfumato bench {table.id} --run --data {cell.data}:PATH --provenance TEXT"
        if not stand_in:
            return "cannot", f"{TITLES[cell.data]} is not here; `{command}` runs it where it is"
        return "open", f"`{command}`, or with {stand_in}:PATH in its place"
    return "open", ""
