"""`sfumato bench`: every table and figure of the papers, with the printed value beside ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.lines import display
from sfumato.cli.show import Answer, path_line, table
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.bench.run import Asked

LEGEND = (
    "* measured (the paper's settings on its set) / near (ours, changed settings or a set that stands in) / open (can "
    "be run here) / cannot"
)
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="A table or figure.", show_default=False)]
Make = Annotated[bool, typer.Option("--run", help="Make the cells that are missing; what is there is not made again.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WORDS", help="Cells with this in row, column or recipe; may be repeated.", show_default=False
    ),
]
Seeds = Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Runs of each cell.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="What --run computes on.")]
Data = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME:PATH", help="Where a set lies; may be repeated.", show_default=False),
]
Provenance = Annotated[
    str, typer.Option(metavar="TEXT", help="Where sets are from that are not public by their name, such as CelebA.")
]
Count = Annotated[
    int,
    typer.Option(metavar="N", callback=options.count_in_range, help="Synthetic images that a classifier learns from."),
]
Official = Annotated[
    bool, typer.Option("--official", help="Also the evaluation of DataLens' code: best of 600 test epochs.")
]
Again = Annotated[bool, typer.Option("--again", help="Make cells anew that have a result in the package.")]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Runs at a time, each in a process of its own.")]
Pictures = Annotated[
    str | None, typer.Option(metavar="DIR", help="Keep a grid of images of each first seed.", show_default=False)
]
Results = Annotated[str, typer.Option(metavar="DIR", help="Your own results, shown over those of the package.")]
Out = Annotated[str | None, typer.Option(metavar="FILE", help="Draw a figure into this file.", show_default=False)]


def bench(
    name: Name = None,
    run: Make = False,
    only: Only = None,
    seeds: Seeds = 1,
    device: Device = "auto",
    data: Data = None,
    provenance: Provenance = "",
    count: Count = 60_000,
    official: Official = False,
    again: Again = False,
    settings: options.Settings = None,
    jobs: Jobs = 1,
    pictures: Pictures = None,
    results: Results = "bench-results",
    out: Out = None,
    json: options.Json = False,
) -> Answer:
    """List the tables and figures of the papers; show one with what was measured here, run what is missing, draw it."""
    from sfumato.bench.run import Asked, sets
    from sfumato.bench.view import overviews, shown

    folder = Path(results)
    if name is None:
        if run or out:
            raise InputError("Expected the name of a table or figure; `sfumato bench` lists them.")
        entries = overviews(folder)
        return Answer(entries, lambda console: _list(console, entries), json)
    asked = Asked(
        folder,
        sets(data or []),
        only or [],
        seeds,
        device,
        count,
        official,
        options.settings(settings),
        jobs,
        None if pictures is None else Path(pictures),
        provenance,
        run,
        again,
    )
    if run:
        _run(name, asked, json)
    value = shown(name, asked, None if out is None else Path(out))
    return Answer(value, lambda console: _show(console, value), json)


def _run(name: str, asked: Asked, as_json: bool) -> None:
    """Make what is missing, with progress and the remaining time."""
    from sfumato.bench.run import run_table

    asked.progress = display(as_json)
    try:
        run_table(name, asked)
    finally:
        asked.progress.close()


def _list(out: Console, entries: list[dict[str, Any]]) -> None:
    from sfumato.bench.view import STATES

    counted = [e for e in entries if "cells" in e]
    rows = [(e["id"], e["shows"], " / ".join(str(e[s]) for s in STATES), e["last"] or "") for e in counted]
    columns = ("table", "what it shows", "cells*", "last run")
    out.print(table("Tables of the papers", columns, rows, whole=("table", "cells*", "last run")))
    out.print(LEGEND)
    for reason, cells in why(counted):
        out.print(f"{cells:5} cannot: {reason}")
    others = [(e["id"], e["shows"], e.get("instead") or e["state"]) for e in entries if "cells" not in e]
    out.print(table("Figures and lists", ("name", "what it shows", "here"), others, whole=("name",)))
    out.print("One of them: `sfumato bench NAME`; its missing cells: --run; a figure: --out FILE.")


def why(entries: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Why cells cannot be had, in a few words each, with how many."""
    counts: Counter[str] = Counter()
    for entry in entries:
        for part in entry["why"]:
            counts[part["reason"].partition(";")[0]] += part["cells"]
    return counts.most_common()


def _show(out: Console, shown: dict[str, Any]) -> None:
    """A table, a list or a figure."""
    if "out" in shown:
        return path_line(out, "drawn", shown["out"])
    title = f"{shown['id']}, {shown['paper']}: {shown['shows']}"
    if "instead" in shown:
        return out.print(f"{title}. {shown['instead']}")
    out.print(table(title, shown["columns"], shown["lines"], whole=shown["whole"]))
    for note in shown["notes"]:
        out.print(note)
    return None
