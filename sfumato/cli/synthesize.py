"""`sfumato synthesize`: from private images to a folder that may be published."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.released import released
from sfumato.cli.show import Answer, number, pairs, path_line, plain
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.flow.request import Request

Data = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="A folder, .npz, .parquet or named set (fashion-mnist).", show_default=False),
]
Public = Annotated[str | None, typer.Option(metavar="DATA", help="Public images for methods that can use them.")]
Provenance = Annotated[str | None, typer.Option(metavar="TEXT", help="Where the public images are from.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="Run the method in a process of its own, which never holds a record.")
]
Sign = Annotated[str | None, typer.Option(metavar="FILE", help="Sign with this key; see `sfumato keygen`.")]
Signer = Annotated[str | None, typer.Option(metavar="TEXT", help="Who signs, in words.")]
License = Annotated[str | None, typer.Option(metavar="NAME", help="Licence of the release, such as cc-by-4.0.")]
Title = Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the release, in its card.")]
Contact = Annotated[str | None, typer.Option(metavar="TEXT", help="Whom readers may ask, in its card.")]
Unsound = Annotated[
    bool, typer.Option("--unsound", help="DPAF as printed, which is not private: on public images alone, no release.")
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Go on with a stopped run, see `sfumato runs`; of the other options it takes --ledger alone.",
    ),
]

WITH_UNSOUND = {
    "data",
    "method",
    "recipe",
    "epsilon",
    "delta",
    "count",
    "size",
    "grey",
    "split",
    "label",
    "provenance",
    "set",
    "seed",
    "device",
    "out",
    "unsound",
    "yes",
    "force",
    "config",
    "quiet",
    "verbose",
    "json",
}
BESIDE_RESUME = ("resume", "ledger", "quiet", "verbose", "json")


def synthesize(
    context: typer.Context,
    data: Data = None,
    method: options.MethodName = None,
    recipe: options.Recipe = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = 1e-5,
    relation: options.Relation = "add-remove",
    unit: options.Unit = None,
    private_count: options.PrivateCount = False,
    records: options.Records = None,
    count: options.Count = 10_000,
    size: options.Size = None,
    grey: options.Grey = False,
    split: options.Split = "train",
    label: options.Label = None,
    person: options.Person = None,
    labels: options.Labels = "auto",
    public: Public = None,
    provenance: Provenance = None,
    format: options.Format = "png",
    set: options.Settings = None,
    seed: options.Seed = 0,
    device: Device = "auto",
    microbatch: options.Microbatch = 1024,
    isolate: Isolate = False,
    ledger: options.Ledger = None,
    out: options.Out = "release",
    sign: Sign = None,
    signer: Signer = None,
    license: License = None,
    title: Title = None,
    contact: Contact = None,
    unsound: Unsound = False,
    resume: Resume = None,
    yes: options.Yes = False,
    force: options.Force = False,
    config: options.Config = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer | None:
    """Learn a generator from private images within a budget and write a release folder."""
    from sfumato.flow import request

    how = options.Loudness(json, quiet, verbose)
    if resume is not None:
        alone(options.given(context))
        if request.follows():
            request.assist(None, resume)
            return None
        return resumed(resume, ledger, how)
    asked = _request(request.typed(context.params, options.given(context), options.settings(set)), unit)
    if unsound:
        return _unsound(asked, options.given(context), how)
    if request.follows():
        request.assist(asked, None)
        return None
    return _watched(lambda shown: (asked, request.carry_out(asked, shown, approval(yes, force, how, shown))), how)


def resumed(run: str, ledger: str | None, how: options.Loudness) -> Answer:
    """Go on with a stopped run; also for `sfumato runs RUN --resume`."""
    from sfumato.flow import request

    return _watched(lambda shown: request.resume(run, shown, ledger), how)


def alone(given: list[str], beside: tuple[str, ...] = ()) -> None:
    """Refuse what a resumed run cannot take: it keeps all that it was begun with but the place of its ledger."""
    if others := [name for name in given if name not in (*BESIDE_RESUME, *beside)]:
        what = "DATA" if others[0] == "data" else options.flag(others[0])
        raise InputError(f"A resumed run keeps all it was begun with; leave out {what} beside --resume.")


def _unsound(asked: Request, given: list[str], how: options.Loudness) -> Answer:
    """DPAF as its paper prints it: images with a stamp."""
    from sfumato import api

    if others := [name for name in given if name not in WITH_UNSOUND]:
        raise InputError(f"--unsound makes no release and takes no {options.flag(others[0])}; leave it out.")
    progress = display(how.as_json, how)
    try:
        facts = api.as_printed(asked, progress)
    finally:
        progress.close()
    return Answer(facts, lambda out: _show_unsound(out, facts), how.as_json)


def _show_unsound(out: Console, facts: dict[str, Any]) -> None:
    claim = facts["claim"]
    told = f"epsilon {number(claim['epsilon'])}, which does not hold; {claim['note']}" if claim else "none"
    out.print(
        pairs(
            [
                ("stamp", facts["stamp"]),
                ("images", f"{facts['images']:,}"),
                ("claim", told),
                *([("without", plain(facts["without"]))] if facts["without"] else []),
                ("public data", plain(facts["data"]["provenance"])),
            ]
        )
    )
    path_line(out, "written to", facts["out"])


def _request(typed: dict[str, Any], unit: str | None) -> Request:
    """The request as typed; its fields bear the names of the options."""
    from sfumato.flow.request import Request

    for name, what in (("data", "DATA"), ("epsilon", "--epsilon E")):
        if typed[name] is None:
            raise InputError(f"Say what to synthesize from and how: {what} is missing (or --resume RUN to go on).")
    options.check_unit(unit, typed["person"])
    return Request(**{f.name: typed[f.name] for f in fields(Request) if f.name in typed})


def _watched(act: Any, how: options.Loudness) -> Answer:
    progress = display(how.as_json, how)
    try:
        asked, release = act(progress)
    finally:
        progress.close()
    return released(release, asked.out, how.as_json, how=how)
