"""`sfumato sweep`: many runs of a plan file on a pool of workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.released import released
from sfumato.cli.show import Answer, number, path_line, plain, table, warned

if TYPE_CHECKING:
    from rich.console import Console

Plan = Annotated[str, typer.Argument(metavar="PLAN", help="A YAML file; see docs/scale.md.", show_default=False)]
Out = Annotated[str, typer.Option(metavar="DIR", help="The folder of the sweep; what it has is not made again.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Runs at a time.")]
Where = Annotated[str, typer.Option("--pool", metavar="local|slurm|ray", help="Where the workers are.")]


def sweep(
    plan: Plan,
    out: Out = "sweep",
    workers: Workers = 2,
    pool: Where = "local",
    ledger: options.Ledger = None,
    yes: options.Yes = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer:
    """Run many methods, settings, seeds and budgets over public data; private data only as one charged selection."""
    from sfumato import api

    asked = api.read_sweep(plan)
    for data in asked.data:
        api.must_exist(data)
    how = options.Loudness(json, quiet, verbose)
    progress = display(json, how)
    try:
        found = api.sweep(
            asked,
            out,
            workers=workers,
            pool=pool,
            progress=progress,
            ledger=ledger,
            approval=approval(yes, force, how, progress),
        )
    finally:
        progress.close()
    if asked.private:
        return released(found, str(Path(out) / "release"), json, how=how)
    return Answer(found, lambda console: _show(console, found, quiet), json)


def _show(out: Console, found: dict[str, Any], quiet: bool) -> None:
    if quiet:
        return out.print(plain(found["out"]), soft_wrap=True)
    varied = _varied(found["rows"])
    rows = [
        (
            str(row["number"]),
            row["method"],
            number(row["epsilon"]),
            _accuracy(row["accuracy"]),
            f"{len(row['accuracy']['values']) if row['accuracy'] else 0}/{row['seeds']}",
            *(str(row.get(name, row["settings"].get(name, ""))) for name in varied),
        )
        for row in found["rows"]
    ]
    columns = ("", "method", "epsilon", "accuracy", "seeds", *varied)
    out.print(table("Accuracy on images that are not private", columns, rows, whole=("epsilon", "accuracy")))
    told = ", ".join(f"{count} {state}" for state, count in found["states"].items())
    out.print(f"{len(found['runs'])} runs: {told}; {found['made']} of them made now.")
    warned(out, sorted({f"{run['state']}: {run['why']}" for run in found["runs"] if run.get("why")}))
    path_line(out, "table", Path(found["out"]) / "results.csv")
    path_line(out, "page", Path(found["out"]) / "comparison.html")
    return None


def _varied(rows: list[dict[str, Any]]) -> list[str]:
    """Settings, and the data, in which rows differ."""
    names = list(dict.fromkeys(name for row in rows for name in row["settings"]))
    data = ["data"] if len({row["data"] for row in rows}) > 1 else []
    return data + [name for name in names if len({row["settings"].get(name) for row in rows}) > 1]


def _accuracy(value: dict[str, Any] | None) -> str:
    """Mean and standard deviation; one seed has none."""
    if value is None:
        return "-"
    spread = "" if value["std"] is None else f" ± {value['std']:.3f}"
    return f"{value['mean']:.3f}{spread}"
