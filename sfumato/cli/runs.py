"""`sfumato runs`: unfinished runs, what they cost, and what can be done with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.show import Answer, at_most, number, pairs, path_line, plain
from sfumato.cli.synthesize import resumed
from sfumato.cli.train_classifier import resumed as resumed_training
from sfumato.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

Run = Annotated[
    str | None, typer.Argument(metavar="RUN", help="One run, by its name or the beginning of it.", show_default=False)
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with RUN, under what it has reserved.")]
Discard = Annotated[bool, typer.Option("--discard", help="Delete RUN and its checkpoint; what it has spent stays so.")]
Yes = Annotated[bool, typer.Option("--yes", help="With --discard: also a run that has spent its budget.")]
NONE = "There is no unfinished run."


def runs(
    run: Run = None,
    resume: Resume = False,
    discard: Discard = False,
    yes: Yes = False,
    ledger: options.Ledger = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer:
    """List unfinished runs and what they cost; resume or discard one."""
    from sfumato import api

    how = options.Loudness(json, quiet, verbose)
    if resume and discard:
        raise InputError("A run is resumed or discarded, not both; leave out --resume or --discard.")
    if run is None:
        if resume or discard or yes:
            raise InputError("Say which run is meant: sfumato runs RUN --resume, or --discard.")
        found = api.unfinished_runs(ledger)
        return Answer(found, lambda out: _show(out, found), json)
    name = _found(run, api.known_runs())
    if discard:
        return _discarded(name, yes, ledger, json)
    if resume:
        return _resumed(name, ledger, how)
    one = api.unfinished_run(name, ledger)
    return Answer(one, lambda out: _show(out, [one]), json)


def _found(name: str, known: list[str]) -> str:
    """The whole name of a run, from its beginning."""
    fitting = [each for each in known if each.startswith(name)]
    if len(fitting) == 1 or name in known or "/" in name:
        return fitting[0] if len(fitting) == 1 else name
    what = f"'{name}' fits {len(fitting)} runs" if fitting else f"There is no unfinished run '{name}'"
    raise InputError(f"{what}; `sfumato runs` lists them.")


def _discarded(name: str, yes: bool, ledger: str | None, as_json: bool) -> Answer:
    from sfumato import api

    one = api.unfinished_run(name, ledger)
    if one["state"] == "begun" and not yes:
        raise InputError(
            f"The run {name} has crossed and stays charged ({_cost(one)}) whether it is finished or not; to lose it "
            "all the same, add --yes. To finish it at no further cost: sfumato runs RUN --resume."
        )
    gone = api.discard_run(name, ledger)
    words = "what it had reserved is given back" if gone["given_back"] else f"charged: {_cost(gone)}"
    return Answer(gone, lambda out: out.print(f"Discarded {name}; {plain(words)}."), as_json)


def _resumed(name: str, ledger: str | None, how: options.Loudness) -> Answer:
    from sfumato import api

    verb = api.verb_of(api.asked_of(name))
    return resumed(name, ledger, how) if verb == "synthesize" else resumed_training(name, None, ledger, how)


def _show(out: Console, found: list[dict[str, Any]]) -> None:
    if not found:
        out.print(NONE)
    for one in found:
        path_line(out, "run", one["run"])
        rows = [
            ("began", str(one["began"]).replace("T", " ")[:16]),
            ("data", one["data"] or "given from Python"),
            ("method", one["method"] or "unknown"),
            ("state", f"{one['state']}: {one['meaning']}"),
            ("cost", _cost(one)),
            ("checkpoint", "yes" if one["checkpoint"] else "none yet: it starts from the beginning"),
        ]
        out.print(pairs(rows))
        out.print(_how(one), soft_wrap=True)


def _cost(one: dict[str, Any]) -> str:
    charged = one["charged"]
    if charged is None:
        return "nothing"
    words = "reserved" if one["state"] == "reserved" else "charged"
    return f"epsilon {at_most(charged['epsilon'])} at delta {number(charged['delta'])}, {words}"


def _how(one: dict[str, Any]) -> str:
    if one["state"] == "running":
        return ""
    if one["from_python"]:
        return f"go on from Python, as it was begun, with resume='{one['run']}'; drop it: --discard"
    return f"go on:  sfumato runs {one['run']} --resume\ndrop:   sfumato runs {one['run']} --discard"
