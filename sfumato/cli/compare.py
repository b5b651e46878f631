"""`sfumato compare`: several releases side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, at_most, number, path_line, plain, table, warned

if TYPE_CHECKING:
    from rich.console import Console

Releases = Annotated[list[str], typer.Argument(metavar="RELEASE...", help="Release folders.", show_default=False)]
Out = Annotated[str, typer.Option(metavar="DIR", help="The folder to write.")]
INTERNAL = "The accuracies were measured on private images without noise: keep this inside, do not publish it."


def compare(releases: Releases, out: Out = "comparison", json: options.Json = False) -> Answer:
    """Put releases side by side: guarantee, accuracy and FID as evaluated, and how they look."""
    from sfumato import api

    for release in releases:
        api.release_folder(release)
    comparison = api.compare(releases, out)
    return Answer(comparison, lambda console: _show(console, comparison), json)


def _show(out: Console, comparison: dict[str, Any]) -> None:
    rows = [
        (
            str(row["number"]),
            row["method"],
            at_most(row["epsilon"]),
            number(row["delta"]),
            f"{row['relation']}, {row['unit']}",
            _measured(row["accuracy"]),
            _measured(row["fid"]),
        )
        for row in comparison["rows"]
    ]
    judged = f"accuracy ({comparison['classifier']})" if comparison["classifier"] else "accuracy"
    columns = ("", "method", "epsilon", "delta", "adjacency, unit", judged, "FID")
    out.print(table("Releases side by side", columns, rows, whole=("epsilon", "delta")))
    for row in comparison["rows"]:
        notes = f" ({'; '.join(row['notes'])})" if row["notes"] else ""
        path_line(out, str(row["number"]), f"{row['name']}, {row['data']}{plain(notes)}")
    warned(out, [f"row {row['number']} is {row['mark']}" for row in comparison["rows"] if row["mark"]])
    if comparison["touches_private"]:
        out.print(INTERNAL)
    path_line(out, "page", Path(comparison["out"]) / "comparison.html")


def _measured(value: dict[str, Any] | None) -> str:
    """A number with its interval; one seed has none."""
    if value is None:
        return "-"
    if len(value["values"]) == 1:
        return number(value["mean"])
    return f"{number(value['mean'])} [{number(value['low'])}, {number(value['high'])}]"
