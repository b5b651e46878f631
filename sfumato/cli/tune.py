"""`sfumato tune`: choose settings at no hidden cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.released import released
from sfumato.cli.show import Answer, number, table
from sfumato.errors import InputError

Method = Annotated[str, typer.Argument(metavar="METHOD", help="See `sfumato methods`.")]
Data = Annotated[str | None, typer.Option(metavar="DATA", help="A named public set, or private data with --private.")]
Grid = Annotated[
    list[str] | None, typer.Option(metavar="FIELD=V1,V2", help="Values to try; may be repeated.", show_default=False)
]
Private = Annotated[bool, typer.Option("--private", help="Tune on private data, as one charged selection.")]
Runs = Annotated[float, typer.Option(metavar="MEAN", help="With --private: runs on average; the number is secret.")]
Law = Annotated[
    str, typer.Option(metavar="geometric|logarithmic", help="With --private: distribution of the number of runs.")
]
Shape = Annotated[str | None, typer.Option(metavar="CxHxW", help="Shape of made-up images, without DATA.")]
Classes = Annotated[int | None, typer.Option(metavar="N", help="Classes of made-up images, without DATA.")]
LAWS = {"geometric": 1.0, "logarithmic": 0.0}


def tune(
    method: Method,
    epsilon: Annotated[float, typer.Option(callback=options.epsilon_in_range, help="Privacy budget of the final run.")],
    grid: Grid = None,
    data: Data = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    records: options.Records = None,
    shape: Shape = None,
    classes: Classes = None,
    size: options.Size = None,
    grey: options.Grey = False,
    label: options.Label = None,
    person: options.Person = None,
    labels: options.Labels = "auto",
    private: Private = False,
    runs: Runs = 10.0,
    law: Law = "geometric",
    count: options.Count = 10_000,
    format: options.Format = "png",
    seed: options.Seed = 0,
    ledger: options.Ledger = None,
    out: options.Out = "release",
    yes: options.Yes = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer:
    """Try settings on public or made-up images for free; on private ones only as a planned, charged selection."""
    from sfumato import api
    from sfumato.flow import request

    if law not in LAWS:
        raise InputError(f"Expected --law as geometric or logarithmic, found '{law}'.")
    if not 1 <= runs <= 10_000:
        raise InputError(f"Expected --runs from 1 to 10000, found {runs}.")
    api.must_exist(data)
    spec = None
    if data is None and records is not None and shape is not None and classes is not None:
        spec = request.describe(records=records, shape=shape, classes=classes)
    how = options.Loudness(json, quiet, verbose)
    progress = display(json, how)
    try:
        outcome = api.tune(
            method,
            options.grid(grid),
            api.make_budget(epsilon, delta, relation, "person" if person else "record"),
            data=data,
            spec=spec,
            labels=labels,
            private=private,
            mean=runs,
            shape=LAWS[law],
            seed=seed,
            out=out,
            progress=progress,
            count=count,
            format=format,
            ledger=ledger,
            size=size,
            grey=grey,
            label=label,
            person=person,
            approval=approval(yes, force, how, progress),
        )
    finally:
        progress.close()
    return released(outcome, out, json, how=how) if private else _ranked(outcome, json)


def _ranked(trials: list[Any], as_json: bool) -> Answer:
    varied = [k for k in trials[0].settings if len({str(t.settings[k]) for t in trials}) > 1]
    rows = [(number(t.score), *(str(t.settings[k]) for k in varied)) for t in trials]
    value = [{"score": t.score, "settings": t.settings} for t in trials]
    title = "Accuracy on images that are not private"
    return Answer(value, lambda out: out.print(table(title, ("score", *varied), rows)), as_json)
