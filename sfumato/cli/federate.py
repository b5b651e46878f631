"""`sfumato federate`: one generator from records at several sites that are never pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.confirm import approval
from sfumato.cli.lines import display
from sfumato.cli.released import released
from sfumato.cli.show import Answer, number, pairs, plain, table, warned
from sfumato.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

ROLES = ("plan", "coordinate", "site", "simulate")
CHOOSE = f"choose {', '.join(ROLES)}."

Role = Annotated[str, typer.Argument(metavar="ROLE", help="plan, coordinate, site or simulate.", show_default=False)]
Plan = Annotated[
    str,
    typer.Argument(metavar="PLAN", help="The YAML file that all agree to; see docs/federated.md.", show_default=False),
]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Which site of the plan this is.", show_default=False)]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="DATA", help="A site's records; of simulate, a folder with those of each.", show_default=False
    ),
]
Address = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the coordinator is reached, over Flower.")]
Timeout = Annotated[float, typer.Option(metavar="SECONDS", help="Until a site counts as missing from a question.")]
Resume = Annotated[
    str | None, typer.Option(metavar="RUN", help="Go on as this site, after it was stopped.", show_default=False)
]
Pin = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=KEY", help="The key of another site, as that site printed it.", show_default=False),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]


def federate(
    role: Role,
    plan: Plan,
    name: Name = None,
    data: Data = None,
    out: options.Out = "release",
    address: Address = "127.0.0.1:9092",
    timeout: Timeout = 600.0,
    resume: Resume = None,
    pin: Pin = None,
    count: options.Count = 10_000,
    format: options.Format = "png",
    seed: options.Seed = 0,
    device: Device = "auto",
    size: options.Size = None,
    grey: options.Grey = False,
    label: options.Label = None,
    person: options.Person = None,
    ledger: options.Ledger = None,
    yes: options.Yes = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> Answer:
    """Learn from records at several sites: only masked sums with noise leave a site.

    Everyone reads the same PLAN. One calls `coordinate`, each site `site --name NAME --data DATA`; `simulate` plays all
    of them in one process, and `plan` shows what it would cost.
    """
    from sfumato import api

    if role not in ROLES:
        raise InputError(f"Expected a role, found '{role}'; {did_you_mean(role, ROLES, otherwise=CHOOSE)}")
    agreed = api.read_agreement(plan)
    if role == "plan":
        found = api.plan_federation(agreed)
        return Answer(found, lambda console: _show(console, found), json)
    if not timeout > 0:
        raise InputError(f"Expected --timeout above 0, found {timeout:g}.")
    how = options.Loudness(json, quiet, verbose)
    progress = display(json, how)
    read = {"size": size, "grey": grey, "label": label, "person": person}
    spending = {"ledger": ledger, "approval": approval(yes, force, how, progress), "read": read}
    told = (lambda sentence: None) if json or quiet else _say
    try:
        running = {"device": device, "seed": seed, "progress": progress}
        made = {"count": count, "format": format, "timeout": timeout, "told": told}
        if role == "site":
            site, place = needed(role, name=name, data=data)
            about = {"resume": resume, "device": device, "pins": options.settings(pin), "told": told}
            ended = api.serve_site(agreed, site, place, address, **spending, **about)
            return Answer(ended, lambda console: console.print(plain(f"{site}: the run has ended.")), json)
        if role == "coordinate":
            return released(api.coordinate(agreed, out, running, address, **made), out, json, how=how)
        (place,) = needed(role, data=data)
        return released(api.simulate_federation(agreed, place, out, running, **spending, **made), out, json, how=how)
    finally:
        progress.close()


def needed(role: str, **given: str | None) -> list[str]:
    """Options that a role cannot do without."""
    for option, value in given.items():
        if value is None:
            raise InputError(f"Expected --{option} {option.upper()} with `federate {role}`, found none.")
    return [str(value) for value in given.values()]


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _show(out: Console, found: dict[str, Any]) -> None:
    facts = found["federated"]
    columns = ("site", "records")
    out.print(table("Sites", columns, [(n, f"{r:,}") for n, r in zip(facts["sites"], facts["records"], strict=True)]))
    given = found["guarantee"]
    noise = f"in shares of 1/{found['shares']} of its variance" if found["shares"] else "added by the coordinator"
    shown = [
        ("method", found["method"]),
        ("guarantee", f"epsilon {number(given['epsilon'])} at delta {number(given['delta'])}, {given['relation']}"),
        ("trust", f"a {facts['trust']} coordinator; noise {noise}"),
        ("dropouts", f"{facts['dropouts']} of a question, {facts['colluders']} may collude"),
        ("agreement", found["agreement"]),
    ]
    out.print(pairs(shown))
    warned(out, found["warnings"])
